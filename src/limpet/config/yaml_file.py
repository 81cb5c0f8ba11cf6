"""Which values does a YAML file hold, and on which line is each?

PyYAML only parses; we turn its nodes into plain data ourselves. So no tag can call anything,
duplicate keys are found, and every value keeps its line. Values behind aliases are counted, so that
a few lines cannot become a billion values.

By YAML's old rules `no` is false, `012` is ten, `12:30` is 750 and `2026-11-14` is a date, while
`1e-3` is a string. People who write a name, an id or a language code mean none of that. Here a word
is null, a boolean or a number only if it would be in JSON; everything else is a string.
"""

import re
from collections.abc import Callable
from typing import Any, NoReturn

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from limpet.config.errors import Findings, KeyPath, Location, Tree, refuse
from limpet.text import one_line, quoted

# ---- What does an error of PyYAML mean to the author of an eval.yml? ----------------------------

# PyYAML's messages, and what they usually mean.
_USUALLY = (
    ("'\\t'", "this is a tab: indent YAML with spaces"),
    (
        "mapping values are not allowed",
        "a string with ': ' needs quotes; or the line before has no ':'; or the indent is wrong",
    ),
    ("could not find expected ':'", "a key needs a ':' and a space after it"),
    ("expected ',' or", "a bracket is not closed, or a comma is missing"),
    ("end of stream", "a quote or a bracket that was opened is not closed"),
    (
        "expected <block end>",
        "the indentation is wrong: keys at the same level start in the same column",
    ),
    ("expected the node content", "a bracket or a quote is not closed"),
    ("cannot start any token", "a string that starts with this character needs quotes"),
    ("undefined alias", "an alias *name needs an anchor &name before it"),
    ("alphabetic or numeric", "a string that starts with * or & needs quotes"),
    ("another document", "--- starts a second document here: move it to its own file"),
    ("unknown escape", "in double quotes, write a backslash as \\\\; or use single quotes"),
)

PLACEHOLDER_HINT = 'a string with {{…}} needs quotes: "{{column}}"'
_UNQUOTED = re.compile(r"[:,\[] *\{\{|: +[^\"'#]*\{\{")


def _refuse_syntax(
    error: Exception, at: Callable[[int], Location], text: str, line: int
) -> NoReturn:
    """Raise a `ConfigError` for an error of PyYAML on a line."""
    if isinstance(error, RecursionError):
        refuse(at(line), "is nested too deep")
    if isinstance(error, yaml.reader.ReaderError):
        number = text.count("\n", 0, error.position) + 1
        character = f"U+{error.character:04X}"
        refuse(at(number), f"not valid YAML: the character {character} is not allowed")
    if not isinstance(error, yaml.MarkedYAMLError):
        refuse(at(line), "not valid YAML", "check \\U and \\x escapes in double quotes")
    mark = error.problem_mark or error.context_mark
    problem = one_line(error.problem or error.context or "").removeprefix("but ")
    hint = next((meaning for sign, meaning in _USUALLY if sign in problem), None)
    number = mark.line + 1 if mark else line
    if any(map(_UNQUOTED.search, text.split("\n")[number - 1 : number])):
        hint = PLACEHOLDER_HINT
    refuse(at(number), f"not valid YAML: {problem}", hint)


# ---- Which values does a YAML file hold, and on which line is each? -----------------------------

_MOST_VALUES = 100_000
_DEEPEST = 50
_CORE = "tag:yaml.org,2002:"
_PLAIN = "a word without quotes or tag"
_AS_READ = (_PLAIN, *(_CORE + kind for kind in ("int", "float", "bool", "null")))
_AS_TEXT = tuple(_CORE + kind for kind in ("str", "timestamp"))
_NULLS = ("", "~", "null", "Null", "NULL")
_TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_BEYOND = re.compile(r"([-+]?)\.(inf|Inf|INF|nan|NaN|NAN)")
_MOST_DIGITS = 300  # a longer number is read as infinite


class _Loader(yaml.SafeLoader):
    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is ScalarNode and implicit[0]:
            return _PLAIN
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]  # PyYAML's


