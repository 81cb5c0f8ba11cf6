"""Which slices of a dataset differ from the rest by more than chance?

Each slice is compared with all other items, on the means of the items: yes and no by the N - 1
chi-squared test (Campbell 2007), other scores by Welch's t test. Many slices are many chances to be
fooled, so the p values are adjusted (Benjamini and Hochberg 1995).

It imports NumPy and SciPy, so it is imported only where there are slices.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limpet import stats
from limpet.run.results.score_intervals import item_means
from limpet.run.results.summary import Numbers
from limpet.stats.rule import tail_of

Floats = NDArray[np.float64]
_FEWEST = 2
_LEAST_EXPECTED = 1.0


def note_differences(
    numbers: Sequence[Numbers], summaries: Sequence[Mapping[str, Any]], evaluators: Sequence[str]
) -> None:
    """Note in the summary of each slice how its means differ from those of the rest.

    `from_rest` of an evaluator, or `from_rest_by_score`: the `difference` of the mean from that of
    all other items, and `p_adjusted`.
    """
    found: list[tuple[int, str, str | None, float, float]] = []
    for name in evaluators:
        parts = dict.fromkeys(part for one in numbers for part in one.scores[name].parts)
        for part in parts:
            means = [_means(one, name, part) for one in numbers]
            for at, mine in enumerate(means):
                rest = np.concatenate([np.empty(0), *means[:at], *means[at + 1 :]])
                with np.errstate(all="ignore"):
                    p = _p_value(mine, rest)
                    difference = float(mine.mean() - rest.mean()) if p is not None else 0.0
                if p is not None and math.isfinite(difference):
                    found.append((at, name, part, difference, p))
    adjusted = stats.benjamini_hochberg([p for *_, p in found]) if found else []
    for (at, name, part, difference, _), p in zip(found, adjusted, strict=True):
        about, noted = (
            {"difference": difference, "p_adjusted": p},
            summaries[at]["evaluators"][name],
        )
        if part is None:
            noted["from_rest"] = about
        else:
            noted.setdefault("from_rest_by_score", {})[part] = about


def _means(numbers: Numbers, name: str, part: str | None) -> Floats:
    parts = numbers.scores[name].parts
    return item_means(parts[part], numbers.cell_items) if part in parts else np.empty(0)


def _p_value(mine: Floats, rest: Floats) -> float | None:
    """Return how often a difference like this arises by chance; None: too few to tell."""
    sizes = len(mine), len(rest)
    if min(sizes) < _FEWEST:
        return None
    both = np.concatenate([mine, rest])
    if ((both == 0) | (both == 1)).all():
        total, share = len(both), both.mean()
        if min(sizes) * min(share, 1 - share) < _LEAST_EXPECTED:
            return None
        variance = share * (1 - share) * (1 / sizes[0] + 1 / sizes[1]) * total / (total - 1)
        freedom = math.inf
    else:
        errors = [part.var(ddof=1) / len(part) for part in (mine, rest)]
        variance = sum(errors)
        squares = sum(error**2 / (n - 1) for error, n in zip(errors, sizes, strict=True))
        freedom = variance**2 / squares if squares else math.inf
    if not (variance > 0 and math.isfinite(variance)):
        return None
    distance = abs(mine.mean() - rest.mean()) / math.sqrt(variance)
    return min(1.0, 2 * float(tail_of(freedom, distance)))
