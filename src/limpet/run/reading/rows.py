"""Of which row is an answer, and what is known of an item that has none?

An answer's record holds its row as it was when it was answered. The file `workflow_output.json`,
written at the end of a session, holds all rows as they were asked then, in the same order as the
keys: also of items that failed, and with expectations that were edited since. It is used where it
fits: no session has begun since, and the ids are those that the columns know.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson

from limpet.datasets.columns import Roles, find_roles
from limpet.errors import DatasetError
from limpet.journal.files import open_to_read
from limpet.run.executing.cells import ANSWER, METADATA, TRACE
from limpet.run.run_file import Session

_OURS = (ANSWER, TRACE, METADATA, "_limpet", "_crc")


class Naming(NamedTuple):
    """How ids are written: those of several trials end in `_rep<N>`.

    Attributes:
        trials: How many there are now.
        mixed: Whether other sessions had one trial where there are several now, or the other way.
    """

    trials: int
    mixed: bool

    def public(self, id_: str, trial: int) -> str:
        """Return the id in the files for others, from one that was written at any time."""
        if not self.mixed:
            return id_
        base = id_.removesuffix(f"_rep{trial}")
        return base if self.trials == 1 else f"{base}_rep{trial}"

    def base(self, public: str, trial: int) -> str:
        """Return the id of the item itself."""
        return public if self.trials == 1 else public.removesuffix(f"_rep{trial}")


def naming_of(sessions: Sequence[Session]) -> Naming:
    """Return how ids are written in a run with these sessions."""
    counts = [session.trials for session in sessions] or [1]
    return Naming(counts[-1], any((one == 1) != (counts[-1] == 1) for one in counts))


def row_of(record: Any) -> dict[str, Any]:
    """Return the row in the public record of an answer."""
    if not isinstance(record, Mapping):
        return {}
    return {name: value for name, value in record.items() if name not in _OURS}


class RowsAsked:
    """The rows as they were last asked, by their place; None where no file tells.

    They are read one after the other and not kept: a line is found by reading those before it.

    Args:
        path: `workflow_output.json`.
        asked: The note of the keys that count: what was written before it is of another time.
    """

    def __init__(self, path: Path, asked: Path) -> None:
        self._path = path
        self._next = 0
        self._latest: tuple[int, dict[str, Any] | None] = (-1, None)
        self._file: BinaryIO | None = None
        try:
            # A session that began since may ask something else.
            self._is_current = path.stat().st_mtime_ns >= asked.stat().st_mtime_ns
        except OSError:
            self._is_current = False

    def at(self, place: int) -> dict[str, Any] | None:
        """Return the row at a place in the dataset."""
        if not self._is_current:
            return None
        if self._latest[0] == place:
            return self._latest[1]
        if self._file is None or place < self._next:
            self.close()
            self._file = open_to_read(self._path)
            self._file.readline()  # the bracket
            self._next = 0
        for _ in range(place - self._next):
            self._file.readline()
        self._next = place + 1
        self._latest = place, _row_in(self._file.readline())
        return self._latest[1]

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _row_in(line: bytes) -> dict[str, Any] | None:
    text = line.rstrip(b",\n")
    # The trace stands last and may be long: the row is read without it where that gives JSON.
    head, found, _ = text.partition(b',"%b":' % ANSWER.encode())
    for candidate in ([head + b"}"] if found else []) + [text]:
        with suppress(orjson.JSONDecodeError):
            record = orjson.loads(candidate)
            return row_of(record) if isinstance(record, dict) and "id" in record else None
    return None


def roles_of(configuration: Mapping[str, Any] | None, row: Mapping[str, Any]) -> Roles | None:
    """Return which columns of a row were asked and expected; None if nobody can tell."""
    dataset = (configuration or {}).get("dataset")
    named = dataset if isinstance(dataset, Mapping) else {}
    wanted = {role: _column(named.get(role), row) for role in ("id", "input", "expected")}
    try:
        return find_roles("run.json", row.keys(), **wanted)
    except DatasetError:
        return None


def _column(name: Any, row: Mapping[str, Any]) -> str | None:
    return name if isinstance(name, str) and name in row else None
