"""How is text written in messages, and untrusted text shown safely?"""

from collections.abc import Iterable
from difflib import get_close_matches

from limpet.foreign import is_interrupt, itself

_LIMIT = 300


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a "did you mean" suffix with the closest known word; empty if none is close."""
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def count(number: float, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 call`, `2,000 calls`."""
    return f"{number:,.0f} {noun if number == 1 else plural or f'{noun}s'}"


def text_of(error: BaseException) -> str:
    """Return an exception's message. Never raises, even if its `__str__` does."""
    try:
        return itself(str, str(error))
    except BaseException as odd:
        if is_interrupt(odd):
            raise
        return f"<{type(error).__name__}, whose str raised {type(odd).__name__}>"


def one_line(value: object) -> str:
    """Return a value as one line of bounded length, without control characters.

    Strings are used directly, other values by their `repr`. Never raises.
    """
    try:
        text = itself(str, value) if isinstance(value, str) else itself(str, repr(value))
    except BaseException as error:
        if is_interrupt(error):
            raise
        text = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    if len(text) > _LIMIT:
        text = text[:_LIMIT] + "…"
    return "".join(map(_harmless, text))


def harmless(text: str) -> str:
    """Return a string without control characters other than newlines and tabs."""
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" else _harmless(c) for c in text)


def _harmless(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()
