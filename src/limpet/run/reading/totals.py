"""What are the numbers of a run, without reading its items one by one?

Each column is read once, in the order of its file, and added up as it is read. No number of a
summary depends on the order, so this gives exactly what adding up the items gives, several times
faster.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

from limpet.journal.files import open_to_read
from limpet.journal.lines import decode_line, generation_of, is_whole, keys_in
from limpet.run.reading.facts_reader import FactsReader, Failed, NewLines, facts_to_add
from limpet.run.reading.items import ItemsReader
from limpet.run.reading.scores import ScoresReader, facts_and_record, outputs_of, plain_scores
from limpet.run.record_fields import MASKED, OUTPUT, SAW_MASKED
from limpet.run.results.costs import mean
from limpet.run.results.score_numbers import VersionCounts
from limpet.run.results.score_words import ScoreName
from limpet.run.results.summary import Numbers
from limpet.run.watcher import ScoreSoFar, score_so_far


def add_up(items: ItemsReader) -> Numbers:
    """Return the numbers of a run."""
    growing = add_up_growing(items)
    if growing is not None:
        return growing.numbers
    if _finds_by_keys(items):
        return Totals(items).numbers
    names = [evaluator.name for evaluator in items.evaluators]
    numbers = Numbers(names, items.requested.trials, items.scales)
    for item in items.read(items.requested.cells(), whole=False):
        numbers.add(item)
    return numbers


def add_up_growing(items: ItemsReader) -> "GrowingTotals | None":
    """Return the totals of a run, to which what is new can be added; None: it cannot."""
    growing = GrowingTotals(items) if _finds_by_keys(items) else None
    return growing if growing is not None and growing.add_new() else None


def _finds_by_keys(items: ItemsReader) -> bool:
    """Return whether all answers and scores are found by their keys."""
    return items.requested.have_keys and all(evaluator.has_keys for evaluator in items.evaluators)


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


# ---- What do lines of answers and scores add to the numbers of a run? ---------------------------


class AddedLines:
    """Adds up lines of a run whose answers and scores are found by their keys.

    Cells are identified by their number in the order of the dataset, trial by trial: a hundred
    thousand objects would take longer than all else.

    Args:
        items: Reads the items.

    Attributes:
        numbers: The numbers so far.
    """

    def __init__(self, items: ItemsReader) -> None:
        self._items = items
        self._requested = items.requested
        names = [evaluator.name for evaluator in items.evaluators]
        self.numbers = Numbers(names, items.requested.trials, items.scales)
        self.numbers.items = len(self._requested)
        file, positions = self._requested.file, self._requested.positions
        assert file is not None
        rows = (file.item(position).row for position in positions)
        self.numbers.cell_items.add_all(len(positions), rows)

    def _add_answers(
        self, cells: Sequence[int], lines: Sequence[bytes]
    ) -> Iterator[tuple[int, Sequence[str]]]:
        """Add answers; yield the numbers of their cells, and the digests of the answers."""
        found: list[Mapping[str, Any]] = [*facts_to_add(lines)]
        for at, (number, facts) in enumerate(zip(cells, found, strict=True)):
            if OUTPUT in facts:
                yield number, facts[OUTPUT]
            else:
                entry = decode_line(lines[at])
                found[at] = entry.facts
                yield number, outputs_of(entry) or ("", "")
        self.numbers.add_answers(found, cells)
        self.numbers.masked += sum(bool(facts[MASKED]) for facts in found if MASKED in facts)

    def _add_failed_answer(self, failed: Failed, number: int) -> None:
        self.numbers.failures.add(failed.facts, number)
        self.numbers.add_usage([failed.facts])
        self.numbers.masked += bool(failed.facts.get(MASKED))

    def _add_scores(
        self, evaluator: ScoresReader, cells: Sequence[int], lines: Sequence[bytes]
    ) -> None:
        """Add the scores of some cells."""
        scores = self.numbers.scores[evaluator.name]
        plain, others = plain_scores(cells, lines)
        for record, of_cells in plain:
            scores.add(record, of_cells)
        for number, line in others:
            facts, record = facts_and_record(line)
            scores.add(record, [number])
            if "usage" in facts:
                scores.add_usage(facts)
            scores.count_masked(facts)
            self.numbers.masked += bool(facts.get(MASKED))

    def _add_failed_score(self, name: str, failed: Failed, number: int) -> None:
        scores = self.numbers.scores[name]
        scores.failures.add(failed.facts, number)
        if "usage" in failed.facts:
            scores.add_usage(failed.facts)
        scores.count_masked(failed.facts)
        self.numbers.masked += bool(failed.facts.get(MASKED))


# ---- What do new lines add to the numbers of a run that grows? ----------------------------------
#
# Where no earlier result stands in and nothing is made again, a record never changes: the first
# valid line of a key counts. So each line of a column is read once, in the order of its file, and
# where the records are need not be known.

_ROUND_BYTES = 2**22
_GENERATION = b'"generation":'


class GrowingTotals(AddedLines):
    """Adds up a run as it grows. Before `add_new`, nothing is read.

    Args:
        items: Reads the items.
    """

    def __init__(self, items: ItemsReader) -> None:
        super().__init__(items)
        paths = {self._requested.step: self._requested.column.path}
        paths |= {evaluator.name: evaluator.column.path for evaluator in items.evaluators}
        self._lines = {step: NewLines(path) for step, path in paths.items()}
        # By step and key: cells without a record, and among them those that failed.
        self._missing: dict[str, dict[bytes, int]] = {step: {} for step in paths}
        self._failed: dict[str, dict[bytes, Failed]] = {step: {} for step in paths}
        # Where scores are whose answer was not read yet, or does not count.
        self._unmatched: dict[str, dict[bytes, int]] = {step: {} for step in paths}
        self._failures_end = 0
        self._is_simple = True
        if self.can_grow:
            keys = self._requested.counting_keys()
            self._missing[self._requested.step] = dict(zip(keys, range(len(keys)), strict=True))

    @property
    def can_grow(self) -> bool:
        """Whether what is new can be added: no earlier result stands in, or is made again."""
        return self._is_simple and self._requested.are_fixed and not self._requested.counting

    def is_of(self, items: ItemsReader) -> bool:
        """Return whether these are the totals of these items: else the run asks something else."""
        return items is self._items

    def add_new(self) -> bool:
        """Add what was written since; return False if all of it must be added up again."""
        failures = self._items.failures
        left = {step: lines.left for step, lines in self._lines.items()}
        if not self.can_grow or min(left.values()) < 0 or failures.end < self._failures_end:
            return False
        # All columns a part at a time: else the scores of all answers would be missed at once.
        rounds = sum(left.values()) // _ROUND_BYTES + 1
        begin = {step: lines.end for step, lines in self._lines.items()}

        def size(step: str, part: int) -> int:
            """Return how many bytes of a column there are up to the end of a round."""
            return begin[step] + left[step] * part // rounds + 1 - self._lines[step].end

        missed: dict[str, list[bytes]] = {step: [] for step in self._lines}
        for part in range(1, rounds + 1):
            # The answers are a round ahead: a score is written after its answer.
            answered = self._new_answers(size(self._requested.step, min(part + 1, rounds)))
            for evaluator in self._items.evaluators:
                name = evaluator.name
                keys = self._miss_scores(evaluator, answered)
                self._new_scores(evaluator, keys, size(name, part))
                missed[name] += keys
        for step, keys in missed.items():
            self._new_failures(step, keys)
        self._failures_end = failures.end
        return self._is_simple

    # ---- new lines ------------------------------------------------------------------------------

    def _new_answers(self, size: int) -> dict[int, Sequence[str]]:
        """Add new answers; return their digests by the numbers of their cells."""
        step, answered = self._requested.step, dict[int, Sequence[str]]()
        for keys, _, lines in self._lines[step].read(size):
            self._check(lines)
            cells, of_cells, _ = self._take(step, keys, lines)
            answered |= self._add_answers(cells, of_cells)
        self.numbers.versions.add("", None, len(answered))
        return answered

    def _new_scores(self, evaluator: ScoresReader, missed: Iterable[bytes], size: int) -> None:
        """Add new scores, and those that were read before their answers."""
        name, unmatched = evaluator.name, self._unmatched[evaluator.name]
        known = {key: unmatched.pop(key) for key in missed if key in unmatched}
        if known:
            self._add_taken(evaluator, *self._lines_at(name, known))
        for keys, starts, lines in self._lines[name].read(size):
            self._check(lines)
            for at in self._add_taken(evaluator, keys, lines):
                unmatched.setdefault(keys[at], starts[at])

    def _add_taken(
        self, evaluator: ScoresReader, keys: Sequence[bytes], lines: Sequence[bytes]
    ) -> list[int]:
        """Add the scores that are missing; return the numbers of the other lines."""
        cells, of_cells, others = self._take(evaluator.name, keys, lines)
        self._add_scores(evaluator, cells, of_cells)
        self.numbers.scores[evaluator.name].versions.add("", None, len(cells))
        return others

    def _take(
        self, step: str, keys: Sequence[bytes], lines: Sequence[bytes]
    ) -> tuple[list[int], Sequence[bytes], list[int]]:
        """Return the cells that had no record, and their lines; and the numbers of the others.

        They are missing no more, and have not failed.
        """
        missing, failed = self._missing[step], self._failed[step]
        cells = [missing.pop(key, -1) for key in keys]
        for key, cell in zip(keys, cells, strict=True) if failed else ():
            if cell >= 0:
                self._forget(step, key, cell)
        others = [at for at, cell in enumerate(cells) if cell < 0]
        if others:
            lines = [line for line, cell in zip(lines, cells, strict=True) if cell >= 0]
            cells = [cell for cell in cells if cell >= 0]
        return cells, lines, others

    def _lines_at(self, step: str, offsets: Mapping[bytes, int]) -> tuple[list[bytes], list[bytes]]:
        """Return the keys and lines at some offsets, as far as they are still whole."""
        found: dict[bytes, bytes] = {}
        with open_to_read(self._lines[step].path) as file:
            for key, offset in offsets.items():
                file.seek(offset)
                line = file.readline()
                if is_whole(line) and keys_in([line]) == [key]:
                    found[key] = line
        return list(found), list(found.values())

    def _check(self, lines: Iterable[bytes]) -> None:
        """Note whether a record replaces another: then the first line of a key need not count."""
        if any(generation_of(line) for line in lines if _GENERATION in line):
            self._is_simple = False

    def _miss_scores(
        self, evaluator: ScoresReader, answered: Mapping[int, Sequence[str]]
    ) -> list[bytes]:
        """Miss the scores of new answers, and return their keys."""
        positions, missed = self._requested.positions, dict[bytes, int]()
        for trial in range(self._requested.trials):
            first = trial * len(positions)
            of_trial = {
                number: output
                for number, outputs in answered.items()
                if first <= number < first + len(positions)
                and (output := outputs[evaluator.reads_trace])
            }
            at = [positions[number - first] for number in of_trial]
            missed |= zip(evaluator.keys(trial, at, of_trial.values()), of_trial, strict=True)
        self._missing[evaluator.name] |= missed
        return [*missed]

    # ---- failures -------------------------------------------------------------------------------

    def _new_failures(self, step: str, missed: Iterable[bytes]) -> None:
        """Add new failures, and those of cells that are missing only now."""
        failures, missing = self._items.failures, self._missing[step]
        found = {bytes.fromhex(key): one for key, one in failures.of(step, self._failures_end)}
        for key in missed if failures.latest else ():
            if (failed := failures.latest.get((step, key.hex()))) is not None:
                found[key] = failed
        for key, failed in found.items():
            if key in missing:
                self._forget(step, key, missing[key])
                self._failed[step][key] = failed
                if step in self.numbers.scores:
                    self._add_failed_score(step, failed, missing[key])
                else:
                    self._add_failed_answer(failed, missing[key])

    def _forget(self, step: str, key: bytes, number: int) -> None:
        """Forget that a cell had failed: it ran again."""
        failed = self._failed[step].pop(key, None)
        if failed is None:
            return
        self.numbers.masked -= bool(failed.facts.get(MASKED))
        self._is_simple &= "usage" not in failed.facts  # which cannot be taken away
        if step in self.numbers.scores:
            scores = self.numbers.scores[step]
            scores.failures.forget(failed.facts, number)
            scores.saw_masked -= bool(failed.facts.get(SAW_MASKED))
        else:
            self.numbers.failures.forget(failed.facts, number)


# ---- What are the numbers of a run that has earlier versions, or redos? -------------------------

_Outputs = tuple[list[str], list[str]]
"""The digests of each cell's answer, alone and with its trace; empty: it has none."""


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
        numbers, step, column = self.numbers, self._requested.step, self._requested.column
        keys = self._requested.counting_keys()
        cells = dict(zip(keys, range(len(keys)), strict=True))
        alone, traced = [""] * len(keys), [""] * len(keys)
        is_done = bytearray(len(keys))
        for _, some, lines in column.groups(cells):
            for number, outputs in self._add_answers(some, lines):
                is_done[number] = True
                alone[number], traced[number] = outputs
        self._add_versions(numbers.versions, step, column, cells, is_done)
        for number in self._left(cells.values(), is_done):
            failed = self._failures.get((step, self._requested[number].key.hex()))
            if failed is not None:
                self._add_failed_answer(failed, number)
        return alone, traced

    def _add_all_scores(self, evaluator: ScoresReader, outputs: list[str]) -> None:
        name, column, scores = evaluator.name, evaluator.column, self.numbers.scores[evaluator.name]
        cells = self._score_keys(evaluator, outputs)
        is_done = bytearray(len(outputs))
        counting, counted = self._requested.counting, cells
        if name in counting.outdated:
            generation = column.generation
            counted = {
                key: number
                for key, number in cells.items()
                if counting.verdict(name, key.hex(), generation(key)).counts
            }
        for _, some, lines in column.groups(counted):
            self._add_scores(evaluator, some, lines)
            for number in some:
                is_done[number] = True
        self._add_versions(scores.versions, name, column, cells, is_done)
        left = {*self._left(cells.values(), is_done)}
        for key, number in cells.items() if left else ():
            failed = self._failures.get((name, key.hex())) if number in left else None
            if failed and counting.verdict(name, key.hex(), failed.generation).counts:
                self._add_failed_score(name, failed, number)

    def _score_keys(self, evaluator: ScoresReader, outputs: list[str]) -> dict[bytes, int]:
        """Return the numbers of the answered cells by the keys of their scores."""
        positions = self._requested.positions
        cells: dict[bytes, int] = {}
        for trial in range(self._requested.trials):
            first = trial * len(positions)
            of_trial = outputs[first : first + len(positions)]
            answered = list(compress(range(first, first + len(positions)), of_trial))
            keys = evaluator.keys(trial, compress(positions, of_trial), filter(None, of_trial))
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
        file, counting = self._requested.file, self._requested.counting
        assert file is not None
        if not counting and not file.has_earlier_answers:
            versions.add("", None, sum(is_done))
            return
        for key, number in cells.items():
            if is_done[number]:
                cell = self._requested[number]
                assert cell.position is not None
                id_ = file.item(cell.position).id if counting.depends_on_ids else ""
                present = cell.key if step == self._requested.step else key
                redo = self._items.pending_redo(step, column, id_, key, present)
                versions.add(cell.version, redo)