def read_tree(text: str, shown: str, location: Location | None = None) -> Tree:
    """Read YAML.

    Args:
        text: The YAML.
        shown: Its name in messages.
        location: The location of every value, if it is not from a file.

    Raises:
        ConfigError: It is not YAML, or not plain data.
    """
    tree = Tree(None, shown)
    findings = Findings(tree)
    loader: Any = None
    try:
        loader = _Loader(text)
        node: Node | None = loader.get_single_node()
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        line = 1 if loader is None else loader.line + 1
        _refuse_syntax(error, lambda line: location or Location(shown, line), text, line)
    if node is not None:
        tree.data = _Builder(tree, findings, location).value(node, ())
    findings.raise_any()
    return tree


def read_scalar(word: str) -> Any:
    """Return null, a boolean, a number or the word itself."""
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


class _Builder:
    """Turns YAML nodes into plain data."""

    def __init__(self, tree: Tree, findings: Findings, location: Location | None) -> None:
        self._tree = tree
        self._findings = findings
        self._location = location
        self._count = 0
        self._merging: list[Node] = []

    def value(self, node: Node, path: KeyPath) -> Any:
        location = self._at(node)
        self._count_value(node)
        if len(path) > _DEEPEST:
            refuse(location, "is nested too deep, or an alias is inside its own anchor")
        # Point at the key of a mapping or list, which may be a line above it.
        is_word = isinstance(node, ScalarNode)
        self._tree.values[path] = location if is_word else self._tree.keys.get(path, location)
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if isinstance(node, SequenceNode) and node.tag == _CORE + "seq":
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        if isinstance(node, MappingNode) and node.tag == _CORE + "map":
            return self._mapping(node, path)
        return self._refuse_tag(node)

    def _count_value(self, node: Node) -> None:
        self._count += 1
        if self._count > _MOST_VALUES:
            text = f"more than {_MOST_VALUES:,} values: do aliases repeat each other here?"
            refuse(self._at(node), text)

    def _at(self, node: Node) -> Location:
        return self._location or Location(self._tree.shown, node.start_mark.line + 1)

    def _scalar(self, node: ScalarNode, path: KeyPath) -> Any:
        if node.tag not in (*_AS_READ, *_AS_TEXT):
            return self._refuse_tag(node)
        value = read_scalar(node.value) if node.tag in _AS_READ else node.value
        if not isinstance(value, str):
            self._tree.written[path] = node.value
        elif any("\ud800" <= letter <= "\udfff" for letter in value):
            self._findings.add_at(self._at(node), "contains half a character, like \\ud800")
        return value

    def _refuse_tag(self, node: Node) -> None:
        tag = node.tag.replace(_CORE, "!!")
        hint = "an eval.yml holds strings, numbers, lists and mappings; for a literal ! use quotes"
        self._findings.add_at(self._at(node), f"the tag {quoted(tag)} is not allowed", hint)

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        # Merged keys come first, so that the mapping's own keys and lines win.
        merges = [value for key, value in node.value if _is_merge(key)]
        mapping: dict[str, Any] = {}
        for merged in reversed(merges):
            mapping |= self._merged(merged, path)
        lines: dict[str, Location] = {}
        for key, value in node.value:
            location = self._at(key)
            if _is_merge(key):
                continue
            if not isinstance(key, ScalarNode):
                hint = PLACEHOLDER_HINT if isinstance(key, MappingNode) else None
                text = "a key must be a string, not a list or mapping"
                self._findings.add_at(location, text, hint)
                continue
            # As written: a column may be called `on`, and an evaluator `no`.
            name = key.value
            if name in lines:
                first = lines[name].line
                hint = f"the first is on line {first}" if first else "keep one of them"
                self._findings.add_at(location, f"the key {quoted(name)} appears twice", hint)
                continue
            self._tree.forget((*path, name))
            lines[name] = self._tree.keys[*path, name] = location
            mapping[name] = self.value(value, (*path, name))
        return mapping

    def _merged(self, node: Node, path: KeyPath) -> dict[str, Any]:
        """Return the mapping that `<<: *name` merges, with the lines of the anchor."""
        self._count_value(node)
        if node in self._merging:
            refuse(self._at(node), "an alias is inside its own anchor")
        self._merging.append(node)
        mapping: dict[str, Any] = {}
        if isinstance(node, SequenceNode):
            for merged in reversed(node.value):
                mapping |= self._merged(merged, path)
        elif isinstance(node, MappingNode):
            mapping = self._mapping(node, path)
        else:
            self._findings.add_at(self._at(node), "<< needs a mapping, for example <<: *name")
        self._merging.pop()
        return mapping


def _is_merge(key: Node) -> bool:
    return key.tag == _PLAIN and key.value == "<<"
