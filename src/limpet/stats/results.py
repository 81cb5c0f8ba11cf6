"""What a number on a page consists of: the mean, how far to trust it, and by which method."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the interval around it.

    Attributes:
        mean: The mean of the items; of `bounds`, of those that completed.
        low: The interval's lower end.
        high: Its upper end.
        method: The method's name, short enough for a table.
        n: How many items it rests on.
        groups: How many groups they form; None if they form none.
        lambda_: How far the judge was trusted (`ppi_mean` only), 0 being not at all.
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
    """What two runs of the same items differ by.

    Attributes:
        delta: The mean of the second minus the mean of the first.
        low: The interval's lower end.
        high: Its upper end.
        p: How often a difference like this arises by chance. Under 1 - level exactly when 0 is
            outside the interval. NaN: there is no interval.
        mid_p: The mid-p of McNemar's exact test; None unless both are binary with one trial.
        method: The method's name, short enough for a table.
        n: How many items were compared.
        better: How many items the second run did better.
        same: How many it did as well.
        worse: How many it did worse.
        smallest_seen: The smallest difference that would have been seen four times of five.
        groups: How many groups the items form; None if they form none.
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
    """Whether the second run may pass.

    Attributes:
        verdict: "not worse", "worse", or "inconclusive": the items do not decide it.
        delta: The mean of the second minus the mean of the first.
        bound_low: With 95% confidence, the difference is not below this.
        bound_high: With 95% confidence, the difference is not above this.
        items_to_decide: How many items in all would decide it four times of five if the
            difference is what it seems; None if it is decided, or if no number of items would.
    """

    verdict: Literal["not worse", "worse", "inconclusive"]
    delta: float
    bound_low: float
    bound_high: float
    items_to_decide: int | None


@dataclass(frozen=True, slots=True)
class Kappa:
    """Cohen's kappa: agreement beyond chance, from -1 over 0 (chance) to 1.

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
    """What a second helping of calls would buy.

    Attributes:
        more: "items", or "trials" where trials of the items at hand are about as good.
        items: The interval's width with twice the items, as a share of today's.
        trials: Its width with twice the trials, as a share of today's.
    """

    more: Literal["items", "trials"]
    items: float
    trials: float
