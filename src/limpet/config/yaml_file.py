"""Which values does a YAML file hold, and in which line is each?

YAML is only composed here, never constructed: of each node we make plain data ourselves, so that
no tag can call anything, a key that appears twice is seen, and every value keeps its line. Aliases
are followed with a count, so that a few lines cannot become a billion values.

By YAML's old rules `no` is false, `012` is ten, `12:30` is 750 and `2026-11-14` is a date, while
`1e-3` is a text. People who write a name, an id or a language code mean none of that. Here a word
is null, true, false or a number only where JSON would also take it for that; all else is the text
that stands there.
"""

import codecs
import pathlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from limpet.config.errors import Findings, Place, did_you_mean, quoted, refuse
from limpet.text import one_line

KeyPath: TypeAlias = "tuple[str | int, ...]"
_MOST_VALUES = 100_000
_DEEPEST = 50
_CORE = "tag:yaml.org,2002:"
_PLAIN = "a word without quotes and tag"
_AS_READ = (_PLAIN, *(_CORE + kind for kind in ("int", "float", "bool", "null")))
_AS_TEXT = tuple(_CORE + kind for kind in ("str", "timestamp"))
_LARGEST = 2**20
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_NULLS = ("", "~", "null", "Null", "NULL")
_TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_BEYOND = re.compile(r"([-+]?)\.(inf|Inf|INF|nan|NaN|NAN)")
_MOST_DIGITS = 300  # beyond that a number is as good as infinite
# What PyYAML says, and what it usually means.
_USUALLY = (
    ("'\\t'", "there is a tab here: YAML is indented with spaces only"),
    (
        "mapping values are not allowed",
        "a text with ': ' needs quotes; or the line before has no ':'; or the indentation is off",
    ),
    ("could not find expected ':'", "a key needs a ':' and a space after it"),
    ("expected ',' or", "a bracket is not closed, or a comma is missing"),
    ("end of stream", "a quote or a bracket that was opened is not closed"),
    ("expected <block end>", "the indentation is off: keys of one level stand in one column"),
    ("expected the node content", "a bracket or a quote is not closed"),
    ("cannot start any token", "a text that begins with this character needs quotes"),
    ("undefined alias", "an alias such as *name needs an anchor &name before it"),
    ("alphabetic or numeric", "a text that begins with * or & needs quotes"),
    ("another document", "a second document begins here with ---: put it into a file of its own"),
    ("unknown escape", "between double quotes, a backslash is written \\\\; or use single quotes"),
)


# ---- the file ---------------------------------------------------------------------------------


def read_text(path: pathlib.Path, shown: str) -> str:
    """Return the text of a configuration file.

    Args:
        path: Where it is.
        shown: What the user calls it.

    Raises:
        ConfigError: It is not there, cannot be read, is no text, or far too large.
    """
    raw = _bytes_of(path, Place(shown)).removeprefix(codecs.BOM_UTF8)
    if raw.startswith(_UTF16):
        refuse(Place(shown, 1), "is UTF-16, not UTF-8", "save the file as UTF-8")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        refuse(
            Place(shown, line),
            f"byte {raw[error.start]:#04x} is not UTF-8",
            "save the file as UTF-8",
        )


def _bytes_of(path: pathlib.Path, place: Place) -> bytes:
    try:
        if path.is_dir():
            refuse(place, "is a directory", "name the file in it: eval.yml")
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the name
        refuse(place, "there is no such file", _near(path))
    except OSError as error:
        refuse(place, f"cannot be read: {one_line(error.strerror or str(error))}")
    if len(raw) > _LARGEST:
        refuse(place, "is larger than 1 MB, which no configuration is", "name an eval.yml")
    return raw


def _near(path: pathlib.Path) -> str | None:
    try:
        return did_you_mean(path.name, [file.name for file in path.parent.iterdir()])
    except (OSError, ValueError):
        return None


# ---- its values -------------------------------------------------------------------------------


def is_nat_file(path: str | pathlib.Path) -> bool:
    """Tell whether a file is a configuration of the toolkit: it has `eval` at its top level.

    Raises:
        ConfigError: It cannot be read, or is no YAML.
    """
    shown = one_line(str(path))
    data = read_tree(read_text(pathlib.Path(path), shown), shown).data
    if not isinstance(data, dict) or "dataset" in data:
        return False
    return "eval" in data or ("base" in data and "evaluators" not in data)


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
    keys: dict[KeyPath, Place] = field(default_factory=dict)
    values: dict[KeyPath, Place] = field(default_factory=dict)
    written: dict[KeyPath, str] = field(default_factory=dict)

    def known(self, path: KeyPath) -> KeyPath:
        """Return as much of a path as was written: of a short form, that of the short form."""
        while path and path not in self.values:
            path = path[:-1]
        return path

    def place(self, path: KeyPath) -> Place:
        """Return where the value of a path stands, or of the nearest thing around it."""
        return self.values.get(self.known(path), Place(self.shown, 1))

    def key_place(self, path: KeyPath) -> Place:
        """Return where the key of a path stands."""
        return self.keys.get(path) or self.place(path)

    def forget(self, path: KeyPath) -> None:
        """Forget where a path and all below it stand: something else takes their place."""
        if path not in self.values:
            return
        for places in (self.keys, self.values, self.written):
            for known in [known for known in places if known[: len(path)] == path]:
                del places[known]


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
    tree = Tree(None, shown)
    findings = Findings(tree)
    if node is not None:
        tree.data = _Building(tree, findings, place).value(node, ())
    findings.raise_any()
    return tree


