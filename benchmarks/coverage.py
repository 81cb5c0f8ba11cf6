"""Do the intervals hold what they promise? Each is computed for many samples of a known truth.

    python benchmarks/coverage.py           print the table and the bars
    python benchmarks/coverage.py --write   and put the table into docs/explanation/statistics.md

A cell is the share of 95% intervals that cover the truth. The samples of a cell go through
the same functions as a user's: the inner, vectorised form where there is one, the public one
where there is not.
"""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from machine import describe, print_table, verdict
from numpy.typing import NDArray

from limpet import stats
from limpet.stats.rule import by_groups, from_moments, rule_r
from limpet.stats.two_runs import tango

SIZES = (10, 30, 100, 300, 1000, 2000)
PAGE = Path(__file__).parents[1] / "docs/explanation/statistics.md"
BEGIN, END = "<!-- coverage -->\n", "<!-- /coverage -->\n"
SEED = 18

Floats = NDArray[np.float64]
Hits = NDArray[np.bool_]
Simulation = Callable[[np.random.Generator, int, int], Hits]


@dataclass(frozen=True)
class Design:
    family: str
    name: str
    covers: Simulation  # (random, n, repeats) → which of the intervals cover the truth
    repeats: int = 4000
    sizes: tuple[int, ...] = SIZES


def inside(limits: tuple[Floats, Floats], truth: float | Floats) -> Hits:
    low, high = limits
    return np.asarray((low <= truth) & (truth <= high))


# One run


def yes_or_no(p: float, random: np.random.Generator, n: int, repeats: int) -> Hits:
    mean = random.binomial(n, p, repeats) / n
    fit = from_moments(n, mean, n * mean * (1 - mean), binary=True, ends=True)
    return inside(fit.limits(0.95), p)


def beta(a: float, b: float, random: np.random.Generator, n: int, repeats: int) -> Hits:
    return inside(rule_r(random.beta(a, b, (repeats, n))).limits(0.95), a / (a + b))


def rated(shares: list[float], random: np.random.Generator, n: int, repeats: int) -> Hits:
    values = np.arange(len(shares)) / (len(shares) - 1)
    x = random.choice(values, (repeats, n), p=shares)
    return inside(rule_r(x).limits(0.95), float(values @ shares))


def inflated(zeros: float, ones: float, random: np.random.Generator, n: int, repeats: int) -> Hits:
    draw, rest = random.random((repeats, n)), random.beta(2, 2, (repeats, n))
    x = np.where(draw < zeros, 0.0, np.where(draw > 1 - ones, 1.0, rest))
    return inside(rule_r(x).limits(0.95), ones + (1 - zeros - ones) / 2)


def rare_losses(random: np.random.Generator, n: int, repeats: int) -> Hits:
    lost = random.random((repeats, n)) < 0.03
    x = np.where(lost, 0.1, random.uniform(0.88, 0.92, (repeats, n)))
    return inside(rule_r(x).limits(0.95), 0.97 * 0.9 + 0.03 * 0.1)


