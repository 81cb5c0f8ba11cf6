"""The results of statistics: a mean or a difference, its interval, and the method."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the interval around it.

    Attributes:
        mean: The mean of the items; in `bounds`, of the completed ones.
        low: The interval's lower end.
        high: Its upper end.
        method: The method's name, short enough for a table.
        n: The number of items.
        groups: The number of groups; None without groups.
        lambda_: The weight of the judge (`ppi_mean` only); 0: none.
    """

    mean: float
    low: float
    high: float
    method: str
    n: int
    groups: int | None = None
    lambda_: float | None = None


@dataclass(frozen=True, slots=True)
class Paired:
    """The difference between two runs of the same items.

    Attributes:
        delta: The mean of the second minus the mean of the first.
        low: The interval's lower end.
        high: Its upper end.
        p: How often chance gives a difference like this. Below 1 - level exactly when 0 is outside
            the interval. NaN: there is no interval.
        mid_p: The mid-p of McNemar's exact test; None unless both are binary with one trial.
        method: The method's name, short enough for a table.
        n: How many items were compared.
        better: How many items the second run did better.
        same: How many it did as well.
        worse: How many it did worse.
        smallest_seen: The smallest difference that would be detected 80% of the time.
        groups: The number of groups; None without groups.
    """

    delta: float
    low: float
    high: float
    p: float
    mid_p: float | None
    method: str
    n: int
    better: int
    same: int
    worse: int
    smallest_seen: float
    groups: int | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether the second run passes.

    Attributes:
        verdict: "not worse", "worse", or "inconclusive": more items are needed.
        delta: The mean of the second minus the mean of the first.
        bound_low: With 95% confidence, the difference is not below this.
        bound_high: With 95% confidence, the difference is not above this.
        items_to_decide: How many items in total would decide it 80% of the time if the true
            difference is delta; None if it is decided, or if no number of items would.
    """

    verdict: Literal["not worse", "worse", "inconclusive"]
    delta: float
    bound_low: float
    bound_high: float
    items_to_decide: int | None


@dataclass(frozen=True, slots=True)
class Kappa:
    """Cohen's kappa: agreement beyond chance, from -1 through 0 (chance) to 1.

    Attributes:
        value: The kappa.
        low: The interval's lower end.
        high: Its upper end.
        n: How many items both labelled.
    """

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class HelpsMore:
    """How much twice the calls would narrow the interval.

    Attributes:
        more: "items", or "trials" where more trials of the same items are about as good.
        items: The interval's width with twice the items, as a share of today's.
        trials: Its width with twice the trials, as a share of today's.
    """

    more: Literal["items", "trials"]
    items: float
    trials: float
