"""What are the numbers of a run, without reading its items one by one?

Each column is read once, in the order of its file, and added up as it is read. No number of a
summary depends on the order, so this gives exactly what adding up the items gives, several times
faster. A run without redos and earlier versions is added up as it grows: `growing_totals`.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import compress

from limpet.run.reading.facts_reader import FactsReader
from limpet.run.reading.growing_totals import AddedLines, GrowingTotals
from limpet.run.reading.items import ItemsReader
from limpet.run.reading.noted import TotalsNote
from limpet.run.reading.scores import ScoresReader
from limpet.run.results.score_numbers import VersionCounts
from limpet.run.results.score_words import ScoreName
from limpet.run.results.summary import Numbers
from limpet.run.results.table import mean
from limpet.run.watcher import ScoreSoFar, score_so_far

_Outputs = tuple[list[str], list[str]]
"""The digests of each cell's answer, alone and with its trace; empty: it has none."""


def add_up(items: ItemsReader, note: TotalsNote | None = None) -> Numbers:
    """Return the numbers of a run.

    Args:
        items: Reads the items.
        note: What a session noted of them.
    """
    growing = add_up_growing(items, note)
    if growing is not None:
        return growing.numbers
    if _finds_by_keys(items):
        return Totals(items).numbers
    names = [evaluator.name for evaluator in items.evaluators]
    numbers = Numbers(names, items.asked.trials, items.scales)
    for item in items.read(items.asked.cells(), whole=False):
        numbers.add(item)
    return numbers


def add_up_growing(
    items: ItemsReader,
    note: TotalsNote | None = None,
    is_enough: Callable[[], bool] = lambda: False,
) -> GrowingTotals | None:
    """Return the totals of a run, to which what is new can be added; None: it cannot.

    Args:
        items: Reads the items.
        note: What a session noted of them.
        is_enough: Asked now and then: whether to leave the rest for the next time.
    """
    if not _finds_by_keys(items):
        return None
    if note is not None:
        with suppress(LookupError, TypeError, ValueError):  # it was noted by another version
            growing = GrowingTotals(items, note)
            if growing.add_new(is_enough):
                return growing
    growing = GrowingTotals(items)
    return growing if growing.add_new(is_enough) else None


def _finds_by_keys(items: ItemsReader) -> bool:
    """Return whether all answers and scores are found by their keys."""
    return items.asked.have_keys and all(evaluator.has_keys for evaluator in items.evaluators)


def scores_so_far(numbers: Numbers) -> dict[str, dict[str, ScoreSoFar]]:
    """Return the scores of each evaluator so far, by name."""
    return {
        evaluator: {
            str(ScoreName(evaluator, part)): score_so_far(
                mean(scores.values) or 0.0,
                len(scores.values),
                min(scores.values),
                max(scores.values),
                of_evaluator.scale,
            )
            for part, scores in of_evaluator.parts.items()
        }
        for evaluator, of_evaluator in numbers.scores.items()
    }


class Totals(AddedLines):
    """Adds up a run whatever its history, once.

    Args:
        items: Reads the items.
    """

    def __init__(self, items: ItemsReader) -> None:
        super().__init__(items)
        self._failures = items.failures.latest
        outputs = self._add_all_answers()
        for evaluator in items.evaluators:
            self._add_all_scores(evaluator, outputs[evaluator.reads_trace])

    def _add_all_answers(self) -> _Outputs:
        numbers, step, column = self.numbers, self._asked.step, self._asked.column
        keys = self._asked.counting_keys()
        cells = dict(zip(keys, range(len(keys)), strict=True))
        alone, traced = [""] * len(keys), [""] * len(keys)
        is_done = bytearray(len(keys))
        for _, some, lines in column.groups(cells):
            for number, outputs in self._add_answers(some, lines):
                is_done[number] = True
                alone[number], traced[number] = outputs
        self._add_versions(numbers.versions, step, column, cells, is_done)
        for number in self._left(cells.values(), is_done):
            failed = self._failures.get((step, self._asked[number].key.hex()))
            if failed is not None:
                self._add_failed_answer(failed, number)
        return alone, traced

    def _add_all_scores(self, evaluator: ScoresReader, outputs: list[str]) -> None:
        name, column, scores = evaluator.name, evaluator.column, self.numbers.scores[evaluator.name]
        cells = self._score_keys(evaluator, outputs)
        is_done = bytearray(len(outputs))
        counting = cells
        if evaluator.outdated:
            counting = {key: number for key, number in cells.items() if evaluator.counts(key)}
        for _, some, lines in column.groups(counting):
            self._add_scores(evaluator, some, lines)
            for number in some:
                is_done[number] = True
        self._add_versions(scores.versions, name, column, cells, is_done)
        left = {*self._left(cells.values(), is_done)}
        for key, number in cells.items() if left else ():
            failed = self._failures.get((name, key.hex())) if number in left else None
            if failed is not None and evaluator.counts(key, failed.generation):
                self._add_failed_score(name, failed, number)

    def _score_keys(self, evaluator: ScoresReader, outputs: list[str]) -> dict[bytes, int]:
        """Return the numbers of the answered cells by the keys of their scores."""
        places = self._asked.places
        cells: dict[bytes, int] = {}
        for trial in range(self._asked.trials):
            first = trial * len(places)
            of_trial = outputs[first : first + len(places)]
            answered = list(compress(range(first, first + len(places)), of_trial))
            keys = evaluator.keys(trial, compress(places, of_trial), filter(None, of_trial))
            cells.update(zip(keys, answered, strict=True))
        return cells

    def _left(self, cells: Iterable[int], is_done: bytearray) -> list[int]:
        """Return the cells that may have failed."""
        return [number for number in cells if not is_done[number]] if self._failures else []

    def _add_versions(
        self,
        versions: VersionCounts,
        step: str,
        column: FactsReader,
        cells: Mapping[bytes, int],
        is_done: bytearray,
    ) -> None:
        """Count the results that are of an earlier version, or are to be made again."""
        file, redos = self._asked.file, self._items.redos
        assert file is not None
        if not redos and not file.has_standing:
            versions.add("", None, sum(is_done))
            return
        for key, number in cells.items():
            if is_done[number]:
                cell = self._asked[number]
                assert cell.place is not None
                id_ = file.item(cell.place).id if redos.noted else ""
                present = cell.key if step == self._asked.step else key
                redo = None
                if step != self._asked.step or not self._asked.is_outdated(key):
                    redo = self._items.pending_redo(step, column, id_, key, present)
                versions.add(cell.version, redo)
