"""A run to compare: its scores, and how they were made."""

import os
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from limpet.errors import LimpetError
from limpet.run.comparing.results import RunAbout
from limpet.run.evaluation_result import EvaluationResult
from limpet.run.reading.find_run import choose_run, is_matrix, runs_in
from limpet.run.reading.reader import RunReader, open_run
from limpet.run.reading.requested_cells import ItemsFile
from limpet.run.reading.score_table import Flags, ScoreTable
from limpet.run.results.filters import check_fields, value_in
from limpet.run.results.item_record import ItemRecord
from limpet.shapes import Item, Scale
from limpet.text import count, one_line

AnyRun = str | os.PathLike[str] | EvaluationResult
"""A run's directory, its name under `./runs`, or its result."""


class RunToCompare:
    """A run to compare. Close its reader.

    Args:
        reader: Reads it.
        table: The scores of its cells, if they were read already.

    Attributes:
        name: Its directory, as given.
        table: The scores of its cells.

    Raises:
        LimpetError: It has no scores.
    """

    def __init__(self, reader: RunReader, table: ScoreTable | None = None) -> None:
        _check_kind(reader)
        self.reader = reader
        self.name = str(reader.path)
        self.table: ScoreTable = reader.score_table() if table is None else table

    @property
    def file(self) -> ItemsFile | None:
        """Its items; None: they are not known."""
        return self.reader.items_file if len(self.table.positions) else None

    def scale(self, evaluator: str) -> Scale:
        """Return the scale of an evaluator's scores."""
        return self.reader.run_file.scales.get(evaluator, Scale())

    def fingerprint(self, step: str) -> str:
        """Return the fingerprint of a step; empty: not known."""
        known = self.reader.run_file.steps.get(step)
        return "" if known is None else known.fingerprint

    def about(self) -> RunAbout:
        """Return how far it is."""
        table = self.table
        return RunAbout(
            self.name,
            len(table.ids),
            table.trials,
            int(table.failed.sum()),
            int((~table.answered & ~table.failed).sum()),
            {name: int(failed.sum()) for name, failed in table.failed_scores.items()},
            self.reader.is_running,
            tuple(self._notes()),
        )

    def _notes(self) -> Sequence[str]:
        notes = list(self.reader.remarks)
        if versions := self.reader.by_current_version:
            notes.append(f"{versions[0]:,} of {versions[1]:,} answers are from the current version")
        if not self.reader.is_running and self.reader.run_file.sessions:
            notes += [] if self.reader.session.ended else ["its last session was cut off"]
        return notes

    @property
    def not_needed(self) -> Flags:
        """The items that did not run because `stop_when` was reached: a random selection."""
        table = self.table
        ran = np.asarray((table.answered | table.failed).any(axis=1))
        is_enough = self.reader.session.enough and not self.reader.is_running
        return ~ran if is_enough else np.zeros_like(ran)

    def seen(self, position: int, evaluator: str) -> tuple[str, bytes] | None:
        """Return the digests of what the workflow and an evaluator read of the item at a position.

        None: not known.
        """
        file, known = self.file, self.reader.run_file.steps.get(evaluator)
        if file is None or known is None:
            return None
        [by_evaluator] = file.seen_by(frozenset(known.reads), [position])
        return file.contents[position].seen, by_evaluator

    def item(self, position: int) -> Item:
        """Return the item at a position of `items.jsonl`, which must be known."""
        assert self.file is not None
        return self.file.item(position)

    def values(self, field: str) -> list[Any]:
        """Return the value of a field for each item; `MISSING` where an item does not have it.

        Raises:
            LimpetError: No item has the field.
        """
        read = partial(self.reader.items, whole=not self.reader.knows_rows)
        check_fields([field], read)
        if (file := self.file) is not None:
            return [value_in(file.item(position).row, field) for position in self.table.positions]
        rows = {item.id: item.row for item in read()}
        return [value_in(rows.get(id_, {}), field) for id_ in self.table.ids]

    def read(self, wanted: Collection[int]) -> dict[tuple[int, int], ItemRecord]:
        """Return the results of some items, by their position in the table and by trial."""
        table = self.table
        rows = {table.ids[row]: row for row in wanted}
        positions = {table.positions[row] for row in wanted} if self.file is not None else None
        found = self.reader.items(positions) if wanted else ()
        return {(rows[item.id], item.trial): item for item in found if item.id in rows}


def open_to_compare(run: AnyRun) -> RunToCompare:
    """Open a run and read its scores; see `find_to_compare`."""
    reader = find_to_compare(run)
    try:
        return RunToCompare(reader)
    except BaseException:
        reader.close()
        raise


def find_to_compare(run: AnyRun) -> RunReader:
    """Open a run that can be compared.

    Raises:
        LimpetError: There is no such run, or it has nothing to compare.
        TypeError: It is not a run.
    """
    if isinstance(run, EvaluationResult):
        if run.run is None:
            raise LimpetError(
                "a result that was not saved cannot be compared", hint="give it run=…"
            )
        run = run.run
    if not isinstance(run, (str, os.PathLike)):
        raise TypeError(f"{run!r}: must be a run's directory, its name, or its result")
    path = choose_run(str(Path(run)))
    shown = one_line(str(run))
    if is_matrix(path):
        inside = " ".join(one_line(str(one)) for one in runs_in(path)[:2]) or "BASE NEW"
        raise LimpetError(
            f"{shown}: this directory holds the variants of a matrix",
            hint=f"name two of its runs: limpet compare {inside}",
        )
    reader = open_run(str(path))
    try:
        _check_kind(reader)
    except LimpetError:
        reader.close()
        raise
    return reader


def _check_kind(reader: RunReader) -> None:
    if reader.kind == "map":
        shown = one_line(str(reader.path))
        raise LimpetError(
            f"{shown}: this is the journal of a map, which has no scores to compare",
            hint="compare runs that limpet run or limpet.evaluate made",
        )


def named(run: RunToCompare) -> str:
    """Return the name of a run, on one line."""
    return one_line(run.name)


def counted(number: int, ids: Sequence[str]) -> str:
    """Return a number of items with the first of their ids: `3 items (q1, q2, q3)`."""
    named = ", ".join(map(one_line, ids))
    more = ", …" if number > len(ids) else ""
    return f"{count(number, 'item')} ({named}{more})"
