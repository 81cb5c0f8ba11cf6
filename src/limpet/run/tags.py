"""Which tags does a run have?

Each is an empty file in the run's `tags/`: a session that writes `run.json` cannot lose one, and
two commands at once cannot either. No lock is needed.
"""

import re
from contextlib import suppress
from pathlib import Path

from limpet.errors import LimpetError
from limpet.journal.layout import Layout
from limpet.text import one_line

TAGS = "tags"
_LONGEST = 100


def checked_tag(name: str) -> str:
    """Return a tag's name.

    Raises:
        LimpetError: It cannot be one.
    """
    if len(name) > _LONGEST or not re.fullmatch(r"\w[\w.+-]*", name):
        raise LimpetError(
            f"the tag {one_line(name)!r}: must consist of letters, digits, '_', '-', '+' and '.'",
            hint="for example: limpet tag baseline",
        )
    return name


def tags_of(layout: Layout) -> list[str]:
    """Return the tags of a run, sorted."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return sorted(path.name for path in (layout.home / TAGS).iterdir())
    return []


def add_tag(layout: Layout, name: str) -> None:
    """Give a run a tag; it may already have it.

    Raises:
        LimpetError: It cannot be a tag, or cannot be written.
    """
    path = _path(layout, name)
    try:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    except OSError as error:
        raise LimpetError(f"{one_line(str(path))}: {error.strerror}") from error


def remove_tag(layout: Layout, name: str) -> None:
    """Take a tag away from a run.

    Raises:
        LimpetError: The run does not have it.
    """
    path = _path(layout, name)
    try:
        path.unlink()
    except FileNotFoundError as error:
        known = ", ".join(map(one_line, tags_of(layout))) or "none"
        home = one_line(str(layout.home))
        raise LimpetError(f"{home}: has no tag {name!r}", hint=f"its tags: {known}") from error
    except OSError as error:
        raise LimpetError(f"{one_line(str(path))}: {error.strerror}") from error


def _path(layout: Layout, name: str) -> Path:
    return layout.home / TAGS / checked_tag(name)
