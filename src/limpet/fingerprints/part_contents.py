"""How is a part of an identity shown to people?

A value as Python would write it: `Settings(model="gpt", stop=["end"])`. Long values get one element
per line, so each difference is a line. Rendering stops at a maximum length.
"""

import json
import linecache
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limpet.fingerprints.walk.result import WalkResult
from limpet.json_values import dumps
from limpet.secrets.in_code import (
    is_hidden,
    is_secret_file,
    without_keys,
    without_literals,
    without_settings,
)
from limpet.secrets.masking import MASK

_NARROW = 56
_DEEPEST = 40
_PACKED = {"bytes", "bytearray"}
_INNER = {"partial", "method", "staticmethod", "classmethod", "property", "ContextVar", "UnionType"}


class OutOfRoomError(Exception):
    """The rendered text is too long."""


def rendered(form: Any, name: str, room: int) -> tuple[str, bool]:
    """Return the text of a form, and whether it was shortened.

    Args:
        form: The form of a value, from the walk.
        name: The name of the value: secrets are not shown.
        room: The maximum number of characters.
    """
    writer = _Writer(room)
    try:
        text, is_shortened = writer.text(form, name, 0), False
    except OutOfRoomError:
        text, is_shortened = writer.longest, True
    return (text[:room], True) if len(text) > room else (text, is_shortened)


class _Writer:
    def __init__(self, room: int) -> None:
        self._room = room
        self.longest = "…"

    def _take(self, text: str) -> str:
        self._room -= len(text)
        if self._room < 0:
            raise OutOfRoomError
        return text

    def text(self, form: Any, name: str, deep: int) -> str:  # noqa: C901, PLR0912 - one case per form
        """Return the text of a form. Raises `OutOfRoomError`."""
        if form is None or isinstance(form, (bool, int, float)):
            return self._take(repr(form))
        if isinstance(form, str):
            return self._string(form, name)
        if not isinstance(form, list) or not form or not isinstance(form[0], str):
            return self._take(_as_json(form))
        if deep > _DEEPEST:
            return "…"
        kind, *rest = form
        match kind, rest:
            case "str", [str() as held]:
                return self._string(held, name)
            case "a", [what, *more]:
                return self._object(what, more, name, deep)
            case "member", [what, str() as member, *_]:
                return f"{self.text(what, '', deep + 1)}.{member}"
            case _, [str() as held] if kind == "Template" or kind.endswith("Path"):
                kind = kind if kind == "Template" else "Path"  # PosixPath, PureWindowsPath
                return f"{kind}({self._string(held, name)})"
            case _, [str() as held] if kind in _PACKED:
                return self._packed(kind, held, name)
            case "Pattern", [str() as held, *_]:
                return f"re.compile({self._string(held, name)})"
            case "numpy", [str() as dtype, shape, str() as held]:
                return self._take(f"numpy {dtype}{shape} {held[:16]}")
            case (("logger" | "module"), [str() as held]):
                return self._take(f"{kind} {held}")
            case _, [str() as held]:  # a name, or the repr of a number or a date
                return self._take(held)
            case _ if kind in _INNER:
                return self._call(kind, [self.text(part, "", deep + 1) for part in rest], deep)
            case _, [list() as held]:  # an enum member, by name
                return self.text(held, name, deep + 1)
        return self._take(_as_json(form))

    def _string(self, text: str, name: str) -> str:
        if is_hidden(name, text):
            return f'"{MASK}"'
        if len(text) > self._room:
            self.longest = _quoted(text[: max(self._room, 0)])
        return self._take(_quoted(text))

    def _packed(self, kind: str, held: str, name: str) -> str:
        if is_hidden(name, held):
            return f'"{MASK}"'
        try:
            plain = bytes.fromhex(held)
        except ValueError:
            return self._take(f"{kind} {held}")
        return self._take(repr(plain) if kind == "bytes" else f"{kind}({plain!r})")

    # ---- objects --------------------------------------------------------------------------------

    def _object(self, what: Any, more: list[Any], name: str, deep: int) -> str:
        known = what if isinstance(what, str) else self.text(what, "", deep + 1)
        plain = known.removeprefix("builtins.")
        if plain in ("dict", "mappingproxy", "list", "tuple", "set", "frozenset") and more:
            text = self._container(plain, more[0], name, deep)
            if len(more) == 1:
                return text
            return self._call(plain, [text, *self._rest(more[1:], name, deep)], deep)
        return self._call(known, list(self._rest(more, name, deep)), deep)

    def _container(self, kind: str, content: Any, name: str, deep: int) -> str:
        if not isinstance(content, list):
            return self._take(_as_json(content))
        if kind in ("set", "frozenset"):
            inner = self._each((_unpacked(element) for element in content), name, deep, "{", "}")
            return inner if kind == "set" and content else f"{kind}({inner if content else ''})"
        if kind in ("dict", "mappingproxy"):
            return self._laid_out("{", self._pairs(content, deep), "}", deep)
        begin, end = ("[", "]") if kind == "list" else ("(", ")")
        return self._each(content, name, deep, begin, end)

    def _each(self, forms: Iterable[Any], name: str, deep: int, begin: str, end: str) -> str:
        return self._laid_out(begin, (self.text(form, name, deep + 1) for form in forms), end, deep)

    def _pairs(self, content: list[Any], deep: int) -> Iterator[str]:
        for pair in content:
            if not isinstance(pair, list) or len(pair) != 2:  # noqa: PLR2004 - a pair
                yield self._take(_as_json(pair))
                continue
            key, value = pair
            name = key[1] if isinstance(key, list) and key[:1] == ["str"] else ""
            yield f"{self.text(key, '', deep + 1)}: {self.text(value, name, deep + 1)}"

    def _rest(self, more: list[Any], name: str, deep: int) -> Iterator[str]:
        """Yield the rest of an object besides its elements: forms, and named attributes."""
        for part in more:
            is_pair = isinstance(part, list) and len(part) == 2 and isinstance(part[0], str)  # noqa: PLR2004 - a pair
            if is_pair and (part[1] is None or isinstance(part[1], list)):
                yield f"{part[0]}={self.text(part[1], part[0], deep + 1)}"
            elif isinstance(part, list) and part and all(isinstance(inner, list) for inner in part):
                yield self._each(part, name, deep, "[", "]")
            else:
                yield self.text(part, name, deep + 1)

    def _call(self, what: str, given: Iterable[str], deep: int) -> str:
        return self._laid_out(f"{what}(", given, ")", deep)

    def _laid_out(self, begin: str, elements: Iterable[str], end: str, deep: int) -> str:
        """Write elements on one line if they fit, otherwise one per line."""
        written: list[str] = []
        try:
            for element in elements:
                written.append(self._take("") + element)
                self._room -= 2
        except OutOfRoomError:
            self.longest = _lines(begin, [*written, "…"], end)
            raise
        width = sum(map(len, written)) + 2 * len(written) + 4 * deep
        if width <= _NARROW and not any("\n" in element for element in written):
            comma = "," if begin == "(" and len(written) == 1 else ""
            return f"{begin}{', '.join(written)}{comma}{end}"
        return _lines(begin, written, end)


