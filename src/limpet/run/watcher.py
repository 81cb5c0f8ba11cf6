"""How far is a run?

The event loop of the run notifies a `Watcher`. A `Tally` is a watcher that counts: other threads,
for example the one that draws the screen, take a `Snapshot` when they need one. A thousand cells a
second cost a thousand additions, and no drawing. Reading a run from its files gives the same
`Snapshot`.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from limpet.run.planning.plan import Plan
from limpet.run.results.costs import add_counts, bounded
from limpet.run.results.score_words import counted, values_of
from limpet.shapes import Cell, CellStatus, Outcome, Scale

if TYPE_CHECKING:
    from limpet.pacing.pacer import Pacer


_WINDOW_S = 30.0
_SAMPLE_S = 0.5


class FixedPace(NamedTuple):
    """The pace of a step without a pacer.

    Attributes:
        words: What limits it.
    """

    words: str


class Watcher:
    """Notified of a run's progress on its event loop. It must be quick and must not raise.

    Override the methods you need; those here do nothing.
    """

    def planned(self, plan: Plan) -> None:
        """The plan is made. Nothing has been spent yet."""

    def kept(self, step: str, record: Mapping[str, Any]) -> None:
        """A score of an earlier session is kept. Called before the first attempt starts."""

    def paced(self, step: str, pace: "Pacer | FixedPace") -> None:
        """What limits a step's pace. Its `words` can be read at any time."""

    def started(self, cell: Cell, attempt: int) -> None:
        """An attempt started."""

    def taken(self, cell: Cell, worker: str) -> None:
        """A worker of an engine took an attempt; another takes it if that one dies."""

    def attempt_failed(self, cell: Cell, facts: Mapping[str, Any]) -> None:
        """An attempt failed: the details as in `failures.jsonl`, with `retry_in` on a retry."""

    def finished(self, outcome: Outcome) -> None:
        """A cell ended, and its outcome is on disk."""

    def stopping(self, reason: Exception) -> None:
        """The run starts no more calls; those in flight may end."""

    def stalled(self, cell: Cell, seconds: float) -> None:
        """A call in flight is far older than is usual for its step."""

    def waits(self, step: str, words: str) -> None:
        """A step ends no cell for a minute, and why; empty: it does again."""

    def ordered(self, order: str, words: str) -> None:
        """Another process gave an order, and it is done: what was done, in words."""


class InFlight(NamedTuple):
    """A call in flight.

    Attributes:
        id: The id of its item.
        attempt: The number of the attempt, from 1.
        seconds: How long it has been running.
        trial: The number of its trial, from 0.
        stalled: Whether it is far older than is usual for its step.
    """

    id: str
    attempt: int
    seconds: float
    trial: int = 0
    stalled: bool = False


class ScoreSoFar(NamedTuple):
    """One score of an evaluator while the run is running.

    Attributes:
        mean: The mean of the scores so far.
        n: The number of scores so far.
        range: The lowest and the highest possible score; None: any number.
    """

    mean: float
    n: int
    range: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class StepSnapshot:
    """A step at one moment.

    Attributes:
        name: The name of the step.
        total: The number of cells.
        kept: The number of cells that were on disk before this session.
        done: The number of cells that this session completed.
        failed: The number of failed cells, by class: of this session, or once it ended of the run.
        retries: The number of failed attempts that were tried again.
        in_flight: The calls in flight, oldest first.
        rate: Cells that ended per second, recently.
        pace: What limits the pace; empty where no calls are made.
        tokens: The usage that the calls reported.
        errors: The failed cells by exception.
        scores: Its scores so far, by name, including those that were on disk before.
        waits: Why it ended no cell for a minute; empty: it did.
    """

    name: str
    total: int
    kept: int = 0
    done: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    retries: int = 0
    in_flight: tuple[InFlight, ...] = ()
    rate: float = 0.0
    pace: str = ""
    tokens: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    scores: Mapping[str, ScoreSoFar] = field(default_factory=dict)
    waits: str = ""

    @property
    def ended(self) -> int:
        """The number of cells that are over in this session: kept, done or failed."""
        return min(self.total, self.kept + self.done + sum(self.failed.values()))

    @property
    def left(self) -> int:
        """The number of cells still to do."""
        return self.total - self.ended

    @property
    def left_s(self) -> float | None:
        """How long they will take at the current rate; None if unknown."""
        if not self.left:
            return 0.0
        return self.left / self.rate if self.rate > 0 else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run at one moment.

    Attributes:
        steps: The workflow first, then the evaluators.
        seconds: How long this session has been running.
        stopping: Whether it only waits for calls in flight.
        paused: Whether it starts no calls until it is resumed.
    """

    steps: tuple[StepSnapshot, ...]
    seconds: float
    stopping: bool = False
    paused: bool = False

    @property
    def in_flight(self) -> int:
        """The number of calls in flight in all steps."""
        return sum(len(step.in_flight) for step in self.steps)

    @property
    def left_s(self) -> float | None:
        """How long the slowest step will take; None if unknown, or if nothing starts."""
        if self.stopping or self.paused:
            return None
        times = [step.left_s for step in self.steps]
        known = [seconds for seconds in times if seconds is not None]
        return max(known) if known and len(known) == len(times) else None


class Tally(Watcher):
    """Counts what a run does.

    Args:
        clock: The time in seconds.

    Attributes:
        plan: The plan; None before it is made.
        stop_reason: Why the run stops early; None if it does not.
        is_paused: Whether it starts no calls until it is resumed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.plan: Plan | None = None
        self.stop_reason: Exception | None = None
        self.is_paused = False
        self._clock = clock
        self._began = clock()
        self._steps: dict[str, _StepTally] = {}
        self._answering: _StepTally | None = None

    def planned(self, plan: Plan) -> None:
        self._began = self._clock()
        cells = plan.items * plan.trials
        self._steps = {
            step.name: _StepTally(
                step.name, cells, step.kept, self._began, plan.scales.get(step.name, Scale())
            )
            for step in (plan.workflow, *plan.evaluators)
        }
        self._answering = self._steps[plan.workflow.name]
        self.plan = plan

    def kept(self, step: str, record: Mapping[str, Any]) -> None:
        self._steps[step].add_scores(record)

    def paced(self, step: str, pace: "Pacer | FixedPace") -> None:
        self._steps[step].pace = pace

    def started(self, cell: Cell, attempt: int) -> None:
        call = InFlight(cell.id, attempt, self._clock(), cell.trial)
        self._steps[cell.step].in_flight[cell.key] = call

    def stalled(self, cell: Cell, seconds: float) -> None:
        del seconds
        calls = self._steps[cell.step].in_flight
        if (call := calls.get(cell.key)) is not None:
            calls[cell.key] = call._replace(stalled=True)

    def waits(self, step: str, words: str) -> None:
        self._steps[step].waits = words

    def attempt_failed(self, cell: Cell, facts: Mapping[str, Any]) -> None:
        step = self._steps[cell.step]
        step.in_flight.pop(cell.key, None)
        step.retries += "retry_in" in facts

    def finished(self, outcome: Outcome) -> None:
        step = self._steps[outcome.cell.step]
        step.in_flight.pop(outcome.cell.key, None)
        add_counts(step.tokens, (outcome.facts or {}).get("usage", {}))
        key, failure = outcome.cell.key, outcome.failure
        if key in step.failed_as:  # it was ordered to retry it
            step.count(*step.failed_as.pop(key), -1)
        if failure is not None and outcome.status is CellStatus.FAILED:
            step.failed_as[key] = failure.kind, failure.type or failure.kind
            step.count(*step.failed_as[key], 1)
        else:
            step.done += 1
            if step is not self._answering:
                step.add_scores(outcome.record)

    def stopping(self, reason: Exception) -> None:
        self.stop_reason = self.stop_reason or reason

    def ordered(self, order: str, words: str) -> None:
        del words
        if order in ("pause", "resume"):
            self.is_paused = order == "pause"

    def snapshot(self) -> Snapshot:
        """Return the current state. Can be called from any thread."""
        now = self._clock()
        unanswered = 0  # an item without an answer gets no score
        snapshots: list[StepSnapshot] = []
        for step in list(self._steps.values()):
            snapshots.append(step.snapshot(now, unanswered))
            if len(snapshots) == 1:
                unanswered = sum(step.failed.values())
        stopping = self.stop_reason is not None
        return Snapshot(tuple(snapshots), now - self._began, stopping, self.is_paused)


