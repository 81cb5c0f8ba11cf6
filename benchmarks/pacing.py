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


@dataclass(frozen=True)
class Case:
    """A model, and what must be reached on it."""

    model: type[p.Provider]
    efficiency: float
    refused: float
    t90_s: float = math.inf
    latency_s: float = math.inf
    in_outage: float = math.inf
    warm: bool = False
    of_perfect: bool = False

    @property
    def name(self) -> str:
        return self.model.name + (", with memory" if self.warm else "")


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
    Case(p.Slow, 0.96, 0.010, warm=True),
    Case(p.VerySlow, 0.88, 0.010, warm=True),
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


def measure(case: Case, seeds: int, count: int | None) -> tuple[list[str], bool]:
    results = []
    for seed in range(seeds):
        memory = run(case.model(seed, count)).memory if case.warm else None
        results.append(run(case.model(seed, count), memory))
    efficiency = min(one.efficiency / (one.perfect if case.of_perfect else 1.0) for one in results)
    refused = max(one.refused for one in results)
    lost = sum(one.lost for one in results)
    reached_s = statistics.median(one.t90_s for one in results)
    latency = max(one.latency_s for one in results)
    outage = max(one.in_outage for one in results)
    # With long calls, the luck of the last ones decides: no client can be better than perfect.
    good = (
        (
            efficiency >= case.efficiency
            or (case.warm and all(one.efficiency >= 0.995 * one.perfect for one in results))
        )
        and refused <= case.refused
        and lost == 0
        and reached_s <= case.t90_s
        and latency <= case.latency_s
        and outage <= case.in_outage
    )
    notes = []
    if case.latency_s < math.inf:
        notes.append(f"mean latency {latency:.2f} s (≤ {case.latency_s})")
    if case.warm:
        worst = min(results, key=lambda one: one.efficiency)
        notes.append(f"a client that knew the limit: {worst.perfect:.1%}")
    if case.of_perfect:
        notes.append("of a client that knew the limit")
    if case.in_outage < math.inf:
        notes.append(f"{outage} requests in the outage (≤ {case.in_outage:.0f})")
    row = [
        case.name,
        f"{efficiency:.1%} (≥ {case.efficiency:.0%})",
        f"{refused:.2%} (≤ {case.refused:.1%})",
        str(lost),
        f"{reached_s:.0f} s" + (f" (≤ {case.t90_s:.0f})" if case.t90_s < math.inf else ""),
        "; ".join(notes),
        "yes" if good else "**no**",
    ]
    return row, good


def measure_beside_fixed(model: type[p.Provider], seeds: int) -> tuple[list[str], bool]:
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


def measure_found(model: type[p.Provider], seeds: int) -> Iterator[tuple[list[str], bool]]:
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


def measure_unforeseen(count: int) -> tuple[list[str], bool]:
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--count", type=int)
    parser.add_argument("--random", type=int, default=1000, help="providers to draw")
    options = parser.parse_args()
    prefixes = tuple(options.models.split(","))
    rows, all_good = [], True
    for case in CASES:
        if not options.models or case.name.startswith(prefixes):
            row, good = measure(case, options.seeds, options.count)
            print("  ".join(row), file=sys.stderr, flush=True)
            rows.append(row)
            all_good = all_good and good
    for model in BY_CHANCE:
        if not options.models or model.name.startswith(prefixes):
            row, good = measure_beside_fixed(model, options.seeds)
            print("  ".join(row), file=sys.stderr, flush=True)
            rows.append(row)
            all_good = all_good and good
    for server in FOUND:
        if not options.models or server.name.startswith(prefixes):
            for row, good in measure_found(server, options.seeds):
                print("  ".join(row), file=sys.stderr, flush=True)
                rows.append(row)
                all_good = all_good and good
    if not options.models and options.random:
        row, good = measure_unforeseen(options.random)
        print("  ".join(row), file=sys.stderr, flush=True)
        rows.append(row)
        all_good = all_good and good
    print("## Pacing\n")
    print(describe("limpet") + f"; {options.seeds} seeds, the worst of them (t90: the median)\n")
    header = ["model", "efficiency", "refused", "lost", "t90", "", "reached"]
    print_table(header, rows)
    if not all_good:
        sys.exit("a figure was missed")


if __name__ == "__main__":
    main()
