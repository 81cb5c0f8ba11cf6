"""How is a run tagged, and how is it removed without touching anything else?"""

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from limpet.errors import LimpetError
from limpet.journal.files import open_to_read
from limpet.journal.layout import Layout
from limpet.journal.lines import PREFIX
from limpet.journal.lock import Lock, holder
from limpet.text import one_line

# ---- Which tags does a run have? ----------------------------------------------------------------
#
# Each is an empty file in the run's `tags/`: neither a session that writes `run.json` nor two
# commands at once can lose one. No lock is needed.

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
    """Remove a tag from a run.

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


# ---- How is a run removed without touching anything else? ---------------------------------------
#
# Only files that Limpet makes are removed, by their names. Links are removed, never followed. Other
# files stay, and so does the directory around them. The lock is held meanwhile, and its file goes
# last: after an interruption, the rest is still recognised as a run.

_DIRECTORIES = ("index", "torn", TAGS)
_FILES = (
    "LOCK",
    "events.jsonl",
    "failures.jsonl",
    "files.jsonl",
    "identity.json",
    "items.jsonl",
    "labels.jsonl",
    "labels.lock",
    "people.json",
    "people.lock",
    "run.json",
    "spent.json",
    "summary.json",
)


class RunContents(NamedTuple):
    """The contents of a run's directory.

    Attributes:
        ours: The files that Limpet made, the lock last.
        others: All other files.
    """

    ours: list[Path]
    others: list[Path]

    @property
    def bytes(self) -> int:
        """The size of Limpet's files."""
        files = (file for path in self.ours for file in _files_of(path))
        return sum(file.lstat().st_size for file in files)


def contents_of(layout: Layout) -> RunContents:
    """Return the contents of a run's directory.

    Raises:
        LimpetError: Limpet did not make this directory.
    """
    columns = [path for path in layout.columns() if _is_column(path)]
    if not columns and "pid" not in holder(layout.lock):
        raise LimpetError(
            f"{one_line(str(layout.home))}: was not made by Limpet; nothing was removed",
            hint="remove it with rm, if you are sure",
        )
    empty = [path for path in layout.columns() if not path.lstat().st_size]  # nothing ran yet
    names = {*_FILES, *(path.name for path in (*columns, *empty))}
    for step in () if layout.single else layout.steps():
        if layout.column(step) in columns:
            live = layout.live(step).name  # the column itself, or a mirror of it
            names |= {live, live.removesuffix("l")}  # workflow_output.json
    ours = [] if layout.single is None or not columns else [layout.single]
    others: list[Path] = []
    for path in sorted(layout.home.iterdir()) if layout.home.is_dir() else ():
        is_directory = path.is_dir() and not path.is_symlink()
        known = path.name in (_DIRECTORIES if is_directory else names)
        (ours if known else others).append(path)
    return RunContents(sorted(ours, key=lambda path: path == layout.lock), others)


def remove_run(layout: Layout) -> RunContents:
    """Remove a run; return its contents.

    Raises:
        RunLockedError: A process is working on it.
        LimpetError: Limpet did not make it, or a file cannot be removed.
    """
    contents_of(layout)  # before its lock is touched
    try:
        lock = Lock(layout.lock)
        try:
            found = contents_of(layout)
            for path in found.ours:
                _remove(path)
        finally:
            lock.release()
        if not found.others:
            layout.home.rmdir()
    except OSError as error:
        where = one_line(str(error.filename or layout.home))
        raise LimpetError(f"{where}: cannot be removed: {error.strerror}") from error
    return found


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)  # does not follow links
    else:
        path.unlink(missing_ok=True)


def _is_column(path: Path) -> bool:
    if not path.is_file() or path.is_symlink():
        return False
    with open_to_read(path) as file:
        return file.read(len(PREFIX)) == PREFIX


def _files_of(path: Path) -> Iterator[Path]:
    if path.is_dir() and not path.is_symlink():
        yield from (file for file in path.rglob("*") if not file.is_dir())
    else:
        yield path
