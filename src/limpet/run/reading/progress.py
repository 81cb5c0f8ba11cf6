"""How far is a run, by its files alone?

`run.json` has what was done when the session began, and the plan; the columns have what was added
since. So only their indexes are read, the events of this session, and the beginnings of the last
lines; no traces and no items. If `run.json` does not know, all results are counted.
"""

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from limpet.journal.event_log import EventLog, StartedAttempt
from limpet.run.planning.counting import Counting
from limpet.run.reading.facts_reader import FactsReader, Failed, FailuresReader
from limpet.run.results.costs import add_all_counts, add_counts, bounded
from limpet.run.results.summary import Numbers, StepNumbers
from limpet.run.run_file import Session
from limpet.run.watcher import InFlight, StepSnapshot

_WINDOW_S = 30.0
_MOST_RECENT = 2_000


def seconds_of(text: object) -> float | None:
    """Return a time of our files in seconds since 1970; None if it is not a time."""
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _age_s(at: str, now: float) -> float:
    return max(0.0, now - (seconds_of(at) or now))


def age_s(text: object) -> float | None:
    """Return how long ago a time was, in seconds; None if it is not a time."""
    at = seconds_of(text)
    return None if at is None else max(0.0, time.time() - at)


def has_record(columns: Mapping[str, FactsReader], call: StartedAttempt) -> bool:
    """Return whether a call has ended with a record."""
    column = columns.get(call.step)
    return column is not None and column.generation_of(call.key) >= call.generation


