"""Is this call larger than others?

A bucket that is kept nearly empty refuses a large call again and again while small ones pass, and
nobody may know how large it is. But we see how often it was refused. So such a call waits until
twice as much has come in as for another, then four times as much, and so on.
"""

OFTEN, LARGEST = 3, 64.0
"""Refusals of a call from which it may be larger than others; how many times at most."""
MOST_OWNERS = 1000


class LargeCalls:
    """How often calls were refused while others passed, by owner, until they are answered."""

    def __init__(self) -> None:
        self._refusals: dict[object, tuple[int, int]] = {}  # how many, and the answers by then
        self._answers = 0

    def refused(self, owner: object) -> None:
        count, answers = self._refusals.get(owner, (0, -1))
        others_passed = self._answers > answers
        self._refusals[owner] = count + others_passed, self._answers
        if len(self._refusals) > MOST_OWNERS:  # some gave up
            del self._refusals[next(iter(self._refusals))]

    def answered(self, owner: object) -> None:
        self._answers += 1
        self._refusals.pop(owner, None)

    def size_of(self, owner: object) -> float:
        """Return how many times larger than others a call may be."""
        refusals, _ = self._refusals.get(owner, (0, 0))
        return 1.0 if refusals < OFTEN else min(2.0 ** (refusals - OFTEN + 1), LARGEST)
