"""How is text from elsewhere shown without harm?"""

from collections.abc import Iterable
from difflib import get_close_matches

_LIMIT = 300


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the nearest known word as a question to add to a message; empty if none is near."""
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def text_of(error: BaseException) -> str:
    """Return what an exception says. Never raises, whatever its `__str__` does."""
    try:
        return str(error)
    except Exception as odd:  # noqa: BLE001 - a foreign __str__ may raise anything
        return f"<{type(error).__name__}, whose str raised {type(odd).__name__}>"


def one_line(value: object) -> str:
    """Show a value on one line of bounded length, with nothing a terminal would obey.

    A string is shown as it is, anything else by its `repr`. Never raises.
    """
    try:
        text = value if isinstance(value, str) else repr(value)
    except Exception as error:  # noqa: BLE001 - a foreign __repr__ may raise anything
        text = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    if len(text) > _LIMIT:
        text = text[:_LIMIT] + "…"
    return "".join(map(_harmless, text))


def harmless(text: str) -> str:
    """Return a text of any length with nothing a terminal would obey but its lines and tabs."""
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" else _harmless(c) for c in text)


def _harmless(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()
