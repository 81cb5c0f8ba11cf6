"""What is there to know about one item: all that any file says?"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limpet.journal.event_log import Started, failed_attempts
from limpet.journal.lines import Entry
from limpet.run.reading.items import ItemsReader, ReadItem

GONE = "no longer asked"
"""The status of an item that has answers on disk, and is not in the dataset any more."""


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

    item: ReadItem
    scores: Mapping[str, Entry] = field(default_factory=dict)
    failed_attempts: tuple[Mapping[str, Any], ...] = ()
    earlier: tuple[Earlier, ...] = ()
    in_flight: tuple[str, ...] = ()


def whole_items(
    items: ItemsReader, keys: Sequence[bytes], id_: str, events: Path, calls: Iterable[Started]
) -> list[WholeItem]:
    """Return all about one item, once for each trial it has.

    Args:
        items: Reads the items.
        keys: What counts now.
        id_: The item's id, with or without its trial.
        events: The story.
        calls: What is in flight.
    """
    named = (items.named(place, key) for place, key in enumerate(keys))
    places = [place for place, one in enumerate(named) if id_ in (one.id, one.base_id)]
    found = [items.at(place, keys[place]) for place in places]
    others = _others(items, frozenset(keys), id_)
    for id_of_other, trial in others.keys() - {(one.id, one.trial) for one in found}:
        base = items.naming.base(id_of_other, trial)
        found.append(ReadItem(id_of_other, trial, None, None, status=GONE, base_id=base))
    flying = [(one.id, one.step) for one in calls]
    return [
        WholeItem(
            item,
            _scores_of(items, item),
            tuple(_attempts(items, item, events)),
            tuple(_earlier(items, item, others.get((item.id, item.trial), []))),
            tuple(step for name, step in flying if name == item.id),
        )
        for item in found
    ]


def _others(
    items: ItemsReader, counting: frozenset[bytes], id_: str
) -> dict[tuple[str, int], list[bytes]]:
    """Return the keys of answers to an item that do not count now, by its id and trial."""
    found: dict[tuple[str, int], list[bytes]] = {}
    for key in items.column.keys():  # noqa: SIM118 - it is no dict
        if key in counting:
            continue
        facts = items.column.facts(key) or {}
        trial = int(facts.get("trial", 0))
        public = items.naming.public(str(facts.get("id", "")), trial)
        if id_ in (public, items.naming.base(public, trial)):
            found.setdefault((public, trial), []).append(key)
    return found


def _scores_of(items: ItemsReader, item: ReadItem) -> dict[str, Entry]:
    if item.status != "completed":
        return {}
    scored = items.scored(item)
    pairs = ((one.name, one.score(scored)) for one in items.evaluators)
    return {name: entry for name, entry in pairs if entry is not None}


def _earlier(items: ItemsReader, item: ReadItem, keys: Iterable[bytes]) -> Iterator[Earlier]:
    for key in keys:
        entry = items.column.entry(key)
        if entry is not None:
            scores = {one.name: one.any_score(item.id, entry) for one in items.evaluators}
            yield Earlier(entry, {name: one for name, one in scores.items() if one is not None})


def _attempts(items: ItemsReader, item: ReadItem, events: Path) -> Iterator[Mapping[str, Any]]:
    """Yield what each failed attempt met: from the story, which knows when, or the failures."""
    ids = {item.id, item.base_id, f"{item.base_id}_rep{item.trial}"}
    if items.naming.trials > 1 and not items.naming.mixed:
        ids = {item.id}
    told = list(failed_attempts(events, ids))
    if told:
        yield from told
        return
    for (step, _), failed in items.failures.latest.items():
        if failed.facts.get("id") in ids:
            for attempt in items.failures.entry(failed).record.get("attempts", []):
                yield {"step": step, **attempt} if isinstance(attempt, Mapping) else {"step": step}
