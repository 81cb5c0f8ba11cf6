"""The results of a run, item by item and in numbers.

Sessions keep what takes long to read in `index/`. It is used only if it is proven to match the
files.
"""

import heapq
import json
import math
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limpet.datasets.selection import Selection
from limpet.errors import JournalError
from limpet.journal.files import read_whole
from limpet.run.planning.items_file import identity_of
from limpet.run.reading.items import ItemsReader
from limpet.run.reading.requested_cells import ItemsFile, RequestedCells
from limpet.run.reading.run_files import RunFiles
from limpet.run.reading.saved_numbers import (
    PackedArrays,
    SavedNumbers,
    digest_of_inputs,
    packed_arrays,
    save_numbers,
    saved_numbers,
)
from limpet.run.reading.scores import ScoresReader
from limpet.run.reading.totals import add_up
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_words import ScoreName
from limpet.run.results.summary import Numbers
from limpet.run.run_file import RunFile
from limpet.shapes import Item

if TYPE_CHECKING:
    from limpet.run.reading.score_table import ScoreTable


_LEAST_ITEMS, _MOST_PASSES = 2_000, 50
"""How many items to read at once with all their trials, and the most passes."""


class RunResults(RunFiles):
    """The results of a run, read from its files. Close it, or use it with `with`."""

    _requested: tuple[Any, ...] = ()

    def _what_is_requested(self) -> tuple[Any, ...]:
        file, about = self.items_file, self.run_file
        identity = None if file is None else file.identity
        what = (identity, about.steps, about.selections, self.trials, self.evaluators, about.scales)
        return *what, self.counting.outdated

    @cached_property
    def _items(self) -> ItemsReader:
        if identity_of(self.layout) != self.items_identity:  # a session has begun meanwhile
            self.refresh()
        self._requested = self._what_is_requested()
        file, steps = self.items_file, self.run_file.steps
        answering = steps.get(self.step)
        requested = RequestedCells(
            self.step,
            self.columns[self.step],
            self.failures,
            file,
            "" if answering is None else answering.fingerprint,
            self._positions(file),
            self.trials,
            self.counting,
        )
        evaluators = [
            ScoresReader(name, self.columns[name], steps.get(name), file, self.failures)
            for name in self.evaluators
        ]
        return ItemsReader(requested, evaluators, self.run_file.scales, self.run_file.names.id)

    def _positions(self, file: ItemsFile | None) -> Sequence[int]:
        """Return the positions of the items that the run reports on."""
        if file is None:
            return ()
        if self.run_file.selections in ([], [Selection()]):
            return range(len(file))
        return self.run_file.reported([Item(id_, None) for id_ in file.ids()])

    @property
    def results(self) -> ItemsReader:
        """The results of each item. A refresh keeps them while the request is the same."""
        return self._items

    def mark(self) -> tuple[Any, ...]:
        """Return a value that changes whenever the run is written to."""
        session = (len(self.run_file.sessions), self.began_at, self.session.ended)
        people = self.layout.people.stat().st_mtime_ns if self.layout.people.exists() else 0
        return *self._ends().values(), self.items_identity, *session, people, self.is_running

    def __len__(self) -> int:
        """Return the number of items, counting each trial."""
        return len(self._items.requested)

    def items(
        self, positions: Container[int] | None = None, *, whole: bool = True
    ) -> Iterator[ItemRecord]:
        """Yield each item in each trial, in the order of the dataset, trial by trial.

        Args:
            positions: The positions of the items to read; None: all.
            whole: Decode the answers, too; else only the facts about them and, unless `items.jsonl`
                is missing or damaged, their rows.
        """
        return self._items.read(self._items.requested.cells(positions), whole=whole)

    @property
    def requested(self) -> RequestedCells:
        """The answer that counts for each of `items`, in that order."""
        return self._items.requested

    def items_at(self, numbers: Iterable[int]) -> Iterator[ItemRecord]:
        """Yield some of `items`, by their numbers in that order, from 0."""
        return self._items.read(self.requested[number] for number in numbers)

    @property
    def knows_rows(self) -> bool:
        """Whether rows can be read without the answers, from `items.jsonl`."""
        return self._items.requested.file is not None

    def trials_of_items(self) -> Iterator[list[ItemRecord]]:
        """Yield all trials of each item, in the order of the dataset, in bounded memory."""
        positions = self._items.requested.positions
        some: Sequence[Container[int] | None] = [None]  # the positions are not known
        if self._items.requested.file is not None:
            length = max(_LEAST_ITEMS, len(positions) // _MOST_PASSES)
            some = [
                frozenset(positions[at : at + length]) for at in range(0, len(positions), length)
            ]
        for chunk in some:
            by_id: dict[str, list[ItemRecord]] = {}
            for item in self.items(chunk):
                by_id.setdefault(item.id, []).append(item)
            yield from by_id.values()

    def ids(self) -> Iterator[str]:
        """Yield the id of each item."""
        file = self._items.requested.file
        return (
            iter(cell.id for cell in self._items.requested.cells()) if file is None else file.ids()
        )

    # ---- numbers ---------------------------------------------------------------------------------

    def numbers(self) -> Numbers:
        """Return the current numbers of all items."""
        return add_up(self._items)

    def score_table(self) -> "ScoreTable":
        """Return the scores of the cells, as arrays."""
        cells, packed = self.scored()
        # NumPy, which most commands do not need.
        module = import_module("limpet.run.reading.score_table")
        table: ScoreTable = module.score_table(self._items.requested, cells, packed)
        return table

    def scored(self) -> tuple[int, PackedArrays]:
        """Return the number of cells, and their scores."""
        saved = self.saved_numbers()
        if saved is not None:
            return saved.cells, saved.arrays
        numbers = self.numbers()
        return numbers.items, packed_arrays(numbers)

    def saved_numbers(self) -> SavedNumbers | None:
        """Return the numbers that the last session saved; None: there are none."""
        inputs = self.inputs()
        return None if inputs is None else saved_numbers(self.layout, inputs)

    def inputs(self) -> str | None:
        """Return a digest of all that determines the numbers; None: not known."""
        if identity_of(self.layout) != self.items_identity:  # a later session wrote it
            return None
        return digest_of_inputs(self.layout, self.run_file, self._ends())

    def save_numbers(self, run_file: RunFile, numbers: Numbers) -> None:
        """Save the numbers for later readers, while the run is locked.

        Args:
            run_file: The content of `run.json` at the end of the session.
            numbers: The numbers of all results.

        Raises:
            OSError: They cannot be written.
        """
        inputs = digest_of_inputs(self.layout, run_file, self._ends())
        if inputs is not None:
            save_numbers(self.layout, inputs, numbers)

    def _ends(self) -> dict[Path, int]:
        steps = (self.columns[name] for name in (self.step, *self.evaluators))
        return {path: _size(path) for path in (*(by.path for by in steps), self.layout.failures)}

    def summary_written(self) -> dict[str, Any]:
        """Return `summary.json` as the last session wrote it; empty if it is missing."""
        with suppress(OSError, ValueError, JournalError):
            known = json.loads(read_whole(self.layout.home / "summary.json"))
            return known if isinstance(known, dict) else {}
        return {}


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


# ---- Which cells have the lowest scores? --------------------------------------------------------


def worst_cells(run: RunResults, name: ScoreName, most: int, *, highest: bool = False) -> list[int]:
    """Return the numbers of the cells with the lowest scores, the lowest first.

    Args:
        run: The run.
        name: The score; if it means several, the lowest counts.
        most: How many at most. Cells without a score are left out.
        highest: Return the highest scores instead, the highest first.
    """
    _, packed = run.scored()
    lowest: dict[int, float] = {}
    for kind, *names in packed:
        if kind == "cells" and names[0] == name.evaluator and name.part in (None, names[1]):
            cells = memoryview(packed["cells", *names].content).cast("Q")
            values = memoryview(packed["values", *names].content).cast("d")
            for cell, value in zip(cells, values, strict=True):
                if not math.isnan(value):
                    lowest[cell] = min(value, lowest.get(cell, value))
    sign = -1 if highest else 1
    return [cell for _, cell in heapq.nsmallest(most, ((sign * v, c) for c, v in lowest.items()))]
