"""How does a row become what is sent?

`{{column}}` in a text stands for the row's value; nothing in it is ever run. A text that is one
placeholder and nothing else becomes the value itself, with its type.
"""

import itertools
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from yarl import URL

from limpet.errors import LimpetError
from limpet.transport.parsing import encode_json
from limpet.types import Item

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
_OWN = ("input", "expected", "id")


def render(template: Any, item: Item) -> Any:
    """Return a template with the item's values in it.

    Raises:
        LimpetError: It names a column that the row does not have.
    """
    if isinstance(template, str):
        if "{{" not in template:
            return template
        if alone := _PLACEHOLDER.fullmatch(template):
            return _value(alone[1], item)
        return _filled(template, item, _as_text)
    if isinstance(template, Mapping):
        return {key: render(value, item) for key, value in template.items()}
    if isinstance(template, (list, tuple)):
        return [render(value, item) for value in template]
    return template


def render_url(template: str, item: Item) -> str:
    """Return an address with the item's values in it, each percent-encoded.

    Raises:
        LimpetError: It names a column that the row does not have.
    """
    return _filled(template, item, lambda value: quote(_as_text(value), safe=""))


def quoted_url(template: str) -> str:
    """Return the path and query of an address with all but its placeholders percent-encoded.

    As an address without any is: what is encoded already stays as it is.
    """
    placeholders = [found[0] for found in _PLACEHOLDER.finditer(template)]
    # Each stands aside as a text that needs no encoding, for only a whole address can be encoded.
    mark, count = f"~{uuid4().hex}", itertools.count()
    plain = _PLACEHOLDER.sub(lambda _: f"{mark}{next(count)}~", template)
    quoted = URL(f"http://host{plain}").raw_path_qs
    return re.sub(f"{mark}([0-9]+)~", lambda found: placeholders[int(found[1])], quoted)


def has_placeholders(text: str) -> bool:
    """Tell whether a text changes from row to row."""
    return _PLACEHOLDER.search(text) is not None


def _filled(text: str, item: Item, shape: Callable[[Any], str]) -> str:
    return _PLACEHOLDER.sub(lambda found: shape(_value(found[1], item)), text)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return encode_json(value).decode()
    except ValueError:
        return str(value)


def _value(name: str, item: Item) -> Any:
    # The row's own column first, as for a function's parameter.
    if name in item.row:
        return item.row[name]
    if name in _OWN:
        return getattr(item, name)
    known = [*map(str, item.row), *_OWN]
    near = get_close_matches(name, known, n=1)
    raise LimpetError(
        f"item {item.id!r} has no column {name!r}, which {{{{{name}}}}} wants",
        hint=(f"did you mean {near[0]!r}? " if near else "") + f"columns: {', '.join(known)}",
    )
