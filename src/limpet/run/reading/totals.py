"""What are the numbers of a run, without reading its items one by one?

Each column is read once, in the order of its file, and added up as it is read. No number of a
summary depends on the order, so this gives exactly what adding up the items gives, several times
faster. While a run grows, only what is new is read and added.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

from limpet.journal.lines import decode_line
from limpet.run.progress.watcher import ScoreSoFar, score_so_far
from limpet.run.reading.facts_reader import FactsReader, facts_to_add
from limpet.run.reading.failures_reader import Failed
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
    if finds_by_keys(items):
        return Totals(items).numbers
    numbers = _numbers_of(items)
    for item in items.read(items.asked.cells(), whole=False):
        numbers.add(item)
    return numbers


def finds_by_keys(items: ItemsReader) -> bool:
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


def _numbers_of(items: ItemsReader) -> Numbers:
    names = [evaluator.name for evaluator in items.evaluators]
    return Numbers(names, items.asked.trials, items.scales)


class Totals:
    """Adds up a run whose answers and scores are found by their keys.

    Cells are identified by their number in the order of the dataset, trial by trial: a hundred
    thousand objects would take longer than all else.

    Args:
        items: Reads the items.
        tails: Whether `add_new` will be called.

    Attributes:
        numbers: The numbers so far.
    """

    def __init__(self, items: ItemsReader, *, tails: bool = False) -> None:
        self._items = items
        self._asked = items.asked
        self._failures = items.failures.latest
        self._tails = tails
        self._missing: dict[str, dict[bytes, int]] = {}
        self._failed: dict[str, dict[bytes, Failed]] = defaultdict(dict)
        self._ends: dict[str, int] = {}
        self._cannot_forget = False
        self.numbers = _numbers_of(items)
        self.numbers.items = len(self._asked)
        file, places = self._asked.file, self._asked.places
        assert file is not None
        rows = (file.item(place).row for place in places)
        self.numbers.cell_items.add_all(len(places), rows)
        outputs = self._add_answers()
        for evaluator in items.evaluators:
            self._add_scores(evaluator, outputs[evaluator.reads_trace])
        self._failures_end = items.failures.end

    # ---- all of it ------------------------------------------------------------------------------

    def _add_answers(self) -> _Outputs:
        numbers, step, column = self.numbers, self._asked.step, self._asked.column
        keys = self._asked.counting_keys()
        cells = dict(zip(keys, range(len(keys)), strict=True))
        alone, traced = [""] * len(keys), [""] * len(keys)
        is_done = bytearray(len(keys))
        self._ends[step] = column.end
        for number, outputs in self._answers(cells):
            is_done[number] = True
            alone[number], traced[number] = outputs
        self._add_versions(numbers.versions, step, column, cells, is_done)
        for key, number in self._left(step, cells, is_done).items():
            failed = self._failures.get((step, self._asked[number].key.hex()))
            if failed is not None:
                self._add_failed_answer(key, failed, number)
        return alone, traced

    def _answers(self, cells: Mapping[bytes, int]) -> Iterator[tuple[int, Sequence[str]]]:
        """Add the answers of some cells; yield their numbers, and the digests of the answers."""
        for _, some, lines in self._asked.column.groups(cells):
            found: list[Mapping[str, Any]] = [*facts_to_add(lines)]
            for at, (number, facts) in enumerate(zip(some, found, strict=True)):
                if OUTPUT in facts:
                    yield number, facts[OUTPUT]
                else:
                    entry = decode_line(lines[at])
                    found[at] = entry.facts
                    yield number, outputs_of(entry) or ("", "")
            self.numbers.add_answers(found, some)
            self.numbers.masked += sum(bool(facts[MASKED]) for facts in found if MASKED in facts)

    def _add_failed_answer(self, key: bytes, failed: Failed, number: int) -> None:
        self._failed[self._asked.step][key] = failed
        self.numbers.add_failure(failed.facts, number)
        self.numbers.masked += bool(failed.facts.get(MASKED))

    def _add_scores(self, evaluator: ScoresReader, outputs: list[str]) -> None:
        name, column, scores = evaluator.name, evaluator.column, self.numbers.scores[evaluator.name]
        cells = self._score_keys(evaluator, outputs)
        is_done = bytearray(len(outputs))
        counting = cells
        if evaluator.outdated:
            counting = {key: number for key, number in cells.items() if evaluator.counts(key)}
        self._ends[name] = column.end
        for number in self._scores(evaluator, counting):
            is_done[number] = True
        self._add_versions(scores.versions, name, column, cells, is_done)
        for key, number in self._left(name, cells, is_done).items():
            failed = self._failures.get((name, key.hex()))
            if failed is not None and evaluator.counts(key, failed.generation):
                self._add_failed_score(name, key, failed, number)

    def _scores(self, evaluator: ScoresReader, cells: Mapping[bytes, int]) -> Iterator[int]:
        """Add the scores of some cells; yield their numbers."""
        scores = self.numbers.scores[evaluator.name]
        for _, some, lines in evaluator.column.groups(cells):
            yield from some
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

    def _add_failed_score(self, name: str, key: bytes, failed: Failed, number: int) -> None:
        scores = self.numbers.scores[name]
        self._failed[name][key] = failed
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

    def _left(
        self, step: str, cells: Mapping[bytes, int], is_done: bytearray
    ) -> Mapping[bytes, int]:
        """Return the cells that may have failed."""
        if not self._failures and not self._tails:
            return {}
        left = {key: number for key, number in cells.items() if not is_done[number]}
        if self._tails:
            self._missing[step] = left
        return left

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

    # ---- what is new ----------------------------------------------------------------------------

    @property
    def can_tail(self) -> bool:
        """Whether what is new can be added: no earlier result stands in, or is made again."""
        outdated = any(evaluator.outdated for evaluator in self._items.evaluators)
        return self._tails and self._asked.are_fixed and not outdated and not self._items.redos

    def add_new(self) -> bool:
        """Add what was written since; return False if all of it must be added up again."""
        step, evaluators = self._asked.step, self._items.evaluators
        columns = {step: self._asked.column, **{by.name: by.column for by in evaluators}}
        if not self.can_tail or any(columns[name].end < end for name, end in self._ends.items()):
            return False
        start, self._failures_end = self._failures_end, self._items.failures.end
        answered = dict(self._answers(self._take(step, columns[step])))
        self.numbers.versions.add("", None, len(answered))
        for key, failed in self._failed_since(step, start):
            self._add_failed_answer(key, failed, self._missing[step][key])
        for evaluator in evaluators:
            name, missed = evaluator.name, self._miss_scores(evaluator, answered)
            new = [*self._scores(evaluator, self._take(name, evaluator.column, missed))]
            self.numbers.scores[name].versions.add("", None, len(new))
            for key, failed in self._failed_since(name, start, missed):
                self._add_failed_score(name, key, failed, self._missing[name][key])
        return not self._cannot_forget

    def _take(
        self, step: str, column: FactsReader, missed: Iterable[bytes] = ()
    ) -> dict[bytes, int]:
        """Return which of the cells that are missing have a record now, and miss them no more.

        Args:
            step: The step.
            column: Its column.
            missed: The cells that are missing only now: a score may have been read before its
                answer, whose column was read a moment earlier.
        """
        missing, since = self._missing[step], self._ends[step]
        self._ends[step] = column.end
        keys = dict.fromkeys([*column.since(since), *filter(column.has, missed)])
        new = {key: missing.pop(key) for key in keys if key in missing}
        for key, number in new.items() if self._failed[step] else ():
            self._forget(step, key, number)
        return new

    def _failed_since(
        self, step: str, start: int, missed: Iterable[bytes] = ()
    ) -> Iterator[tuple[bytes, Failed]]:
        """Yield the failures since an offset, and those of cells that are missing only now."""
        found = {bytes.fromhex(key): failed for key, failed in self._items.failures.of(step, start)}
        for key in missed:
            if (failed := self._failures.get((step, key.hex()))) is not None:
                found[key] = failed
        for key, failed in found.items():
            if key in self._missing[step]:
                self._forget(step, key, self._missing[step][key])
                yield key, failed

    def _forget(self, step: str, key: bytes, number: int) -> None:
        """Forget that a cell had failed: it ran again."""
        failed = self._failed[step].pop(key, None)
        if failed is None:
            return
        self.numbers.masked -= bool(failed.facts.get(MASKED))
        if step in self.numbers.scores:
            self.numbers.scores[step].forget_failure(failed.facts, number)
            self._cannot_forget |= "usage" in failed.facts
        else:
            self.numbers.forget_failure(failed.facts, number)

    def _miss_scores(
        self, evaluator: ScoresReader, answered: Mapping[int, Sequence[str]]
    ) -> list[bytes]:
        """Miss the scores of new answers, and return their keys."""
        places, missed = self._asked.places, dict[bytes, int]()
        for trial in range(self._asked.trials):
            first = trial * len(places)
            of_trial = {
                number: output
                for number, outputs in answered.items()
                if first <= number < first + len(places)
                and (output := outputs[evaluator.reads_trace])
            }
            at = [places[number - first] for number in of_trial]
            missed |= zip(evaluator.keys(trial, at, of_trial.values()), of_trial, strict=True)
        self._missing[evaluator.name] |= missed
        return [*missed]
