"""Everything that a run's files say about one item."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from limpet.journal.column import ColumnReader
from limpet.journal.event_log import Started, failed_attempts
from limpet.journal.layout import Layout
from limpet.journal.lines import Entry
from limpet.run.reading.asked_cells import AskedCell, AskedCells
from limpet.run.reading.facts_reader import FactsReader
from limpet.run.reading.items import ItemsReader
from limpet.run.record_fields import BALLOTS, MADE_OF
from limpet.run.results.evaluation_result import ItemResult
from limpet.types import CellStatus


@dataclass(frozen=True, slots=True)
class Earlier:
    """An answer to the same item that does not count now: by other code, or to another row.

    Attributes:
        entry: The answer.
        scores: Its latest score by each evaluator, by name.
    """

    entry: Entry
    scores: Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class WholeItem:
    """Everything about one item in one trial.

    Attributes:
        item: The item with the results that count now.
        scores: The whole line of each score, with its time and attempts.
        ballots: By evaluator, the replies of models that its score is made of, if they are several.
        failed_attempts: The failed attempts of all steps, oldest first: `step`, `attempt`, `class`,
            `type`, `message`, and `at` where the event log has it.
        earlier: Answers that do not count now, oldest first.
        in_flight: The steps that have a call in flight for it.
    """

    item: ItemResult
    scores: Mapping[str, Entry] = field(default_factory=dict)
    failed_attempts: tuple[Mapping[str, Any], ...] = ()
    earlier: tuple[Earlier, ...] = ()
    in_flight: tuple[str, ...] = ()
    ballots: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


def whole_items(
    items: ItemsReader, id_: str, layout: Layout, calls: Iterable[Started]
) -> list[WholeItem]:
    """Return everything about one item, once for each of its trials.

    Args:
        items: Reads the items.
        id_: The item's id.
        layout: Where the run's files are.
        calls: The calls in flight.
    """
    cells = _cells(items.asked, id_)
    results = list(items.read(cells))
    others = _others(items.asked.column, frozenset(cell.counting for cell in cells), id_)
    gone = sorted(others.keys() - {cell.trial for cell in cells})
    results += [ItemResult(id_, trial, None, None, status=CellStatus.NOT_ASKED) for trial in gone]
    calls_of_item = [(call.step, call.key) for call in calls if call.id == id_]
    whole: list[WholeItem] = []
    for cell, item in zip_longest(cells, results):
        keys = {} if cell is None else _score_keys(items, cell, item)
        scores = {by.name: by.column.entry(keys[by.name]) for by in items.evaluators if keys}
        present = {(name, key.hex()) for name, key in keys.items()}
        if cell is not None:
            present.add((items.asked.step, cell.key.hex()))
        whole.append(
            WholeItem(
                item,
                {name: entry for name, entry in scores.items() if entry is not None},
                tuple(_attempts(items, item, layout.events)),
                tuple(_earlier(items, item, others.get(item.trial, []))),
                tuple(step for step, key in calls_of_item if (step, key) in present),
                dict(_ballots(layout, scores)),
            )
        )
    return whole


def _ballots(
    layout: Layout, scores: Mapping[str, Entry | None]
) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Yield the ballots of each score that is made of several and has all of them on disk."""
    for name, entry in scores.items():
        keys = () if entry is None else entry.facts.get(MADE_OF, ())
        if keys:
            path = layout.column(name + BALLOTS)
            known = dict(
                ColumnReader(path, layout.index(path)).read_many(list(dict.fromkeys(keys)))
            )
            if all(key in known for key in keys):
                yield name, [known[key].record for key in keys]


def _cells(asked: AskedCells, id_: str) -> list[AskedCell]:
    if asked.file is None:
        return [cell for cell in asked.cells() if cell.id == id_]
    place = asked.file.find(id_)
    return [] if place is None else list(asked.cells({place}))


def _others(column: FactsReader, counting: Container[bytes], id_: str) -> dict[int, list[bytes]]:
    """Return the keys of an item's answers that do not count now, by trial."""
    keys: dict[int, list[bytes]] = {}
    for key in column.keys_of(id_):
        if key not in counting:
            trial = int((column.facts(key) or {}).get("trial", 0))
            keys.setdefault(trial, []).append(key)
    return keys


def _score_keys(items: ItemsReader, cell: AskedCell, item: ItemResult) -> dict[str, bytes]:
    if item.entry is None:
        return {}
    return {by.name: by.key(cell, item.id, item.entry) for by in items.evaluators}


def _earlier(items: ItemsReader, item: ItemResult, keys: Iterable[bytes]) -> Iterator[Earlier]:
    for key in keys:
        entry = items.asked.column.entry(key)
        if entry is not None:
            scores = {by.name: by.latest(item.id, item.trial, entry) for by in items.evaluators}
            yield Earlier(entry, {name: line for name, line in scores.items() if line is not None})


def _attempts(items: ItemsReader, item: ItemResult, events: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the failed attempts, from the event log, which has times, or else from the failures."""
    known = failed_attempts(events, {item.id})
    logged = [event for event in known if event.get("trial") == item.trial]
    if logged:
        yield from logged
        return
    for (step, _), failed in items.failures.latest.items():
        if (failed.facts.get("id"), failed.facts.get("trial")) == (item.id, item.trial):
            for attempt in items.failures.record(failed).get("attempts", []):
                yield {"step": step, **attempt} if isinstance(attempt, Mapping) else {"step": step}