def _lines(begin: str, elements: list[str], end: str) -> str:
    inner = "".join(f"    {_indented(element)},\n" for element in elements)
    return f"{begin}\n{inner}{end}"


def _indented(text: str) -> str:
    return text.replace("\n", "\n    ") if "\n" in text and '"""' not in text else text


def _quoted(text: str) -> str:
    if "\n" in text.strip("\n") and text.count("\n") > 1:
        inner = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
        return f'"""{inner}"""'
    return dumps(text, ensure_ascii=False)


def _unpacked(element: Any) -> Any:
    try:
        return json.loads(element)
    except (TypeError, ValueError):
        return element


def _as_json(form: Any) -> str:
    return dumps(form, ensure_ascii=False, default=str)


# ---- What is the source or value of each part? --------------------------------------------------
#
# It is stored to show a later difference: code as in the file, values as Python writes them. Both
# are limited in length and without secrets.

MOST_TEXT = 20_000
"""The maximum number of characters per part."""
MOST_IN_ALL = 1_000_000
"""The maximum number of characters per step."""

_CLOSED_OVER = re.compile(r"(.*\.closed over \d+)(.*)", re.DOTALL)
_BY_NAME = {"file of ": "module", "module ": "module", "variable ": "variable"}
_BY_FORM = {"code": "function", "bytecode": "function", "class": "class", "module": "module"}
_BY_FORM |= {"library": "library", "see": "name", "function": "name", "unreadable": "module"}


@dataclass(frozen=True, slots=True)
class PartContent:
    """The content of a part.

    Attributes:
        kind: function, class, value, file, variable, package, module, docstring, library (a name
            from an installed package), name (an alias) or setting.
        text: Its source or value; None if unknown or over the limit.
        is_shortened: Whether the text is only the start.
        called: A name for people, if the part's own name is unclear.
    """

    kind: str
    text: str | None = None
    is_shortened: bool = False
    called: str = ""


class PartContents:
    """The content of an identity's parts, computed on first use: most are never shown.

    Args:
        make: Computes the content.
    """

    def __init__(self, make: Callable[[], Mapping[str, PartContent]] = dict) -> None:
        self._make = make
        self._computed: Mapping[str, PartContent] | None = None

    @property
    def parts(self) -> Mapping[str, PartContent]:
        """The content of each part, by name."""
        if self._computed is None:
            self._computed = self._make()
        return self._computed

    def forget(self) -> None:
        """Free the memory: the forms of a project's values may be large."""
        self._make, self._computed = dict, None


