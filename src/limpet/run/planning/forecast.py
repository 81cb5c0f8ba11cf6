"""What will the missing cells take: tokens, money and time, judging by finished ones?

Money. The sum of M new cells is uncertain for two reasons: cells differ, and their mean is known
from a few only. Usage has a long tail, so a normal interval from 30 cells misses too often above.
A lognormal is fitted instead, and each draw first draws its parameters from what the cells leave
open (the exact pivots of a normal sample), then the sum. A lognormal that is wrong about the mean
of the very cells it was fitted to is replaced by the one with their mean and variance: one cell in
ten may take twenty times as much as the others.

Time. A sum divided by a number of calls in flight is wrong at the end, where a few long calls run
alone, and wherever a judge waits for answers. So the calls are simulated: each starts when its
endpoint has room, and ends after a latency drawn as above.

Still open. The latencies of an answer and of its scores are drawn apart, so the end of a job is a
little late where long answers take long scores. A limit of tokens is remembered as a rate of calls.
Both are why time is within its range in 80% of the jobs of `benchmarks/forecast.py`, not in 90%.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from random import Random
from typing import NamedTuple

FEWEST = 5
"""With fewer cells, a range would be true and of no use."""
LEVEL = 0.90
_BY_CHANCE = 2.0
_MOST_VARIANCE = 4.0
"""Of the logarithms: one in twenty is 700 times another. Beyond it are two kinds of cells."""
_LARGEST_EXPONENT = 700.0
_LARGEST = 1e300
_MINUTE_S = 60.0
_REACHED = 0.82, 1.05
"""How much of a remembered limit a job reaches: short ones less, and the memory may be a little
off. Tuned on `benchmarks/forecast.py`."""
_MEASURED_OVER = 100
"""A pacer measures a rate over about so many calls: on a limit of tokens, it varies as they do."""


@dataclass(frozen=True, slots=True)
class Between:
    """A range.

    Attributes:
        low: Its lower end.
        high: Its upper end.
    """

    low: float
    high: float


def between(draws: Sequence[float]) -> Between | None:
    """Return the middle 90% of draws; None: they are beyond what a float can hold."""
    known, tail = sorted(draws), (1 - LEVEL) / 2
    low, high = known[int(tail * len(known))], known[math.ceil((1 - tail) * len(known)) - 1]
    return Between(low, high) if high < _LARGEST else None


def same_draws(seed: str | float) -> Random:
    """Return draws that are the same each time: a plan says the same twice."""
    return Random(seed)  # noqa: S311 - not for secrets


# ---- How much does a cell take, and how much do many take together? -----------------------------


class Drawn(NamedTuple):
    """One of the distributions that the cells seen allow: a share of zeros, else a lognormal."""

    share: float
    mu: float
    sigma: float

    def total(self, cells: int, random: Random) -> float:
        """Return what this many cells take together."""
        if self.share < 1.0:
            spread = math.sqrt(cells * self.share * (1 - self.share))
            cells = min(cells, max(0, round(random.gauss(cells * self.share, spread))))
        if not cells:
            return 0.0
        if cells == 1:
            return math.exp(min(random.gauss(self.mu, self.sigma), _LARGEST_EXPONENT))
        # A sum of lognormals is nearly one, with their mean and variance.
        ratio = math.log1p(math.expm1(min(self.sigma**2, _LARGEST_EXPONENT)) / cells)
        mean = self.mu + self.sigma**2 / 2 + math.log(cells) - ratio / 2
        return math.exp(min(random.gauss(mean, math.sqrt(ratio)), _LARGEST_EXPONENT))


class Likely:
    """What a cell takes, judging by values of finished ones: 0 or more, and finite.

    Attributes:
        mean: Their mean.
    """

    def __init__(self, values: Sequence[float]) -> None:
        some = [value for value in values if value > 0]
        self._some, self._zeros = len(some), len(values) - len(some)
        self.mean = math.fsum(value / len(values) for value in some)
        self._fitted = _fitted(some) if some else (0.0, 0.0)

    @property
    def varies(self) -> float:
        """The deviation of those above zero, by their mean."""
        return math.sqrt(math.expm1(min(self._fitted[1] ** 2, _MOST_VARIANCE)))

    def draw(self, random: Random) -> Drawn:
        """Return one of the distributions that these values allow."""
        mu, sigma = self._fitted
        share = 1.0
        if self._zeros:
            share = random.betavariate(self._some + 0.5, self._zeros + 0.5) if self._some else 0.0
        if sigma:
            free = self._some - 1
            sigma *= math.sqrt(free / random.gammavariate(free / 2, 2.0))
            mu += random.gauss(0.0, sigma / math.sqrt(self._some))
        return Drawn(share, mu, sigma)


def _fitted(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the deviation of the logarithms of a lognormal."""
    many, largest = len(values), max(values)
    logs = [math.log(value) for value in values]
    mu = math.fsum(logs) / many
    if many == 1 or min(values) == largest:
        return mu, 0.0
    variance = math.fsum((log - mu) ** 2 for log in logs) / (many - 1)
    # Of the largest, as their squares may be more than a float can hold.
    mean = math.fsum(value / largest for value in values) / many
    spread = math.fsum((value / largest - mean) ** 2 for value in values) / (many - 1)
    implied = math.exp(min(mu + variance / 2 - math.log(largest), _LARGEST_EXPONENT))
    # By chance, the two means of a lognormal sample differ by this much: the square of the mean's
    # error, without that part of it which the logarithms have, too.
    exact = math.expm1(min(variance, _LARGEST_EXPONENT)) - variance - variance**2 / 2
    off = abs(implied - mean) > _BY_CHANCE * implied * math.sqrt(max(exact, 0.0) / many)
    by_moments = math.log1p(spread / mean**2)
    if off or variance > _MOST_VARIANCE or by_moments > variance:
        variance = by_moments
        mu = math.log(mean) + math.log(largest) - variance / 2
    return mu, math.sqrt(variance)


