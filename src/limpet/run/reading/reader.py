"""Reads a run: its state, its progress, its items and its summary.

Nothing here takes a lock or changes a file, so all of it works while the run is running.
"""

import json
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from limpet.datasets.selection import Selection
from limpet.errors import JournalError, LimpetError
from limpet.journal.column import ColumnReader
from limpet.journal.event_log import EventLog, Started
from limpet.journal.files import read_whole
from limpet.run.calibrating.corrected import add_calibrations
from limpet.run.planning.items_file import has_standing, identity_of
from limpet.run.progress.watcher import Snapshot
from limpet.run.reading.asked_cells import AskedCells
from limpet.run.reading.find_run import choose_run
from limpet.run.reading.item_history import WholeItem, whole_items
from limpet.run.reading.items import ItemsReader
from limpet.run.reading.items_asked import ItemsFile
from limpet.run.reading.noted_scores import Parts, note_scores, noted_scores, parts_of
from limpet.run.reading.noted_summary import digest_of_inputs, note_summary, noted_summary
from limpet.run.reading.progress import Progress, seconds_of
from limpet.run.reading.recorded import (
    Checked,
    changed_columns,
    has_newer_items,
    may_lack_failures,
)
from limpet.run.reading.run_files import RunFiles
from limpet.run.reading.scores import ScoresReader
from limpet.run.reading.totals import add_up, scores_so_far
from limpet.run.results.evaluation_result import ItemResult
from limpet.run.results.summary import Numbers
from limpet.run.run_file import RunFile
from limpet.types import Item

if TYPE_CHECKING:
    from limpet.run.reading.score_table import ScoreTable

State = Literal["running", "finished", "enough", "limited", "stopped", "cut off"]
_CACHED = (
    "counts", "by_current_version", "has_newer_items", "is_as_recorded", "_numbers", "_items",
    "_counting",
)  # fmt: skip
_KEPT = ("_items", "_counting")
"""What a refresh keeps, if the same is asked: for a hundred thousand items, they take long."""
_LEAST_ITEMS, _MOST_PASSES = 2_000, 50
"""How many items to read with all their trials at once, and in how many passes at most."""
_MOST_SO_FAR = 20_000
"""While a larger run is running, its scores are not added up only to show how far it is."""
_NEWER = (
    "items.jsonl is not the one that run.json describes: a session was cut off as it began, or the "
    "file was changed; the counts are of its items"
)


