"""How close to a provider's limit does `concurrency="auto"` run, and how often is it refused?

Every model of `providers`, in virtual time, through the public AsyncExecutor: exact, and the same
on every machine.

  python benchmarks/pacing.py                       all models, 5 seeds
  python benchmarks/pacing.py --models P2,P4        by prefix
  python benchmarks/pacing.py --seeds 1 --count 2000
"""

import argparse
import asyncio
import math
import random
import statistics
import sys
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pacing_tokens as t
import providers as p
import refusing_providers as r
from machine import describe, print_table

from limpet import AsyncExecutor
from limpet.executors.retry import Backoff
from limpet.pacing import Pacer

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import virtual_time

Measured = tuple[list[str], bool]
"""A row, and whether it reached what it must."""


@dataclass(frozen=True)
class Case:
    """A model, and what must be reached on it."""

    model: type[p.Provider]
    efficiency: float
    refused: float
    t90_s: float = math.inf
    latency_s: float = math.inf
    in_outage: float = math.inf
    of_perfect: bool = False


CASES = [
    Case(p.TokenBucket, 0.97, 0.007, 20),
    Case(p.NamedWait, 0.96, 0.007, 20),
    Case(p.MinuteBurst, 0.97, 0.010, 20),
    Case(p.StrictBucket, 0.95, 0.007, 150),
    Case(p.StrictShort, 0.95, 0.010, 150),
    Case(p.SlidingMinute, 0.93, 0.008, 15),
    Case(p.FixedMinute, 0.94, 0.006, 15),
    Case(p.InFlightCap, 0.95, 0.005, 50),
    *(Case(p.cap_of(number), 0.93, 0.015) for number in (3, 4, 6, 8, 12)),
    Case(p.MovingCap, 0.92, 0.007, 50),
    Case(p.TokensPerMinute, 0.96, 0.012, 15),
    Case(p.TokensKnown, 0.97, 0.010, 15),
    Case(p.QueueingServer, 0.95, 0.002, 25, latency_s=3.5),
    Case(p.FewSlots, 0.95, 0.010),
    Case(p.MovingRate, 0.95, 0.008, 20),
    Case(p.Noise, 0.96, 0.013, 40),
    Case(p.Outage, 0.97, 0.008, 20, in_outage=150),
    Case(p.HangingOutage, 0.97, 0.010, 20),
    Case(p.NamedLimits, 0.98, 0.001, 30),
    Case(p.Slow, 0.99, 0.010, of_perfect=True),
    Case(p.VerySlow, 0.955, 0.010, of_perfect=True),
    Case(p.FewPerMinute, 0.92, 0.040),
    Case(r.by_chance(0.05, 0.02), 0.80, 0.07),
    Case(r.by_chance(0.01, 0.2), 0.80, 0.02),
    Case(r.by_chance(0.05, 0.2), 0.85, 0.07),
    Case(r.by_chance(0.20, 0.2), 0.80, 0.30),
    Case(r.by_chance(0.02, 2), 0.85, 0.04),
    Case(r.by_chance(0.05, 2), 0.90, 0.08),
    Case(r.by_chance(0.10, 2), 0.90, 0.14),
    Case(r.by_chance(0.05, 2, wait_s=5), 0.85, 0.08),
    *(Case(r.by_chance(share, 0.02, wait_s=1), 0.80, 0.05) for share in (0.01, 0.02, 0.03)),
    Case(r.by_chance(0.05, 10), 0.85, 0.09),
    Case(r.ChanceAndRate, 0.90, 0.11),
    Case(r.ChanceAndCap, 0.85, 0.12),
    Case(r.ProxyMinute, 0.90, 0.01),
    Case(r.ProxyKey, 0.90, 0.01),
    Case(r.ProxyAtOnce, 0.95, 0.01),
    Case(t.TokensLearned, 0.97, 0.010),
    Case(t.LongTail, 0.97, 0.010),
    Case(t.TwoKinds, 0.97, 0.010),
    Case(t.Larger, 0.97, 0.010),
    Case(t.Smaller, 0.97, 0.010),
    Case(t.CountsMost, 0.97, 0.010),
    Case(t.CountsPrompt, 0.97, 0.010),
    Case(t.LongCalls, 0.94, 0.010),
    Case(t.LongCallsCountMost, 0.97, 0.010),
    Case(t.Lagging, 0.93, 0.030),
    Case(t.CountsAtTheEnd, 0.97, 0.010),
    Case(t.TokenWindow, 0.90, 0.010),
    Case(t.UsageUntold, 0.97, 0.010),
    Case(t.LargerUntold, 0.97, 0.010),
    Case(t.NoHeaders, 0.97, 0.020),
    Case(t.NoHeadersLarger, 0.95, 0.060),
]

