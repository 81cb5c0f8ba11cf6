"""What came out of an evaluation, read back from its columns a few items at a time?"""

from collections.abc import Iterator, Mapping, Sequence

from limpet.evaluators.protocol import Evaluator
from limpet.journal.column import ColumnReader
from limpet.journal.lines import Entry
from limpet.run.executing.cells import ANSWER, METADATA, TRACE, scoring_of
from limpet.run.planning.diff import Lookup
from limpet.run.planning.work_items import Asked
from limpet.run.results.evaluation_result import ItemResult

_CHUNK = 1_000
WORKFLOW = "workflow"


class ReadBack:
    """The results of an evaluation; each is read when it is its turn, and not kept.

    Args:
        lookup: What was asked, and which answers count.
        columns: The column of each step.
        evaluators: What scores, each with its fingerprint.
        failures: The latest failure of each step and key.
    """

    def __init__(
        self,
        lookup: Lookup,
        columns: Mapping[str, ColumnReader],
        evaluators: Sequence[tuple[Evaluator, str]],
        failures: Mapping[tuple[str, str], Entry],
    ) -> None:
        self._lookup = lookup
        self._columns = columns
        self._evaluators = evaluators
        self._failures = failures

    def __len__(self) -> int:
        return len(self._lookup.asked)

    def __iter__(self) -> Iterator[tuple[Asked, ItemResult]]:
        """Yield each item in each trial, in the order of the dataset, trial by trial."""
        for at in range(0, len(self), _CHUNK):
            asked = self._lookup.asked[at : at + _CHUNK]
            items = self._answers(asked, self._lookup.keys[at : at + _CHUNK])
            for evaluator, fingerprint in self._evaluators:
                self._add_scores(asked, items, evaluator, fingerprint)
            yield from zip(asked, items, strict=True)

    def selected(self) -> Iterator[ItemResult]:
        """Yield those that this session was asked for."""
        for place, (_, item) in enumerate(self):
            if self._lookup.is_selected(place):
                yield item

    def _answers(self, asked: Sequence[Asked], keys: Sequence[str]) -> list[ItemResult]:
        items, left = [], {}
        for one, key in zip(asked, keys, strict=True):
            item = ItemResult(one.public_id, one.trial, one.item.input, one.item.expected)
            counting, item.version = self._lookup.counting_key(key)
            self._note_redo(item, one, (WORKFLOW, key), counting)
            left[counting] = item
            items.append(item)
        for key, entry in self._columns[WORKFLOW].read_many(list(left)):
            item = left.pop(key)
            item.output, item.trace = entry.record[ANSWER], entry.record[TRACE]
            item.metadata = entry.record.get(METADATA)
            item.status, item.entry = "completed", entry
            item.seconds = entry.facts.get("seconds", 0.0)
            item.note_masked(WORKFLOW, entry.facts)
        for key, item in left.items():
            failed = self._failures.get((WORKFLOW, key))
            if failed is not None:
                item.status, item.error = "failed", failed.record["error"]
                item.note_masked(WORKFLOW, failed.facts)
        return items

    def _add_scores(
        self,
        asked: Sequence[Asked],
        items: Sequence[ItemResult],
        evaluator: Evaluator,
        fingerprint: str,
    ) -> None:
        left: dict[str, ItemResult] = {}
        name = evaluator.name
        for one, item in zip(asked, items, strict=True):
            if item.status == "completed":
                key = scoring_of(one, item.entry, evaluator, fingerprint).cell.key
                self._note_redo(item, one, (name, key), key)
                left[key] = item
        for key, entry in self._columns[name].read_many(list(left)):
            item = left.pop(key)
            item.note_score(name, entry)
        for key, item in left.items():
            failed = self._failures.get((name, key))
            if failed is not None:
                item.score_errors[name] = failed.record["error"]
                item.note_masked(name, failed.facts)

    def _note_redo(
        self, item: ItemResult, asked: Asked, cell: tuple[str, str], counting: str
    ) -> None:
        """Say of an item that a step is still to be run again, and why that failed if it did."""
        redos, step = self._lookup.redos, cell[0]
        needed = redos.needed(step, asked.item.id, counting) if redos else 0
        if needed and not self._columns[step].reaches(counting, needed):
            failed = self._failures.get(cell)
            is_of_it = failed is not None and failed.facts.get("generation", 0) >= needed
            item.redo[step] = failed.record["error"] if failed and is_of_it else None
