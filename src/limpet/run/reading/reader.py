"""Reads a run: its state, its progress, its items and its summary.

It takes no lock and changes no file, so it works while the run is running.
"""

import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from limpet.errors import JournalError, LimpetError, OtherFormatError
from limpet.journal.column import ColumnReader
from limpet.journal.event_log import EventLog, StartedAttempt
from limpet.run.reading.find_run import choose_run
from limpet.run.reading.items import WholeItem, WholeItems
from limpet.run.reading.progress import Progress, has_record, seconds_of
from limpet.run.reading.run_files import (
    Checked,
    changed_columns,
    may_lack_failures,
)
from limpet.run.reading.run_results import RunResults
from limpet.run.reading.saved_numbers import saved_numbers
from limpet.run.reading.totals import scores_so_far
from limpet.run.results.score_numbers import EARLIER_ON_DISK
from limpet.run.results.summary import Numbers
from limpet.run.watcher import Snapshot

State = Literal["running", "finished", "enough", "limited", "stopped", "cut off"]
_CACHED = (
    "counts", "by_current_version", "earlier_on_disk", "is_as_recorded",
    "_numbers", "_items", "_counting",
)  # fmt: skip
_KEPT = ("_items", "_counting")
"""What a refresh keeps if the request is the same: slow to compute for a hundred thousand items."""
_MOST_SO_FAR = 20_000
"""Above this, the scores of a running run are not added up just to show its progress."""


