"""Where do a journal's files lie?"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from limpet.errors import JournalError
from limpet.text import one_line

_COLUMN = "_output.jsonl"
_SUFFIXES = (".jsonl", ".ndjson", ".json")


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of one journal.

    Attributes:
        home: Where the lock, the failures, the story, the index and torn bytes lie.
        single: The one column, where the journal is a file and `home` lies beside it.
    """

    home: Path
    single: Path | None = None

    def column(self, step: str) -> Path:
        """Return the column of a step."""
        if self.single is not None:
            return self.single
        if not re.fullmatch(r"\w[\w.-]*", step):
            raise ValueError(f"step={step!r}: must be letters, digits, '_', '-' and '.'")
        return self.home / f"{step}{_COLUMN}"

    def columns(self) -> list[Path]:
        """Return the columns that are there."""
        if self.single is not None:
            return [self.single] if self.single.exists() else []
        return sorted(self.home.glob(f"*{_COLUMN}"))

    def index(self, column: Path) -> Path:
        """Return the index of a column."""
        return self.home / "index" / f"{column.name.removesuffix('.jsonl')}.idx"

    @property
    def items(self) -> Path:
        """The items of the dataset as they were last asked."""
        return self.home / "items.jsonl"

    @property
    def items_note(self) -> Path:
        """A note of what `items.jsonl` is."""
        return self.home / "index" / "items.json"

    @property
    def items_seen(self) -> Path:
        """A note of what evaluators see of the items."""
        return self.home / "index" / "items_seen"

    @property
    def lock(self) -> Path:
        """The file that is locked by the one who writes."""
        return self.home / "LOCK"

    @property
    def torn(self) -> Path:
        """Where recovery sets bytes aside."""
        return self.home / "torn"

    @property
    def failures(self) -> Path:
        """Cells that failed."""
        return self.home / "failures.jsonl"

    @property
    def events(self) -> Path:
        """The story."""
        return self.home / "events.jsonl"

    @property
    def files(self) -> Path:
        """Files of the user's that were read."""
        return self.home / "files.jsonl"

    @property
    def redone(self) -> Path:
        """A note of which records were made anew."""
        return self.home / "index" / "redone"

    @property
    def outdated(self) -> Path:
        """A note of which records are to be made anew because a file changed."""
        return self.home / "index" / "outdated"

    @property
    def about_copy(self) -> Path:
        """What was asked, once more."""
        return self.home / "index" / "run.json"

    @property
    def about(self) -> Path:
        """What was asked."""
        return self.home / "run.json"

    @property
    def identity(self) -> Path:
        """What the last identity of each step was made of."""
        return self.home / "identity.json"


def directory_at(path: str | Path) -> Layout:
    """Return the places of a journal that is a directory, whatever it is called.

    Raises:
        JournalError: It is a file, or no path at all.
    """
    try:
        real = Path(os.path.realpath(Path(path).expanduser()))
        there = next(one for one in (real, *real.parents) if one.exists())
    except (OSError, ValueError, RuntimeError) as error:
        raise JournalError(f"{one_line(str(path))}: not a path: {error}") from error
    if not there.is_dir():
        raise JournalError(
            f"{one_line(str(there))}: this is a file, and a run is a directory",
            hint="give the run another place",
        )
    return Layout(real)


def layout_at(path: str | Path) -> Layout:
    """Return the places of the journal at `path`: a directory, or a file that is its column.

    Raises:
        JournalError: It can be neither.
    """
    if not str(path):
        raise JournalError("the journal needs a path", hint='give it one, such as "out.jsonl"')
    try:
        # Through links: two names of one file must not become two journals.
        real = Path(os.path.realpath(Path(path).expanduser()))
        # In this order: another process may make the directory between the two.
        is_there = real.exists()
        is_directory = real.is_dir()
    except (OSError, ValueError, RuntimeError) as error:
        raise JournalError(f"{one_line(str(path))}: not a path: {error}") from error
    suffix = real.suffix.lower()
    if is_directory or (not is_there and not re.fullmatch(r"\.[a-z]{2,8}", suffix)):
        return Layout(real)
    if suffix not in _SUFFIXES:
        raise JournalError(
            f"{one_line(str(path))}: a journal is a .jsonl file or a directory",
            hint=f"call it {real.stem}.jsonl",
        )
    return Layout(real.with_name(f"{real.name}.d"), real)
