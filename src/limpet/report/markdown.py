"""Markdown for a pull request, with what models wrote in it.

That stands in code elements with every character that could end one written as an entity, so that
it can make no link, no mention and no table of its own.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from limpet.run.results.table import without_controls
from limpet.text import one_line

_MOST_BYTES = 1_000_000
"""GitHub takes a summary of a step up to 1 MiB."""
_ACTIVE = re.compile(r"[^\w .,;()%+=→–…·×?'\-]|_")
_WWW = re.compile(r"(?<=www)\.", re.IGNORECASE)


def document(lines: Iterable[str], cut: str) -> str:
    """Return lines as a text under a megabyte; if it is cut, `cut` says so."""
    text: list[str] = []
    size = len(cut.encode()) + 2
    for line in lines:
        size += len(line.encode("utf-8", "backslashreplace")) + 1
        if size > _MOST_BYTES:
            text += ["", cut, ""]
            break
        text.append(line)
    return "\n".join(text) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table; the cells are Markdown already."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def bullets(lines: Iterable[str]) -> Iterator[str]:
    """Yield texts as a list."""
    yield from (f"- {escaped(line)}" for line in lines)
    yield ""


def folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield lines that are unfolded by a click."""
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from lines
    yield "</details>"
    yield ""


def escaped(text: str) -> str:
    """Return text of which Markdown makes nothing, and which notifies nobody."""
    inert = _ACTIVE.sub(lambda found: f"&#{ord(found[0])};", without_controls(one_line(text)))
    return _WWW.sub("&#46;", inert.replace("&#64;", "&#64;&#8203;"))


def code(text: str) -> str:
    """Return text as code."""
    return f"<code>{escaped(text)}</code>"