class _Sum(NamedTuple):
    """The scores so far. It is replaced, never changed: another thread reads it."""

    total: float
    n: int
    low: float
    high: float

    def plus(self, value: float) -> "_Sum":
        low, high = min(self.low, value), max(self.high, value)
        return _Sum(self.total + value, self.n + 1, low, high)

    def so_far(self, scale: Scale) -> ScoreSoFar:
        return score_so_far(self.total / self.n, self.n, self.low, self.high, scale)


_NOTHING = _Sum(0.0, 0, math.inf, -math.inf)


def score_so_far(mean: float, n: int, low: float, high: float, scale: Scale) -> ScoreSoFar:
    """Return a score so far, given its lowest and highest value."""
    unit = (0.0, 1.0) if low >= 0 and high <= 1 else None
    return ScoreSoFar(mean, n, scale.range or unit)


class _StepTally:
    def __init__(self, name: str, total: int, kept: int, began: float, scale: Scale) -> None:
        self.name = name
        self._scale = scale
        self._sums: dict[str, _Sum] = {}
        self.total = total
        self.kept = kept
        self.done = self.retries = 0
        self.failed: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.failed_as: dict[str, tuple[str, str]] = {}
        self.tokens: dict[str, float] = {}
        self.in_flight: dict[str, InFlight] = {}  # with the time when each began
        self.waits = ""
        self.pace: Pacer | FixedPace = FixedPace("")
        self._samples: deque[tuple[float, int]] = deque([(began, 0)])

    def count(self, kind: str, error: str, times: int) -> None:
        self.failed[kind] += times
        self.errors[error] += times

    def add_scores(self, record: Any) -> None:
        for part, value in values_of(record) if isinstance(record, Mapping) else ():
            if value is not None:
                name = self.name if part is None else f"{self.name}.{part}"
                self._sums[name] = self._sums.get(name, _NOTHING).plus(
                    counted(float(value), self._scale)
                )

    def snapshot(self, now: float, unanswered: int) -> StepSnapshot:
        # Each is copied at once: the event loop keeps running.
        in_flight = list(self.in_flight.values())
        failed = dict(+self.failed)
        return StepSnapshot(
            self.name,
            self.total - unanswered,
            self.kept,
            self.done,
            failed,
            self.retries,
            tuple(call._replace(seconds=now - call.seconds) for call in in_flight),
            self._rate(now, self.done + sum(failed.values())),
            self.pace.words,
            bounded(dict(self.tokens)),
            dict(+self.errors),
            {name: one.so_far(self._scale) for name, one in list(self._sums.items())},
            self.waits,
        )

    def _rate(self, now: float, ended: int) -> float:
        """Return how many cells end per second, over the last half minute."""
        samples = self._samples
        if now - samples[-1][0] >= _SAMPLE_S:
            samples.append((now, ended))
        while len(samples) > 1 and now - samples[1][0] > _WINDOW_S:
            samples.popleft()
        at, before = samples[0]
        return (ended - before) / (now - at) if now > at else 0.0