class RunReader(RunFiles):
    """A run, or the journal of a map, read from its files. Close it, or use it with `with`.

    Args:
        path: A run directory, or the `.jsonl` file of a map.
        columns: Its columns that are open already; the reader shares their places.

    Raises:
        JournalError: There is no run at `path`.
    """

    def __init__(self, path: str | Path, columns: Mapping[str, ColumnReader] | None = None) -> None:
        super().__init__(path, columns)
        self._used: dict[str, tuple[int, dict[str, float]]] = {}
        self._asked: tuple[Any, ...] = ()
        self._checked: Checked = {}

    def refresh(self) -> None:
        """Read what happened since."""
        began = self.began_at
        super().refresh()
        if self.began_at != began:  # a new session
            self._used = {}
        kept: tuple[str, ...] = ()
        if "_items" in self.__dict__ and self._asked == self._what_is_asked():
            self._items.redos = self.redos
            kept = _KEPT if self._items.asked.are_fixed else ()
        for name in _CACHED:
            if name not in kept:
                self.__dict__.pop(name, None)

    def _what_is_asked(self) -> tuple[Any, ...]:
        file, about = self.items_file, self.run_file
        identity = None if file is None else file.identity
        what = (identity, about.steps, about.selections, self.trials, self.evaluators, about.scales)
        return *what, self.outdated

    # ---- progress -------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state in a word.

        "running": a session works on it. "finished": nothing is left to do, though some of it may
        have failed. "enough": the last session reached its `stop_when`, and other items are left.
        "limited": it did all that it selected, and other items are left.
        "stopped": it ended in good order before that, or was only imported. "cut off": its last
        session did not end.
        """
        if self.is_running:
            return "running"
        if self.has_newer_items or (self.run_file.sessions and not self.session.ended):
            return "cut off"
        if self.run_file.sessions and not any(step.left for step in self.counts.steps):
            return "finished"
        if self.session.enough and self.is_as_recorded:
            return "enough"
        is_limited = self.session.selected is not None and self.session.did_all
        return "limited" if is_limited and self.is_as_recorded else "stopped"

    @cached_property
    def has_newer_items(self) -> bool:
        """Whether a session replaced `items.jsonl` and was killed before it was recorded."""
        is_newer = has_newer_items(self)
        if is_newer:
            self.remarks.append(_NEWER)
        return is_newer

    @cached_property
    def is_as_recorded(self) -> bool:
        """Whether `run.json` describes the files; else all results are counted."""
        if self.is_running or not self.run_file.sessions:
            return True
        changed = changed_columns(self, self._checked)
        if changed:
            names = ", ".join(changed)
            self.remarks.append(f"{names} changed after the last session: what is whole is counted")
        return not (changed or self.has_newer_items)

    @cached_property
    def _numbers(self) -> Numbers | None:
        """The numbers of all results, which take long; None: `run.json` knows them."""
        is_known = self.is_as_recorded and (self.is_running or not may_lack_failures(self))
        return None if is_known else add_up(self._items)

    @cached_property
    def counts(self) -> Snapshot:
        """The progress without the event log: no retries, nothing in flight."""
        return Snapshot(self._progress(None).steps(), self._seconds)

    def snapshot(self, *, scores: bool = True) -> Snapshot:
        """Return the progress.

        Args:
            scores: With the scores so far, for which all results are added up.
        """
        steps = self.session.steps.values()
        if steps and all(step.retries is not None for step in steps):
            return self.counts  # it has ended, and the numbers of its events are in run.json
        event_log = self._read_events()
        stopping = self.is_running and event_log.is_stopping
        now = self._progress(event_log).steps()
        if scores and self.is_running and self.evaluators and len(self) <= _MOST_SO_FAR:
            known = scores_so_far(add_up(self._items))
            now = tuple(replace(step, scores=known.get(step.name, {})) for step in now)
        return Snapshot(now, self._seconds, stopping)

    def totals(self) -> dict[str, tuple[int, dict[str, float]]]:
        """Return the retries and the usage of this session, by step."""
        event_log, progress = self._read_events(calls=False), self._progress(None)
        return {
            name: (event_log.retries[name], progress.tokens(name, step.bytes_at))
            for name, step in self.session.steps.items()
        }

    def cut_off_calls(self) -> list[Started]:
        """Return the calls that were in flight when it was cut off: they may have been paid for."""
        if self.state != "cut off":
            return []
        return self._progress(self._read_events()).unfinished()

    @property
    def _seconds(self) -> float:
        began = seconds_of(self.began_at)
        last = time.time() if self.is_running else seconds_of(self.last_at)
        return max(0.0, last - began) if began is not None and last is not None else 0.0

    def _read_events(self, *, calls: bool = True) -> EventLog:
        start, event_log = self.session.events_at or 0, self.event_log
        if event_log is None or event_log.start != start or (calls and not event_log.calls):
            self.event_log = event_log = EventLog(self.layout.events, start, calls=calls)
            event_log.refresh()
            for column in self.columns.values():  # they must not be older than the events
                column.refresh()
        return event_log

    def _progress(self, event_log: EventLog | None) -> Progress:
        columns = {name: self.columns[name] for name in (self.step, *self.evaluators)}
        session = self.session
        if self.has_newer_items:
            session = replace(session, items=len(self._items.asked) // self.trials)
        return Progress(
            session,
            columns,
            lambda: self._counting,
            self.failures,
            event_log,
            self.is_running,
            lambda: self._numbers,
            self._used,
            self._needed,
        )

    def _needed(self, step: str, key: bytes) -> int:
        """Return the generation that the record of a key must have to be done."""
        needed = self.redos.any_needed(step)
        if needed is None:
            facts = self.columns[step].facts(key) or {}
            needed = self.redos.needed(step, str(facts.get("id", "")), key.hex())
        return needed

    @cached_property
    def _counting(self) -> tuple[Sequence[bytes], AbstractSet[bytes]]:
        """The keys of the answers that count, and those of answers by the current workflow."""
        asked = self._items.asked
        keys = asked.counting_keys()
        return keys, frozenset(keys if asked.are_fixed else (cell.key for cell in asked.cells()))

    @cached_property
    def by_current_version(self) -> tuple[int, int] | None:
        """How many answers are by the current workflow, and of how many; None: all are."""
        outdated = self.outdated.get(self.step)
        if self.kind == "map" or not (outdated or has_standing(self.layout)):
            return None
        column = self.columns[self.step]
        answered = [cell for cell in self._items.asked.cells() if column.has(cell.counting)]
        current = sum(not cell.version for cell in answered)
        return (current, len(answered)) if current < len(answered) else None

    # ---- results --------------------------------------------------------------------------------

    @cached_property
    def _items(self) -> ItemsReader:
        if identity_of(self.layout) != self.items_identity:  # a session has begun meanwhile
            self.refresh()
        self._asked = self._what_is_asked()
        file, steps = self.items_file, self.run_file.steps
        answering = steps.get(self.step)
        asked = AskedCells(
            self.step,
            self.columns[self.step],
            self.failures,
            file,
            "" if answering is None else answering.fingerprint,
            self._places(file),
            self.trials,
            self.outdated.get(self.step, {}),
        )
        evaluators = [
            ScoresReader(
                name,
                self.columns[name],
                steps.get(name),
                file,
                self.failures,
                self.outdated.get(name, {}),
            )
            for name in self.evaluators
        ]
        about = self.run_file
        return ItemsReader(asked, evaluators, self.redos, about.scales, about.names.id)

    def _places(self, file: ItemsFile | None) -> Sequence[int]:
        """Return the places of the items that the run reports on."""
        if file is None:
            return ()
        if self.run_file.selections in ([], [Selection()]):
            return range(len(file))
        return self.run_file.reported([Item(id_, None) for id_ in file.ids()])

    @property
    def results(self) -> ItemsReader:
        """What came out for each item. A refresh keeps it for as long as the same is asked."""
        return self._items

    def mark(self) -> tuple[Any, ...]:
        """Return what changes whenever something was written to the run."""
        session = (len(self.run_file.sessions), self.began_at, self.session.ended)
        people = self.layout.people.stat().st_mtime_ns if self.layout.people.exists() else 0
        return *self._ends().values(), self.items_identity, *session, people, self.is_running

    def noted_scores(self) -> tuple[int, Parts] | None:
        """Return how many cells there are and what each scored, if that was noted; else None."""
        inputs = self.inputs()
        return None if inputs is None else noted_scores(self.layout, inputs)

    def __len__(self) -> int:
        """Return the number of items, counting each trial."""
        return len(self._items.asked)

    def items(
        self, places: Container[int] | None = None, *, whole: bool = True
    ) -> Iterator[ItemResult]:
        """Yield each item in each trial, in the order of the dataset, trial by trial.

        Args:
            places: The places of the items to read; None: all.
            whole: Decode the answers, too; else only the facts about them and, unless `items.jsonl`
                is missing or damaged, their rows.
        """
        return self._items.read(self._items.asked.cells(places), whole=whole)

    @property
    def asked(self) -> AskedCells:
        """Which answer counts for each of `items`, in that order."""
        return self._items.asked

    def items_at(self, numbers: Iterable[int]) -> Iterator[ItemResult]:
        """Yield some of `items`, by their numbers in that order, from 0."""
        return self._items.read(self.asked[number] for number in numbers)

    def numbers(self) -> Numbers:
        """Return the current numbers of all items."""
        return add_up(self._items)

    @property
    def knows_rows(self) -> bool:
        """Whether rows can be read without the answers, from `items.jsonl`."""
        return self._items.asked.file is not None

    def trials_of_items(self) -> Iterator[list[ItemResult]]:
        """Yield all trials of each item, in the order of the dataset, in bounded memory."""
        places = self._items.asked.places
        some: Sequence[Container[int] | None] = [None]  # the places are not known
        if self._items.asked.file is not None:
            length = max(_LEAST_ITEMS, len(places) // _MOST_PASSES)
            some = [frozenset(places[at : at + length]) for at in range(0, len(places), length)]
        for chunk in some:
            by_id: dict[str, list[ItemResult]] = {}
            for item in self.items(chunk):
                by_id.setdefault(item.id, []).append(item)
            yield from by_id.values()

    def item(self, id_: str) -> list[WholeItem]:
        """Return everything about one item, once for each trial; empty if the id is unknown."""
        calls = self._progress(self._read_events()).unfinished() if self.is_running else []
        return whole_items(self._items, id_, self.layout, calls)

    def ids(self) -> Iterator[str]:
        """Yield the id of each item."""
        file = self._items.asked.file
        return iter(cell.id for cell in self._items.asked.cells()) if file is None else file.ids()

    def summary(self, numbers: Numbers | None = None) -> dict[str, Any]:
        """Return the current numbers of `summary.json`.

        Args:
            numbers: The numbers of everything that was read, if they are known.
        """
        inputs = self.inputs()
        noted = None if inputs is None else noted_summary(self.layout, inputs)
        if noted is None:
            numbers = add_up(self._items) if numbers is None else numbers
            summary = numbers.summary(self._in_flight())
        else:
            summary = noted
        add_calibrations(summary, self, inputs)
        return summary

    def _in_flight(self) -> int | None:
        """Return how many calls of the workflow are in flight; None: it is not running."""
        if not self.is_running:
            return None
        calls = self._progress(self._read_events()).unfinished()
        return sum(call.step == self.step for call in calls)

    def inputs(self) -> str | None:
        """Return a digest of all that the numbers follow from; None if that is not known."""
        if identity_of(self.layout) != self.items_identity:  # it is of a later session
            return None
        return digest_of_inputs(self.layout, self.run_file, self._ends())

    def score_table(self) -> "ScoreTable":
        """Return what each cell scored, as arrays."""
        noted = self.noted_scores()
        if noted is None:
            numbers = add_up(self._items)
            noted = numbers.items, parts_of(numbers)
        # NumPy, which most commands do not need.
        module = import_module("limpet.run.reading.score_table")
        table: ScoreTable = module.score_table(self._items.asked, *noted)
        return table

    def note_numbers(self, run_file: RunFile, numbers: Numbers) -> None:
        """Note the numbers for later readers, while the run is locked.

        Args:
            run_file: The content of `run.json` when the session will have ended.
            numbers: The numbers of everything that was read.

        Raises:
            OSError: They cannot be written.
        """
        inputs = digest_of_inputs(self.layout, run_file, self._ends())
        if inputs is not None:
            note_summary(self.layout, inputs, numbers.summary())
            note_scores(self.layout, inputs, numbers)

    def _ends(self) -> dict[Path, int]:
        steps = (self.columns[name] for name in (self.step, *self.evaluators))
        ends = {column.path: column.end for column in steps}
        return {**ends, self.layout.failures: self.failures.end}

    def summary_written(self) -> dict[str, Any]:
        """Return `summary.json` as the last session wrote it; empty if it is missing."""
        with suppress(OSError, ValueError, JournalError):
            known = json.loads(read_whole(self.layout.home / "summary.json"))
            return known if isinstance(known, dict) else {}
        return {}


def open_run(run: str | None) -> RunReader:
    """Open a run to read it: by its path or name, or the latest.

    Raises:
        LimpetError: The run does not exist. Not a `JournalError`: the argument is wrong, no journal
            is damaged.
    """
    try:
        return RunReader(choose_run(run))
    except JournalError as error:
        raise LimpetError(str(error), hint=error.hint) from error
