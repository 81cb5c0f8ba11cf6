"""How does a run stand at one moment?

The same for a run in this process, as its `Tally` counts it, and for one that is read from its
files: whoever shows it need not know which.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class InFlight(NamedTuple):
    """A call that is under way.

    Attributes:
        id: Of which item.
        attempt: Which attempt it is, from 1.
        seconds: How long it has been running.
    """

    id: str
    attempt: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StepSnapshot:
    """One step at one moment.

    Attributes:
        name: The workflow, or an evaluator.
        total: How many cells there are in all.
        kept: How many were on disk before this session.
        done: How many this session has added.
        failed: How many failed in this session, by class.
        retries: How many attempts failed and were tried again.
        in_flight: What is under way, oldest first.
        rate: Cells that ended per second, of late.
        pace: What holds the pace, in words; empty where no calls are made.
        tokens: What the calls reported to have used.
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

    @property
    def ended(self) -> int:
        """How many cells need nothing more in this session: done before, done now, or failed."""
        return min(self.total, self.kept + self.done + sum(self.failed.values()))

    @property
    def left(self) -> int:
        """How many cells are still to come."""
        return self.total - self.ended

    @property
    def left_s(self) -> float | None:
        """How long that will take at the present rate; None if nobody can tell."""
        if not self.left:
            return 0.0
        return self.left / self.rate if self.rate > 0 else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run at one moment.

    Attributes:
        steps: The workflow first, then the evaluators.
        seconds: How long this session has been going on.
        stopping: Whether it takes no more work and only waits for what is in flight.
    """

    steps: tuple[StepSnapshot, ...]
    seconds: float
    stopping: bool = False

    @property
    def in_flight(self) -> int:
        """How many calls are under way in all."""
        return sum(len(step.in_flight) for step in self.steps)

    @property
    def left_s(self) -> float | None:
        """How long the slowest step will take; None if nobody can tell."""
        times = [step.left_s for step in self.steps]
        known = [one for one in times if one is not None]
        return max(known) if known and len(known) == len(times) else None
