"""Is this call larger than others?

A bucket that is kept nearly empty refuses a large call again and again while small ones pass, and
nobody may know how large it is. But we see how often it was refused. So such a call waits until
twice as much has come in as for another, then four times as much, and so on.
"""

from collections import Counter

OFTEN, LARGEST = 3, 64.0
"""Refusals of a call from which it may be larger than others; how many times at most."""
MOST_OWNERS = 1000


class LargeCalls:
    """How often calls were refused, by owner, until they are answered."""

    def __init__(self) -> None:
        self._refusals: Counter[object] = Counter()

    def refused(self, owner: object) -> None:
        self._refusals[owner] += 1
        if len(self._refusals) > MOST_OWNERS:  # some gave up
            del self._refusals[next(iter(self._refusals))]

    def answered(self, owner: object) -> None:
        self._refusals.pop(owner, None)

    def size_of(self, owner: object) -> float:
        """Return how many times larger than others a call may be."""
        refusals = self._refusals.get(owner, 0)
        return 1.0 if refusals < OFTEN else min(2.0 ** (refusals - OFTEN + 1), LARGEST)
