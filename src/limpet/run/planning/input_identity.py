"""Which input is which, from one run to the next?"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from limpet.fingerprints.keys import Occurrences, digest, with_types
from limpet.json_values import NotPlainError
from limpet.text import one_line

_LONGEST_NAME = 80


class Identity(NamedTuple):
    """Who an input is, wherever it stands among the others.

    Attributes:
        id: A name for people.
        content: What makes it itself.
        occurrence: Which of those with the same content it is.
    """

    id: str
    content: Any
    occurrence: int


def identify(inputs: Sequence[Any], key: Callable[[Any], Any] | None) -> list[Identity]:
    """Tell the inputs apart, by their content and occurrence or by what `key` says.

    Raises:
        TypeError: An input, or its key, has no JSON form.
        ValueError: Two inputs have the same key.
    """
    return _by_content(inputs) if key is None else _by_key(inputs, key)


def _by_content(inputs: Sequence[Any]) -> list[Identity]:
    occurrences, identities = Occurrences(), []
    for index, one in enumerate(inputs):
        try:
            content = digest(with_types(one))
        except NotPlainError as error:
            raise TypeError(
                f"input {index} ({one_line(one)}) cannot be told apart from others by its "
                f"content: {error}; give key=, a function that returns its name"
            ) from error
        number = occurrences.number(content)
        name = _name_of(one, content)
        identities.append(Identity(f"{name}-{number}" if number else name, content, number))
    return identities


def _name_of(one: Any, content: str) -> str:
    """Return what people recognise an input by: itself, if it is short; else part of its hash."""
    if isinstance(one, (str, int, float)):
        name = one_line(one)
        if len(name) <= _LONGEST_NAME:
            return name
    return content[:12]


def _by_key(inputs: Sequence[Any], key: Callable[[Any], Any]) -> list[Identity]:
    seen: dict[str, int] = {}
    identities = []
    for index, one in enumerate(inputs):
        name = key(one)
        try:
            content = digest("key", name)
        except NotPlainError as error:
            raise TypeError(f"key= gave {one_line(name)} for input {index}: {error}") from error
        if content in seen:
            raise ValueError(
                f"key= gave {one_line(repr(name))} for inputs {seen[content]} and {index}: "
                "each input needs a key of its own"
            )
        seen[content] = index
        identities.append(Identity(name if isinstance(name, str) else str(name), content, 0))
    return identities
