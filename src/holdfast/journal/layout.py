"""Where do a journal's files lie?"""

import re
from dataclasses import dataclass
from pathlib import Path

_COLUMN = "_output.jsonl"


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
    def about(self) -> Path:
        """What was asked."""
        return self.home / "run.json"


def layout_at(path: str | Path) -> Layout:
    """Return the places of the journal at `path`: a directory, or a file that is its column."""
    path = Path(path).expanduser()
    if path.is_dir() or (not path.exists() and path.suffix not in (".jsonl", ".ndjson", ".json")):
        return Layout(path)
    return Layout(path.with_name(f"{path.name}.d"), path)
