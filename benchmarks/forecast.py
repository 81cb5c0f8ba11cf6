"""Does a forecast hold, and is it of use? 400 jobs whose end is known.

A job is a workflow and a judge of its answers, at one endpoint with one of four limits. Some of its
items have run; the others run through the real executors and the real pacer, in virtual time, and
the forecast that was made before is compared with what they took. The pacer remembers the endpoint
from a job of 800 items before, as it does from run to run.

  python benchmarks/forecast.py             400 jobs
  python benchmarks/forecast.py --jobs 40
"""

import argparse
import asyncio
import math
import random
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import providers as p
from machine import describe, print_table, verdict

from limpet import AsyncExecutor
from limpet.executors.details import Finished
from limpet.executors.retry import Backoff
from limpet.pacing import Pacer
from limpet.run.executing.steps import StepQueue
from limpet.run.planning.forecast import Between, Limits
from limpet.run.planning.plan import Forecast
from limpet.run.planning.seen_cells import Missing, Seen, foreseen, learned_limits, read_seen

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import virtual_time

PER_TOKEN = 8e-6
MOST = 1000
EARLIER = 800
LIKE_USAGE = 800
"""The median number of tokens, for which a call takes a second."""


class ByTokens(p.Provider):
    """A provider whose calls take time in proportion to their tokens."""

    timeout_s = 600.0

    def service(self, item: p.Item) -> float:
        return item.tokens / LIKE_USAGE * self.rng.lognormvariate(0, 0.2)


class Rate(ByTokens, p.TokenBucket):
    name = "20 calls a second"


class Cap(ByTokens, p.InFlightCap):
    name = "32 calls in flight"


class Tokens(ByTokens, p.TokensPerMinute):
    name = "1.2M tokens a minute"


class Queue(ByTokens, p.QueueingServer):
    name = "32 slots and a queue"


KINDS: list[type[p.Provider]] = [Rate, Cap, Tokens, Queue]


@dataclass
class Calls:
    """What the calls of a step took."""

    seconds: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    @property
    def cost(self) -> float:
        return sum(self.tokens) * PER_TOKEN

    @property
    def seen(self) -> Seen:
        facts = [
            {"seconds": seconds, "usage": {"total_tokens": tokens, "cost": tokens * PER_TOKEN}}
            for seconds, tokens in zip(self.seconds, self.tokens, strict=True)
        ]
        return read_seen("this run", facts, None)


@dataclass(frozen=True)
class Job:
    """Items of a job: how large each answer is, and each judgement of it."""

    answers: list[p.Item]
    scores: list[p.Item]

    @classmethod
    def draw(cls, sigma: float, items: int, rng: random.Random) -> "Job":
        sizes = [rng.lognormvariate(math.log(LIKE_USAGE), sigma) for _ in range(items)]
        judged = [0.5 * size * rng.lognormvariate(0, 0.3) for size in sizes]  # it reads the answer
        return cls(_items(sizes), _items(judged))


def _items(sizes: list[float]) -> list[p.Item]:
    return [p.Item(number, max(1, int(size)), size) for number, size in enumerate(sizes)]


def run(
    provider: p.Provider, job: Job, memory: dict[str, Any]
) -> tuple[Calls, Calls, float, dict[str, Any]]:
    """Run a job; return what the steps' calls took, its time, and what the pacer learned."""
    pacer = Pacer()
    pacer.memory = memory
    answering, scoring = Calls(), Calls()
    queue: StepQueue[p.Item] = StepQueue(256)

    async def main() -> float:
        loop = asyncio.get_running_loop()

        def step(calls: Calls, then: Any) -> AsyncExecutor[p.Item, Any]:
            def done(finished: Finished[p.Item, int]) -> Any:
                assert finished.error is None, finished.error
                calls.seconds.append(finished.details.execution_seconds)
                calls.tokens.append(finished.input.tokens)
                return then(finished)

            return AsyncExecutor(
                provider.call,
                concurrency="auto",
                pacer=pacer,
                timeout=provider.timeout_s,
                exit_on_error=False,
                termination_signal=None,
                backoff=Backoff(rng=random.Random(0)),
                on_complete=done,
            )

        async def answer() -> None:
            await step(answering, lambda one: queue.put(job.scores[one.input.index])).drain(
                job.answers
            )
            queue.end()

        async with asyncio.TaskGroup() as group:
            group.create_task(step(scoring, lambda _: None).drain(queue))
            group.create_task(answer())
        return loop.time()

    took = virtual_time.run(main())
    return answering, scoring, took, pacer.memory


@dataclass(frozen=True)
class Outcome:
    """A forecast, and what came."""

    kind: str
    sigma: float
    seen: int
    forecast: Forecast
    cost: float
    seconds: float