FIXED = (4, 8, 16, 32, 64)
BESIDE_FIXED = 0.8
FOUND: dict[type[p.Provider], tuple[int, ...]] = {
    p.Batching: (256, 512, 1000),
    p.Knee: (24, 32, 64),
}
"""Servers that only queue, and the fixed numbers that `auto` is compared with."""
FOUND_IN = 8.0
"""Latencies of the idle server within which 90% of the capacity is reached."""
CHANGING = (p.MovingRate, p.MovingCap, p.Outage, p.HangingOutage, t.Larger, t.Smaller)
"""They change in mid-run, so they have no steady pace that could be remembered."""
SOONER = 3.0
"""How many times sooner the second of two equal runs reaches its steady pace."""
BY_CHANCE = [r.by_chance(0.05, 0.02), r.by_chance(0.01, 0.2)]
"""Those that are compared with the best of the fixed numbers in flight."""


@dataclass(frozen=True)
class Result:
    """One run over one model."""

    efficiency: float
    refused: float
    lost: int
    t90_s: float
    latency_s: float
    in_outage: int
    perfect: float
    memory: dict[str, Any]


def run(
    model: p.Provider, memory: dict[str, Any] | None = None, fixed: int | None = None
) -> Result:
    """Run the model's items through the executor, with a fixed number in flight if one is given."""
    pacer = Pacer()
    pacer.memory = memory or {}
    concurrency: dict[str, Any] = (
        {"concurrency": fixed, "enable_dynamic_concurrency": False}
        if fixed
        else {"concurrency": "auto", "pacer": pacer}
    )

    async def main() -> tuple[list[Any], list[Any]]:
        executor: AsyncExecutor[p.Item, int] = AsyncExecutor(
            model.call,
            **concurrency,
            cost=(lambda item: item.estimate) if model.costs else None,
            timeout=model.timeout_s,
            exit_on_error=False,
            termination_signal=None,
            backoff=Backoff(rng=random.Random(0)),
        )
        return await asyncio.wait_for(executor.execute(model.items), 40 * model.oracle())

    outputs, _ = virtual_time.run(main())
    done = sum(output == index for index, output in enumerate(outputs))
    times = sorted(model.done_at)
    return Result(
        efficiency=model.oracle() / times[-1] * done / len(outputs),
        refused=(model.seen["429"] + model.seen["timeout"]) / len(outputs),
        lost=len(outputs) - done,
        t90_s=t90(times, model.capacity()),
        latency_s=model.latency_sum / max(1, done),
        in_outage=model.seen["in the outage"],
        perfect=model.oracle() / model.perfect() if isinstance(model, p.TokenBucket) else 1.0,
        memory=pacer.memory,
    )


def t90(times: list[float], capacity: float, window_s: float = 10.0) -> float:
    """Return the first moment at which 90% of the capacity was reached over the last 10 s."""
    need = max(1, int(0.9 * capacity * window_s))
    for last in range(need - 1, len(times)):
        if times[last] - times[last - need + 1] <= window_s:
            return times[last]
    return math.inf


