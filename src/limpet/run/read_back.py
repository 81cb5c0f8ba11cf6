"""What came out of an evaluation, read back from its columns a few items at a time?"""

from collections.abc import Iterator, Mapping, Sequence

from limpet.evaluators.protocol import Evaluator
from limpet.journal.column import ColumnReader
from limpet.journal.lines import Entry
from limpet.run.asked import Asked, AskedItems
from limpet.run.calls import Keys
from limpet.run.results import ItemResult
from limpet.run.scoring import ANSWER, STEPS, scoring_of

_CHUNK = 1_000
WORKFLOW = "workflow"


class ReadBack:
    """The results of an evaluation; each is read when it is its turn, and not kept.

    Args:
        asked: What was asked.
        keys: The keys of the answers that count.
        columns: The column of each step.
        evaluators: What scores, each with its fingerprint.
        failures: The latest failure of each step and key.
    """

    def __init__(
        self,
        asked: AskedItems,
        keys: Keys,
        columns: Mapping[str, ColumnReader],
        evaluators: Sequence[tuple[Evaluator, str]],
        failures: Mapping[tuple[str, str], Entry],
    ) -> None:
        self._asked = asked
        self._keys = keys
        self._columns = columns
        self._evaluators = evaluators
        self._failures = failures

    def __len__(self) -> int:
        return len(self._asked)

    def __iter__(self) -> Iterator[tuple[Asked, ItemResult]]:
        """Yield each item in each trial, in the order of the dataset, trial by trial."""
        for at in range(0, len(self), _CHUNK):
            asked = self._asked[at : at + _CHUNK]
            items = self._answers(asked, self._keys[at : at + _CHUNK])
            for evaluator, fingerprint in self._evaluators:
                self._add_scores(asked, items, evaluator, fingerprint)
            yield from zip(asked, items, strict=True)

    def _answers(self, asked: Sequence[Asked], keys: Sequence[str]) -> list[ItemResult]:
        items = [
            ItemResult(one.public_id, one.trial, one.item.input, one.item.expected) for one in asked
        ]
        left = dict(zip(keys, items, strict=True))
        for key, entry in self._columns[WORKFLOW].read_many(keys):
            item = left.pop(key)
            item.output, item.steps = entry.record[ANSWER], entry.record[STEPS]
            item.status, item.entry = "completed", entry
            item.seconds = entry.facts.get("seconds", 0.0)
        for key, item in left.items():
            if (WORKFLOW, key) in self._failures:
                item.status = "failed"
                item.error = self._failures[WORKFLOW, key].record["error"]
        return items

    def _add_scores(
        self,
        asked: Sequence[Asked],
        items: Sequence[ItemResult],
        evaluator: Evaluator,
        fingerprint: str,
    ) -> None:
        left: dict[str, ItemResult] = {}
        for one, item in zip(asked, items, strict=True):
            if item.status == "completed":
                left[scoring_of(one, item.entry, evaluator, fingerprint).cell.key] = item
        name = evaluator.name
        for key, entry in self._columns[name].read_many(list(left)):
            left.pop(key).scores[name] = entry.record
        for key, item in left.items():
            if (name, key) in self._failures:
                item.score_errors[name] = self._failures[name, key].record["error"]
