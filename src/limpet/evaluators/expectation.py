"""What should the answer have been, according to the item?

An item that does not say is an error and never a zero: the answer may well be right.
"""

from decimal import Decimal
from numbers import Real
from typing import Any, NoReturn

from limpet.errors import PermanentError
from limpet.evaluators.protocol import Scored
from limpet.text import one_line

_BRIEF = 80


def expected_of(scored: Scored) -> Any:
    """Return what the item expects.

    Raises:
        PermanentError: It does not say.
    """
    if scored.expected is None:
        raise PermanentError(
            f"{item_of(scored)} has no expected value",
            hint="fill the row's expected column, or name the right one with expected=…",
        )
    return scored.expected


def expected_several(scored: Scored) -> list[Any]:
    """Return each of the values that the item expects: a list's, or the only one.

    Raises:
        PermanentError: There is none.
    """
    expected = expected_of(scored)
    if not isinstance(expected, (list, tuple, set, frozenset)):
        return [expected]
    if not expected:
        unusable(scored, "is an empty list: name at least one value")
    return list(expected)


def expected_texts(scored: Scored) -> list[str]:
    """Return each of the texts that the item expects.

    Raises:
        PermanentError: There is none, or one is neither text nor number.
    """
    texts = []
    for one in expected_several(scored):
        text = text_of(one)
        if text is None:
            unusable(scored, f"is no text: it has {brief(one)} in it")
        texts.append(text)
    return texts


def unusable(scored: Scored, why: str) -> NoReturn:
    """Raise the error of an expected value that no output can be held against."""
    raise PermanentError(f"{item_of(scored)}: its expected value {brief(scored.expected)} {why}")


def item_of(scored: Scored) -> str:
    """Return what a message calls the item."""
    if scored.where:
        return scored.where
    return "the item" if scored.item is None else f"item {scored.item.id!r}"


def text_of(value: Any) -> str | None:
    """Return a text as it is and a number as text; None for what is no text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (Real, Decimal)):
        return str(value)
    return value if isinstance(value, str) else None


def no_text(value: Any) -> str:
    """Say of an output that it is no text."""
    return "there is no output" if value is None else f"the output is a {type(value).__name__}"


def brief(value: Any) -> str:
    """Show a value in a few words, with its quotes: what differs may be a space."""
    text = one_line(repr(value) if isinstance(value, str) else value)
    return text if len(text) <= _BRIEF else text[: _BRIEF - 1] + "…"
