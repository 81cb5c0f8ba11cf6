"""How are the inputs of a map recognised in the next run?"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from limpet.fingerprints.keys import Occurrences, digest, with_types
from limpet.json_values import NotPlainError
from limpet.text import one_line

_LONGEST_NAME = 80


class InputIdentity(NamedTuple):
    """The identity of an input, independent of its position.

    Attributes:
        id: A readable name.
        content: What identifies the input.
        occurrence: The number of earlier inputs with the same content.
    """

    id: str
    content: Any
    occurrence: int


def identify(inputs: Sequence[Any], key: Callable[[Any], Any] | None) -> list[InputIdentity]:
    """Return the identity of each input, by content and occurrence or by `key`.

    Raises:
        TypeError: An input, or its key, has no JSON form.
        ValueError: Two inputs have the same key.
    """
    return _by_content(inputs) if key is None else _by_key(inputs, key)


def _by_content(inputs: Sequence[Any]) -> list[InputIdentity]:
    occurrences, identities = Occurrences(), []
    for index, value in enumerate(inputs):
        try:
            content = digest(with_types(value))
        except NotPlainError as error:
            raise TypeError(
                f"input {index} ({one_line(value)}) cannot be identified by its content: {error}; "
                "pass key=, a function that returns its name"
            ) from error
        number = occurrences.number(content)
        name = _name_of(value, content)
        identities.append(InputIdentity(f"{name}-{number}" if number else name, content, number))
    return identities


def _name_of(value: Any, content: str) -> str:
    """Return a readable name: the input itself if it is short, else part of its hash."""
    if isinstance(value, (str, int, float)):
        name = one_line(value)
        if len(name) <= _LONGEST_NAME:
            return name
    return content[:12]


def _by_key(inputs: Sequence[Any], key: Callable[[Any], Any]) -> list[InputIdentity]:
    seen: dict[str, int] = {}
    identities = []
    for index, value in enumerate(inputs):
        name = key(value)
        try:
            content = digest("key", name)
        except NotPlainError as error:
            raise TypeError(f"key= returned {one_line(name)} for input {index}: {error}") from error
        if content in seen:
            raise ValueError(
                f"key= returned {one_line(repr(name))} for inputs {seen[content]} and {index}: "
                "each input needs its own key"
            )
        seen[content] = index
        identities.append(InputIdentity(name if isinstance(name, str) else str(name), content, 0))
    return identities
