"""How far is the run, counted as it happens?

The event loop counts; others, such as the thread that draws the screen, take a snapshot when they
please: a thousand cells a second cost a thousand additions, and no drawing.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from limpet.pacing.pacer import Pacer
from limpet.pacing.state import WORDS
from limpet.run.planning.plan import Plan
from limpet.run.progress.snapshot import InFlight, Snapshot, StepSnapshot
from limpet.run.progress.watcher import Watcher
from limpet.run.results.costs import add_counts, bounded
from limpet.types import Cell, CellStatus, Outcome

_WINDOW_S = 30.0
_SAMPLE_S = 0.5


class Tally(Watcher):
    """Counts what a run does: a `Watcher` that can be asked.

    Args:
        clock: The time in seconds.

    Attributes:
        plan: What will be done; None before that is settled.
        stop_reason: Why it stops early; None while it does not.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.plan: Plan | None = None
        self.stop_reason: Exception | None = None
        self._clock = clock
        self._began = clock()
        self._steps: dict[str, _Step] = {}

    # ---- told by the run ------------------------------------------------------------------------

    def planned(self, plan: Plan) -> None:
        self._began = self._clock()
        cells = plan.items * plan.trials
        self._steps = {
            step.name: _Step(step.name, cells, step.kept, self._clock)
            for step in (plan.workflow, *plan.evaluators)
        }
        self.plan = plan

    def paced(self, step: str, pace: Pacer | str) -> None:
        self._steps[step].pace = pace

    def started(self, cell: Cell, attempt: int) -> None:
        step = self._steps[cell.step]
        step.in_flight[cell.key] = (cell.id, attempt, self._clock())

    def attempt_failed(self, cell: Cell, met: Mapping[str, Any]) -> None:
        step = self._steps[cell.step]
        step.in_flight.pop(cell.key, None)
        step.retries += "retry_in" in met

    def finished(self, outcome: Outcome) -> None:
        step = self._steps[outcome.cell.step]
        step.in_flight.pop(outcome.cell.key, None)
        if outcome.failure is not None and outcome.status is CellStatus.FAILED:
            step.failed[outcome.failure.kind] += 1
        else:
            step.done += 1
            add_counts(step.tokens, (outcome.facts or {}).get("usage", {}))

    def stopping(self, reason: Exception) -> None:
        self.stop_reason = self.stop_reason or reason

    # ---- asked by anybody -----------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return how it stands. From any thread."""
        now = self._clock()
        steps = list(self._steps.values())
        lost = 0
        shots = []
        for number, step in enumerate(steps):
            shots.append(step.snapshot(now, 0 if number == 0 else lost))
            if number == 0:  # what has no answer gets no score
                lost = sum(step.failed.values())
        return Snapshot(tuple(shots), now - self._began, self.stop_reason is not None)


class _Step:
    def __init__(self, name: str, total: int, kept: int, clock: Callable[[], float]) -> None:
        self.name = name
        self.total = total
        self.kept = kept
        self.done = self.retries = 0
        self.failed: Counter[str] = Counter()
        self.tokens: dict[str, float] = {}
        self.in_flight: dict[str, tuple[str, int, float]] = {}
        self.pace: Pacer | str = ""
        self._samples: deque[tuple[float, int]] = deque([(clock(), 0)])

    def snapshot(self, now: float, lost: int) -> StepSnapshot:
        # Copied in one go: the event loop goes on meanwhile.
        flying = list(self.in_flight.values())
        failed = dict(self.failed)
        return StepSnapshot(
            self.name,
            self.total - lost,
            self.kept,
            self.done,
            failed,
            self.retries,
            tuple(InFlight(id_, attempt, now - at) for id_, attempt, at in flying),
            self._rate(now, self.done + sum(failed.values())),
            self._pace(),
            bounded(dict(self.tokens)),
        )

    def _pace(self) -> str:
        """Say what holds the pace."""
        return self.pace if isinstance(self.pace, str) else WORDS[self.pace.state.binding]

    def _rate(self, now: float, ended: int) -> float:
        """Return how many end per second, over the last half minute."""
        samples = self._samples
        if now - samples[-1][0] >= _SAMPLE_S:
            samples.append((now, ended))
        while len(samples) > 1 and now - samples[1][0] > _WINDOW_S:
            samples.popleft()
        at, before = samples[0]
        return (ended - before) / (now - at) if now > at else 0.0
