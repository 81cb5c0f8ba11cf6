"""What are the numbers of a run, without reading its items one by one?

Each column is read once, in the order of its file, and added up as it is read. No number of a
summary depends on the order, so this gives exactly what adding up the items gives, several times
faster.
"""

from collections.abc import Mapping
from itertools import compress
from typing import Any

from limpet.journal.lines import decode_line
from limpet.run.progress.watcher import ScoreSoFar, score_so_far
from limpet.run.reading.facts_reader import FactsReader, facts_to_add
from limpet.run.reading.items import ItemsReader
from limpet.run.reading.scores import ScoresReader, facts_and_record, outputs_of, plain_scores
from limpet.run.record_fields import MASKED, OUTPUT
from limpet.run.results.filters import ScoreName
from limpet.run.results.summary import Numbers
from limpet.run.results.table import mean
from limpet.run.results.version_counts import VersionCounts

_Outputs = tuple[list[str], list[str]]
"""The digests of each cell's answer, alone and with its trace; empty: it has none."""


def add_up(items: ItemsReader) -> Numbers:
    """Return the numbers of a run."""
    if items.asked.have_keys and all(evaluator.has_keys for evaluator in items.evaluators):
        return _Totals(items).numbers
    numbers = _numbers_of(items)
    for item in items.read(items.asked.cells(), whole=False):
        numbers.add(item)
    return numbers


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


def _numbers_of(items: ItemsReader) -> Numbers:
    names = [evaluator.name for evaluator in items.evaluators]
    return Numbers(names, items.asked.trials, items.scales)


class _Totals:
    """Adds up a run whose answers and scores are found by their keys.

    Cells are identified by their number in the order of the dataset, trial by trial: a hundred
    thousand objects would take longer than all else.
    """

    def __init__(self, items: ItemsReader) -> None:
        self._items = items
        self._asked = items.asked
        self._failures = items.failures.latest
        self.numbers = _numbers_of(items)
        self.numbers.items = len(self._asked)
        file, places = self._asked.file, self._asked.places
        assert file is not None
        rows = (file.item(place).row for place in places)
        self.numbers.cell_items.add_all(len(places), rows)
        outputs = self._add_answers()
        for evaluator in items.evaluators:
            self._add_scores(evaluator, outputs[evaluator.reads_trace])

    def _add_answers(self) -> _Outputs:
        numbers, step, column = self.numbers, self._asked.step, self._asked.column
        keys = self._asked.counting_keys()
        cells = dict(zip(keys, range(len(keys)), strict=True))
        alone, traced = [""] * len(keys), [""] * len(keys)
        is_done = bytearray(len(keys))
        for _, some, lines in column.groups(cells):
            found: list[Mapping[str, Any]] = [*facts_to_add(lines)]
            for at, (number, facts) in enumerate(zip(some, found, strict=True)):
                is_done[number] = True
                if OUTPUT in facts:
                    alone[number], traced[number] = facts[OUTPUT]
                else:
                    entry = decode_line(lines[at])
                    found[at] = entry.facts
                    alone[number], traced[number] = outputs_of(entry) or ("", "")
            numbers.add_answers(found, some)
            numbers.masked += sum(bool(facts[MASKED]) for facts in found if MASKED in facts)
        self._add_versions(numbers.versions, step, column, cells, is_done)
        for number in self._left(cells, is_done).values():
            failed = self._failures.get((step, self._asked[number].key.hex()))
            if failed is not None:
                numbers.add_failure(failed.facts, number)
                numbers.masked += bool(failed.facts.get(MASKED))
        return alone, traced

    def _add_scores(self, evaluator: ScoresReader, outputs: list[str]) -> None:
        name, column, scores = evaluator.name, evaluator.column, self.numbers.scores[evaluator.name]
        cells = self._score_keys(evaluator, outputs)
        is_done = bytearray(len(outputs))
        counting = cells
        if evaluator.outdated:
            counting = {key: number for key, number in cells.items() if evaluator.counts(key)}
        for _, some, lines in column.groups(counting):
            for number in some:
                is_done[number] = True
            plain, others = plain_scores(some, lines)
            for record, of_cells in plain:
                scores.add(record, of_cells)
            for number, line in others:
                facts, record = facts_and_record(line)
                scores.add(record, [number])
                if "usage" in facts:
                    scores.add_usage(facts)
                scores.note_masked(facts)
                self.numbers.masked += bool(facts.get(MASKED))
        self._add_versions(scores.versions, name, column, cells, is_done)
        for key, number in self._left(cells, is_done).items():
            failed = self._failures.get((name, key.hex()))
            if failed is not None and evaluator.counts(key, failed.generation):
                scores.add_failure(failed.facts, number)
                if "usage" in failed.facts:
                    scores.add_usage(failed.facts)
                scores.note_masked(failed.facts)
                self.numbers.masked += bool(failed.facts.get(MASKED))

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

    def _left(self, cells: Mapping[bytes, int], is_done: bytearray) -> dict[bytes, int]:
        """Return the cells that may have failed."""
        if not self._failures:
            return {}
        return {key: number for key, number in cells.items() if not is_done[number]}

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
