"""The results of each item: its answer, its scores, its failures."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from typing import Any

from limpet.journal.column import ColumnReader
from limpet.journal.event_log import StartedAttempt, failed_attempts
from limpet.journal.layout import Layout
from limpet.journal.lines import Entry, decode_line
from limpet.run.reading.facts_reader import FactsReader, Failed, facts_in
from limpet.run.reading.requested_cells import RequestedCell, RequestedCells
from limpet.run.reading.scores import ScoresReader, facts_and_record
from limpet.run.record_fields import BALLOTS, MADE_OF, METADATA, OUTPUT, ROW, answer_and_trace
from limpet.run.results.item_record import ItemRecord
from limpet.shapes import CellStatus, Item, Scale

_CHUNK = 1_000


class ItemsReader:
    """Reads the results of items, a thousand at a time.

    Args:
        requested: The requested cells, and the answers that count.
        evaluators: The scores.
        scales: The scale of each evaluator's scores, where it is not the default.
        id_field: The field of the rows with the ids.
    """

    def __init__(
        self,
        requested: RequestedCells,
        evaluators: Sequence[ScoresReader],
        scales: Mapping[str, Scale],
        id_field: str = "id",
    ) -> None:
        self.scales = scales
        self.requested = requested
        self.evaluators = evaluators
        self.failures = requested.failures
        self._id_field = id_field

    def read(self, cells: Iterable[RequestedCell], *, whole: bool = True) -> Iterator[ItemRecord]:
        """Yield the result of each cell.

        Args:
            cells: The cells to read.
            whole: Decode the answers, too, not only the facts about them.
        """
        rest = iter(cells)
        while chunk := list(islice(rest, _CHUNK)):
            results = [(cell, self._requested(cell)) for cell in chunk]
            self._read_answers(results, whole=whole)
            answered = [
                (cell, item, item.entry) for cell, item in results if item.entry is not None
            ]
            for evaluator in self.evaluators:
                self._read_scores(answered, evaluator)
            yield from (item for _, item in results)

    def _requested(self, cell: RequestedCell) -> ItemRecord:
        item, file = Item(cell.id, None), self.requested.file
        roles: Mapping[str, str] = {}
        if file is not None and cell.position is not None:
            item, roles = file.item_and_roles(cell.position)
        return ItemRecord(
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
        self, results: Sequence[tuple[RequestedCell, ItemRecord]], *, whole: bool
    ) -> None:
        step, column = self.requested.step, self.requested.column
        left = {cell.counting: (cell, item) for cell, item in results}
        for key, (_, item), line in column.lines(left):
            del left[key]
            facts = None if whole else facts_in(line)
            entry = Entry(facts, {}) if facts and OUTPUT in facts else decode_line(line)
            self._add_answer(item, entry)
        for cell, item in left.values():
            failed = self.failures.latest.get((step, cell.key.hex()))
            if failed is not None:
                self._add_failure(item, failed)
        for cell, item in results if self.requested.counting else ():
            item.redo |= self.pending_redo(step, column, item.id, cell.counting, cell.key)

    def _add_answer(self, item: ItemRecord, entry: Entry) -> None:
        facts, record = entry.facts, entry.record
        retried = facts.get("status") == CellStatus.COMPLETED_WITH_RETRIES
        item.status = CellStatus.COMPLETED_WITH_RETRIES if retried else CellStatus.COMPLETED
        item.entry = entry
        item.add_facts(self.requested.step, facts)
        if not isinstance(record, Mapping):  # of a map
            item.output = record
            return
        if record:  # else only the facts about it were read
            item.output, trace = answer_and_trace(entry)
            item.trace = trace or ()
        item.metadata = record.get(METADATA)
        item.row = item.row or record.get(ROW) or {}
        item.input = record.get("input", item.input)  # of a map

    def _add_failure(self, item: ItemRecord, failed: Failed) -> None:
        record = self.failures.record(failed)
        item.status, item.error = CellStatus.FAILED, record.get("error") or {}
        item.add_facts(self.requested.step, failed.facts)
        item.failed = failed.facts
        if self.requested.step == "map":
            item.input = record.get("input")

    def _read_scores(
        self, answered: Sequence[tuple[RequestedCell, ItemRecord, Entry]], evaluator: ScoresReader
    ) -> None:
        name, column, counting = evaluator.name, evaluator.column, self.requested.counting
        left = {evaluator.key(cell, item.id, answer): item for cell, item, answer in answered}
        for key, item in left.items() if counting else ():
            item.redo |= self.pending_redo(name, column, item.id, key, key)
        for key, item, line in column.lines(left):
            if counting.verdict(name, key.hex(), column.generation(key)).counts:
                del left[key]
                item.add_score(name, *facts_and_record(line))
        for key, item in left.items():
            failed = self.failures.latest.get((name, key.hex()))
            if failed and counting.verdict(name, key.hex(), failed.generation).counts:
                item.score_errors[name] = self.failures.record(failed).get("error") or {}
                if "usage" in failed.facts:
                    item.score_usage[name] = failed.facts
                item.add_masked(name, failed.facts)

    def pending_redo(
        self, step: str, column: FactsReader, id_: str, key: bytes, present: bytes
    ) -> dict[str, dict[str, Any] | None]:
        """Return the step with the error of its redo, if any; empty: no redo is pending.

        Args:
            step: The step.
            column: Its column.
            id_: The item's id.
            key: The key of the record that counts.
            present: The key of the redo.
        """
        verdict = self.requested.counting.verdict(step, key.hex(), column.generation(key), id_)
        if not verdict.is_redo:
            return {}
        failed = self.failures.latest.get((step, present.hex()))
        if failed is None or failed.generation < verdict.needed:
            return {step: None}
        return {step: self.failures.record(failed).get("error")}


# ---- What do a run's files say about one item? --------------------------------------------------

_Attempts = dict[tuple[Any, Any], list[Mapping[str, Any]]]
"""Failed attempts by id and trial."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """An answer to the item that does not count now: other code, or another row.

    Attributes:
        entry: The answer.
        scores: The latest score of each evaluator.
    """

    entry: Entry
    scores: Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class WholeItem:
    """Everything about one item in one trial.

    Attributes:
        item: The item with the results that count now.
        scores: The full line of each score, with its time and attempts.
        ballots: By evaluator, the replies behind its score, if there are several.
        failed_attempts: The failed attempts of all steps, oldest first: `step`, `attempt`, `class`,
            `type`, `message`, and `at` where the event log has it.
        earlier: Answers that do not count now, oldest first.
        in_flight: The steps with a call in flight for it.
    """

    item: ItemRecord
    scores: Mapping[str, Entry] = field(default_factory=dict)
    failed_attempts: tuple[Mapping[str, Any], ...] = ()
    earlier: tuple[Earlier, ...] = ()
    in_flight: tuple[str, ...] = ()
    ballots: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


class WholeItems:
    """Reads everything about one item, or about many at once.

    Args:
        items: Reads the items.
        layout: Where the run's files are.
        calls: The calls in flight.
    """

    def __init__(self, items: ItemsReader, layout: Layout, calls: Iterable[StartedAttempt]) -> None:
        self._items = items
        self._layout = layout
        self._calls: dict[str, list[tuple[str, str]]] = {}
        for call in calls:
            self._calls.setdefault(call.id, []).append((call.step, call.key))
        self._ballots: dict[str, ColumnReader] = {}

    def of(self, id_: str) -> list[WholeItem]:
        """Return everything about one item, once for each of its trials."""
        items = self._items
        cells = _cells(items.requested, id_)
        results = list(items.read(cells))
        others = _others(items.requested.column, frozenset(cell.counting for cell in cells), id_)
        gone = sorted(others.keys() - {cell.trial for cell in cells})
        not_selected = CellStatus.NOT_SELECTED
        results += [ItemRecord(id_, trial, None, None, status=not_selected) for trial in gone]
        attempts = self._attempts({id_})
        whole: list[WholeItem] = []
        for cell, item in zip_longest(cells, results):
            found = self._whole(cell, item, attempts)
            earlier = tuple(_earlier(items, item, others.get(item.trial, [])))
            whole.append(replace(found, earlier=earlier))
        return whole

    def at(self, cells: Sequence[RequestedCell], ids: set[str]) -> Iterator[WholeItem]:
        """Yield everything about some cells, whose items have these ids, except earlier answers.

        Finding those takes a search of the whole column.
        """
        attempts = self._attempts(ids)
        for cell, item in zip(cells, self._items.read(cells), strict=True):
            yield self._whole(cell, item, attempts)

    def _whole(
        self, cell: RequestedCell | None, item: ItemRecord, attempts: _Attempts
    ) -> WholeItem:
        items = self._items
        keys = {} if cell is None else _score_keys(items, cell, item)
        scores = {by.name: by.column.entry(keys[by.name]) for by in items.evaluators if keys}
        present = {(name, key.hex()) for name, key in keys.items()}
        if cell is not None:
            present.add((items.requested.step, cell.key.hex()))
        calls = self._calls.get(item.id, ())
        return WholeItem(
            item,
            {name: entry for name, entry in scores.items() if entry is not None},
            tuple(attempts.get((item.id, item.trial), ())),
            in_flight=tuple(step for step, key in calls if (step, key) in present),
            ballots=dict(self._ballots_of(scores)),
        )

    def _attempts(self, ids: set[str]) -> _Attempts:
        """Return the failed attempts: from the event log, which has times, or from the failures."""
        logged: _Attempts = {}
        for event in failed_attempts(self._layout.events, ids):
            logged.setdefault((event.get("id"), event.get("trial")), []).append(event)
        failures, known = self._items.failures, frozenset(logged)
        for (step, _), failed in failures.latest.items():
            name = failed.facts.get("id"), failed.facts.get("trial")
            if name[0] in ids and name not in known:
                for attempt in failures.record(failed).get("attempts", []):
                    about = attempt if isinstance(attempt, Mapping) else {}
                    logged.setdefault(name, []).append({"step": step, **about})
        return logged

    def _ballots_of(
        self, scores: Mapping[str, Entry | None]
    ) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
        """Yield the ballots of each score that has several, if all are on disk."""
        for name, entry in scores.items():
            keys = () if entry is None else entry.facts.get(MADE_OF, ())
            if keys:
                known = dict(self._ballots_column(name).read_many(list(dict.fromkeys(keys))))
                if all(key in known for key in keys):
                    yield name, [known[key].record for key in keys]

    def _ballots_column(self, evaluator: str) -> ColumnReader:
        if evaluator not in self._ballots:
            path = self._layout.column(evaluator + BALLOTS)
            self._ballots[evaluator] = ColumnReader(path, self._layout.index(path))
        return self._ballots[evaluator]


def _cells(requested: RequestedCells, id_: str) -> list[RequestedCell]:
    if requested.file is None:
        return [cell for cell in requested.cells() if cell.id == id_]
    position = requested.file.find(id_)
    return [] if position is None else list(requested.cells({position}))


def _others(column: FactsReader, counting: Container[bytes], id_: str) -> dict[int, list[bytes]]:
    """Return the keys of an item's answers that do not count now, by trial."""
    keys: dict[int, list[bytes]] = {}
    for key in column.keys_of(id_):
        if key not in counting:
            trial = int((column.facts(key) or {}).get("trial", 0))
            keys.setdefault(trial, []).append(key)
    return keys


def _score_keys(items: ItemsReader, cell: RequestedCell, item: ItemRecord) -> dict[str, bytes]:
    if item.entry is None:
        return {}
    return {by.name: by.key(cell, item.id, item.entry) for by in items.evaluators}


def _earlier(items: ItemsReader, item: ItemRecord, keys: Iterable[bytes]) -> Iterator[Earlier]:
    for key in keys:
        entry = items.requested.column.entry(key)
        if entry is not None:
            scores = {by.name: by.latest(item.id, item.trial, entry) for by in items.evaluators}
            yield Earlier(entry, {name: line for name, line in scores.items() if line is not None})