def shown_parts(result: WalkResult) -> dict[str, PartContent]:
    """Return the content of each part that a walk found."""
    shown, room = {}, MOST_IN_ALL
    for name, form in result.forms.items():
        kind = _kind(name, form)
        text, is_shortened = _text(result, name, form, kind) if room > 0 else (None, True)
        room -= len(text or "")
        shown[name] = PartContent(kind, text, is_shortened, _called(result, name))
    return shown


def _called(result: WalkResult, name: str) -> str:
    """Return a readable name for a variable that a function closes over."""
    match = _CLOSED_OVER.match(name)
    if match is None or match[1] not in result.variables:
        return ""
    variable, function = result.variables[match[1]]
    return f"{variable}{match[2]}, closed over by {function}"


def shown_data(data: Mapping[str, Any]) -> dict[str, PartContent]:
    """Return the content of settings, given as plain data by name."""
    shown = {}
    for name, value in data.items():
        text, is_shortened = rendered(_form(value), name, MOST_TEXT)
        shown[name] = PartContent("setting", without_keys(text), is_shortened)
    return shown


def shown_variable(name: str, value: str | None) -> PartContent:
    """Return the content of an environment variable."""
    return PartContent("variable", *_bounded(_value_of(name, value or None)))


def shown_text(kind: str, text: str | None) -> PartContent:
    """Return a part that is a plain string, like the version of a package."""
    return PartContent(kind, *_bounded(text if text is None else without_keys(text)))


def shown_file(path: Path, begin: bytes, *, is_complete: bool) -> PartContent:
    """Return the content of a file, if it is text and not secret by its name.

    Args:
        path: The file.
        begin: The start of its content.
        is_complete: Whether that is all of it.
    """
    if is_secret_file(path) or b"\0" in begin:
        return PartContent("file")
    try:
        text = begin.decode()
    except UnicodeDecodeError as error:
        if is_complete or error.start < len(begin) - 4:
            return PartContent("file")
        text = begin[: error.start].decode()
    kept, is_shortened = _bounded(without_settings(text))
    return PartContent("file", kept, is_shortened or not is_complete)


def _kind(name: str, form: Any) -> str:
    if name.endswith(".__doc__"):
        return "docstring"
    if name.endswith((" as written", ": names of locals")):
        return "function"
    begun = next((kind for begin, kind in _BY_NAME.items() if name.startswith(begin)), None)
    first = form[0] if isinstance(form, list) and form else None
    return begun or (_BY_FORM.get(first, "value") if isinstance(first, str) else "value")


def _text(result: WalkResult, name: str, form: Any, kind: str) -> tuple[str | None, bool]:
    if name in result.written:
        file, lines = result.written[name]
        return _bounded(without_literals(_source(file, lines)))
    match kind, form:
        case (("function" | "class" | "module"), list()):
            return None, False  # without source
        case _, str() if kind == "function":
            return _bounded(without_literals(form))
        case "docstring", [text, hints]:
            documented = [text or "", *(f"{parameter}: {hint}" for parameter, hint in hints)]
            return _bounded(without_keys("\n".join(documented)))
        case "variable", _:
            return _bounded(_value_of(name.removeprefix("variable "), form))
    last = name.rpartition(".")[2].rstrip(")").rpartition("(")[2]
    text, is_shortened = rendered(form, last, MOST_TEXT)
    return without_keys(text), is_shortened


def _value_of(name: str, value: str | None) -> str:
    if value is None:
        return "not set"
    return MASK if is_hidden(name, value) else without_keys(value)


def _source(file: str, pieces: tuple[tuple[int, int], ...]) -> str:
    """Return lines of a file, dedented by the indentation of the first."""
    lines = linecache.getlines(file)
    lines = [line for first, last in pieces for line in lines[first - 1 : last]]
    margin = lines[0][: len(lines[0]) - len(lines[0].lstrip())] if lines else ""
    return "".join(line.removeprefix(margin) for line in lines)


def _bounded(text: str | None) -> tuple[str | None, bool]:
    if text is None or len(text) <= MOST_TEXT:
        return text, False
    return text[:MOST_TEXT], True


def _form(data: Any) -> Any:
    """Return plain data in the form that the walk would give it."""
    if isinstance(data, Mapping):
        pairs = [[["str", str(key)], _form(value)] for key, value in data.items()]
        return ["a", "builtins.dict", pairs]
    if isinstance(data, (list, tuple, set, frozenset)):
        return ["a", "builtins.list", [_form(element) for element in data]]
    return ["str", str(data)] if isinstance(data, str) else ["value", repr(data)]
