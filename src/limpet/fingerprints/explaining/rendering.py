"""How is the form of a value shown to people?

As Python would write it: `Settings(model="gpt", stop=["end"])`. Long values get one element per
line, so that each difference is a line. Rendering stops at a maximum length.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from limpet.json_values import dumps
from limpet.secrets.in_code import is_hidden
from limpet.secrets.masking import MASK

_NARROW = 56
_DEEPEST = 40
_HELD = {"Path": "Path", "PosixPath": "Path", "WindowsPath": "Path", "Template": "Template"}
_HELD |= {"PurePosixPath": "Path", "PureWindowsPath": "Path"}
_PACKED = {"bytes", "bytearray"}
_INNER = {"partial", "method", "staticmethod", "classmethod", "property", "ContextVar", "UnionType"}


class OutOfRoomError(Exception):
    """The rendered text is too long."""


def rendered(form: Any, name: str, room: int) -> tuple[str, bool]:
    """Return the text of a form, and whether it was cut.

    Args:
        form: The form of a value, from the walk.
        name: The name of the value: secrets are not shown.
        room: The maximum number of characters.
    """
    writer = _Writer(room)
    try:
        text, is_cut = writer.text(form, name, 0), False
    except OutOfRoomError:
        text, is_cut = writer.longest, True
    return (text[:room], True) if len(text) > room else (text, is_cut)


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
            case _, [str() as held] if kind in _HELD:
                return f"{_HELD[kind]}({self._string(held, name)})"
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
        """Yield what an object holds besides its elements: forms, and named attributes."""
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
        """Write elements on one line if they fit, else one per line."""
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