class RunReader(RunResults):
    """A run, or the journal of a map, read from its files. Close it, or use it with `with`.

    Args:
        path: A run directory, or the `.jsonl` file of a map.
        columns: Its columns that are already open; the reader shares their offsets.

    Raises:
        JournalError: There is no run at `path`.
    """

    def __init__(self, path: str | Path, columns: Mapping[str, ColumnReader] | None = None) -> None:
        super().__init__(path, columns)
        self._used: dict[str, tuple[int, dict[str, float]]] = {}
        self._checked: Checked = {}

    def refresh(self) -> None:
        """Read what happened since."""
        began = self.began_at
        super().refresh()
        if self.began_at != began:  # a new session
            self._used = {}
        kept: tuple[str, ...] = ()
        if "_items" in self.__dict__ and self._requested == self._what_is_requested():
            self._items.requested.counting = self.counting
            kept = _KEPT if self._items.requested.are_fixed else ()
        for name in _CACHED:
            if name not in kept:
                self.__dict__.pop(name, None)

    # ---- progress -------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state in a word.

        "running": a session works on it. "finished": nothing is left to do, though some cells may
        have failed. "enough": the last session reached its `stop_when`, and other items are left.
        "limited": it did all that it selected, and other items are left. "stopped": it ended in
        good order before that, or was only imported. "cut off": its last session did not end.
        """
        if self.is_running:
            return "running"
        if self.run_file.sessions and not self.session.ended:
            return "cut off"
        if self.run_file.sessions and not any(step.left for step in self.counts.steps):
            return "finished"
        if self.session.enough and self.is_as_recorded:
            return "enough"
        is_limited = self.session.selected is not None and self.session.did_all
        return "limited" if is_limited and self.is_as_recorded else "stopped"

    @cached_property
    def is_as_recorded(self) -> bool:
        """Whether `run.json` matches the files; if not, all results are counted."""
        if self.is_running or not self.run_file.sessions:
            return True
        changed = changed_columns(self, self._checked)
        if changed:
            names = ", ".join(changed)
            self.remarks.append(f"{names} changed after the last session: intact lines are counted")
        return not changed

    @cached_property
    def _numbers(self) -> Numbers | None:
        """The numbers of all results, which is slow; None: `run.json` has them."""
        is_known = self.is_as_recorded and (self.is_running or not may_lack_failures(self))
        return None if is_known else self.numbers()

    @cached_property
    def counts(self) -> Snapshot:
        """The progress without the event log: no retries, nothing in flight."""
        return Snapshot(self._progress(None).steps(), self._seconds)

    def snapshot(self, *, whole: bool = True) -> Snapshot:
        """Return the progress.

        Args:
            whole: Include the scores and tokens so far, which takes reading all results.
        """
        steps = self.session.steps.values()
        if steps and all(step.retries is not None for step in steps):
            return self.counts  # it has ended, and run.json has the numbers
        event_log = self.read_events()
        stopping = self.is_running and event_log.is_stopping
        paused = self.is_running and event_log.is_paused
        now = self._progress(event_log).steps(tokens=whole)
        if whole and self.is_running and self.evaluators and len(self) <= _MOST_SO_FAR:
            known = scores_so_far(self.numbers())
            now = tuple(replace(step, scores=known.get(step.name, {})) for step in now)
        return Snapshot(now, self._seconds, stopping, paused)

    def totals(self) -> dict[str, tuple[int, dict[str, float]]]:
        """Return the retries and the usage of this session, by step."""
        event_log, progress = self.read_events(calls=False), self._progress(None)
        return {
            name: (event_log.retries[name], progress.tokens(name, step.bytes_at))
            for name, step in self.session.steps.items()
        }

    def cut_off_calls(self) -> list[StartedAttempt]:
        """Return the calls that were in flight when it was cut off: they may have been paid for."""
        if self.state != "cut off":
            return []
        return self._progress(self.read_events()).unfinished()

    @property
    def _seconds(self) -> float:
        began = seconds_of(self.began_at)
        last = time.time() if self.is_running else seconds_of(self.last_at)
        return max(0.0, last - began) if began is not None and last is not None else 0.0

    @property
    def worked_s(self) -> tuple[float, bool]:
        """How long all sessions took, and whether all are known: a cut off one is not."""
        known, is_all = self._seconds, self.state != "cut off"
        for session in self.run_file.sessions[:-1]:
            began, ended = seconds_of(session.began), seconds_of(session.ended)
            if began is None or ended is None:
                is_all = False
            else:
                known += max(0.0, ended - began)
        return known, is_all

    def read_events(self, *, calls: bool = True) -> EventLog:
        """Return the events of the last session.

        Args:
            calls: Include the starts of calls, which are most of the events.
        """
        start, event_log = self.session.events_at or 0, self.event_log
        if event_log is None or event_log.start != start or (calls and not event_log.calls):
            has_ended = partial(has_record, self.columns)
            event_log = EventLog(self.layout.events, start, calls=calls, has_ended=has_ended)
            self.event_log = event_log
            event_log.refresh()
            for column in self.columns.values():  # they must not be older than the events
                column.refresh()
        return event_log

    def _progress(self, event_log: EventLog | None) -> Progress:
        columns = {name: self.columns[name] for name in (self.step, *self.evaluators)}
        return Progress(
            self.session,
            columns,
            lambda: self._counting,
            self.failures,
            event_log,
            self.is_running,
            lambda: self._numbers,
            self._used,
            self.counting,
        )

    @cached_property
    def _counting(self) -> tuple[Sequence[bytes], AbstractSet[bytes]]:
        """The keys of the answers that count, and those of answers by the current workflow."""
        requested = self._items.requested
        keys = requested.counting_keys()
        return keys, frozenset(
            keys if requested.are_fixed else (cell.key for cell in requested.cells())
        )

    @cached_property
    def by_current_version(self) -> tuple[int, int] | None:
        """How many answers are by the current workflow, and of how many; None: all."""
        may_be_earlier = self.step in self.counting.outdated or self.session.earlier_answers != 0
        if self.kind == "map" or not may_be_earlier:
            return None
        column = self.columns[self.step]
        answered = [cell for cell in self._items.requested.cells() if column.has(cell.counting)]
        current = sum(not cell.version for cell in answered)
        return (current, len(answered)) if current < len(answered) else None

    @cached_property
    def earlier_on_disk(self) -> int:
        """How many cells have no answer that counts, but one by an earlier version."""
        if self.kind == "map" or len(self.run_file.functions) < 2:  # noqa: PLR2004 - one version
            return 0
        return self._items.requested.earlier_on_disk(self.run_file.functions)

    # ---- results --------------------------------------------------------------------------------

    def item(self, id_: str) -> list[WholeItem]:
        """Return everything about one item, once for each trial; empty if the id is unknown."""
        return self.wholes().of(id_)

    def wholes(self) -> WholeItems:
        """Return a reader of everything about items, as of the last refresh."""
        calls = self._progress(self.read_events()).unfinished() if self.is_running else []
        return WholeItems(self._items, self.layout, calls)

    def summary(self, numbers: Numbers | None = None) -> dict[str, Any]:
        """Return the summary with the current numbers.

        Args:
            numbers: The numbers of all results, if known.
        """
        inputs = self.inputs()
        saved = None if inputs is None else saved_numbers(self.layout, inputs)
        if saved is None:
            numbers = self.numbers() if numbers is None else numbers
            summary = numbers.summary(self._in_flight())
        else:
            summary = saved.summary
        if self.layout.people.exists():
            corrected = import_module("limpet.run.calibrating.corrected")  # few runs have labels
            corrected.add_calibrations(summary, self, inputs)
        self.add_earlier(summary)
        return summary

    def add_earlier(self, summary: dict[str, Any]) -> None:
        """Add to a summary how many answers by earlier versions are on disk and do not count."""
        if self.earlier_on_disk:
            summary["workflow"][EARLIER_ON_DISK] = self.earlier_on_disk

    def _in_flight(self) -> int | None:
        """Return how many calls of the workflow are in flight; None: it is not running."""
        if not self.is_running:
            return None
        calls = self._progress(self.read_events()).unfinished()
        return sum(call.step == self.step for call in calls)


def open_run(run: str | None) -> RunReader:
    """Open a run to read it: by its path or name, or the latest.

    Raises:
        LimpetError: The run does not exist. Not a `JournalError`: no journal is damaged.
    """
    try:
        return RunReader(choose_run(run))
    except OtherFormatError:
        raise
    except JournalError as error:
        raise LimpetError(str(error), hint=error.hint) from error
