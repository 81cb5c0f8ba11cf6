"""What became of each item, read one at a time, in the order of the dataset?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from limpet.datasets.columns import Roles
from limpet.journal.lines import Entry
from limpet.run.executing.cells import ANSWER, METADATA, TRACE
from limpet.run.planning.redo import Redos
from limpet.run.reading.column import FactsReader
from limpet.run.reading.failures import Failed, FailuresReader
from limpet.run.reading.rows import Naming, RowsAsked, roles_of, row_of
from limpet.run.reading.scores import Scored, ScoresReader
from limpet.run.results.evaluation_result import ItemResult
from limpet.types import Item


@dataclass(slots=True)
class ReadItem(ItemResult):
    """An item as it was read from the files of a run.

    Attributes:
        key: The key of its answer, as 32 hex digits.
        base_id: The id of the item itself, whatever the trial.
        row: Its row, as far as the files know it.
        attempts: How many attempts the workflow took.
        usage: What its calls used.
        at: When its answer, or its failure, was written; empty: neither.
    """

    key: str = ""
    base_id: str = ""
    row: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 0
    usage: Mapping[str, float] = field(default_factory=dict)
    at: str = ""

    @property
    def as_item(self) -> Item:
        """The item that was asked."""
        return Item(self.base_id, self.input, self.expected, self.row)


@dataclass(slots=True)
class ItemsReader:
    """Reads items by the keys of their answers.

    Attributes:
        step: The step that answers: the workflow, or a map.
        column: Its column.
        failures: Of all steps.
        evaluators: What scores.
        naming: How ids are written.
        configuration: The run's, where it has one.
        rows: Each item's row as it was last asked.
        per_trial: How many items there are.
        standing: Of an answer that an earlier version gave, by its key: which version, and the key
            that the present one's will have.
        redos: What is to be run again whatever is there, and is not done.
        begun: Returns the ids of cells that started, by their key: how an item without any record
            is named.
    """

    step: str
    column: FactsReader
    failures: FailuresReader
    evaluators: Sequence[ScoresReader]
    naming: Naming
    configuration: Mapping[str, Any] | None
    rows: RowsAsked
    per_trial: int
    standing: Mapping[bytes, tuple[str, bytes]]
    redos: Redos
    begun: Callable[[], Mapping[str, str]]
    _roles: dict[tuple[str, ...], Roles | None] = field(default_factory=dict)

    def read(self, keys: Sequence[bytes]) -> Iterator[ReadItem]:
        """Yield the items of these keys, in their order."""
        for place, key in enumerate(keys):
            yield self.at(place, key)

    def at(self, place: int, key: bytes) -> ReadItem:
        """Return one item, by its place in the dataset and its key."""
        entry = self.column.entry(key)
        item = self._named(place, key, None if entry is None else entry.facts)
        row = self.rows.at(place)
        row = row if row is not None and row["id"] == item.id else None
        if entry is not None:
            self._answered(item, entry, row)
        else:
            self._unanswered(item, self.failures.latest.get((self.step, item.key)), row)
        item.version, present = self.standing.get(key, ("", key))
        self._note_redo(item, self.step, self.column, key, present)
        return item

    def named(self, place: int, key: bytes) -> ReadItem:
        """Return one item with its name and little else, quickly."""
        return self._named(place, key, self.column.facts(key))

    def _named(self, place: int, key: bytes, facts: Mapping[str, Any] | None) -> ReadItem:
        text = key.hex()
        if facts is None:
            failed = self.failures.latest.get((self.step, text))
            facts = {} if failed is None else failed.facts
        trial = facts.get("trial")
        if trial is None:  # nothing was written of it yet
            trial = place // self.per_trial if self.per_trial else 0
        known = facts.get("id") or self._name_without_facts(place, text)
        public = self.naming.public(known, trial)
        item = ReadItem(public, trial, None, None, key=text)
        item.base_id = self.naming.base(public, trial)
        item.attempts = facts.get("attempts", 0)
        item.seconds = facts.get("seconds", 0.0)
        item.at = facts.get("at", "")
        return item

    def _name_without_facts(self, place: int, key: str) -> str:
        row = self.rows.at(place)
        return str((row or {}).get("id") or self.begun().get(key) or f"#{place + 1}")

    def _answered(self, item: ReadItem, entry: Entry, row: Mapping[str, Any] | None) -> None:
        record = entry.record if isinstance(entry.record, Mapping) else {"output": entry.record}
        item.status, item.entry = "completed", entry
        item.usage = entry.facts.get("usage") or {}
        item.note_masked(self.step, entry.facts)
        if ANSWER in record:
            item.output, item.trace = record[ANSWER], record.get(TRACE) or ()
            item.metadata = record.get(METADATA)
            self._asked(item, row_of(record) if row is None else row)
        else:  # of a map
            item.output, item.input = record.get("output"), record.get("input")
        self._score(item)

    def _unanswered(
        self, item: ReadItem, failed: Failed | None, row: Mapping[str, Any] | None
    ) -> None:
        if failed is not None:
            record = self.failures.entry(failed).record
            item.status, item.error = "failed", record.get("error") or {}
            item.note_masked(self.step, failed.facts)
            item.input = record.get("input")
        if row is not None:
            self._asked(item, row)

    def _asked(self, item: ReadItem, row: Mapping[str, Any]) -> None:
        """Say what was asked, and what was expected."""
        names = tuple(row)
        if names not in self._roles:
            self._roles[names] = roles_of(self.configuration, row)
        roles = self._roles[names]
        # The public record has the public id; the row its own.
        item.row = {**row, "id": item.base_id} if "id" in row else row
        if roles is not None:
            item.input = row.get(roles.input)
            item.expected = None if roles.expected is None else row.get(roles.expected)

    def scored(self, item: ReadItem) -> Scored:
        """Return what the scores of an item refer to."""
        return Scored(item.as_item, item.id, item.trial, item.entry)

    def _score(self, item: ReadItem) -> None:
        if not self.evaluators:
            return
        scored = self.scored(item)
        for evaluator in self.evaluators:
            entry = evaluator.score(scored)
            if self.redos and (keys := evaluator.keys_of(scored)):
                self._note_redo(item, evaluator.name, evaluator.column, keys[-1], keys[-1])
            if entry is not None:
                item.note_score(evaluator.name, entry)
            elif (failed := evaluator.failure(scored)) is not None:
                error = self.failures.entry(failed).record.get("error") or {}
                item.score_errors[evaluator.name] = error
                item.note_masked(evaluator.name, failed.facts)

    def _note_redo(
        self, item: ReadItem, step: str, column: FactsReader, key: bytes, present: bytes
    ) -> None:
        """Say of an item that a step is still to be run again, and why that failed if it did."""
        needed = self.redos.needed(step, item.base_id, key.hex())
        if needed and column.generation(key) < needed:
            failed = self.failures.latest.get((step, present.hex()))
            is_of_it = failed is not None and failed.generation >= needed
            record = self.failures.entry(failed).record if failed and is_of_it else {}
            item.redo[step] = record.get("error")