def measure(case: Case, seeds: int, count: int | None) -> Measured:
    results = [run(case.model(seed, count)) for seed in range(seeds)]
    efficiency = min(one.efficiency / (one.perfect if case.of_perfect else 1.0) for one in results)
    refused = max(one.refused for one in results)
    lost = sum(one.lost for one in results)
    reached_s = statistics.median(one.t90_s for one in results)
    latency = max(one.latency_s for one in results)
    outage = max(one.in_outage for one in results)
    good = (
        efficiency >= case.efficiency
        and refused <= case.refused
        and lost == 0
        and reached_s <= case.t90_s
        and latency <= case.latency_s
        and outage <= case.in_outage
    )
    notes = []
    if case.latency_s < math.inf:
        notes.append(f"mean latency {latency:.2f} s (≤ {case.latency_s})")
    if case.of_perfect:
        notes.append("of a client that knew the limit")
    if case.in_outage < math.inf:
        notes.append(f"{outage} requests in the outage (≤ {case.in_outage:.0f})")
    row = [
        case.model.name,
        f"{efficiency:.1%} (≥ {case.efficiency:.0%})",
        f"{refused:.2%} (≤ {case.refused:.1%})",
        str(lost),
        f"{reached_s:.0f} s" + (f" (≤ {case.t90_s:.0f})" if case.t90_s < math.inf else ""),
        "; ".join(notes),
        "yes" if good else "**no**",
    ]
    return row, good


def measure_beside_fixed(model: type[p.Provider], seeds: int) -> Measured:
    """Compare with the best fixed number in flight, of the same executor and its retries."""
    shares, numbers = [], []
    for seed in range(seeds):
        auto = run(model(seed))
        fixed = {number: run(model(seed), fixed=number) for number in FIXED}
        best = max(fixed, key=lambda number: fixed[number].efficiency)
        numbers.append(best)
        shares.append((auto.efficiency / fixed[best].efficiency, auto.refused, auto.lost))
    least = min(share for share, _, _ in shares)
    lost = sum(one for _, _, one in shares)
    good = least >= BESIDE_FIXED and lost == 0
    row = [
        f"{model.name}, of the best fixed number",
        f"{least:.1%} (≥ {BESIDE_FIXED:.0%})",
        f"{max(refused for _, refused, _ in shares):.2%}",
        str(lost),
        "",
        f"the best of {', '.join(map(str, FIXED))}: {statistics.mode(numbers)}",
        "yes" if good else "**no**",
    ]
    return row, good


def measure_found(model: type[p.Provider], seeds: int) -> Iterator[Measured]:
    """Compare with the best fixed number on a server that only queues, and how soon it is found."""
    for count, least in ((6_000, 0.88), (20_000, 0.96)):
        shares, medians, results = [], [], []
        for seed in range(seeds):
            auto = model(seed, count)
            results.append(run(auto))
            took_s = auto.oracle() / results[-1].efficiency
            efficiency = max(
                run(model(seed, count), fixed=number).efficiency for number in FOUND[model]
            )
            # `pace: N` has 16 in flight until the first answer.
            best_s = auto.oracle() / efficiency + min(auto.done_at)
            shares.append(best_s / took_s)
            reached_s = t90(sorted(auto.done_at), auto.capacity(), 2 * model.latency_s)
            medians.append((reached_s - model.latency_s) / model.latency_s)
        lost = sum(one.lost for one in results)
        good = min(shares) >= least and max(medians) <= FOUND_IN and lost == 0
        row = [
            f"{model.name}, {count:,} calls, of the best fixed number",
            f"{min(shares):.1%} (≥ {least:.0%})",
            f"{max(one.refused for one in results):.2%}",
            str(lost),
            f"{max(medians):.1f} idle latencies (≤ {FOUND_IN:.0f})",
            "",
            "yes" if good else "**no**",
        ]
        yield row, good


