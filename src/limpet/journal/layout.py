"""Where are the files of a journal?"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from limpet.errors import JournalError
from limpet.journal.lines import is_column
from limpet.text import one_line

_COLUMN, _ELSEWHERE = "_output.jsonl", "_column.jsonl"
_SUFFIXES = (".jsonl", ".ndjson", ".json")


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one journal.

    Attributes:
        home: The directory of the lock, the failures, the events, the index and torn bytes.
        single: The only column, if the journal is a file; `home` is then beside it.
    """

    home: Path
    single: Path | None = None

    def column(self, step: str) -> Path:
        """Return the column of a step: `<step>_column.jsonl` if there is one."""
        if self.single is not None:
            return self.single
        if not re.fullmatch(r"\w[\w.-]*", step):
            raise ValueError(f"step={step!r}: must consist of letters, digits, '_', '-' and '.'")
        elsewhere = self.column_elsewhere(step)
        return elsewhere if elsewhere.exists() else self.live(step)

    def live(self, step: str) -> Path:
        """Return the usual path of a step's column; in toolkit runs, of its live file."""
        return self.home / f"{step}{_COLUMN}"

    def column_elsewhere(self, step: str) -> Path:
        """Return the path of a step's column if a live file has the usual name."""
        return self.home / f"{step}{_ELSEWHERE}"

    def columns(self) -> list[Path]:
        """Return the columns that exist. Other files may have a column's name: see `is_column`."""
        if self.single is not None:
            return [self.single] if self.single.exists() else []
        return sorted(filter(is_column, map(self.column, self._steps())))

    def steps(self) -> list[str]:
        """Return the steps that have a column."""
        return [step for step in self._steps() if is_column(self.column(step))]

    def _steps(self) -> list[str]:
        ends = (_COLUMN, _ELSEWHERE)
        return sorted(
            {path.name.removesuffix(end) for end in ends for path in self.home.glob(f"*{end}")}
        )

    def index(self, column: Path) -> Path:
        """Return the index of a column."""
        return self.home / "index" / f"{column.name.removesuffix('.jsonl')}.idx"

    @property
    def items(self) -> Path:
        """The items of the dataset, as of the last session."""
        return self.home / "items.jsonl"

    @property
    def numbers(self) -> Path:
        """The numbers saved at the end of the last session."""
        return self.home / "index" / "numbers"

    @property
    def lock(self) -> Path:
        """The file that the writing process locks."""
        return self.home / "LOCK"

    @property
    def torn(self) -> Path:
        """Bytes that recovery set aside."""
        return self.home / "torn"

    @property
    def failures(self) -> Path:
        """Cells that failed."""
        return self.home / "failures.jsonl"

    @property
    def events(self) -> Path:
        """The event log."""
        return self.home / "events.jsonl"

    @property
    def files(self) -> Path:
        """The user's files that were read."""
        return self.home / "files.jsonl"

    @property
    def people(self) -> Path:
        """The items people were asked to label, and their labels."""
        return self.home / "people.json"

    @property
    def people_lock(self) -> Path:
        """The file that a process locks to change `people.json`."""
        return self.home / "people.lock"

    @property
    def labels(self) -> Path:
        """The labels people gave on the live page."""
        return self.home / "labels.jsonl"

    @property
    def labels_lock(self) -> Path:
        """The file that a process locks to add to `labels.jsonl`."""
        return self.home / "labels.lock"

    @property
    def spent(self) -> Path:
        """What all sessions spent."""
        return self.home / "spent.json"

    @property
    def redone(self) -> Path:
        """The records that were replaced."""
        return self.home / "index" / "redone"

    @property
    def outdated(self) -> Path:
        """The records to replace because a file changed."""
        return self.home / "index" / "outdated"

    @property
    def run_json_copy(self) -> Path:
        """A copy of `run.json`."""
        return self.home / "index" / "run.json"

    @property
    def run_json(self) -> Path:
        """The request, the fingerprints and the sessions of the run."""
        return self.home / "run.json"

    @property
    def identity(self) -> Path:
        """The parts of each step's last identity."""
        return self.home / "identity.json"


def directory_at(path: str | Path) -> Layout:
    """Return the layout of a journal that is a directory, whatever its name.

    Raises:
        JournalError: It is a file, or not a valid path.
    """
    real = _real(path)
    existing = next(above for above in (real, *real.parents) if above.exists())
    if not existing.is_dir():
        raise JournalError(
            f"{one_line(str(existing))}: this is a file, but a run is a directory",
            hint="choose another directory for the run",
        )
    return Layout(real)


def layout_at(path: str | Path) -> Layout:
    """Return the layout of the journal at `path`: a directory, or a file that is its column.

    Raises:
        JournalError: It can be neither.
    """
    if not str(path):
        raise JournalError("the journal needs a path", hint='for example "out.jsonl"')
    real = _real(path)
    # In this order: another process may create the directory in between.
    exists = real.exists()
    is_directory = real.is_dir()
    suffix = real.suffix.lower()
    if is_directory or (not exists and not re.fullmatch(r"\.[a-z]{2,8}", suffix)):
        return Layout(real)
    if suffix not in _SUFFIXES:
        raise JournalError(
            f"{one_line(str(path))}: a journal is a .jsonl file or a directory",
            hint=f"call it {real.stem}.jsonl",
        )
    return Layout(real.with_name(f"{real.name}.d"), real)


def _real(path: str | Path) -> Path:
    """Return the path without links: one file must not become two journals."""
    try:
        real = Path(os.path.realpath(Path(path).expanduser()))
        real.exists()  # raises if the system cannot tell
    except (OSError, ValueError, RuntimeError) as error:
        raise JournalError(f"{one_line(str(path))}: not a path: {error}") from error
    return real