# ---- How long do calls take together, at an endpoint with a limit? ------------------------------


@dataclass(frozen=True, slots=True)
class Limits:
    """What is known of an endpoint's limit.

    Attributes:
        most: How many calls are in flight at most.
        perhaps: How many it may turn out to take, if that is not found yet: their number then
            doubles with each round of calls. 0: it is found.
        per_s: How many calls may start per second; 0: any number.
        per_minute: How many calls may start per minute; 0: any number.
        by_tokens: Whether a call with more tokens takes more of these two.
        fastest: How many may start per second, where `per_s` is only the least; 0: it is not.
        varies: By how much calls differ, as the deviation of their tokens by the mean.
    """

    most: int
    perhaps: int = 0
    per_s: float = 0.0
    per_minute: float = 0.0
    by_tokens: bool = False
    fastest: float = 0.0
    varies: float = 0.0


class Stage(NamedTuple):
    """A step's missing cells.

    Attributes:
        endpoint: Where its calls go.
        ready: How many cells can start at once; the others follow an answer each.
        following: How many follow an answer.
        calls_each: How many calls a cell takes, at the same time.
        seconds: How long a call takes.
        tokens: How many tokens a call takes.
    """

    endpoint: str
    ready: int
    following: int
    calls_each: float
    seconds: Likely
    tokens: Likely | None


_SINGLY = 600
"""So many cells of a step are simulated one by one; of more, the first ones in blocks."""