def steady_from_s(sent: list[float], rate: float, latency_s: float) -> float:
    """Return the first moment from which the next 1 to 5 windows have 90% of the steady rate.

    A window is two latencies, at least 2 s and 20 calls; `sent`: when the calls were sent that were
    answered, in order.
    """
    window_s = max(2.0, 2 * latency_s, 20 / rate)
    for tenth in range(int(10 * sent[len(sent) // 2])):
        start, windows = tenth / 10, int((sent[-1] - tenth / 10) / window_s)
        ends = [start + n * window_s for n in range(1, 1 + min(5, windows))]
        first = bisect_left(sent, start)
        if all(bisect_left(sent, end) - first > 0.9 * rate * (end - start) - 1e-6 for end in ends):
            return start
    return math.inf


def measure_remembered(model: type[p.Provider], seeds: int) -> Measured:
    """Compare the start of a run with that of an equal one that remembers it."""
    firsts, seconds = [], []
    at_once_s = max(1.0, model.latency_s)  # nobody knows anything before the first answer
    for seed in range(seeds):
        whole = model(seed)
        count = min(len(whole.items), max(4_000, int(200 * whole.capacity())))
        first, second = model(seed, count), model(seed, count)
        run(second, run(first).memory)
        sent = sorted(first.sent_at)
        half = len(sent) // 2
        rate = (len(sent) - 1 - half) / (sent[-1] - sent[half])
        firsts.append(steady_from_s(sent, rate, model.latency_s))
        seconds.append(steady_from_s(sorted(second.sent_at), rate, model.latency_s))
    good = all(
        after <= max(at_once_s, before / SOONER)
        for before, after in zip(firsts, seconds, strict=True)
    )
    row = [
        model.name,
        " / ".join(f"{one:.1f}" for one in firsts) + " s",
        " / ".join(f"{one:.1f}" for one in seconds) + " s",
        "within a latency" if max(firsts + seconds) <= at_once_s else "",
        "yes" if good else "**no**",
    ]
    return row, good


def measure_unforeseen(count: int) -> Measured:
    """Run providers drawn at random; those whose job lasts 50 latencies count."""
    models = (p.Unforeseen(seed) for seed in range(count))
    lasting = [model for model in models if model.oracle() >= 50 * model.latency_s]
    results = [run(model) for model in lasting]
    efficiency = [one.efficiency for one in results]
    refused, lost = max(one.refused for one in results), sum(one.lost for one in results)
    efficiency.sort()
    percentile = efficiency[len(efficiency) // 100]
    good = percentile >= 0.85 and refused <= 0.04 and lost == 0
    worst = lasting[min(range(len(results)), key=lambda n: results[n].efficiency)]
    row = [
        f"{len(results)} drawn at random, first percentile",
        f"{percentile:.1%} (≥ 85%)",
        f"{refused:.2%} (≤ 4.0%)",
        str(lost),
        "",
        f"median {statistics.median(efficiency):.1%}; worst {efficiency[0]:.1%}, draw {worst.seed}",
        "yes" if good else "**no**",
    ]
    return row, good


def measure_all(options: argparse.Namespace, prefixes: tuple[str, ...]) -> Iterator[Measured]:
    """Measure the chosen models in each way but `measure_remembered`."""
    for case in CASES:
        if case.model.name.startswith(prefixes):
            yield measure(case, options.seeds, options.count)
    for model in BY_CHANCE:
        if model.name.startswith(prefixes):
            yield measure_beside_fixed(model, options.seeds)
    for server in FOUND:
        if server.name.startswith(prefixes):
            yield from measure_found(server, options.seeds)
    if not options.models and options.random:
        yield measure_unforeseen(options.random)


def print_results(results: Iterator[Measured], header: list[str]) -> bool:
    """Print a table, and each row as soon as it is there. Returns whether all was reached."""
    rows, all_good = [], True
    for row, good in results:
        print("  ".join(row), file=sys.stderr, flush=True)
        rows.append(row)
        all_good = all_good and good
    print_table(header, rows)
    return all_good


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--count", type=int)
    parser.add_argument("--random", type=int, default=1000, help="providers to draw")
    options = parser.parse_args()
    prefixes = tuple(options.models.split(","))
    print("## Pacing\n")
    print(describe("limpet") + f"; {options.seeds} seeds, the worst of them (t90: the median)\n")
    header = ["model", "efficiency", "refused", "lost", "t90", "", "reached"]
    good = print_results(measure_all(options, prefixes), header)
    print("\nThe steady pace is reached after, for each of three seeds:\n")
    steady = [
        model
        for model in dict.fromkeys([*(case.model for case in CASES), *FOUND])
        if model.name.startswith(prefixes) and not issubclass(model, CHANGING)
    ]
    remembered = (measure_remembered(model, min(options.seeds, 3)) for model in steady)
    header = ["model", "first run", "second run", "", "reached"]
    if not print_results(remembered, header) or not good:
        sys.exit("a figure was missed")


if __name__ == "__main__":
    main()
