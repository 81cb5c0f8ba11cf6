"""The table of a run's items, as arrays of numbers that grow with the run.

A page shows a hundred rows of a million: arrays filter and sort them, and only the rows shown are
read. New results are added; nothing is read twice.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limpet.errors import LimpetError
from limpet.run.reading.items import ItemsReader
from limpet.run.reading.reader import RunReader
from limpet.run.reading.requested_cells import RequestedCell
from limpet.run.reading.saved_numbers import packed_arrays
from limpet.run.reading.score_table import Flags, Floats, GrowingTable, LabelTable, ScoreTable
from limpet.run.reading.totals import GrowingTotals, add_up, add_up_growing
from limpet.run.results.filters import Filter
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_words import ScoreName, no_such_score
from limpet.run.results.summary import Numbers
from limpet.text import hint_near, one_line, quoted


class RunTable:
    """The items of a run and the results of each. It reads nothing before `refresh`.

    A row is an item in a trial: the trials of the first item, then those of the second. Its
    position is its number in this order.

    Args:
        reader: Reads the run.

    Attributes:
        reader: Reads the run.
        version: Changes whenever the table does.
    """

    def __init__(self, reader: RunReader) -> None:
        self.reader = reader
        self.version = 0
        self._mark: object = None
        self._items: ItemsReader | None = None
        self._totals: GrowingTotals | None = None
        self._numbers: Numbers | None = None
        self._growing: GrowingTable | None = None
        self._summary: dict[str, Any] | None = None

    @property
    def table(self) -> ScoreTable:
        """What each cell scored."""
        assert self._growing is not None
        return self._growing.table

    def __len__(self) -> int:
        return self.table.answered.size

    def refresh(self) -> bool:
        """Read new results; return whether there were any."""
        if self._mark is not None:
            self.reader.refresh()
        mark = self.reader.mark()
        if mark == self._mark:
            return False
        self._mark = mark
        self._summary = None
        self.version += 1
        totals = self._totals
        if totals is None or not totals.is_of(self.reader.results) or not totals.add_new():
            self._read_all()
        elif self._growing is not None:
            self._growing.add(packed_arrays(totals.numbers))
        return True

    def _read_all(self) -> None:
        self._items = items = self.reader.results
        self._totals = self._numbers = None
        saved = None if self.reader.is_running else self.reader.saved_numbers()
        if saved is not None:
            cells, arrays = saved.cells, saved.arrays
        else:
            self._totals = add_up_growing(items)
            self._numbers = self._totals.numbers if self._totals else add_up(items)
            cells, arrays = self._numbers.items, packed_arrays(self._numbers)
        self._growing = GrowingTable(items.requested, cells)
        self._growing.add(arrays)

    def summary(self) -> dict[str, Any]:
        """Return the current numbers of `summary.json`."""
        if self._summary is None:
            if self.reader.is_running and self._numbers is not None:
                in_flight = self.reader.snapshot(whole=False).steps[0].in_flight
                self._summary = self._numbers.summary(len(in_flight))
            else:
                self._summary = self.reader.summary(self._numbers)
        return self._summary

    def where(self, position: int) -> tuple[str, int]:
        """Return the id and the trial of a row."""
        row, trial = divmod(position, self.table.trials)
        return self.table.ids[row], trial

    def position(self, id_: str, trial: int) -> int | None:
        """Return the position of an item in a trial; None: it has none."""
        try:
            row = self.table.ids.index(id_)
        except ValueError:
            return None
        return row * self.table.trials + trial if 0 <= trial < self.table.trials else None

    def read(self, positions: Iterable[int], *, whole: bool = True) -> Iterator[ItemRecord]:
        """Yield the results at some positions.

        Args:
            positions: The positions.
            whole: Decode the answers, too; else only the facts about them.
        """
        assert self._items is not None
        requested = self._items.requested
        return self._items.read(
            (requested[number] for number in self._numbers_at(positions)), whole=whole
        )

    def cells(self, positions: Iterable[int]) -> Iterator[tuple[int, RequestedCell]]:
        """Yield the cells at some positions, each after its position; a position may have none."""
        assert self._items is not None
        for position in positions:
            for number in self._numbers_at([position]):
                yield position, self._items.requested[number]

    def _numbers_at(self, positions: Iterable[int]) -> Iterator[int]:
        assert self._growing is not None
        trials = self.table.trials
        for position in positions:
            number = self._growing.grid.number(*divmod(int(position), trials))
            if number is not None:
                yield number


# ---- Which rows of the table are wanted, and in which order? ------------------------------------

Positions = NDArray[np.intp]
POSITION, SECONDS, COST = "position", "seconds", "cost"
"""What to sort by besides scores; the first is the order of the dataset."""


@dataclass(frozen=True, slots=True)
class TableQuery:
    """Conditions that the arrays can answer; all must hold.

    Limits may also be of `seconds` and `cost`, unless a score has this name.

    Attributes:
        failed: Only items with a failure; a name: with one of this step.
        below: What scores must be below, by name.
        above: What scores must be above, by name.
        least: What scores must be or exceed, by name.
        most: What scores must not exceed, by name.
        labels: The label that scores must have, by name.
        sort: What to sort by, lowest first: a score, `seconds`, `cost`, `position`; `-` before it
            reverses the order. Rows without a value come last in both.
    """

    failed: bool | str = False
    below: Mapping[str, float] = field(default_factory=dict)
    above: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    sort: str = POSITION
    least: Mapping[str, float] = field(default_factory=dict)
    most: Mapping[str, float] = field(default_factory=dict)

    def holds(self, table: ScoreTable) -> Flags:
        """Return for which rows all conditions hold.

        Raises:
            LimpetError: No score or step has this name.
        """
        held = np.ones(table.answered.size, np.bool_)
        if self.failed:
            held &= failed_rows(table) if self.failed is True else _failed_in(table, self.failed)
        for limits, compare in (
            (self.below, np.less),
            (self.above, np.greater),
            (self.least, np.greater_equal),
            (self.most, np.less_equal),
        ):
            for name, limit in limits.items():
                held &= compare(_limited(table, name), limit)
        for name, label in self.labels.items():
            labels = _labels(table, name)
            at = labels.names.index(label) if label in labels.names else len(labels.names)
            held &= labels.numbers.reshape(-1) == at
        return held

    def ordered(self, table: ScoreTable, positions: Positions) -> Positions:
        """Return positions in the wanted order.

        Raises:
            LimpetError: Nothing has this name.
        """
        # A score's name may begin with "-".
        is_name = self.sort in {str(name) for name in (*table.scores, *table.labels)}
        descending = self.sort.startswith("-") and not is_name
        name = self.sort[1:] if descending else self.sort
        if name == POSITION:
            return positions[::-1] if descending else positions
        values = _values(table, name)[positions]
        return positions[np.argsort(-values if descending else values, kind="stable")]


def _failed_in(table: ScoreTable, step: str) -> Flags:
    steps = {"workflow": table.failed, **table.failed_scores}
    if step not in steps:
        names = ", ".join(map(one_line, steps))
        raise LimpetError(
            f"no step is called {quoted(step)}; known: {names}", hint=hint_near(step, [*steps])
        )
    flags: Flags = steps[step].reshape(-1)
    return flags


def failed_rows(table: ScoreTable) -> Flags:
    """Return which rows have a failure, of any step."""
    failed = table.failed.reshape(-1).copy()
    for flags in table.failed_scores.values():
        failed |= flags.reshape(-1)
    return failed


def _values(table: ScoreTable, name: str) -> Floats:
    by_name = {SECONDS: table.seconds, COST: table.costs}
    if name in by_name:
        return by_name[name].reshape(-1)
    if _named(table.scores, name) is not None:
        return _scores(table, name)
    labels = _labels(table, name)
    ranks = np.full(len(labels.names) + 1, np.nan)  # the last is that of no label
    ranks[np.argsort(labels.names)] = np.arange(len(labels.names))
    return ranks[labels.numbers.reshape(-1)]


def _limited(table: ScoreTable, name: str) -> Floats:
    is_score = any(str(known) == name for known in (*table.scores, *table.labels))
    is_amount = name in (SECONDS, COST) and not is_score
    return _values(table, name) if is_amount else _scores(table, name)


def _scores(table: ScoreTable, name: str) -> Floats:
    found = _named(table.scores, name)
    if found is None:
        raise no_such_score(name, map(str, (*table.scores, *table.labels)))
    scores: Floats = found.reshape(-1)
    return scores


def _labels(table: ScoreTable, name: str) -> LabelTable:
    found = _named(table.labels, name)
    if found is None:
        raise no_such_score(name, map(str, (*table.scores, *table.labels)))
    labels: LabelTable = found
    return labels


def _named(columns: Mapping[ScoreName, Any], name: str) -> Any:
    return next((column for known, column in columns.items() if str(known) == name), None)


# ---- Which items contain a text, or have a value in a field? ------------------------------------
#
# The arrays do not hold texts: the items themselves are read, some in each call, so that none takes
# long. Only items that have changed since are searched again.

_CHUNK = 200


class Search:
    """A search through the items of a run.

    Args:
        run_table: The items.
        wanted: The conditions.
    """

    def __init__(self, run_table: RunTable, wanted: Filter) -> None:
        self._run_table = run_table
        self._filter = wanted
        self._needs_answers = bool(wanted.grep or wanted.disagree)
        self._searched = np.zeros(len(run_table), np.int16)
        self.found: Flags = np.zeros(len(run_table), np.bool_)

    def go_on(self, budget_s: float) -> int:
        """Search for `budget_s` seconds; return how many items are left."""
        state = self._state()
        left = np.flatnonzero(self._searched != state)
        until, at = time.monotonic() + budget_s, 0
        while at < len(left) and (at == 0 or time.monotonic() < until):
            some = left[at : at + _CHUNK]
            items = self._run_table.read(some, whole=self._needs_answers)
            matching = {(item.id, item.trial) for item in self._filter.matching(items)}
            self.found[some] = [
                self._run_table.where(int(position)) in matching for position in some
            ]
            self._searched[some] = state[some]
            at += len(some)
        return max(0, len(left) - at)

    def _state(self) -> "np.ndarray[tuple[int], np.dtype[np.int16]]":
        """Return a number for each item that changes with its results; never 0."""
        table = self._run_table.table
        state = np.ones(len(self._run_table), np.int16)
        if self._needs_answers:
            flags = [table.answered, table.failed, *table.failed_scores.values()]
            scored = [~np.isnan(values) for values in table.scores.values()]
            labelled = [labels.numbers >= 0 for labels in table.labels.values()]
            for column in (*flags, *scored, *labelled):
                state += column.reshape(-1)
        return state
