"""Which values stand in the YAML, and in which line is each?

YAML is only composed here, never constructed: of each node we make plain data ourselves, so that
no tag can call anything, a key that stands twice is seen, and every value keeps its line. Aliases
are followed with a count, so that a few lines cannot become a billion values.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from limpet.config.problems import Place, Problems, quoted, refuse
from limpet.config.scalars import read_scalar
from limpet.config.syntax import refuse_syntax

Path: TypeAlias = "tuple[str | int, ...]"
_MOST_VALUES = 100_000
_DEEPEST = 50
_CORE = "tag:yaml.org,2002:"
_PLAIN = "a word without quotes and tag"
_AS_READ = (_PLAIN, *(_CORE + kind for kind in ("int", "float", "bool", "null")))
_AS_TEXT = tuple(_CORE + kind for kind in ("str", "timestamp"))


@dataclass
class Tree:
    """Plain data, and where each part of it stands.

    Attributes:
        data: What the file holds; what is between `${` and `}` stands as it was written.
        shown: What the user calls the file.
        keys: Where the key of each path stands.
        values: Where its value stands.
        written: How a value that is no text was written: `1.10`, `True`.
    """

    data: Any
    shown: str
    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)
    written: dict[Path, str] = field(default_factory=dict)

    def known(self, path: Path) -> Path:
        """Return as much of a path as was written: of a short form, that of the short form."""
        while path and path not in self.values:
            path = path[:-1]
        return path

    def place(self, path: Path) -> Place:
        """Return where the value of a path stands, or of the nearest thing around it."""
        return self.values.get(self.known(path), Place(self.shown, 1))

    def key_place(self, path: Path) -> Place:
        """Return where the key of a path stands."""
        return self.keys.get(path) or self.place(path)

    def forget(self, path: Path) -> None:
        """Forget where a path and all below it stand: something else takes their place."""
        if path not in self.values:
            return
        for places in (self.keys, self.values, self.written):
            for one in [one for one in places if one[: len(path)] == path]:
                del places[one]


class _Loader(yaml.SafeLoader):
    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is ScalarNode and implicit[0]:
            return _PLAIN
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]  # PyYAML's


def read_tree(text: str, shown: str, place: Place | None = None) -> Tree:
    """Read YAML.

    Args:
        text: The YAML.
        shown: What the user calls it.
        place: Where all of it stands, if not in the lines of a file.

    Raises:
        ConfigError: It is not YAML, or more than plain data.
    """
    node = _composed(text, lambda line: place or Place(shown, line))
    tree, problems = Tree(None, shown), Problems()
    if node is not None:
        tree.data = _Building(tree, problems, place).value(node, ())
    problems.raise_any()
    return tree


def _composed(text: str, at: Callable[[int], Place]) -> Node | None:
    loader: Any = None
    try:
        loader = _Loader(text)
        node: Node | None = loader.get_single_node()
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        refuse_syntax(error, at, text, 1 if loader is None else loader.line + 1)
    return node


class _Building:
    """Makes plain data of nodes."""

    def __init__(self, tree: Tree, problems: Problems, place: Place | None) -> None:
        self._tree = tree
        self._problems = problems
        self._place = place
        self._count = 0
        self._merging: list[Node] = []

    def value(self, node: Node, path: Path) -> Any:
        place = self._at(node)
        self._count_one(node)
        if len(path) > _DEEPEST:
            refuse(place, "is nested too deep, or an alias stands inside its own anchor")
        # A mapping or list is looked for at its key, which may stand a line above it.
        is_word = isinstance(node, ScalarNode)
        self._tree.values[path] = place if is_word else self._tree.keys.get(path, place)
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if isinstance(node, SequenceNode) and node.tag == _CORE + "seq":
            return [self.value(one, (*path, i)) for i, one in enumerate(node.value)]
        if isinstance(node, MappingNode) and node.tag == _CORE + "map":
            return self._mapping(node, path)
        return self._refuse_tag(node)

    def _count_one(self, node: Node) -> None:
        self._count += 1
        if self._count > _MOST_VALUES:
            text = f"more than {_MOST_VALUES:,} values: do aliases repeat each other here?"
            refuse(self._at(node), text)

    def _at(self, node: Node) -> Place:
        return self._place or Place(self._tree.shown, node.start_mark.line + 1)

    def _scalar(self, node: ScalarNode, path: Path) -> Any:
        if node.tag not in (*_AS_READ, *_AS_TEXT):
            return self._refuse_tag(node)
        value = read_scalar(node.value) if node.tag in _AS_READ else node.value
        if not isinstance(value, str):
            self._tree.written[path] = node.value
        elif any("\ud800" <= letter <= "\udfff" for letter in value):
            self._problems.add(self._at(node), "holds half of a character, such as \\ud800")
        return value

    def _refuse_tag(self, node: Node) -> None:
        tag = node.tag.replace(_CORE, "!!")
        hint = "an eval.yml holds texts, numbers, lists and mappings; for a literal ! use quotes"
        self._problems.add(self._at(node), f"the tag {quoted(tag)} is not allowed", hint)

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        # What is merged comes first, so that what stands beside it wins, with its own lines.
        merges = [value for key, value in node.value if _is_merge(key)]
        made: dict[str, Any] = {}
        for one in reversed(merges):
            made |= self._merged(one, path)
        lines: dict[str, Place] = {}
        for key, value in node.value:
            place = self._at(key)
            if _is_merge(key):
                continue
            if not isinstance(key, ScalarNode):
                self._problems.add(place, "a key has to be a text, not a list or mapping")
                continue
            # As it was written: a column may be called `on`, and an evaluator `no`.
            name = key.value
            if name in lines:
                self._problems.add(
                    place, f"the key {quoted(name)} stands twice", _first(lines[name])
                )
                continue
            self._tree.forget((*path, name))
            lines[name] = self._tree.keys[*path, name] = place
            made[name] = self.value(value, (*path, name))
        return made

    def _merged(self, node: Node, path: Path) -> dict[str, Any]:
        """Return what `<<: *name` brings in. Its lines are those of the anchor."""
        self._count_one(node)
        if node in self._merging:
            refuse(self._at(node), "an alias stands inside its own anchor")
        self._merging.append(node)
        made: dict[str, Any] = {}
        if isinstance(node, SequenceNode):
            for one in reversed(node.value):
                made |= self._merged(one, path)
        elif isinstance(node, MappingNode):
            made = self._mapping(node, path)
        else:
            self._problems.add(self._at(node), "<< needs a mapping, such as <<: *name")
        self._merging.pop()
        return made


def _is_merge(key: Node) -> bool:
    return key.tag == _PLAIN and key.value == "<<"


def _first(place: Place) -> str:
    return f"the first stands in line {place.line}" if place.line else "keep one of them"