def _composed(text: str, at: Callable[[int], Place]) -> Node | None:
    loader: Any = None
    try:
        loader = _Loader(text)
        node: Node | None = loader.get_single_node()
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        _refuse_syntax(error, at, text, 1 if loader is None else loader.line + 1)
    return node


def _refuse_syntax(error: Exception, at: Callable[[int], Place], text: str, line: int) -> NoReturn:
    """Raise the `ConfigError` for what PyYAML raised when it had read up to a line."""
    if isinstance(error, RecursionError):
        refuse(at(line), "is nested too deep")
    if isinstance(error, yaml.reader.ReaderError):
        number = text.count("\n", 0, error.position) + 1
        character = f"U+{_code(error.character):04X}"
        refuse(at(number), f"not valid YAML: the character {character} may not be here")
    if not isinstance(error, yaml.MarkedYAMLError):
        refuse(at(line), "not valid YAML", "look for an odd \\U or \\x in double quotes")
    mark = error.problem_mark or error.context_mark
    said = one_line(error.problem or error.context or "").removeprefix("but ")
    hint = next((meaning for sign, meaning in _USUALLY if sign in said), None)
    refuse(at(mark.line + 1 if mark else line), f"not valid YAML: {said}", hint)


def _code(character: object) -> int:
    # PyYAML hands over one or the other, as it read a text or bytes.
    return character if isinstance(character, int) else ord(str(character))


def read_scalar(word: str) -> Any:
    """Return null, a truth value, a number or the text itself."""
    if word in _NULLS:
        return None
    if word in _TRUTHS:
        return _TRUTHS[word]
    if _WHOLE.fullmatch(word):
        return int(word) if len(word) <= _MOST_DIGITS else float(word)
    if _NUMBER.fullmatch(word):
        return float(word)
    if found := _BEYOND.fullmatch(word):
        return float(found[1] + found[2])
    return word


class _Building:
    """Makes plain data of nodes."""

    def __init__(self, tree: Tree, findings: Findings, place: Place | None) -> None:
        self._tree = tree
        self._findings = findings
        self._place = place
        self._count = 0
        self._merging: list[Node] = []

    def value(self, node: Node, path: KeyPath) -> Any:
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
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
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

    def _scalar(self, node: ScalarNode, path: KeyPath) -> Any:
        if node.tag not in (*_AS_READ, *_AS_TEXT):
            return self._refuse_tag(node)
        value = read_scalar(node.value) if node.tag in _AS_READ else node.value
        if not isinstance(value, str):
            self._tree.written[path] = node.value
        elif any("\ud800" <= letter <= "\udfff" for letter in value):
            self._findings.add_at(self._at(node), "holds half of a character, such as \\ud800")
        return value

    def _refuse_tag(self, node: Node) -> None:
        tag = node.tag.replace(_CORE, "!!")
        hint = "an eval.yml holds texts, numbers, lists and mappings; for a literal ! use quotes"
        self._findings.add_at(self._at(node), f"the tag {quoted(tag)} is not allowed", hint)

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        # What is merged comes first, so that what stands beside it wins, with its own lines.
        merges = [value for key, value in node.value if _is_merge(key)]
        made: dict[str, Any] = {}
        for merged in reversed(merges):
            made |= self._merged(merged, path)
        lines: dict[str, Place] = {}
        for key, value in node.value:
            place = self._at(key)
            if _is_merge(key):
                continue
            if not isinstance(key, ScalarNode):
                self._findings.add_at(place, "a key must be a string, not a list or mapping")
                continue
            # As it was written: a column may be called `on`, and an evaluator `no`.
            name = key.value
            if name in lines:
                self._findings.add_at(
                    place, f"the key {quoted(name)} appears twice", _first(lines[name])
                )
                continue
            self._tree.forget((*path, name))
            lines[name] = self._tree.keys[*path, name] = place
            made[name] = self.value(value, (*path, name))
        return made

    def _merged(self, node: Node, path: KeyPath) -> dict[str, Any]:
        """Return what `<<: *name` brings in. Its lines are those of the anchor."""
        self._count_one(node)
        if node in self._merging:
            refuse(self._at(node), "an alias stands inside its own anchor")
        self._merging.append(node)
        made: dict[str, Any] = {}
        if isinstance(node, SequenceNode):
            for merged in reversed(node.value):
                made |= self._merged(merged, path)
        elif isinstance(node, MappingNode):
            made = self._mapping(node, path)
        else:
            self._findings.add_at(self._at(node), "<< needs a mapping, such as <<: *name")
        self._merging.pop()
        return made


def _is_merge(key: Node) -> bool:
    return key.tag == _PLAIN and key.value == "<<"


def _first(place: Place) -> str:
    return f"the first is in line {place.line}" if place.line else "keep one of them"
