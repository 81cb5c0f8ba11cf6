"""Is it a limit, or are some calls refused by chance?

A shared gateway, an overloaded node behind a balancer or a fault refuses a share of all calls,
however few there are. Whoever takes that for a limit slows down, is refused as often as before,
slows down again, and ends at a crawl.

A limit shows in that it ends when we go slower. So what counts is where a refusal comes: beyond
what is known to be taken, as when we try for more, it is what was to be expected of a limit. Where
nothing more was tried than was measured to be fine, it was not; and when that happens again and
again, it is chance, and its share can be counted.

From then on, refusals are news only if there are clearly more of them than that share explains
(Page's cumulative sum, of the logarithm of how much likelier an outcome is with more
refused). When none has come for so long that the share cannot be true any more, it is forgotten.
"""

import math

SOON, LATER = 40, 120
"""Calls after a cut within which a limit that was measured does not refuse again, or hardly."""
UNEXPECTED, DOUBTFUL, EXPECTED = 1.6, 0.6, -0.6
"""What a refusal counts for and against chance: within the one, within the other, else."""
BELIEVED = 5.4
"""From here on chance is believed: four in a row that nobody could expect."""
MORE = 0.15
"""The share of the other calls that a limit refuses, at least, when it is run into."""
ALARM = 12.0
"""The cumulative sum from which on there are more refusals than chance explains."""
RARE = 5 * SOON
"""Calls without a refusal after which those before are no evidence any more."""
ALARMS = 3
"""So many of them in a row that nobody could expect, and the share is to be found anew."""
SHARES = (0.005, 0.5)
FRESH, ROUGH, MEMORY = 50, 300, 2000
"""Calls that the share counts for after an alarm; up to which it is known only roughly; and over
which it is averaged."""
CLEAN = 10.0
"""Refusals that should have come by now, if none has, until the share is forgotten."""


class Chance:
    """Tells refusals by chance from those by a limit.

    Attributes:
        share: How many calls are refused by chance; 0: none, as far as is known.
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self.share = self._most = self._sum = self._evidence = 0.0
        self._calls = self._refused = 0  # since there is evidence
        self._clean = 0  # calls since the last refusal
        self._climbing = False
        self._alarms = 0  # in a row that were not to be expected

    @property
    def doubtful(self) -> bool:
        """There is some evidence of chance."""
        return self._evidence > 0

    def sent(self, *, climbing: bool) -> None:
        """A call is made. It counts as taken until it is refused: answers may take long.

        Args:
            climbing: We try for more than is known to be taken: what is refused now may be news.
        """
        self._clean += 1
        self._climbing = climbing
        if self._evidence <= 0:
            return
        self._calls += 1
        if not self.share and self._clean > RARE:
            self._forget()
        elif self.share:
            self._sum = max(0.0, self._sum + self._weight(refused=False))
            self._average(refused=False)
            if self._clean * self.share > CLEAN:
                self._forget()

    def refused(self, taken: int, *, expected: bool) -> bool:
        """A call was refused; returns whether that is explained by chance.

        Args:
            taken: How many calls were made since we last went slower.
            expected: More was tried than is known to be taken.
        """
        self._clean = 0
        self._refused += 1
        if not self.share:
            self._weigh(EXPECTED if expected else _weight_after(taken))
            return self.share > 0
        self._sum += self._weight(refused=True) - self._weight(refused=False)
        if self._sum < ALARM:
            self._average(refused=True)
            return True
        self._sum, self._calls = 0.0, min(self._calls, FRESH)  # well below, it shows what it is
        self._alarms = 0 if expected else self._alarms + 1
        if self._alarms == ALARMS:  # it is not the share that was thought
            self._forget()
            self._weigh(UNEXPECTED)
        return False

    def refute(self) -> None:
        """It was no chance: it takes more than before to believe in it."""
        self._forget()
        self._evidence = -BELIEVED

    def overlook(self) -> None:
        """A call was refused that tells nothing but that it was."""
        self._clean = 0
        self._refused += 1

    def _weigh(self, weight: float) -> None:
        if self._evidence <= 0:
            self._calls = self._refused = 1
        self._evidence = max(min(0.0, self._evidence), self._evidence + weight)
        if self._evidence >= BELIEVED:
            self.share = min(max(SHARES[0], self._refused / self._calls), SHARES[1])
            self._most = min(1.5 * self.share + 0.03, SHARES[1])

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


def _weight_after(taken: int) -> float:
    if taken > LATER:
        return EXPECTED
    return UNEXPECTED if taken <= SOON else DOUBTFUL