class _Room:
    """An endpoint in a simulation: its calls in flight, and when the next may start."""

    def __init__(self, limits: Limits, calls: int, random: Random) -> None:
        most = limits.most
        self.limits = limits
        self.most = max(1, min(round(_between(most, limits.perhaps, random)), calls))
        self._free_at = [0.0] * min(self.most, limits.most)
        self._in_round, self._reached = 0, random.uniform(*_REACHED)
        self._per_s = _between(limits.per_s, limits.fastest, random) * self._reached
        self._per_s *= math.exp(random.gauss(0.0, limits.varies / math.sqrt(_MEASURED_OVER)))
        self._next = self._minute = self._spent = 0.0

    def run(self, arrived: float, cost: float, seconds: float) -> float:
        """Run calls, one after another in one place; return when they end."""
        start = max(arrived, self._free_at[0], self._next)
        if self.limits.per_minute:
            if start >= self._minute + _MINUTE_S:
                self._minute, self._spent = start, 0.0
            elif self._spent + cost > self.limits.per_minute * self._reached:
                # A block may take several minutes' worth.
                start = self._minute + _MINUTE_S * max(1.0, self._spent // self.limits.per_minute)
                self._minute, self._spent = start, 0.0
            self._spent += cost
        if self._per_s:
            self._next = start + cost / self._per_s
        end = start + seconds / self._reached
        heapreplace(self._free_at, end)
        self._in_round += 1
        if len(self._free_at) < self.most and self._in_round >= len(self._free_at):
            more = min(self._in_round, self.most - len(self._free_at))
            self._free_at += [self._free_at[0]] * more
            heapify(self._free_at)
            self._in_round = 0
        return end


def _between(least: float, most: float, random: Random) -> float:
    """Return a number between these: any order of magnitude is as likely."""
    return least if most <= least else least * (most / least) ** random.random()


def simulated_s(
    stages: Sequence[Stage], limits: dict[str, Limits], timeout_s: float, random: Random
) -> float:
    """Return when the last call of a simulated session ends.

    Args:
        stages: The steps; the first one answers.
        limits: The limits of each endpoint.
        timeout_s: No call takes longer.
        random: Draws.
    """
    total: dict[str, float] = dict.fromkeys(limits, 0.0)
    for stage in stages:
        total[stage.endpoint] += (stage.ready + stage.following) * stage.calls_each
    rooms = {name: _Room(one, math.ceil(total[name]), random) for name, one in limits.items()}
    answered: list[tuple[float, int]] = []
    last, mood = 0.0, random.random()
    for number, stage in enumerate(stages):
        room = rooms[stage.endpoint]
        arrivals = [(0.0, size) for size in _blocks(stage.ready, room.most)]
        arrivals += _following(answered, stage.following)
        ends = _run(stage, arrivals, room, timeout_s, mood, random)
        if not number:
            answered = sorted(ends)
        last = max([last, *(at for at, _ in ends)])
    return last


def _blocks(cells: int, most: int) -> list[int]:
    """Return cells as blocks that run in one place: as the end is what matters, it has none."""
    singly = min(cells, _SINGLY + 2 * most)
    size = max(1, (cells - singly) // max(_SINGLY, 2 * most))
    blocks = [size] * ((cells - singly) // size)
    rest = cells - singly - sum(blocks)
    return [*blocks, *([rest] if rest else []), *[1] * singly]


def _following(answered: Sequence[tuple[float, int]], cells: int) -> list[tuple[float, int]]:
    """Return when cells that follow an answer can start: some answers need none."""
    answers = sum(size for _, size in answered)
    share, arrivals, owed = cells / answers if answers else 0.0, [], 0.0
    for at, size in answered:
        owed += size * share
        if (whole := math.floor(owed + 1e-9)) > 0:
            arrivals.append((at, whole))
            owed -= whole
    return arrivals


def _run(
    stage: Stage,
    arrivals: Sequence[tuple[float, int]],
    room: _Room,
    timeout_s: float,
    mood: float,
    random: Random,
) -> list[tuple[float, int]]:
    """Run a step's cells; return when they end."""
    # The same for each step: where answers take longer than it seems, so may scores.
    seconds = stage.seconds.draw(same_draws(mood))
    tokens = stage.tokens if room.limits.by_tokens else None
    cost_of = None if tokens is None or not tokens.mean else tokens.draw(same_draws(mood))
    ends, owed = [], 0.0
    for arrived, size in arrivals:
        owed += size * stage.calls_each
        calls = math.floor(owed + 1e-9)
        owed -= calls
        end = arrived
        for block in [size] * (calls // size) + ([calls % size] if calls % size else []):
            took = min(seconds.total(block, random), block * timeout_s)
            cost = float(block)
            if cost_of is not None and tokens is not None:
                cost = cost_of.total(block, random) / tokens.mean
            end = max(end, room.run(arrived, cost, took))
        ends.append((end, size))
    return ends