def outcome(number: int) -> Outcome:
    kind = KINDS[number % len(KINDS)]
    rng = random.Random(f"job {number}")
    sigma = rng.uniform(0.3, 1.2)
    # Every fourth one is a rehearsal of 30.
    seen = 30 if number // len(KINDS) % 4 == 0 else round(math.exp(rng.uniform(4, 6)))
    items = round(math.exp(rng.uniform(math.log(300), math.log(1500))))
    earlier, first, rest = (Job.draw(sigma, many, rng) for many in (EARLIER, seen, items))
    *_, memory = run(kind(number, 1), earlier, {})
    answered, scored, _, learned = run(kind(number, 1), first, memory)
    limits = learned_limits(learned, MOST)
    forecast = foreseen(
        [
            _missing("workflow", answered, items, 0, limits),
            _missing("judge", scored, items, items, limits),
        ]
    )
    assert forecast is not None
    answered, scored, seconds, _ = run(kind(number + 10_000, 1), rest, learned)
    return Outcome(kind.name, sigma, seen, forecast, answered.cost + scored.cost, seconds)


def _missing(name: str, calls: Calls, items: int, following: int, limits: Limits) -> Missing:
    return Missing(name, "endpoint", calls.seen, items, (items, items), following, limits)


def covers(ends: Between | None, truth: float) -> bool:
    return ends is not None and ends.low <= truth <= ends.high


def half_width(ends: Between | None) -> float:
    """Return the half-width of a range, as a share of its middle."""
    return math.inf if ends is None else (ends.high - ends.low) / (ends.high + ends.low)


def off(ends: Between | None, truth: float) -> float:
    """Return how far the middle of a range is from the truth, as a share of it."""
    return math.inf if ends is None else abs((ends.low + ends.high) / 2 / truth - 1)


def row(name: str, outcomes: list[Outcome]) -> list[str]:
    cost = statistics.mean(covers(one.forecast.cost, one.cost) for one in outcomes)
    time = statistics.mean(covers(one.forecast.seconds, one.seconds) for one in outcomes)
    cost_width = statistics.median(half_width(one.forecast.cost) for one in outcomes)
    time_width = statistics.median(half_width(one.forecast.seconds) for one in outcomes)
    figures = [f"{cost:.1%}", f"± {cost_width:.0%}", f"{time:.1%}", f"± {time_width:.0%}"]
    return [name, f"{len(outcomes)}", *figures]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=400)
    jobs = parser.parse_args().jobs
    print(describe("limpet"))
    print()
    with ProcessPoolExecutor(2) as pool:
        outcomes = list(pool.map(outcome, range(jobs), chunksize=4))
    header = ["jobs", "", "cost in the range", "half-width", "time in the range", "half-width"]
    rows = [row(kind.name, [one for one in outcomes if one.kind == kind.name]) for kind in KINDS]
    for low, high in ((0.3, 0.6), (0.6, 0.9), (0.9, 1.2)):
        name = f"sigma {low:g} to {high:g}"
        rows.append(row(name, [one for one in outcomes if low <= one.sigma <= high]))
    print_table(header, [*rows, row("all", outcomes)])
    print()
    cost = statistics.mean(covers(one.forecast.cost, one.cost) for one in outcomes)
    time = statistics.mean(covers(one.forecast.seconds, one.seconds) for one in outcomes)
    width = statistics.median(half_width(one.forecast.seconds) for one in outcomes)
    rehearsed = [one for one in outcomes if one.seen == 30 and one.sigma <= 0.6]
    cost_off = statistics.median(off(one.forecast.cost, one.cost) for one in rehearsed)
    time_off = statistics.median(off(one.forecast.seconds, one.seconds) for one in rehearsed)
    figures = [
        ("cost in its 90% range", f"{cost:.1%}", "87% to 93%", 0.87 <= cost <= 0.93),
        ("time in its 90% range", f"{time:.1%}", "≥ 87%", time >= 0.87),
        ("half-width of the time's range, median", f"± {width:.0%}", "≤ ± 25%", width <= 0.25),
        (
            f"cost after a rehearsal of 30, sigma ≤ 0.6, median of {len(rehearsed)} jobs",
            f"{cost_off:.1%} off",
            "≤ 15%",
            cost_off <= 0.15,
        ),
        ("time after it, median", f"{time_off:.1%} off", "≤ 15%", time_off <= 0.15),
    ]
    header = ["measure", "", "must reach", "reached"]
    print_table(header, [[*words, verdict(reached)] for *words, reached in figures])
    sys.exit(not all(reached for *_, reached in figures))


if __name__ == "__main__":
    main()