def chances(p: float, icc: float, random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Return chances of success with mean p that items, or groups, differ in."""
    strength = 1 / icc - 1
    return random.beta(p * strength, (1 - p) * strength, shape)


def trials(p: float, icc: float, k: int, random: np.random.Generator, n: int, repeats: int) -> Hits:
    x = random.binomial(k, chances(p, icc, random, (repeats, n))) / k
    return inside(rule_r(x, single=False).limits(0.95), p)


def sizes_of_groups(random: np.random.Generator, n: int, repeats: int) -> NDArray[np.int64]:
    """Return sizes from 1 to 60, on average 12."""
    return np.minimum(random.geometric(1 / 12, (repeats, n)), 60)


def groups(p: float, icc: float, random: np.random.Generator, n: int, repeats: int) -> Hits:
    sizes = sizes_of_groups(random, n, repeats)
    totals = random.binomial(sizes, chances(p, icc, random, sizes.shape)).astype(np.float64)
    return inside(by_groups(totals, sizes.astype(np.float64), ends=True).limits(0.95), p)


# Two runs


def two_binary(won: float, lost: float, random: np.random.Generator, n: int, repeats: int) -> Hits:
    counts = random.multinomial(n, [won, lost, 1 - won - lost], repeats)
    return inside(tango(n, counts[:, 0], counts[:, 1], 0.95), won - lost)


def two_with_trials(
    p: float, gain: float, icc: float, random: np.random.Generator, n: int, repeats: int
) -> Hits:
    k, first = 5, chances(p, icc, random, (repeats, n))
    second = first + gain * (1 - first)
    d = (random.binomial(k, second) - random.binomial(k, first)) / k
    return inside(rule_r((d + 1) / 2, single=False).limits(0.95), (1 + gain * (1 - p)) / 2)


def two_continuous(gain: float, random: np.random.Generator, n: int, repeats: int) -> Hits:
    first, second = (random.beta(8, 2, (repeats, n)) for _ in range(2))
    d = second - first + gain * (1 - second)
    return inside(rule_r((d + 1) / 2, single=False).limits(0.95), (1 + gain * 0.2) / 2)


def two_mostly_equal(gain: float, random: np.random.Generator, n: int, repeats: int) -> Hits:
    """Of ratings from 1 to 5, a fifth move by one, two or three points."""
    moves = np.array([-3, -2, -1, 1, 2, 3]) / 4
    up, down = (
        (1 + gain) / 2 * np.array([0.6, 0.3, 0.1]),
        (1 - gain) / 2 * np.array([0.1, 0.3, 0.6]),
    )
    shares = np.concatenate([down, up])
    d = np.where(
        random.random((repeats, n)) < 0.2, random.choice(moves, (repeats, n), p=shares), 0.0
    )
    truth = 0.2 * float(moves @ shares)
    return inside(rule_r((d + 1) / 2, single=False).limits(0.95), (1 + truth) / 2)


def two_by_groups(
    p: float, icc: float, loss: float, random: np.random.Generator, n: int, repeats: int
) -> Hits:
    sizes = sizes_of_groups(random, n, repeats)
    first = chances(p, icc, random, sizes.shape)
    d = random.binomial(sizes, first * (1 - loss)) - random.binomial(sizes, first)
    fit = by_groups((d + sizes) / 2, sizes.astype(np.float64))
    return inside(fit.limits(0.95), (1 - p * loss) / 2)


# Failures, these very questions, stopping early


def failing(p: float, random: np.random.Generator, n: int, repeats: int) -> Hits:
    """A tenth of the calls fail, those with a wrong answer three times as often."""
    often = 0.1 / (p + 3 * (1 - p))
    shares = [p * (1 - often), (1 - p) * (1 - 3 * often), p * often + (1 - p) * 3 * often]
    counts = random.multinomial(n, shares, repeats)
    return np.array([covered(p, *map(int, one)) for one in counts])


@cache
def covered(p: float, yes: int, no: int, failed: int) -> bool:
    if not yes + no:
        return True  # nothing completed: there is no number
    found = stats.bounds(np.arange(yes + no) < yes, failed)
    return found.low <= p <= found.high


def failing_scores(random: np.random.Generator, n: int, repeats: int) -> Hits:
    """A tenth of the calls fail, those with a low score more often."""
    hits = []
    for x in random.beta(4, 1, (repeats, n)):
        there = random.random(n) > (1 - x) / 2
        found = stats.bounds(x[there], int(n - there.sum())) if there.any() else None
        hits.append(found is None or found.low <= 0.8 <= found.high)
    return np.array(hits)


def failing_trials(random: np.random.Generator, n: int, repeats: int) -> Hits:
    """Of 5 trials, a tenth fail, those with a wrong answer three times as often."""
    hits, items = [], np.repeat(np.arange(n), 5)
    for chance in chances(0.8, 0.5, random, (repeats, n)):
        right = random.random(n * 5) < np.repeat(chance, 5)
        there = random.random(n * 5) > np.where(right, 1, 3) / 14
        if there.any():
            found = stats.bounds(right[there], items[~there], items=items[there])
            hits.append(found.low <= 0.8 <= found.high)
    return np.array(hits)


def failing_groups(random: np.random.Generator, n: int, repeats: int) -> Hits:
    """A tenth of the calls fail, most of them in the hardest of the groups."""
    hits = []
    for sizes in sizes_of_groups(random, n, repeats):
        chance = np.repeat(chances(0.8, 0.3, random, (n,)), sizes)
        right = random.random(len(chance)) < chance
        there = random.random(len(chance)) > np.where(right, 0.2, 0.8) * (1 - chance)
        group = np.repeat(np.arange(n), sizes)
        if len(np.unique(group[there])) >= 5:
            lost = group[~there]
            found = stats.bounds(right[there], lost, groups=group[there], failed_groups=lost)
            hits.append(found.low <= 0.8 <= found.high)
    return np.array(hits)


def these_very(
    a: float, b: float, k: int, random: np.random.Generator, n: int, repeats: int
) -> Hits:
    hits, items = [], np.repeat(np.arange(n), k)
    for chance in random.beta(a, b, (repeats, n)):
        found = stats.these_questions(random.random(n * k) < np.repeat(chance, k), items=items)
        hits.append(found.low <= chance.mean() <= found.high)
    return np.array(hits)


def two_failing(won: float, lost: float, random: np.random.Generator, n: int, repeats: int) -> Hits:
    """A tenth of the second run's calls fail, those with a wrong answer three times as often."""
    hits = []
    for _ in range(repeats):
        first = random.random(n) < 0.8
        move = random.random(n)
        second = np.where(first, move > lost / 0.8, move < won / 0.2)
        there = random.random(n) > np.where(second, 1, 3) / 14
        if there.any():
            found = stats.paired_bounds(first, np.where(there, second, np.nan))
            hits.append(found.low <= won - lost <= found.high)
    return np.array(hits)


def two_very(gain: float, random: np.random.Generator, n: int, repeats: int) -> Hits:
    k, hits, items = 5, [], np.repeat(np.arange(n), 5)
    for first in random.beta(2, 0.5, (repeats, n)):
        second = first + gain * (1 - first)
        a, b = (random.random(n * k) < np.repeat(one, k) for one in (first, second))
        found = stats.paired_these_questions(a, b, items=items)
        hits.append(found.low <= (second - first).mean() <= found.high)
    return np.array(hits)


def corrected(p: float, agreeing: float, random: np.random.Generator, n: int, repeats: int) -> Hits:
    """A judge of 2,000 items, corrected by n labels."""
    hits = []
    for _ in range(repeats):
        people = random.random(2000) < p
        judge = np.where(random.random(2000) < agreeing, people, ~people)
        found = stats.ppi_mean(judge, judge[:n], people[:n])
        hits.append(found.low <= p <= found.high)
    return np.array(hits)


def gate_at_margin(discordant: float, random: np.random.Generator, n: int, repeats: int) -> Hits:
    """Runs that are worse by just the margin, 5 points: which of them does the gate hold up?"""
    lost, won = discordant / 2 + 0.025, discordant / 2 - 0.025
    counts = random.multinomial(n, [won, lost, 1 - won - lost], repeats)
    low, _ = tango(n, counts[:, 0], counts[:, 1], 0.90)
    return np.asarray(low <= -0.05)


def stopping(half: float, p: float, random: np.random.Generator, n: int, repeats: int) -> Hits:
    """Look every 10 items; stop at the half-width, or at n items."""
    hits = []
    for _ in range(0, repeats, 500):
        seen = np.arange(10, n + 1, 10)
        yes = (random.random((500, n)) < p).cumsum(axis=1)[:, seen - 1]
        mean = yes / seen
        fit = from_moments(seen, mean, seen * mean * (1 - mean), binary=True, ends=True)
        hits.append(at_stop(fit.limits(0.95), half, p))
    return np.concatenate(hits)


def stopping_scores(half: float, random: np.random.Generator, n: int, repeats: int) -> Hits:
    hits = []
    for _ in range(0, repeats, 500):
        seen = np.arange(10, n + 1, 10)
        x = random.choice(np.arange(5) / 4, (500, n), p=RATINGS)
        total, squares = (one.cumsum(axis=1)[:, seen - 1] for one in (x, x * x))
        mean = total / seen
        ends = ((x == 0) | (x == 1)).cumsum(axis=1)[:, seen - 1] > 0
        fit = from_moments(seen, mean, squares - seen * mean**2, binary=False, ends=ends)
        hits.append(at_stop(fit.limits(0.95), half, float(np.arange(5) / 4 @ np.array(RATINGS))))
    return np.concatenate(hits)


def at_stop(limits: tuple[Floats, Floats], half: float, truth: float) -> Hits:
    low, high = limits
    enough = (high - low) / 2 <= half
    enough[:, -1] = True
    first = enough.argmax(axis=1)
    rows = np.arange(len(first))
    return inside((low[rows, first], high[rows, first]), truth)


RATINGS = [0.03, 0.05, 0.12, 0.3, 0.5]
MANY = (10, 30, 100, 300)
RUNS = 10_000


def designs() -> Iterator[Design]:
    yield from one_run()
    yield from two_runs()
    yield from special_cases()
    yield Design("open: rare losses", "3% of scores far below the rest", rare_losses)


def one_run() -> Iterator[Design]:
    for p in (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98):
        yield Design("yes or no", f"{p:.0%} right", partial(yes_or_no, p), 20_000)
    skewed = "bounded, skewed"
    yield Design(skewed, "Beta(0.2, 1.8)", partial(beta, 0.2, 1.8))
    yield Design(skewed, "Beta(8, 2)", partial(beta, 8, 2))
    yield Design(skewed, "Beta(2, 2)", partial(beta, 2, 2))
    yield Design(skewed, "ratings 1 to 5, half are 5", partial(rated, RATINGS))
    ends = "many zeros or ones"
    yield Design(ends, "70% zeros", partial(inflated, 0.7, 0.0))
    yield Design(ends, "97% ones", partial(inflated, 0.0, 0.97))
    yield Design(ends, "10% zeros, 60% ones", partial(inflated, 0.1, 0.6))
    for icc in (0.1, 0.5, 0.9):
        for p, k in ((0.5, 5), (0.9, 2), (0.9, 5), (0.98, 5)):
            name = f"{p:.0%} right, {k} trials, ICC {icc}"
            yield Design("items × trials", name, partial(trials, p, icc, k))
    for icc in (0.1, 0.5):
        for p in (0.5, 0.9, 0.98):
            yield Design("groups of 1 to 60", f"{p:.0%} right, ICC {icc}", partial(groups, p, icc))


def two_runs() -> Iterator[Design]:
    pair = "two runs"
    for won, lost in ((0.3, 0.1), (0.15, 0.05), (0.05, 0.01)):
        name = f"yes or no, {won:.0%} better, {lost:.0%} worse"
        yield Design(pair, name, partial(two_binary, won, lost), 20_000)
    yield Design(pair, "5 trials, 90% right, ICC 0.5", partial(two_with_trials, 0.9, 0.5, 0.5))
    yield Design(pair, "continuous", partial(two_continuous, 0.3))
    yield Design(pair, "ratings, four fifths equal", partial(two_mostly_equal, 0.4))
    yield Design(pair, "by groups", partial(two_by_groups, 0.8, 0.3, 0.1), sizes=MANY)
    alike = "two runs that do not differ"
    for p in (0.2, 0.05, 0.01):
        name = f"yes or no, {2 * p:.0%} differ"
        yield Design(alike, name, partial(two_binary, p, p), 20_000)
    yield Design(alike, "5 trials, 90% right, ICC 0.5", partial(two_with_trials, 0.9, 0, 0.5))
    yield Design(alike, "5 trials, 98% right, ICC 0.9", partial(two_with_trials, 0.98, 0, 0.9))
    yield Design(alike, "continuous", partial(two_continuous, 0))
    yield Design(alike, "ratings, four fifths equal", partial(two_mostly_equal, 0))
    yield Design(alike, "by groups", partial(two_by_groups, 0.8, 0.3, 0), sizes=MANY)


def special_cases() -> Iterator[Design]:
    lost_calls = "10% failed, most of them wrong"
    for p in (0.5, 0.8, 0.95):
        yield Design(lost_calls, f"{p:.0%} right", partial(failing, p), 100_000)
    yield Design(lost_calls, "Beta(4, 1)", failing_scores, 1000)
    yield Design(lost_calls, "80% right, 5 trials", failing_trials, 1000, MANY)
    yield Design(lost_calls, "by groups", failing_groups, 500, MANY)
    yield Design(lost_calls, "two runs", partial(two_failing, 0.08, 0.05), 1000, MANY)
    very = "these very questions"
    yield Design(very, "2 trials, Beta(2, 0.2)", partial(these_very, 2, 0.2, 2), 1000, MANY)
    yield Design(very, "5 trials, Beta(2, 0.2)", partial(these_very, 2, 0.2, 5), 1000, MANY)
    yield Design(very, "5 trials, Beta(5, 5)", partial(these_very, 5, 5, 5), 1000, MANY)
    yield Design(very, "two runs, 5 trials", partial(two_very, 0.3), 1000, MANY)
    judged = "a judge of 2,000 items, n labels"
    for p, agreeing in ((0.5, 0.9), (0.9, 0.8), (0.9, 0.95)):
        name = f"{p:.0%} right, {agreeing:.0%} agreement"
        yield Design(judged, name, partial(corrected, p, agreeing), 1000, MANY)
    gate = "gates that hold up a loss of the margin"
    for share in (0.1, 0.3):
        yield Design(gate, f"{share:.0%} differ", partial(gate_at_margin, share), 20_000)
    early = "stopped early"
    for half, p in ((0.05, 0.5), (0.05, 0.8), (0.05, 0.95), (0.03, 0.9), (0.02, 0.98)):
        name = f"{p:.0%} right, at ±{100 * half:.0f} points"
        yield Design(early, name, partial(stopping, half, p), RUNS, (2000,))
    yield Design(
        early, "ratings, at ±3% of the range", partial(stopping_scores, 0.03), RUNS, (2000,)
    )


def simulate(design: Design, share: float) -> dict[int, float]:
    """Return the coverage for each n, in percent."""
    found = {}
    for n in design.sizes:
        random = np.random.default_rng([SEED, n, *design.name.encode()])
        hits = [
            design.covers(random, n, repeats) for repeats in parts(int(design.repeats * share), n)
        ]
        found[n] = 100 * float(np.concatenate(hits).mean())
    return found


def parts(repeats: int, n: int) -> Iterator[int]:
    """Split the repeats so that a part has at most a million values."""
    most = max(1_000_000 // n, 500)
    for begun in range(0, repeats, most):
        yield min(most, repeats - begun)


Coverage = dict[tuple[str, str], dict[int, float]]


def bars(coverage: Coverage) -> list[list[str]]:
    """Return each bar, what was found, and whether it is reached."""

    def cells(*families: str, least: int = 0) -> list[float]:
        return [
            one
            for (family, _), row in coverage.items()
            if family in families
            for n, one in row.items()
            if n >= least
        ]

    one_run = ["yes or no", "bounded, skewed", "many zeros or ones", "items × trials"]
    one_run.append("groups of 1 to 60")
    two = ["two runs", "two runs that do not differ"]
    rows = []
    for family in one_run:
        mean = float(np.mean(cells(family)))
        rows.append([f"{family}: mean 94 to 97.5%", f"{mean:.1f}%", verdict(94 <= mean <= 97.5)])
    mean = float(np.mean(cells(*two)))
    rows.append(["two runs: mean at least 94%", f"{mean:.1f}%", verdict(mean >= 94)])
    least = min(cells(*one_run, *two, least=30))
    rows.append(["no cell under 90% from n = 30 on", f"{least:.1f}%", verdict(least >= 90)])
    false = 100 - float(np.mean(cells(two[1])))
    rows.append(["false alarms of two runs: at most 6%", f"{false:.1f}%", verdict(false <= 6)])
    least = min(cells("10% failed, most of them wrong"))
    rows.append(["failures: each at least 95%", f"{least:.1f}%", verdict(least >= 95)])
    least = min(cells("stopped early"))
    rows.append(["stopped early: each at least 93%", f"{least:.1f}%", verdict(least >= 93)])
    return rows


def table(coverage: Coverage) -> list[list[str]]:
    rows = []
    before = ""
    for (family, name), row in coverage.items():
        cells = [f"{row[n]:.0f}" if n in row else "" for n in SIZES]
        rows.append([f"**{family}**" if family != before else "", name, *cells])
        before = family
    return rows


HEADER = ["", "", *(f"n = {n:,}" for n in SIZES)]


def write(rows: list[list[str]]) -> None:
    """Put the table between the markers of the page."""
    lines = ["| " + " | ".join(row) + " |" for row in (HEADER, ["---"] * len(HEADER), *rows)]
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    body = "\n".join(lines)
    PAGE.write_text(f"{before}{BEGIN}\n{body}\n\n{END}{after}", encoding="utf-8")


def measure(share: float = 1.0) -> Coverage:
    return {(one.family, one.name): simulate(one, share) for one in designs()}


def speed() -> list[list[str]]:
    """Return how long 100,000 values take, lists with the item of each."""
    random = np.random.default_rng(SEED)
    first, second = (random.random(100_000).tolist() for _ in range(2))
    items = [f"item {at}" for at in range(100_000)]
    calls: dict[str, Callable[[], object]] = {
        "interval": lambda: stats.interval(first, items=items),
        "paired": lambda: stats.paired(first, second, items=items),
        "bounds": lambda: stats.bounds(first, items[:5000], items=items),
    }
    rows = []
    for name, call in calls.items():
        call()
        begun = time.process_time()
        call()
        took = time.process_time() - begun
        rows.append([f"{name} of 100,000: under 0.3 s", f"{took:.2f} s", verdict(took < 0.3)])
    return rows


def main() -> None:
    print(describe("limpet", "numpy", "scipy"))
    begun = time.process_time()
    coverage = measure()
    rows = table(coverage)
    print_table(HEADER, rows)
    print()
    print_table(["bar", "found", "reached"], [*bars(coverage), *speed()])
    print(f"\n{time.process_time() - begun:.0f} s on one core")
    if "--write" in sys.argv:
        write(rows)


if __name__ == "__main__":
    main()
