"""How are `{{…}}` in a template filled?

`{{name}}` in a string is replaced by a value; nothing is ever executed. A string that is a single
placeholder becomes the value itself, with its type.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from limpet.errors import wrong_argument
from limpet.text import quoted
from limpet.transport.parsing import encode_json

PLACEHOLDER = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")

OF_ITEM = ("input", "expected", "id")
"""Placeholders that every item has, unless its row has a column of that name."""

Lookup = Callable[[str], Any]
"""Returns the value of a placeholder by its name, or raises `LimpetError`."""


def check_placeholders(**argument: Any) -> None:
    """Check that every `{{` in the argument starts a placeholder that can be filled.

    Raises:
        LimpetError: One is unclosed, empty, or in a key.
    """
    ((name, template),) = argument.items()
    for _, text, is_key in _strings_in(template):
        rest = text if is_key else PLACEHOLDER.sub("", text)
        if begin := re.search(r"\{\{\s*\w*", rest):  # the rest may be a secret
            why = "is not a placeholder" if "}}" in rest[begin.start() :] else "has no '}}'"
            why = "is in a key: only values are filled" if is_key else why
            raise wrong_argument(
                name,
                f"{quoted(begin[0])} {why}",
                hint="write {{column}}; for a literal '{{', put it into a column of the dataset",
            )


def names_in(template: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each placeholder's name, with the path of its string in the template."""
    for path, text, is_key in _strings_in(template):
        if not is_key:
            yield from ((path, match[1]) for match in PLACEHOLDER.finditer(text))


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


def render(template: Any, value_of: Lookup) -> Any:
    """Return a template with its placeholders filled.

    Raises:
        LimpetError: `value_of` does not know a name.
    """
    if isinstance(template, str):
        if "{{" not in template:
            return template
        if single := PLACEHOLDER.fullmatch(template):
            return value_of(single[1])
        return render_text(template, value_of)
    if isinstance(template, Mapping):
        return {key: render(value, value_of) for key, value in template.items()}
    if isinstance(template, (list, tuple)):
        return [render(value, value_of) for value in template]
    return template


def render_text(text: str, value_of: Lookup, as_text: Callable[[Any], str] | None = None) -> str:
    """Return a string with its placeholders filled, each value as text.

    Raises:
        LimpetError: `value_of` does not know a name.
    """
    written = as_text or value_as_text
    return PLACEHOLDER.sub(lambda match: written(value_of(match[1])), text)


def has_placeholders(text: str) -> bool:
    """Return whether a string contains placeholders."""
    return PLACEHOLDER.search(text) is not None


def value_as_text(value: Any) -> str:
    """Return a string unchanged, and any other value as JSON."""
    if isinstance(value, str):
        return value
    try:
        return encode_json(value).decode()
    except ValueError:
        return str(value)
