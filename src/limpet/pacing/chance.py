"""Is it a limit, or are some calls refused by chance?

The problem. A shared gateway, an overloaded node behind a balancer or a fault refuses a share of
all calls, however few there are. Whoever takes that for a limit slows down, is refused as often as
before, slows down again, and ends at a crawl: at 5% of calls of 20 ms, five a second.

What does not work. To ask for a second refusal each time before believing in a limit: it makes
four refusals of each one at a real limit. To look at how the refusals are spread: at a limit that
is hardly overrun, they are as lonely as those by chance.

What we do. A limit shows in that the refusals end when we go slower. So what counts is where one
comes. Where we tried for more than is known to be taken, a limit was to be expected. Where we had
gone below it and have made few calls since, it was not: a bucket that was measured is not empty
again so soon. When that happens again and again, it is chance, its share can be counted, and we go
back to where we were before.

From then on a refusal is news only if there are clearly more of them than the share explains:
Page's cumulative sum, of the logarithm of how much likelier it is at a limit that a call is
refused, or taken. The share is forgotten when so many calls have passed that it cannot be true, or
when it explains less and less although we go slower.

Where a limit far below was taken for chance, most calls are refused as soon as we go back: the
first dozen calls are a probation, in which that shows.

Refusals that are rarer than one in forty calls do not come soon after a cut. Of those that come
alone, a moment of going faster tells what they are (`trial`).

And while nothing is known at all, one lonely refusal proves nothing.

Still open. It takes four such refusals to find out, and a pause after each: a run of few seconds is
over before. Calls of very different sizes, none of them known, look like chance for a while.
"""

import math
from dataclasses import dataclass

SOON = 40
"""Calls after a cut within which a limit that was measured does not refuse again."""
AT_ONCE, FEWEST = 2, 3
"""Calls after a cut below which nothing has passed since, and too little to tell anything."""
COMPANY = 12
"""Calls among which a limit that was run into refuses more than one."""
UNEXPECTED, DOUBTFUL, EXPECTED = 1.6, 0.6, -0.6
"""What a refusal counts for and against chance."""
BELIEVED = 5.4
"""From here on chance is believed: four in a row that nobody could expect."""
RARE = 5 * SOON
"""Calls without a refusal after which those before are no evidence any more."""
PROBATION = 12
"""Calls after chance was believed that may still refute it: a limit far below refuses most."""
MOST = (0.25, 0.55)
"""The share of them that is too much: so much more than was believed, and this at least."""
MORE = 0.15
"""How many of the other calls a limit refuses, at least, when it is run into."""
ALARM = 12.0
"""The cumulative sum from which on there are more refusals than chance explains."""
ALARMS = 3
"""So many of them in a row that nobody could expect, and the share is to be found anew."""
SHARES = (0.005, 0.4)
"""What is believed to be chance: less does no harm, and more is none."""
FRESH, ROUGH, MEMORY = 50, 300, 2000
"""Calls that the share counts for after an alarm; up to which it is known only roughly; and over
which it is averaged."""
CLEAN = 8.0
"""Refusals that should have come by now, if none has, until the share is forgotten."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refusal, and what it came after.

    Attributes:
        number: Which of all calls it was.
        taken: How many calls were made since we last went slower.
        tried_more: More was tried than is known to be taken; None: nothing is known.
        early: We went slower so short a time ago that many calls or not make no difference.
        named: A wait was named with it.
        cut_short: The last wait that was named was not waited for.
        tells: It is like others; else it came too soon, or asked for more than they do.
    """

    number: int
    taken: int
    tried_more: bool | None
    early: bool
    named: bool
    cut_short: bool
    tells: bool


