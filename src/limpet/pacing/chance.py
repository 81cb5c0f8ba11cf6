"""Is it a limit, or are some calls refused at random?

The problem. A shared gateway, an overloaded node behind a load balancer, or a fault refuses a share
of all calls, however few there are. A client that treats this as a limit slows down, is refused as
often as before, slows down again, and ends at a crawl: with 5% of 20 ms calls refused, at five
calls a second.

What does not work. Waiting for a second refusal before believing in a limit turns each refusal at a
real limit into four. Looking at how refusals are spread does not help either: at a limit that is
barely exceeded, they are as isolated as random ones.

What we do. At a limit, refusals stop when we slow down. So we look at when a refusal comes. Above
the known limit, it is expected. After we slowed down and made only a few calls, it is not: a
measured bucket is not empty again so soon. When that happens repeatedly, refusals are random, their
share can be measured, and we return to the previous speed.

From then on, a refusal matters only if there are clearly more of them than the share explains. We
use Page's cumulative sum of the log-likelihood ratio between a limit and chance. The share is
forgotten when so many calls succeed that it cannot be true, or when it explains fewer and fewer
refusals although we slow down.

If a limit far below was mistaken for chance, most calls are refused as soon as we speed up again:
the first thirty calls are a probation that shows this.

While no limit is known, refusals must come close together to show one: a slow start that exceeds a
limit exceeds it by far. Four that do not come close together are chance, from the start.

Still open. Of providers that refuse every fifth call, about one in ten gets three refusals in a row
at the start, is taken for a limit, and is slow for a minute. Calls whose sizes vary widely and are
not declared look random for a while.
"""

import math
from dataclasses import dataclass

EARLY = 2.2, -0.175
"""Weight of a refusal and of an accepted call while no limit is known: a limit that is exceeded
refuses a sixth of the calls and more, chance one in fifty.
"""
EARLY_ALARM, EARLY_ENOUGH = 6.0, 4
"""Sum of weights that shows a limit (three refusals in a row); so many without one show chance.

1 to 20% refused by chance, calls of 20 ms to 2 s; 5 and 6 refusals led to crawls at 20%.
"""
SOON = 40
"""Calls after a decrease within which a measured limit does not refuse again."""
AT_ONCE, FEWEST = 2, 3
"""Calls since a decrease: below the first, none succeeded; below the second, no evidence."""
UNEXPECTED, EXPECTED = 1.6, -0.6
"""Weight of a refusal as evidence for or against chance."""
BELIEVED = 5.4
"""Evidence at which chance is believed: four unexpected refusals in a row."""
RARE = 5 * SOON
"""Calls without a refusal after which earlier evidence is dropped."""
PROBATION = 30
"""Calls after chance was believed that may still refute it: a limit far below refuses most.

Measured on tokens without headers, and on a cap of 32 and a bucket with 5% refused by chance.
"""
MORE = 0.15
"""Share of the other calls that an exceeded limit refuses, at least."""
ALARM = 12.0
"""Cumulative sum above which there are more refusals than chance explains."""
SHARES = (0.005, 0.4)
"""Range of shares taken for chance: less does no harm, more is a limit."""
LARGE = 0.25, 40
"""A share from which so many calls are needed to believe it. Buckets of 4 at 2.5 a second."""
FRESH, ROUGH, MEMORY = 50, 300, 2000
"""Weight of the share in calls after an alarm; calls until it is known well; averaging window."""
CLEAN = 8.0
"""Refusals overdue without any arriving, until the share is forgotten."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refusal and its circumstances.

    Attributes:
        number: The call's number among all calls.
        calls_since_decrease: How many calls were made since we last slowed down.
        tried_more: Whether we were above the known limit; None: no limit is known.
        long_wait: Whether it named a wait that is not to be shortened.
        tells: Whether it is evidence; not if it came too soon or its call is unusually large.
    """

    number: int
    calls_since_decrease: int
    tried_more: bool | None
    long_wait: bool
    tells: bool


