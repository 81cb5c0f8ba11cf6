"""How did people label answers, in their files and on the live page (`labels.jsonl`)?"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from limpet.datasets.csv_files import CsvForm
from limpet.datasets.rows import Flaw, Row, SourceTable
from limpet.datasets.sources import table_of, table_of_file
from limpet.errors import DiskFullError, JournalError, LimpetError, RunLockedError
from limpet.journal.files import NO_SPACE, open_for_append, open_to_read, sync_file, write_all
from limpet.journal.layout import Layout
from limpet.journal.lock import Lock
from limpet.json_values import dumps
from limpet.run.calibrating.sampling import DRAWN, LABEL
from limpet.text import count, hint_near, one_line, quoted

# ---- What did people write into their files? ----------------------------------------------------
#
# A CSV or Excel file of `limpet sample`, filled in; or any table with the columns `id` and
# `label`.

_PEOPLE = ("person", "annotator")
_MOST = 5


class Said(NamedTuple):
    """A row of a file.

    Attributes:
        where: The file and the line.
        id: The item's id as written.
        trial: The trial as written; None: not written.
        label: What the person wrote; None: nothing yet.
        drawn: The column `drawn`, which identifies the answer; empty: there is none.
        person: Who; empty: not said.
        evaluator: The evaluator, or one of its scores; empty: any.
        note: What else the person wrote.
        seen: Whether the scores were in view.
        at: When it was said; empty: not known.
    """

    where: str
    id: str
    trial: Any
    label: Any
    drawn: str
    person: str
    evaluator: str = ""
    note: str = ""
    seen: bool = False
    at: str = ""


def read_labels(
    source: Any, *, column: str | None = None, names: Collection[str] = ()
) -> list[Said]:
    """Return the rows that people labelled, and those not labelled yet.

    Args:
        source: A path, a list of dicts, or a DataFrame.
        column: The column of the labels; None: `label`.
        names: Rows with another name in the column `evaluator` are left out.

    Raises:
        LimpetError: It cannot be read, or a column is missing.
    """
    table = _table(source)
    rows, flaws = said_in(table, column)
    said = [one for one in rows if not one.evaluator or one.evaluator in names]
    if flaws:
        flaw = flaws[0]
        raise LimpetError(f"{table.at(flaw.number)}: {flaw.reason}: {one_line(flaw.value)}")
    if not said:
        raise LimpetError(f"{table.location}: there are no rows")
    return said


def said_in(
    table: SourceTable, column: str | None = None, *, strict: bool = True
) -> tuple[list[Said], list[Flaw]]:
    """Return the rows of a table, and those that cannot be read.

    Args:
        table: The table.
        column: The column of the labels; None: `label`.
        strict: Whether a column that a row does not have is an error.

    Raises:
        LimpetError: It cannot be read, or a column is missing.
    """
    said: list[Said] = []
    flaws: list[Flaw] = []
    with closing(table.rows) as rows:
        for row in rows:
            if isinstance(row, Flaw):
                flaws.append(row)
                continue
            try:
                said += filter(None, [_said(table, row, column)])
            except LimpetError as error:
                if strict:
                    raise
                flaws.append(Flaw(row.number, row.values, str(error)))
    return said, flaws


def _table(source: Any) -> SourceTable:
    if not isinstance(source, (str, os.PathLike)):
        return table_of(source, None)
    table = table_of_file(source)
    if Path(source).suffix.lower() == ".csv" and _has_semicolons(source):
        table.rows.close()
        return table_of_file(source, form=CsvForm(delimiter=";"))
    return table


def _has_semicolons(source: "str | os.PathLike[str]") -> bool:
    """Return whether the header is one column with semicolons, as some Excels write."""
    with closing(table_of_file(source).rows) as rows:
        first = next(rows, None)
    return isinstance(first, Row) and len(first.values) == 1 and ";" in next(iter(first.values))


def _said(table: SourceTable, row: Row, column: str | None) -> Said | None:
    """Return what a row says; None: it is empty."""
    cells = {str(name).strip().casefold(): value for name, value in row.values.items()}
    if all(_is_empty(value) for value in cells.values()):
        return None
    named = (column or LABEL).strip().casefold()
    for name in (named, "id"):
        if name not in cells:
            known = ", ".join(map(one_line, row.values))
            raise LimpetError(
                f"{table.location}: there is no column {quoted(name)}; the columns are {known}",
                hint=hint_near(name, list(row.values))
                or "name the column of the labels with --label-column (in Python: label_column=)",
            )
    label = cells[named]
    trial = cells.get("trial")
    return Said(
        table.at(row.number),
        _text(cells.get("id")),
        None if _is_empty(trial) else trial,
        None if _is_empty(label) else label,
        _text(cells.get(DRAWN)),
        next((_text(cells[name]) for name in _PEOPLE if name in cells), ""),
        _text(cells.get("evaluator")),
        _text(cells.get("note")),
        cells.get("seen") is True,
        _text(cells.get("at")),
    )


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():  # a spreadsheet has no integers
        value = int(value)
    return "" if value is None else str(value)


def listed(names: Sequence[str]) -> str:
    """Return the first few names, for a message."""
    more = f" and {len(names) - _MOST:,} more" if len(names) > _MOST else ""
    return f"{', '.join(map(one_line, names[:_MOST]))}{more}"


# ---- `labels.jsonl`: the labels that people gave on the live page. ------------------------------
#
# One JSON object per line: `id`, `trial`, `label`, `evaluator`, `person`, `note`, `drawn` (which
# answer it is about), `seen` (the scores were in view) and `at`. Another line changes a label, and
# a line without a label retracts it. Nothing is ever removed from the file.
#
# A label is kept once its line is on disk: `add` returns after the sync. The file has a lock of its
# own, so that several pages can write while a session works on the run. Half a line, left by a
# killed process, is ignored: it gets a line end before the next line, and stays.

_PATIENCE_S, _AGAIN_S = 10.0, 0.01
"""How long a label waits for another process to write one."""


class LabelsLog:
    """The file of one run. One thread at a time uses it.

    Args:
        layout: Where the run's files are.

    Attributes:
        said: Its lines, oldest first.
        remark: What could not be read; empty: nothing.
        state: A value that changes with the file.
    """

    def __init__(self, layout: Layout) -> None:
        self._path, self._lock = layout.labels, layout.labels_lock
        self.state: object = ()
        self.said: list[Said] = []
        self.remark = ""

    def refresh(self) -> bool:
        """Read the file if it changed; return whether it did.

        Raises:
            LimpetError: It cannot be read.
        """
        state = self._now()
        if state == self.state:
            return False
        said: list[Said] = []
        remark = ""
        if state is not None:
            table = table_of_file(self._path)
            said, flaws = said_in(table, strict=False)
            if flaws:
                lines, where = count(len(flaws), "line"), table.at(flaws[0].number)
                remark = f"{lines} in {self._path.name} cannot be read: {where}"
        self.state, self.said, self.remark = state, said, remark
        return True

    def _now(self) -> object:
        try:
            with open_to_read(self._path) as file:  # a pipe would be waited for
                about = os.fstat(file.fileno())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(f"{self._shown}: cannot be read: {error.strerror}") from error
        return about.st_ino, about.st_size, about.st_mtime_ns

    def add(self, make: Callable[[], Mapping[str, Any] | None]) -> None:
        """Add a line, and return when it is on disk.

        Args:
            make: Returns the line, given the locked file's content; None: nothing to add.

        Raises:
            JournalError: It could not be written, and is not in the file.
        """
        with self._locked():
            self.refresh()
            fields = make()
            if fields is None:
                return
            line = dumps(fields).encode() + b"\n"
            try:
                self._append(line)
            except OSError as error:
                raise self._unwritable(error) from error
            self.refresh()

    def _append(self, line: bytes) -> None:
        fd = open_for_append(self._path)
        try:
            end = os.fstat(fd).st_size
            if end and os.pread(fd, 1, end - 1) != b"\n":
                line = b"\n" + line
            try:
                write_all(fd, [line])
                sync_file(fd)
            except OSError:
                with suppress(OSError):  # else half a line stays, which is ignored
                    os.ftruncate(fd, end)
                raise
        finally:
            os.close(fd)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                lock = Lock(self._lock)
                break
            except RunLockedError as error:
                if time.monotonic() >= until:
                    raise RunLockedError(
                        f"{self._shown}: another process is writing to it",
                        hint="try again",
                        holder=error.holder,
                    ) from error
                time.sleep(_AGAIN_S)
            except OSError as error:
                raise self._unwritable(error) from error
        try:
            yield
        finally:
            lock.release()

    @property
    def _shown(self) -> str:
        return one_line(str(self._path))

    def _unwritable(self, error: OSError) -> JournalError:
        if error.errno in NO_SPACE:
            return DiskFullError(
                f"{self._shown}: {error.strerror}",
                hint="free some space on that disk, and try again",
            )
        return JournalError(f"{self._shown}: cannot be written: {error.strerror}")


def counting(said: Iterable[Said]) -> list[Said]:
    """Return the lines that count: the last for each person, answer and evaluator.

    A label given after the scores were shown does not replace an earlier one.
    """
    found: dict[object, Said] = {}
    for one in said:
        key = (one.id, str(one.trial or 0), one.person, one.evaluator)
        before = found.get(key)
        if one.label is None:
            found.pop(key, None)
        elif before is None or before.drawn != one.drawn or before.seen or not one.seen:
            found.pop(key, None)  # so that it comes last
            found[key] = one
    # Between a label for an evaluator and one for one of its scores, the later counts.
    return list({(one.id, str(one.trial or 0), one.person): one for one in found.values()}.values())
