"""How low may a mean by groups be, when items of known groups failed?

The problem: with every failure as 0 in its group, the lower end of the interval by groups is right,
but one more failure may raise it: a group that stood out and falls makes the spread smaller. And a
failure must never make a claim sharper.

Nor is 0 always the worst: a failure that was right, in the group that is largest and best, makes
the spread larger, and the lower end falls.

What we do: take the lowest end that any part of the failures gives, all of it wrong or all of it
right, so that more failures only offer more parts. If K of them count, the mean is known, and the
variance is a sum over the groups, each convex in how many of its own failures count. So its largest
sum lies on the chords: take the steepest first until K are taken. (A part of a group may then
count, which is a little too careful.) Degrees of freedom likewise. Unless one group stands out far,
the lowest end is the one with all failures, and that is the interval of the filled scores, as if
filled by hand.

Many failures make K a grid. A lowest end between two of its points is missed, by far less than is
ever shown.
"""

import numpy as np

from limpet.stats.rule import quantile, wilson
from limpet.stats.samples import Floats, Ints

_FINEST = 25  # all K up to twice as many, then steps of K / 25
_AT_ONCE = 1_000_000


def lower_end(totals: Floats, sizes: Floats, failed: Ints, tail: float) -> float:
    """Return the lowest end in 0..1 that any part of the failures gives, each being 0 or each 1.

    Args:
        totals: The sum of the items' means in each group; 0 for a group that only failed.
        sizes: How many items with scores each group has.
        failed: How many items of each group failed: in all at least one.
        tail: How likely the mean is lower.
    """
    grid = _grid(int(failed.sum()))
    alike, many = np.unique(np.stack([totals, sizes, failed]), axis=1, return_counts=True)
    step = max(_AT_ONCE // len(many), 1)
    parts = (np.array(grid[at : at + step]) for at in range(0, len(grid), step))
    return min(
        float(_ends(part, alike, many, tail, fill).min()) for part in parts for fill in (0, 1)
    )


def _grid(most: int) -> list[int]:
    """Return how many failures to count: points that do not depend on `most`, and `most`."""
    found, k = [], 1
    while k < most:
        found.append(k)
        k += max(k // _FINEST, 1)
    return [*found, most]


def _ends(counted: Ints, alike: Floats, many: Ints, tail: float, fill: int) -> Floats:
    """Return the lower end of `by_groups`, for each K, with the K failures that make it lowest.

    Args:
        counted: Each K.
        alike: Totals, sizes and failures of groups that differ.
        many: How many groups there are of each.
        tail: How likely the mean is lower.
        fill: What a failure counts as: 0 or 1.
    """
    totals, sizes, failed = alike
    k = counted[:, None]
    n = sizes @ many + k
    pseudo = n / many[sizes > 0].sum()  # 0 and 1 are ends of the range
    total = n + pseudo
    scored = totals @ many + k * fill
    centre = (scored + pseudo / 2) / total
    some = np.minimum(failed, k)
    most = _Most(k, some, many)
    squares = most(
        (totals - sizes * centre) ** 2 / (1 - sizes / total),
        (totals + some * fill - (sizes + some) * centre) ** 2 / (1 - (sizes + some) / total),
    )
    squares += pseudo**2 * (centre**2 + (1 - centre) ** 2) / 2
    before, after = sizes / n, (sizes + some) / n
    # Satterthwaite's, with share² for a term that is hardly smaller but not convex.
    weighted = most(before**2 / (1 - before), after**2 / (1 - after))
    freedom = np.maximum(1 / (most(before**2, after**2) + weighted**2), 1)  # it is never less
    size = centre * (1 - centre) * total**2 / squares
    low, _ = wilson(centre, size, quantile(freedom, tail))
    return np.asarray(np.minimum(low, scored / n))


class _Most:
    """The largest sum over groups, on the chords from none to some of each, with K in all."""

    def __init__(self, k: Ints, some: Floats, many: Ints) -> None:
        self._k = k
        self._many = many
        self._at = some.any(axis=0)
        self._some = some[:, self._at]
        self._room = self._some * many[self._at]

    def __call__(self, none: Floats, with_some: Floats) -> Floats:
        each = (with_some - none)[:, self._at] / self._some
        steepest = np.argsort(-each, axis=-1)
        room = np.take_along_axis(self._room, steepest, axis=-1)
        taken = np.clip(self._k - (room.cumsum(axis=-1) - room), 0, room)
        gains = (np.take_along_axis(each, steepest, axis=-1) * taken).sum(axis=-1)
        return np.asarray((none @ self._many + gains)[:, None])
