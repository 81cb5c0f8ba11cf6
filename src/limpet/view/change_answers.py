"""What does a page show about the answers that changed between two runs?"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from limpet.run.comparing.changes import DIRECTIONS, Cells, Changes
from limpet.run.comparing.pairs import Rows
from limpet.run.reading.run_table import Search
from limpet.run.reading.score_table import Flags
from limpet.run.results.filters import Filter
from limpet.run.results.item_record import ItemRecord
from limpet.view.hiding_table import HidingTable
from limpet.view.item_answers import MOST_ROWS, SEARCH_S, Query, error_words, number_in
from limpet.view.shown_values import line_of
from limpet.view.viewed_runs import ViewedRuns, unspelled


class ChangedAnswers:
    """The changed answers of two runs. One thread at a time uses it.

    Args:
        runs: All runs.
        base: The address of the base.
        new: The address of the new run.
        changes: What changed, without hidden scores.
    """

    def __init__(self, runs: ViewedRuns, base: str, new: str, changes: Changes) -> None:
        self._runs, self._changes = runs, changes
        self._sides = ((base, changes.base_rows), (new, changes.new_rows))
        self._chosen: tuple[object, Cells] | None = None
        self._searches: dict[str, tuple[str, HidingTable, Search]] = {}

    def totals(self) -> dict[str, Any]:
        """Return how many answers went in which direction, of all scores and of each."""
        changes = self._changes
        return {
            "total": len(changes.ids) * changes.trials,
            "trials": changes.trials,
            "changed": changes.changed(),
            "scores": {str(one.name): one.totals() for one in changes.scores},
        }

    def answer(self, query: Query) -> dict[str, Any]:
        """Return some rows of the list, or the neighbours of the answer that is named.

        Raises:
            LimpetError: The query is wrong.
        """
        cells, left = self._found(query)
        head = {**self.totals(), "matching": len(cells), "left_to_search": left}
        if "id" in query:
            return {**head, **self._near(cells, query)}
        begin, many = number_in(query, "from", 0), number_in(query, "count", 100)
        some = cells[begin : begin + min(many, MOST_ROWS)]
        base, new = (self._read(address, rows, some) for address, rows in self._sides)
        rows = [
            self._row(int(cell), one, other, query.get("direction", ""))
            for cell, one, other in zip(some, base, new, strict=True)
        ]
        return {**head, "from": begin, "rows": rows}

    def _near(self, cells: Cells, query: Query) -> dict[str, Any]:
        changes, trial = self._changes, number_in(query, "trial", 0)
        cell = changes.cell(query["id"], trial)
        if cell is None:
            cell = changes.cell(unspelled(query["id"]), trial)
        at = [] if cell is None else np.flatnonzero(cells == cell).tolist()
        found: dict[str, Any] = {"at": at[0] if at else None, "before": None, "after": None}
        for name, step in (("before", -1), ("after", 1)):
            if at and 0 <= at[0] + step < len(cells):
                id_, other = changes.where(cells[at[0] + step])
                found[name] = {"id": id_, "trial": other}
        return found

    def _found(self, query: Query) -> tuple[Cells, int]:
        """Return the cells that match a query, in its order, and how many are to be searched."""
        wanted = tuple(query.get(name, "") for name in ("score", "direction", "sort"))
        if self._chosen is None or self._chosen[0] != wanted:
            self._chosen = (wanted, self._changes.chosen(*wanted))
        cells, text = self._chosen[1], query.get("text", "")
        if not text:
            return cells, 0
        either, left = np.zeros(len(self._changes.ids) * self._changes.trials, np.bool_), 0
        for address, rows in self._sides:
            found, more = self._search(address, rows, text)
            either |= found
            left += more
        return cells[either[cells]], left

    def _search(self, address: str, rows: Rows, text: str) -> tuple[Flags, int]:
        with self._runs.use(address) as opened:
            run_table = opened.run_table
            run_table.refresh()
            known = self._searches.get(address)
            if known is None or known[0] != text or known[1] is not run_table:
                known = (text, run_table, Search(run_table, Filter(grep=text)))
                self._searches[address] = known
            left = known[2].go_on(SEARCH_S / 2)
            found = known[2].found.reshape(-1, run_table.table.trials)[:, : self._changes.trials]
        placed = np.zeros((len(rows), found.shape[1]), np.bool_)
        there = (rows >= 0) & (rows < len(found))
        placed[there] = found[rows[there]]
        return placed.reshape(-1), left

    def _read(self, address: str, rows: Rows, some: Cells) -> list[ItemRecord | None]:
        """Return the answers of one run at some cells."""
        with self._runs.use(address) as opened:
            run_table = opened.run_table
            run_table.refresh()
            trials = run_table.table.trials
            at, trial = np.divmod(some, self._changes.trials)
            wanted = (rows[at] * trials + trial)[rows[at] >= 0]
            items = {(item.id, item.trial): item for item in run_table.read(wanted)}
        return [items.get(self._changes.where(int(cell))) for cell in some]

    def _row(
        self, cell: int, base: ItemRecord | None, new: ItemRecord | None, direction: str
    ) -> dict[str, Any]:
        id_, trial = self._changes.where(cell)
        scores = []
        for one in sorted(self._changes.scores, key=lambda one: -abs(one.gains[cell])):
            went = DIRECTIONS[one.directions[cell]]
            if went not in DIRECTIONS[:2] or (went == "same" == direction):
                before, after = one.values(cell)
                scores.append({"name": str(one.name), "direction": went, "base": before,
                               "new": after})  # fmt: skip
        item = new or base
        return {
            "id": id_,
            "trial": trial,
            "input": None if item is None else line_of(item.input),
            "base": _line(base),
            "new": _line(new),
            "scores": scores,
        }


def _line(item: ItemRecord | None) -> Mapping[str, Any]:
    if item is None:
        return {"output": None, "error": None}
    error = None if item.error is None else line_of(error_words(item.error))
    return {"output": line_of(item.output), "error": error}
