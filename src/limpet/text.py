"""How is text written in messages, untrusted text shown safely, and a misspelt word guessed?"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from html import escape
from math import floor, log10
from pathlib import Path
from typing import TextIO

from limpet.foreign import base_value, is_interrupt

_LIMIT = 300


def count(number: float, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 call`, `2,000 calls`."""
    return f"{number:,.0f} {noun if number == 1 else plural or f'{noun}s'}"


def size(number: float) -> str:
    """Return a number of bytes: `512 bytes`, `3.2 kB`, `1.5 GB`."""
    if number < 1000:  # noqa: PLR2004 - a kilobyte
        return count(number, "byte")
    power = 1 if number < 999_950 else 2 if number < 999_950_000 else 3  # noqa: PLR2004 - rounded
    return f"{number / 1000**power:,.1f} {('kB', 'MB', 'GB')[power - 1]}"


def money(amount: float) -> str:
    """Return an amount to the cent; one below a dime with two digits: `12.30`, `0.015`."""
    if amount == 0 or abs(amount) >= 0.1:  # noqa: PLR2004 - with cents, it has two digits
        return f"{amount:,.2f}"
    text = f"{amount:.{1 - floor(log10(abs(amount)))}f}".rstrip("0")
    return text if len(text.partition(".")[2]) > 1 else f"{amount:.2f}"


def text_of(error: BaseException) -> str:
    """Return an exception's message. Never raises, even if its `__str__` does."""
    try:
        return base_value(str, str(error))
    except BaseException as odd:
        if is_interrupt(odd):
            raise
        return f"<{type(error).__name__}, whose str raised {type(odd).__name__}>"


def one_line(value: object, mask: Callable[[str], str] | None = None) -> str:
    """Return a value as one line of bounded length, without control characters.

    Strings are used directly, other values by their `repr`. Never raises.

    Args:
        value: The value.
        mask: Masks secrets, before the text is shortened: half a secret is a secret, too.
    """
    try:
        text = base_value(str, value) if isinstance(value, str) else base_value(str, repr(value))
    except BaseException as error:
        if is_interrupt(error):
            raise
        text = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    if mask is not None:
        text = mask(text)
    if len(text) > _LIMIT:
        text = text[:_LIMIT] + "…"
    return text if text.isprintable() else "".join(map(_harmless, text))


def quoted(text: str) -> str:
    """Return a string as `one_line` in quotes."""
    return f"'{one_line(text)}'"


def harmless(text: str) -> str:
    """Return a string without control characters other than newlines and tabs."""
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" else _harmless(c) for c in text)


def _harmless(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is closest, if any is close."""
    folded = {_folded(name): name for name in reversed(list(known))}
    begun = _folded(word)
    # `st` means `status`, not `list`.
    longer = [name for name in folded if len(begun) > 1 and name.startswith(begun)]
    matches = get_close_matches(begun, longer, n=1, cutoff=0.0) or get_close_matches(
        begun, folded, n=1
    )
    return folded[matches[0]] if matches else None


def nearest_file(path: Path) -> str | None:
    """Return the name of the file next to a missing one that is closest, if any is close.

    Raises:
        OSError: The folder cannot be read.
        ValueError: The path contains a NUL.
    """
    names = [file.name for file in path.parent.iterdir()]
    # The same suffix alone makes short names look alike: the rest must be close, too.
    return nearest(path.name, [name for name in names if nearest(path.stem, [Path(name).stem])])


def hint_near(word: str, known: Iterable[str]) -> str | None:
    """Return a hint with the closest known word, if any is close."""
    near = nearest(word, known)
    return None if near is None else f"did you mean {quoted(near)}?"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the same hint as the end of a message; empty if no known word is close."""
    hint = hint_near(word, known)
    return f"; {hint}" if hint else ""


def _folded(word: str) -> str:
    return word.casefold().strip().replace("-", "_")


# ---- For notebooks and terminals ----------------------------------------------------------------


def table_html(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of HTML cells."""
    head = "".join(f"<th>{escape(name)}</th>" for name in titles)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal, neither closed nor replaced."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return stream is not None and stream.isatty()
    return False