@dataclass(slots=True)
class Progress:
    """The progress of a session.

    Attributes:
        session: The last session, as in `run.json`.
        columns: The column of each step, the first step first.
        counting: Returns the keys of the answers that count, and of those by the current workflow.
        failures: The failures of all sessions.
        event_log: The events of this session; None: not needed, or `session` has their numbers.
        is_running: Whether the session is running.
        numbers: Returns the numbers of all results; None: `run.json` has them.
        used: By step, the usage so far, and the offset in its column up to which it was counted.
        rules: Decides whether a record counts.
    """

    session: Session
    columns: Mapping[str, FactsReader]
    counting: Callable[[], tuple[Sequence[bytes], AbstractSet[bytes]]]
    failures: FailuresReader
    event_log: EventLog | None
    is_running: bool
    numbers: Callable[[], Numbers | None]
    used: dict[str, tuple[int, dict[str, float]]]
    rules: Counting

    def steps(self, *, tokens: bool = True) -> tuple[StepSnapshot, ...]:
        """Return the progress of each step.

        Args:
            tokens: Include the tokens of this session, which takes reading its records.
        """
        shots: list[StepSnapshot] = []
        lost = 0
        total = self.total
        for number, name in enumerate(self.columns):
            shot = self._step(name, total - lost, is_first=number == 0, with_tokens=tokens)
            shots.append(shot)
            if number == 0:  # an item without an answer gets no score
                lost = sum(shot.failed.values())
                if lost and self.rules.redos:  # a redo that failed leaves the earlier answer
                    column = self.columns[name]
                    lost = min(lost, sum(not column.has(key) for key in self.counting()[0]))
        return tuple(shots)

    @property
    def total(self) -> int:
        """The number of cells of each step."""
        if self.session.items is not None:
            return self.session.items * self.session.trials
        return max(len(self.counting()[0]), *map(len, self.columns.values()))

    def _step(self, name: str, total: int, *, is_first: bool, with_tokens: bool) -> StepSnapshot:
        column = self.columns[name]
        began_with, numbers = self.session.steps.get(name), self.numbers()
        counted = None if numbers is None else numbers.of_step(name)
        if counted is not None:
            have = min(total, counted.done)
            kept = have if began_with is None else min(began_with.kept, have)
        elif is_first and (began_with is None or column.state.bad_lines):  # look at each
            have = sum(self._is_done(name, key) for key in self.counting()[0])
            kept = have if began_with is None else min(began_with.kept, have)
        elif began_with is not None:
            kept, recorded = min(began_with.kept, total), began_with.have
            have = kept + column.count_since(began_with.bytes_at) if recorded is None else recorded
            have = max(kept, min(total, have))
        else:  # an unknown session: all records were there before
            have = kept = min(total, len(column))
        failed, errors = self._failed(name, counted, is_first=is_first)
        retries, tokens = 0, {}
        if began_with is not None:
            retries, tokens = began_with.retries or 0, began_with.tokens
        if self.event_log is not None:
            retries = self.event_log.retries[name]
            tokens = {}
            if began_with is not None and with_tokens:
                tokens = self.tokens(name, began_with.bytes_at)
        return StepSnapshot(
            name,
            total,
            kept,
            have - kept,
            failed,
            retries,
            self._in_flight(name) if self.is_running else (),
            self._rate(name) if self.is_running and have < total else 0.0,
            self._pace(name),
            tokens,
            errors,
            waits=self.event_log.waits.get(name, "") if self.event_log and self.is_running else "",
        )

    def _is_done(self, name: str, key: bytes) -> bool:
        column, id_ = self.columns[name], ""
        if self.rules.depends_on_ids:
            id_ = str((column.facts(key) or {}).get("id", ""))
        return self.rules.verdict(name, key.hex(), column.generation(key), id_).is_done

    def _failed(
        self, name: str, counted: StepNumbers | None, *, is_first: bool
    ) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Return how many cells have failed, by class and by exception.

        If a session is running, count only its own failures: the others run again.
        """
        if counted is not None:
            return counted.failed, counted.errors
        recorded = self.session.steps.get(name)
        if recorded is not None and recorded.have is not None and not self.is_running:
            return recorded.failed, recorded.errors
        failed = self._failures(name, is_first=is_first)
        kinds = Counter(failure.kind for failure in failed)
        return kinds, Counter(failure.type for failure in failed)

    def _failures(self, name: str, *, is_first: bool) -> list[Failed]:
        column = self.columns[name]
        counts_all = is_first and not self.is_running
        start = 0 if counts_all else self.session.failures_at
        failures = {
            key: failed
            for text, failed in self.failures.of(name, start)
            if column.generation(key := bytes.fromhex(text)) < failed.generation
        }
        if failures and is_first:  # failures of another version or row do not count
            present = self.counting()[1]
            failures = {key: failed for key, failed in failures.items() if key in present}
        return list(failures.values())

    def unfinished(self) -> list[StartedAttempt]:
        """Return the calls that started and have not ended, the oldest first."""
        if self.event_log is None:
            return []
        failed_now = {
            (step, key)
            for (step, key), failed in self.failures.latest.items()
            if failed.offset >= self.session.failures_at
        }
        # Ended calls are forgotten, so that each refresh of a long session stays short.
        self.event_log.forget(
            lambda call: (call.step, call.key) in failed_now or has_record(self.columns, call)
        )
        return list(self.event_log.begun.values())

    def _in_flight(self, name: str) -> tuple[InFlight, ...]:
        now = time.time()  # one for all: else of two that began together, the second is older
        calls = [call for call in self.unfinished() if call.step == name]
        return tuple(
            InFlight(call.id, call.attempt, _age_s(call.at, now), call.trial, call.stalled)
            for call in sorted(calls, key=lambda call: call.at)
        )

    def _rate(self, name: str) -> float:
        """Return how many cells ended per second recently."""
        now = time.time()
        began = seconds_of(self.session.began) or now - _WINDOW_S
        since = max(now - _WINDOW_S, began)
        column = self.columns[name]

        def ended_at(key: bytes) -> float:
            return seconds_of((column.facts(key) or {}).get("at")) or 0.0

        recent = list(islice(column.latest(), _MOST_RECENT))  # in order: the newest first
        ended = bisect_right(recent, -since, key=lambda key: -ended_at(key))
        if ended == _MOST_RECENT:
            since = ended_at(recent[-1])
        else:
            failed = self.failures.of(name, self.session.failures_at)
            times = (seconds_of(failure.facts.get("at")) or 0.0 for _, failure in failed)
            ended += sum(at >= since for at in times)
        return ended / (now - since) if now > since else 0.0

    def _pace(self, name: str) -> str:
        if self.event_log is None or not self.is_running:
            return ""
        return str(self.event_log.pace.get(name, {}).get("words", ""))

    def tokens(self, name: str, bytes_at: int) -> dict[str, float]:
        """Return the usage of this session's calls; records are read only once."""
        column = self.columns[name]
        counted, used = self.used.get(name, (bytes_at, {}))
        for usages in column.usages(counted):
            add_all_counts(used, usages)
        self.used[name] = (column.end, used)
        total = dict(used)
        for _, failed in self.failures.of(name, self.session.failures_at):
            add_counts(total, failed.facts.get("usage") or {})
        return bounded(total)
