"""The table of all items of a run, as columns that grow with it.

A page shows a hundred rows of a million: they are filtered and sorted by columns of numbers, and
only the rows that are looked at are read. What is new is added; nothing is read twice.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from limpet.run.reading.asked_cells import AskedCell
from limpet.run.reading.growing_totals import GrowingTotals
from limpet.run.reading.items import ItemsReader
from limpet.run.reading.noted_scores import packed_arrays
from limpet.run.reading.reader import RunReader
from limpet.run.reading.score_table import GrowingTable, ScoreTable
from limpet.run.results.evaluation_result import ItemResult
from limpet.run.results.summary import Numbers


class Heads:
    """The items of a run and what came out of each. It reads nothing before `refresh`.

    A row is an item in a trial: the trials of the first item, then those of the second. Its place
    is its number in this order.

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
        """Read what is new; return whether there was something."""
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
        known = None if self.reader.is_running else self.reader.noted_scores()
        if known is None:
            self._totals = self.reader.growing_totals()
            self._numbers = self._totals.numbers if self._totals else self.reader.numbers()
            known = self._numbers.items, packed_arrays(self._numbers)
        self._growing = GrowingTable(items.asked, known[0])
        self._growing.add(known[1])

    def summary(self) -> dict[str, Any]:
        """Return the current numbers of `summary.json`."""
        if self._summary is None:
            if self.reader.is_running and self._numbers is not None:
                in_flight = self.reader.snapshot(whole=False).steps[0].in_flight
                self._summary = self._numbers.summary(len(in_flight))
            else:
                self._summary = self.reader.summary(self._numbers)
        return self._summary

    def where(self, place: int) -> tuple[str, int]:
        """Return the id and the trial of a row."""
        row, trial = divmod(place, self.table.trials)
        return self.table.ids[row], trial

    def place(self, id_: str, trial: int) -> int | None:
        """Return the place of an item in a trial; None: it has none."""
        try:
            row = self.table.ids.index(id_)
        except ValueError:
            return None
        return row * self.table.trials + trial if 0 <= trial < self.table.trials else None

    def read(self, places: Iterable[int], *, whole: bool = True) -> Iterator[ItemResult]:
        """Yield the results at some places.

        Args:
            places: The places.
            whole: Decode the answers, too; else only the facts about them.
        """
        assert self._items is not None
        asked = self._items.asked
        return self._items.read((asked[number] for number in self._numbers_at(places)), whole=whole)

    def cells(self, places: Iterable[int]) -> Iterator[tuple[int, AskedCell]]:
        """Yield the cells at some places, each after its place; a place may have none."""
        assert self._items is not None
        for place in places:
            for number in self._numbers_at([place]):
                yield place, self._items.asked[number]

    def _numbers_at(self, places: Iterable[int]) -> Iterator[int]:
        assert self._growing is not None
        trials = self.table.trials
        for place in places:
            number = self._growing.grid.number(*divmod(int(place), trials))
            if number is not None:
                yield number
