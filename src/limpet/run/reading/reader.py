"""What does a run's directory say, to those who only read it?

Nothing here takes a lock or changes a file, so all of it works while the run is running.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from limpet.errors import JournalError
from limpet.journal.event_log import EventLog, Started
from limpet.journal.files import read_whole
from limpet.run.progress.snapshot import Snapshot
from limpet.run.reading.item_history import WholeItem, whole_items
from limpet.run.reading.items import ItemsReader, ReadItem
from limpet.run.reading.progress import Progress
from limpet.run.reading.rows import RowsAsked
from limpet.run.reading.run_files import RunFiles
from limpet.run.reading.scores import ScoresReader
from limpet.run.reading.times import seconds_of
from limpet.run.results.summary import summarise

State = Literal["running", "finished", "stopped", "cut off"]
_CACHED = ("counts", "by_current_version", "keys", "scores", "_items", "_begun")


class RunReader(RunFiles):
    """A run, or the journal of a map, as its files tell it. Close it, or use it with `with`.

    Args:
        path: A run directory, or the `.jsonl` file of a map.

    Raises:
        JournalError: There is no run at `path`.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._used: dict[str, tuple[int, dict[str, float]]] = {}

    def refresh(self) -> None:
        """Read what happened since."""
        began = self.began_at
        super().refresh()
        if self.began_at != began:  # somebody went on with it
            self._used = {}
        self._close_items()
        for name in _CACHED:
            self.__dict__.pop(name, None)

    def close(self) -> None:
        """Let go of the files."""
        super().close()
        self._close_items()

    def _close_items(self) -> None:
        if "_items" in self.__dict__:
            self._items.rows.close()

    # ---- how it stands --------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """How it stands, in a word.

        "running": somebody works on it. "finished": nothing is left to do, though some of it may
        have failed. "stopped": it ended in good order before that, or has only been imported.
        "cut off": it did not end.
        """
        if self.is_running:
            return "running"
        if self.run_file.sessions and not self.session.ended:
            return "cut off"
        left = not self.run_file.sessions or any(step.left for step in self.counts.steps)
        return "stopped" if left else "finished"

    @cached_property
    def counts(self) -> Snapshot:
        """What is done and what failed, without the story: no retries, nothing in flight."""
        return Snapshot(self._progress(None).steps(), self._seconds)

    def snapshot(self) -> Snapshot:
        """Return how it stands."""
        story = self._read_story(calls=not self.session.ended)
        stopping = self.is_running and story.is_stopping
        return Snapshot(self._progress(story).steps(), self._seconds, stopping)

    def cut_off_calls(self) -> list[Started]:
        """Return which calls were in flight when it was cut off: they may have been paid for."""
        if self.state != "cut off":
            return []
        return self._progress(self._read_story()).unfinished()

    @property
    def _seconds(self) -> float:
        began = seconds_of(self.began_at)
        last = time.time() if self.is_running else seconds_of(self.last_at)
        return max(0.0, last - began) if began is not None and last is not None else 0.0

    def _read_story(self, *, calls: bool = True) -> EventLog:
        start, story = self.session.events_at or 0, self.story
        if story is None or story.start != start or (calls and not story.calls):
            self.story = story = EventLog(self.layout.events, start, calls=calls)
            story.refresh()
            for column in self.columns.values():  # again: they must not be older than the story
                column.refresh()
        return story

    def _progress(self, story: EventLog | None) -> Progress:
        columns = {name: self.columns[name] for name in (self.step, *self.evaluators)}
        return Progress(
            self.session,
            columns,
            self.asked,
            self.standing,
            self.failures,
            story,
            self.is_running,
            self._used,
            self._needed,
        )

    def _needed(self, step: str, key: bytes) -> int:
        """Return which generation the record of a key must have, to need nothing more."""
        needed = self.redos.any_needed(step)
        if needed is None:
            facts = self.columns[step].facts(key) or {}
            base = self.naming.base(self._public_id(facts), int(facts.get("trial", 0)))
            needed = self.redos.needed(step, base, key.hex())
        return needed

    @cached_property
    def by_current_version(self) -> tuple[int, int] | None:
        """How many answers are by the present workflow, and of how many; None: all are."""
        column = self.columns[self.step]
        versions = Counter(
            self.standing[key][0] if key in self.standing else ""
            for key in (self.asked or ())
            if column.has(key)
        )
        return (versions[""], versions.total()) if versions.total() > versions[""] else None

    # ---- what came out --------------------------------------------------------------------------

    @cached_property
    def keys(self) -> list[bytes]:
        """The keys of the answers that count now, in the order of the dataset.

        Where nobody left a note of them, the latest record of each id counts.
        """
        if self.asked is not None:
            return self.asked
        latest: dict[str, bytes] = {}
        column = self.columns[self.step]
        for key in column.keys():  # noqa: SIM118 - it is no dict
            facts = column.facts(key) or {}
            latest[self._public_id(facts)] = key
        for text, failed in self.failures.of(self.step):
            latest.setdefault(self._public_id(failed.facts), bytes.fromhex(text))
        return list(latest.values())

    def _public_id(self, facts: Mapping[str, Any]) -> str:
        return self.naming.public(str(facts.get("id", "")), int(facts.get("trial", 0)))

    @cached_property
    def scores(self) -> list[ScoresReader]:
        """The scores of each evaluator."""
        known, reads = self.run_file.evaluators, self.run_file.reads
        return [
            ScoresReader(
                name,
                self.columns[name],
                self.failures,
                known.get(name),
                reads.get(name, ()),
                self.naming,
            )
            for name in self.evaluators
        ]

    @cached_property
    def _items(self) -> ItemsReader:
        rows = RowsAsked(self.layout.home / "workflow_output.json", self.layout.asked)
        return ItemsReader(
            self.step,
            self.columns[self.step],
            self.failures,
            self.scores,
            self.naming,
            self.run_file.configuration,
            rows,
            len(self.keys) // self.naming.trials,
            self.standing,
            self.redos,
            lambda: self._begun,
        )

    @cached_property
    def _begun(self) -> dict[str, str]:
        return {one.key: one.id for one in self._read_story().begun.values()}

    def items(self) -> Iterator[ReadItem]:
        """Yield each item in each trial, in the order of the dataset, trial by trial."""
        return self._items.read(self.keys)

    def item(self, id_: str) -> list[WholeItem]:
        """Return all about one item, once for each trial; empty if nobody ever heard of it.

        Args:
            id_: Its id, or with several trials one of `<id>_rep<N>`.
        """
        calls = self._progress(self._read_story()).unfinished() if self.is_running else []
        return whole_items(self._items, self.keys, id_, self.layout.events, calls)

    def ids(self) -> Iterator[str]:
        """Yield the id of each item in each trial."""
        return (self._items.named(place, key).id for place, key in enumerate(self.keys))

    def summary(self) -> dict[str, Any]:
        """Return the numbers of `summary.json`, as they are now."""
        return summarise(map(_timed, self.items()), self.evaluators)

    def summary_written(self) -> dict[str, Any]:
        """Return what the last session wrote into `summary.json`; empty if that is not there."""
        with suppress(OSError, ValueError, JournalError):
            known = json.loads(read_whole(self.layout.home / "summary.json"))
            return known if isinstance(known, dict) else {}
        return {}


def _timed(item: ReadItem) -> ReadItem:
    if item.status != "completed":  # as in summary.json: the time that gave answers
        item.seconds = 0.0
    return item
