"""What came out for each item: its answer, its scores, its failures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from limpet.journal.lines import Entry, decode_line
from limpet.run.planning.redo import Redos
from limpet.run.reading.asked_cells import AskedCell, AskedCells
from limpet.run.reading.facts_reader import FactsReader, facts_in
from limpet.run.reading.failures_reader import Failed
from limpet.run.reading.scores import ScoresReader, facts_and_record
from limpet.run.record_fields import METADATA, OUTPUT, fields_of
from limpet.run.results.evaluation_result import ItemResult
from limpet.types import CellStatus, Item, Scale

_CHUNK = 1_000


class ItemsReader:
    """Reads the results of items, a thousand at a time.

    Args:
        asked: What is asked, and which answers count.
        evaluators: The scores.
        redos: The forced redos that are still to do.
        scales: What the scores of each evaluator mean, where that is not the usual.
        id_field: The field of the rows with the ids.
    """

    def __init__(
        self,
        asked: AskedCells,
        evaluators: Sequence[ScoresReader],
        redos: Redos,
        scales: Mapping[str, Scale],
        id_field: str = "id",
    ) -> None:
        self.scales = scales
        self.asked = asked
        self.evaluators = evaluators
        self.redos = redos
        self.failures = asked.failures
        self._id_field = id_field

    def read(self, cells: Iterable[AskedCell], *, whole: bool = True) -> Iterator[ItemResult]:
        """Yield the result of each cell.

        Args:
            cells: The cells to read.
            whole: Decode the answers, too; else only the facts about them.
        """
        rest = iter(cells)
        while chunk := list(islice(rest, _CHUNK)):
            results = [(cell, self._asked(cell)) for cell in chunk]
            self._read_answers(results, whole=whole)
            answered = [
                (cell, item, item.entry) for cell, item in results if item.entry is not None
            ]
            for evaluator in self.evaluators:
                self._read_scores(answered, evaluator)
            yield from (item for _, item in results)

    def _asked(self, cell: AskedCell) -> ItemResult:
        item, file = Item(cell.id, None), self.asked.file
        roles: Mapping[str, str] = {}
        if file is not None and cell.place is not None:
            item, roles = file.item_and_roles(cell.place)
        return ItemResult(
            item.id,
            cell.trial,
            item.input,
            item.expected,
            row=item.row,
            roles={**roles, "id": self._id_field},
            key=cell.counting.hex(),
            version=cell.version,
        )

    def _read_answers(
        self, results: Sequence[tuple[AskedCell, ItemResult]], *, whole: bool
    ) -> None:
        step, column = self.asked.step, self.asked.column
        left = {cell.counting: (cell, item) for cell, item in results}
        for key, (_, item), line in column.lines(left):
            del left[key]
            facts = None if whole else facts_in(line)
            entry = Entry(facts, {}) if facts and OUTPUT in facts else decode_line(line)
            self._note_answer(item, entry)
        for cell, item in left.values():
            failed = self.failures.latest.get((step, cell.key.hex()))
            if failed is not None:
                self._note_failure(item, failed)
        for cell, item in results if self.redos else ():
            if not self.asked.is_outdated(cell.counting):  # that is marked as an earlier version
                item.redo |= self.pending_redo(step, column, item.id, cell.counting, cell.key)

    def _note_answer(self, item: ItemResult, entry: Entry) -> None:
        facts, record = entry.facts, entry.record
        retried = facts.get("status") == CellStatus.COMPLETED_WITH_RETRIES
        item.status = CellStatus.COMPLETED_WITH_RETRIES if retried else CellStatus.COMPLETED
        item.entry = entry
        item.note(self.asked.step, facts)
        if not isinstance(record, Mapping):  # of a map
            item.output = record
        elif (fields := fields_of(entry))[0] in record:
            item.output, item.trace = record[fields[0]], record.get(fields[1]) or ()
            item.metadata = record.get(METADATA)
            ours = (*fields, METADATA)
            item.row = item.row or {n: value for n, value in record.items() if n not in ours}
        else:
            item.output, item.input = record.get("output"), record.get("input", item.input)

    def _note_failure(self, item: ItemResult, failed: Failed) -> None:
        record = self.failures.record(failed)
        item.status, item.error = CellStatus.FAILED, record.get("error") or {}
        item.note(self.asked.step, failed.facts)
        item.failed = failed.facts
        if self.asked.step == "map":
            item.input = record.get("input")

    def _read_scores(
        self, answered: Sequence[tuple[AskedCell, ItemResult, Entry]], evaluator: ScoresReader
    ) -> None:
        name, column = evaluator.name, evaluator.column
        left = {evaluator.key(cell, item.id, answer): item for cell, item, answer in answered}
        for key, item in left.items() if self.redos else ():
            if evaluator.counts(key):
                item.redo |= self.pending_redo(name, column, item.id, key, key)
        for key, item, line in column.lines(left):
            if evaluator.counts(key):
                del left[key]
                item.note_score(name, *facts_and_record(line))
        for key, item in left.items():
            failed = self.failures.latest.get((name, key.hex()))
            if failed is not None and evaluator.counts(key, failed.generation):
                item.score_errors[name] = self.failures.record(failed).get("error") or {}
                if "usage" in failed.facts:
                    item.score_usage[name] = failed.facts
                item.note_masked(name, failed.facts)

    def pending_redo(
        self, step: str, column: FactsReader, id_: str, key: bytes, present: bytes
    ) -> dict[str, dict[str, Any] | None]:
        """Return the step and why its redo failed, None if it did not; empty: no redo is pending.

        Args:
            step: The step.
            column: Its column.
            id_: The item's id.
            key: The key of the record that counts.
            present: The key that the redo has.
        """
        needed = self.redos.needed(step, id_, key.hex())
        if not needed or column.generation(key) >= needed:
            return {}
        failed = self.failures.latest.get((step, present.hex()))
        if failed is None or failed.generation < needed:
            return {step: None}
        return {step: self.failures.record(failed).get("error")}