class Chance:
    """Distinguishes random refusals from those at a limit.

    Attributes:
        share: The share of calls refused at random; 0: none known.
    """

    def __init__(self) -> None:
        self._number = 0  # calls so far
        self._last = 0  # the number of the last call that was refused
        self._early_sum = 0.0
        self._early_calls = self._early_refused = 0
        self._forget()

    def _forget(self) -> None:
        self.share = self._most = self._sum = self._evidence = 0.0
        self._calls = self._refused = 0  # since the first evidence
        self._clean = 0  # calls within the known limit since the last unexpected refusal
        self._share_then = 0.0
        self._climbing = False
        self._probation = 0  # the last call that may refute it

    @property
    def doubtful(self) -> bool:
        """Whether there is some evidence of chance."""
        return self._evidence > 0

    def sent(self, *, climbing: bool) -> None:
        """Record a call. It counts as accepted until it is refused: answers may take long.

        Args:
            climbing: Whether we are above the known limit, where refusals are expected.
        """
        self._number += 1
        self._early_calls += 1
        self._early_sum = max(0.0, self._early_sum + EARLY[1])
        self._clean += not climbing
        self._climbing = climbing
        if self._evidence <= 0:
            return
        self._calls += 1
        if self.share:
            self._sum = max(0.0, self._sum + self._weight(refused=False))
            self._average(refused=False)
        # By the share at that time: since then it was only averaged down.
        rare = self._number > self._last + RARE
        if (self._clean * self._share_then > CLEAN) if self.share else rare:
            self._forget()

    def believe(self, refused: int, calls: int) -> None:
        """Record that `refused` of `calls` were refused at random."""
        self._forget()
        self._refused, self._calls = refused, max(refused, calls)
        self._weigh(BELIEVED)

    def explains(self, refusal: Refusal) -> bool:
        """Record a refusal. Returns whether it is random, not a sign of a limit."""
        self._last = refusal.number
        self._refused += 1
        if not refusal.tried_more:
            self._clean = 0
        if self.share:
            at_once = refusal.calls_since_decrease < AT_ONCE
            return at_once or self._is_chance(refusal)
        if refusal.tried_more is None and not refusal.long_wait and self._is_rare():
            return True
        if refusal.calls_since_decrease >= FEWEST and refusal.tells:
            self._weigh(_weight_of(refusal))
        return self.share > 0

    def _is_rare(self) -> bool:
        """Record a refusal before any limit is known. Returns whether there are few of them."""
        self._early_sum += EARLY[0]
        if self._early_sum >= EARLY_ALARM:
            self._early_calls = self._early_refused = 0
            return False
        self._early_refused += 1
        if self._early_refused >= EARLY_ENOUGH:
            self.believe(self._early_refused, self._early_calls)
        return True

    def _is_chance(self, refusal: Refusal) -> bool:
        self._sum += self._weight(refused=True) - self._weight(refused=False)
        if self._sum < ALARM:
            self._average(refused=True)
            self._share_then = self.share
            return True
        if refusal.number <= self._probation:
            self._forget()
            return False
        self._sum, self._calls = 0.0, min(self._calls, FRESH)  # a slower speed shows which it is
        return False

    def _weigh(self, weight: float) -> None:
        if self._evidence <= 0 and weight < BELIEVED:
            self._calls = self._refused = 1
        self._evidence = max(min(0.0, self._evidence), self._evidence + weight)
        share = max(SHARES[0], self._refused / self._calls)
        if self._evidence >= BELIEVED and (share < LARGE[0] or self._calls >= LARGE[1]):
            if share > SHARES[1]:  # too many: we are far above a limit
                self._forget()
                return
            self.share = share
            self._most = min(2 * share + 0.05, SHARES[1])
            self._share_then = self.share
            self._probation = self._last + PROBATION

    def _weight(self, *, refused: bool) -> float:
        more = self.share + (MORE + self.share / 2) * (1 - self.share)
        return math.log(more / self.share if refused else (1 - more) / (1 - self.share))

    def _average(self, *, refused: bool) -> None:
        if self._climbing or self._number <= self._probation:
            return
        share = self.share + (refused - self.share) / min(self._calls, MEMORY)
        self.share = min(max(SHARES[0], share), self._most)
        if self._calls == ROUGH:
            self._most = min(self._most, 1.5 * self.share)


def _weight_of(refusal: Refusal) -> float:
    soon = refusal.calls_since_decrease <= SOON
    return UNEXPECTED if soon and refusal.tried_more is False else EXPECTED
