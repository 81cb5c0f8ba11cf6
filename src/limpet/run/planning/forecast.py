"""What will the missing cells take: tokens, money and time, judging by finished ones?

Money. A sum of new cells is uncertain for two reasons: cells differ, and their mean is known from a
few only. Both are small multiples of how much cells differ, so a range needs no draws. How much
they differ is not seen well in a few cells with a long tail: it is the larger of what the values
say, and what a lognormal with the variance of their logarithms has. Ranges of steps add up end by
end, as if a long answer always took a long judgement: mostly it does.

Time. A sum divided by a number of calls in flight is wrong at the end, where a few long calls run
alone, and wherever a judge waits for answers. So the calls are simulated: each starts when its
endpoint has room, and ends after a latency drawn as above, the same for an answer and its scores.
How fast an endpoint is, is what it took per second while calls waited for it, whatever limits it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from random import Random
from typing import NamedTuple

FEWEST = 5
"""With fewer cells, a range would be true and of no use."""
_SIMULATED, _SIMULATIONS = 500, 100
"""Of a step with more cells, the last ones are simulated: those before keep the endpoint busy."""
_FASTER = 0.08, 0.13
"""How much faster an endpoint is than it was, and give or take how much (of the logarithm): a job
that knows the limit need not find it. Tuned on `benchmarks/forecast.py`."""
_MOST_VARIANCE = 4.0
"""Of the logarithms: one in twenty is 700 times another. Beyond it are two kinds of cells."""


@dataclass(frozen=True, slots=True)
class Between:
    """A 90% range.

    Attributes:
        low: Its lower end.
        high: Its upper end.
    """

    low: float
    high: float


class Amounts:
    """What a cell takes, judging by values of finished ones: 0 or more, and within reason.

    Attributes:
        mean: Their mean.
        spread: The square of their deviation by the mean.
        cells: How many they are.
    """

    def __init__(self, values: Sequence[float]) -> None:
        self.cells, self.mean, self.spread = len(values), math.fsum(values) / len(values), 0.0
        if self.mean and min(values) < max(values):
            logs = [math.log(value) for value in values if value]
            center = math.fsum(logs) / len(logs)
            variance = math.fsum((log - center) ** 2 for log in logs) / max(1, len(logs) - 1)
            seen = math.fsum((value / self.mean - 1) ** 2 for value in values) / self.cells
            self.spread = max(math.expm1(min(variance, _MOST_VARIANCE)), seen)

    def together(self, fewest: float, most: float) -> Between:
        """Return what so many new cells take."""
        # Nearly Student's distribution: of few cells, the variance is not known either. A little
        # less, as ends are added up. Tuned on `benchmarks/forecast.py`.
        at_ends = 1.6 + 1.5 / max(1, self.cells - 1)

        def off(cells: float) -> float:
            new = 1 / cells if cells else 0.0
            variance = math.log1p(self.spread * (1 / self.cells + new))
            return math.exp(at_ends * math.sqrt(variance))

        return Between(fewest * self.mean / off(fewest), most * self.mean * off(most))


class Limits(NamedTuple):
    """What is known of an endpoint.

    Attributes:
        least: How many calls may be in flight.
        most: How many it may turn out to take; the same number if that is known.
        per_s: How many calls it takes per second; 0: any number.
    """

    least: int
    most: int
    per_s: float = 0.0


class Stage(NamedTuple):
    """A step's missing cells.

    Attributes:
        endpoint: Where its calls go.
        cells: How many they are.
        following: How many of them wait for an answer of the first step.
        calls: How many calls they take.
        seconds: How long a call takes.
    """

    endpoint: str
    cells: int
    following: int
    calls: int
    seconds: Amounts


class _Room:
    """An endpoint in a simulation: its calls in flight, and when the next may start."""

    def __init__(self, limits: Limits, random: Random) -> None:
        # Between the least and the most, any order of magnitude is as likely.
        most = round(limits.least * (limits.most / limits.least) ** random.random())
        self._free_at = [0.0] * most
        self._each_s = math.exp(-random.gauss(*_FASTER)) / limits.per_s if limits.per_s else 0.0
        self._next = self.busy_s = 0.0

    def add(self, calls: float, seconds: float) -> None:
        """Be busy with calls before the simulation begins."""
        self.busy_s += calls * max(self._each_s, seconds / len(self._free_at))

    def start(self, ready: float, seconds: float) -> float:
        """Start a call as soon as there is room; return when it starts."""
        start = max(ready, self._free_at[0], self._next)
        self._next = start + self._each_s
        heapreplace(self._free_at, start + seconds)
        return start


class _Step:
    """The last cells of a step in a simulation, and how long their calls take."""

    def __init__(self, stage: Stage, share: float, mood: float, room: _Room, most_s: float) -> None:
        self.cells = math.ceil(stage.cells * share)
        self.following = math.ceil(stage.following * share)
        self._room, self._most_s = room, most_s
        self._calls_each = stage.calls / stage.cells
        seconds = stage.seconds
        variance = math.log1p(seconds.spread)
        mean = seconds.mean * math.exp(mood * math.sqrt(math.log1p(seconds.spread / seconds.cells)))
        self._mu, self._sigma = math.log(max(mean, 1e-9)) - variance / 2, math.sqrt(variance)
        room.add(stage.calls * (1 - share), min(mean, most_s))

    def run(self, cell: int, ready: float, like: float) -> tuple[float, float]:
        """Run the calls of a cell; return when the last of them starts, and when they end."""
        seconds = min(math.exp(self._mu + self._sigma * like), self._most_s)
        before, after = (math.floor(number * self._calls_each) for number in (cell, cell + 1))
        starts = [self._room.start(ready, seconds) for _ in range(before, after)]
        return (starts[-1], starts[-1] + seconds) if starts else (ready, ready)


def seconds_of(
    stages: Sequence[Stage], limits: Mapping[str, Limits], timeout_s: float
) -> list[float]:
    """Return how long simulated sessions take, in order; the same for the same arguments.

    Args:
        stages: The steps; the first one answers if any follows it.
        limits: What is known of each endpoint.
        timeout_s: No call takes longer.
    """
    random = Random("forecast")  # noqa: S311 - not for secrets
    return sorted(_simulated(stages, limits, timeout_s, random) for _ in range(_SIMULATIONS))


def _simulated(
    stages: Sequence[Stage], limits: Mapping[str, Limits], timeout_s: float, random: Random
) -> float:
    rooms = {name: _Room(one, random) for name, one in limits.items()}
    largest = max(stage.cells for stage in stages)
    share, mood = min(1.0, _SIMULATED / largest), random.gauss(0.0, 1.0)
    steps = [_Step(one, share, mood, rooms[one.endpoint], timeout_s) for one in stages]
    like = [random.gauss(0.0, 1.0) for _ in range(math.ceil(largest * share))]
    # A heap of (when it can start, step, cell). A cell that can start at once is there when the one
    # before it has started: so those that follow an answer have their turn.
    free = [(0.0, at, step.following) for at, step in enumerate(steps)]
    ready = [one for one in free if one[2] < steps[one[1]].cells]
    last = 0.0
    while ready:
        since, at, cell = heappop(ready)
        step = steps[at]
        start, end = step.run(cell, since, like[cell])
        last = max(last, end)
        if step.following <= cell < step.cells - 1:
            heappush(ready, (start, at, cell + 1))
        for other, follower in enumerate(steps if not at else ()):
            if cell < follower.following:
                heappush(ready, (end, other, cell))
    return last + max(room.busy_s for room in rooms.values())
