"""Which slices of a dataset differ from the rest by more than chance?

Each slice is compared with all other items, on the means of the items: yes and no by the N - 1
chi-squared test (Campbell 2007), other scores by Welch's t test. Items that come in groups are not
independent, and a slice is often made of whole groups: then the difference is tested on the groups'
sums. Many slices are many chances to be fooled, so the p values are adjusted (Benjamini and
Hochberg 1995).

It imports NumPy and SciPy, so it is imported only where there are slices.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limpet import stats
from limpet.run.results.score_intervals import item_groups, item_means
from limpet.run.results.score_words import ScoreName
from limpet.run.results.summary import Numbers
from limpet.stats.rule import tail_of
from limpet.stats.samples import FEWEST_GROUPS, numbered

Floats = NDArray[np.float64]
_FEWEST = 2
_LEAST_EXPECTED = 1.0


def add_differences(
    numbers: Sequence[Numbers], summaries: Sequence[Mapping[str, Any]], evaluators: Sequence[str]
) -> None:
    """Note in the summary of each slice how its means differ from those of the rest.

    `from_rest` of a score: the `difference` of the mean from that of all other items, and
    `p_adjusted`.
    """
    found: list[tuple[int, str, str | None, float, float]] = []
    for name in evaluators:
        parts = dict.fromkeys(part for one in numbers for part in one.scores[name].parts)
        for part in parts:
            means = [_means(one, name, part) for one in numbers]
            groups = _groups(numbers, name, part)
            for at, mine in enumerate(means):
                rest = np.concatenate([np.empty(0), *means[:at], *means[at + 1 :]])
                with np.errstate(all="ignore"):
                    if groups is None:
                        p = _p_value(mine, rest)
                    else:
                        of_rest = [
                            group for one in (*groups[:at], *groups[at + 1 :]) for group in one
                        ]
                        p = _p_value_by_groups(mine, rest, groups[at], of_rest)
                    difference = float(mine.mean() - rest.mean()) if p is not None else 0.0
                if p is not None and math.isfinite(difference):
                    found.append((at, name, part, difference, p))
    adjusted = stats.benjamini_hochberg([p for *_, p in found]) if found else []
    for (at, name, part, difference, _), p in zip(found, adjusted, strict=True):
        score = summaries[at]["scores"][str(ScoreName(name, part))]
        score["from_rest"] = {"difference": difference, "p_adjusted": p}


def _means(numbers: Numbers, name: str, part: str | None) -> Floats:
    parts = numbers.scores[name].parts
    return item_means(parts[part], numbers.cell_items) if part in parts else np.empty(0)


def _groups(
    numbers: Sequence[Numbers], name: str, part: str | None
) -> list[Sequence[bytes]] | None:
    """Return the groups of the items of each slice; None: they form none."""
    found: list[Sequence[bytes]] = []
    for one in numbers:
        scores = one.scores[name]
        if scores.scale.group is None:
            return None
        of_slice: Sequence[bytes] | None = ()
        if part in scores.parts:
            of_slice = item_groups(scores.parts[part], one.cell_items, scores.scale)
        found.append(of_slice or ())
    return found


def _p_value_by_groups(
    mine: Floats, rest: Floats, of_mine: Sequence[bytes], of_rest: Sequence[bytes]
) -> float | None:
    """Return how often a difference like this arises by chance if groups differ; None: too few.

    A score test: if the slice were like the rest, the sum of (z - mean z)(x - mean x) over all
    items, z = 1 in the slice, would be near 0, and its variance is that of the groups' sums. With
    as many degrees of freedom as the fewer groups have it is careful: 3% are found where nothing
    differs and each slice is made of whole groups, where a test of single items finds 12%.
    """
    fewer = min(len(set(of_mine)), len(set(of_rest)))
    if fewer < FEWEST_GROUPS:
        return None
    x = np.concatenate([mine, rest])
    z = np.repeat([1.0, 0.0], [len(mine), len(rest)])
    parts = (z - z.mean()) * (x - x.mean())
    sums = np.bincount(numbered([*of_mine, *of_rest], len(x), "groups"), parts)
    variance = float((sums**2).sum()) * len(sums) / (len(sums) - 1)
    if not (variance > 0 and math.isfinite(variance)):
        return None
    return min(1.0, 2 * float(tail_of(fewer - 1, abs(parts.sum()) / math.sqrt(variance))))


def _p_value(mine: Floats, rest: Floats) -> float | None:
    """Return how often a difference like this arises by chance; None: too few to tell."""
    sizes = len(mine), len(rest)
    if min(sizes) < _FEWEST:
        return None
    both = np.concatenate([mine, rest])
    if ((both == 0) | (both == 1)).all():
        total, share = len(both), float(both.mean())
        if min(sizes) * min(share, 1 - share) < _LEAST_EXPECTED:
            return None
        variance = share * (1 - share) * (1 / sizes[0] + 1 / sizes[1]) * total / (total - 1)
        freedom = math.inf
    else:
        errors = [part.var(ddof=1) / len(part) for part in (mine, rest)]
        variance = float(sum(errors))
        squares = sum(error**2 / (n - 1) for error, n in zip(errors, sizes, strict=True))
        freedom = variance**2 / squares if squares else math.inf
    if not (variance > 0 and math.isfinite(variance)):
        return None
    distance = abs(mine.mean() - rest.mean()) / math.sqrt(variance)
    return min(1.0, 2 * float(tail_of(freedom, distance)))