class Chance:
    """Tells refusals by chance from those by a limit.

    Attributes:
        share: How many calls are refused by chance; 0: none, as far as is known.
    """

    def __init__(self) -> None:
        self._last = -2 * COMPANY  # the number of the last call that was refused
        self._forget()

    def _forget(self) -> None:
        self.share = self._most = self._sum = self._evidence = 0.0
        self._calls = self._refused = 0  # since there is evidence
        self._since = 0  # calls since the last refusal
        self._clean = 0  # those since the last that was not to be expected, without tries for more
        self._share_then = 0.0
        self._climbing = self._refuted = False
        self._alarms = 0  # in a row that were not to be expected
        self._probation = 0  # the last call that may refute it
        self._spared = 0.0  # refusals until then that do not

    @property
    def doubtful(self) -> bool:
        """There is some evidence of chance."""
        return self._evidence > 0

    def sent(self, *, climbing: bool) -> None:
        """A call is made. It counts as taken until it is refused: answers may take long.

        Args:
            climbing: We try for more than is known to be taken: what is refused now may be news.
        """
        self._since += 1
        self._clean += not climbing
        self._climbing = climbing
        if self._evidence <= 0:
            return
        self._calls += 1
        if self.share:
            self._sum = max(0.0, self._sum + self._weight(refused=False))
            self._average(refused=False)
        # By the share as it was then: since, it has only been averaged down.
        if (self._clean * self._share_then > CLEAN) if self.share else (self._since > RARE):
            self._forget()

    def is_alone(self, refusal: Refusal) -> bool:
        """Tell whether no other was refused just before."""
        return refusal.number - self._last > COMPANY

    def passes_over(self, refusal: Refusal) -> None:
        """Take in that a call was refused, and that it will show why."""
        self._last = refusal.number
        self._since = 0
        self._refused += 1

    def believe(self, refused: int, calls: int) -> None:
        """So many were refused, and it was no limit."""
        self._forget()
        self._refused, self._calls = refused, max(refused, calls)
        self._weigh(BELIEVED)

    def explains(self, refusal: Refusal) -> bool:
        """Take in that a call was refused; returns whether that says nothing of a limit."""
        alone = refusal.number - self._last > COMPANY and not refusal.named
        self._last = refusal.number
        self._since = 0
        self._refused += 1
        if not refusal.tried_more:
            self._clean = 0
        if self.share:
            self._spared -= refusal.number <= self._probation
            if self._spared < 0:
                self._forget()
                self._evidence = -BELIEVED
                return False
            return refusal.taken < AT_ONCE or not refusal.tells or self._is_chance(refusal)
        if alone and refusal.tried_more is None:
            return True
        if refusal.cut_short and refusal.taken < AT_ONCE:
            self._refute()
        elif refusal.taken >= FEWEST and refusal.tells:
            self._refuted = False
            self._weigh(_weight_of(refusal))
        return self.share > 0

    def _is_chance(self, refusal: Refusal) -> bool:
        self._sum += self._weight(refused=True) - self._weight(refused=False)
        if self._sum < ALARM:
            self._average(refused=True)
            self._share_then = self.share
            return True
        self._sum, self._calls = 0.0, min(self._calls, FRESH)  # well below, it shows what it is
        self._alarms = self._alarms + 1 if refusal.tried_more is False else 0
        if self._alarms == ALARMS:  # it is not the share that was thought
            self._forget()
            self._weigh(UNEXPECTED)
        return False

    def _refute(self) -> None:
        """A wait was cut short, and the next call was refused: chance does not do that twice."""
        again, self._refuted = self._refuted, True
        self._evidence = -BELIEVED if again else max(0.0, self._evidence - UNEXPECTED)

    def _weigh(self, weight: float) -> None:
        if self._evidence <= 0 and weight < BELIEVED:
            self._calls = self._refused = 1
        self._evidence = max(min(0.0, self._evidence), self._evidence + weight)
        share = max(SHARES[0], self._refused / self._calls)
        if self._evidence >= BELIEVED:
            if share > SHARES[1]:  # we are still far above a limit
                self._forget()
                return
            self.share = share
            self._most = min(1.5 * share + 0.03, SHARES[1])
            self._share_then = self.share
            self._probation = self._last + PROBATION
            self._spared = PROBATION * max(share + MOST[0], MOST[1])

    def _weight(self, *, refused: bool) -> float:
        more = self.share + (MORE + self.share / 2) * (1 - self.share)
        return math.log(more / self.share if refused else (1 - more) / (1 - self.share))

    def _average(self, *, refused: bool) -> None:
        if self._climbing:
            return
        share = self.share + (refused - self.share) / min(self._calls, MEMORY)
        self.share = min(max(SHARES[0], share), self._most)
        if self._calls == ROUGH:
            self._most = min(self._most, 1.5 * self.share)


def _weight_of(refusal: Refusal) -> float:
    if refusal.tried_more is not False:
        return EXPECTED
    if refusal.taken <= SOON:
        return UNEXPECTED
    return DOUBTFUL if refusal.early else EXPECTED
