"""How does a row become a request?

`{{column}}` in a string stands for the row's value; nothing in it is ever executed. A string that
is a single placeholder becomes the value itself, with its type.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from yarl import URL

from limpet.errors import LimpetError
from limpet.text import did_you_mean, quoted
from limpet.transport.parsing import encode_json
from limpet.types import Item

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
OF_ITEM = ("input", "expected", "id")
"""Placeholders of every item, if the row has no column of that name."""


def check_placeholders(**argument: Any) -> None:
    """Check that every `{{` of the argument begins a placeholder that can be filled.

    Raises:
        LimpetError: One is not closed or empty, or in a key.
    """
    ((name, template),) = argument.items()
    for _, text, is_key in _strings_in(template):
        rest = text if is_key else _PLACEHOLDER.sub("", text)
        if begin := re.search(r"\{\{\s*\w*", rest):  # no more of it, which may be a secret
            why = "is not a placeholder" if "}}" in rest[begin.start() :] else "has no '}}'"
            why = "is in a key: only values are filled" if is_key else why
            raise LimpetError(
                f"{name}: {quoted(begin[0])} {why}",
                hint="write {{column}}; for a literal '{{', put it into a column of the dataset",
            )


def columns_in(template: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each placeholder's column, with the path of its string in the template."""
    for path, text, is_key in _strings_in(template):
        if not is_key:
            yield from ((path, match[1]) for match in _PLACEHOLDER.finditer(text))


def _strings_in(
    template: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], str, bool]]:
    """Yield each string of a template, with its path and whether it is a key."""
    if isinstance(template, str):
        yield path, template, False
    elif isinstance(template, Mapping):
        for key, value in template.items():
            yield (*path, key), str(key), True
            yield from _strings_in(value, (*path, key))
    elif isinstance(template, (list, tuple)):
        for number, value in enumerate(template):
            yield from _strings_in(value, (*path, number))


def render(template: Any, item: Item) -> Any:
    """Return a template filled with the item's values.

    Raises:
        LimpetError: The row does not have a column that it names.
    """
    if isinstance(template, str):
        if "{{" not in template:
            return template
        if single := _PLACEHOLDER.fullmatch(template):
            return _value(single[1], item)
        return _filled(template, item, _as_text)
    if isinstance(template, Mapping):
        return {key: render(value, item) for key, value in template.items()}
    if isinstance(template, (list, tuple)):
        return [render(value, item) for value in template]
    return template


def render_url(template: str, item: Item) -> str:
    """Return an address filled with the item's values, each percent-encoded.

    Raises:
        LimpetError: The row does not have a column that it names.
    """
    return _filled(template, item, lambda value: quote(_as_text(value), safe=""))


def quoted_url(template: str) -> str:
    """Return the path and query of an address with all but its placeholders percent-encoded.

    What is encoded already stays unchanged.
    """
    placeholders = [match[0] for match in _PLACEHOLDER.finditer(template)]
    # Only a whole address can be encoded: a mark that needs no encoding replaces each placeholder.
    mark, count = f"~{uuid4().hex}", itertools.count()
    plain = _PLACEHOLDER.sub(lambda _: f"{mark}{next(count)}~", template)
    quoted = URL(f"http://host{plain}").raw_path_qs
    return re.sub(f"{mark}([0-9]+)~", lambda match: placeholders[int(match[1])], quoted)


def has_placeholders(text: str) -> bool:
    """Return whether a string contains placeholders."""
    return _PLACEHOLDER.search(text) is not None


def _filled(text: str, item: Item, as_text: Callable[[Any], str]) -> str:
    return _PLACEHOLDER.sub(lambda match: as_text(_value(match[1], item)), text)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return encode_json(value).decode()
    except ValueError:
        return str(value)


def _value(name: str, item: Item) -> Any:
    # The row's columns come first, as for the parameters of a function.
    if name in item.row:
        return item.row[name]
    if name in OF_ITEM:
        return getattr(item, name)
    known = list(dict.fromkeys([*map(str, item.row), *OF_ITEM]))
    raise LimpetError(
        f"item {item.id!r} has no column {name!r}, which {{{{{name}}}}} needs"
        f"{did_you_mean(name, known)}",
        hint=f"columns: {', '.join(known)}",
    )
