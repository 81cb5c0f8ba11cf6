"""What is there to know about one item: all that any file says?"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limpet.journal.event_log import Started, failed_attempts
from limpet.journal.lines import Entry
from limpet.run.reading.items import AskedCell, ItemsReader
from limpet.run.results.evaluation_result import ItemResult
from limpet.types import CellStatus


@dataclass(frozen=True, slots=True)
class Earlier:
    """An answer to the same item that does not count now: of other code, or of another row.

    Attributes:
        entry: The answer.
        scores: Its scores under any evaluator, by name.
    """

    entry: Entry
    scores: Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class WholeItem:
    """All about one item, in one trial.

    Attributes:
        item: It, as it counts now.
        scores: Each score whole, with when and by how many attempts.
        failed_attempts: What each failed attempt met, at any step, oldest first: `step`,
            `attempt`, `class`, `type`, `message`, and `at` where the story tells it.
        earlier: Answers that do not count now, oldest first.
        in_flight: The steps that are under way for it.
    """

    item: ItemResult
    scores: Mapping[str, Entry] = field(default_factory=dict)
    failed_attempts: tuple[Mapping[str, Any], ...] = ()
    earlier: tuple[Earlier, ...] = ()
    in_flight: tuple[str, ...] = ()


def whole_items(
    items: ItemsReader, id_: str, events: Path, calls: Iterable[Started]
) -> list[WholeItem]:
    """Return all about one item, once for each trial it has.

    Args:
        items: Reads the items.
        id_: The item's id.
        events: The story.
        calls: What is in flight.
    """
    cells = _cells(items, id_)
    found = list(items.read(cells))
    others = _others(items, frozenset(cell.counting for cell in cells), id_)
    gone = sorted(others.keys() - {item.trial for item in found})
    found += [ItemResult(id_, trial, None, None, status=CellStatus.NOT_ASKED) for trial in gone]
    keys = {cell.trial: cell.key for cell in cells}
    flying = [(call.step, call.key) for call in calls if call.id == id_]
    return [
        WholeItem(
            item,
            _scores_of(items, item),
            tuple(_attempts(items, item, events)),
            tuple(_earlier(items, item, others.get(item.trial, []))),
            tuple(_in_flight(items, item, keys.get(item.trial, b""), flying)),
        )
        for item in found
    ]


def _cells(items: ItemsReader, id_: str) -> list[AskedCell]:
    place = None if items.file is None else items.file.find(id_)
    if place is not None:
        return list(items.cells({place}))
    if items.file is not None:
        return []
    return [cell for cell in items.cells() if cell.id == id_]


def _others(items: ItemsReader, counting: frozenset[bytes], id_: str) -> dict[int, list[bytes]]:
    """Return the keys of answers to an item that do not count now, by its trial."""
    found: dict[int, list[bytes]] = {}
    for key in items.column.keys_of(id_):
        if key not in counting:
            trial = int((items.column.facts(key) or {}).get("trial", 0))
            found.setdefault(trial, []).append(key)
    return found


def _score_key(items: ItemsReader, item: ItemResult, number: int) -> bytes:
    return items.evaluators[number].key(item, {})


def _scores_of(items: ItemsReader, item: ItemResult) -> dict[str, Entry]:
    if item.entry is None:
        return {}
    found = {
        one.name: one.column.entry(_score_key(items, item, number))
        for number, one in enumerate(items.evaluators)
    }
    return {name: entry for name, entry in found.items() if entry is not None}


def _in_flight(
    items: ItemsReader, item: ItemResult, key: bytes, flying: Iterable[tuple[str, str]]
) -> Iterator[str]:
    known = {(items.step, key.hex())}
    if item.entry is not None:
        for number, one in enumerate(items.evaluators):
            known.add((one.name, _score_key(items, item, number).hex()))
    return (step for step, text in flying if (step, text) in known)


def _earlier(items: ItemsReader, item: ItemResult, keys: Iterable[bytes]) -> Iterator[Earlier]:
    for key in keys:
        entry = items.column.entry(key)
        if entry is not None:
            scores = {one.name: one.latest(item.id, item.trial, entry) for one in items.evaluators}
            yield Earlier(entry, {name: one for name, one in scores.items() if one is not None})


def _attempts(items: ItemsReader, item: ItemResult, events: Path) -> Iterator[Mapping[str, Any]]:
    """Yield what each failed attempt met: from the story, which knows when, or the failures."""
    told = [
        event for event in failed_attempts(events, {item.id}) if event.get("trial") == item.trial
    ]
    if told:
        yield from told
        return
    for (step, _), failed in items.failures.latest.items():
        if (failed.facts.get("id"), failed.facts.get("trial")) == (item.id, item.trial):
            for attempt in items.failures.record(failed).get("attempts", []):
                yield {"step": step, **attempt} if isinstance(attempt, Mapping) else {"step": step}
