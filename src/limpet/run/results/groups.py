"""What are the numbers for each value of a dataset's field?"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from limpet import stats
from limpet.json_values import encode
from limpet.run.results.filters import MISSING, field_of
from limpet.run.results.score_intervals import item_groups, item_means
from limpet.run.results.score_numbers import ScoreNumbers
from limpet.run.results.score_words import ScoreName
from limpet.run.results.summary import Numbers
from limpet.stats.rule import tail_of
from limpet.stats.samples import FEWEST_GROUPS, numbered
from limpet.types import Scale

if TYPE_CHECKING:
    from limpet.run.results.evaluation_result import ItemResult


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


def groups_by(
    items: "Iterable[ItemResult]",
    field: str,
    evaluators: Sequence[str],
    trials: int = 1,
    scales: Mapping[str, Scale] | None = None,
) -> list[dict[str, Any]]:
    """Return the numbers of the items for each value of a field, as JSON data.

    `value` is the field's value, None if an item does not have it; the rest is as in
    `summary.json`, with `from_rest`: how a mean differs from that of all other items. The groups
    are sorted: numbers, then strings, then other values, then None.
    """
    numbers: dict[str, tuple[Any, Numbers]] = {}
    for item in items:
        value = field_of(item, field)
        value = None if value is MISSING else value
        text = value if isinstance(value, str) else encode(value)[0].decode()
        known = numbers.setdefault(text, (value, Numbers(evaluators, trials, scales)))
        known[1].add(item)
    ordered = sorted(numbers.items(), key=lambda pair: _order(pair[1][0], pair[0]))
    slices = [_group(field, value, of_value.summary()) for _, (value, of_value) in ordered]
    if len(slices) > 1 and any(scores.parts for scores in _all_scores(numbers)):
        note_differences([of_value for _, (_, of_value) in ordered], slices, evaluators)
    return slices


def _all_scores(numbers: Mapping[str, tuple[Any, Numbers]]) -> Iterator[ScoreNumbers]:
    return (scores for _, of_value in numbers.values() for scores in of_value.scores.values())


def coded(values: Iterable[Any]) -> tuple[list[int], list[Any]]:
    """Return the number of each value, and the values in the order of `groups_by`."""
    texts, known = list[str](), dict[str, Any]()
    for value in values:
        given = None if value is MISSING else value
        text = given if isinstance(given, str) else f"\0{encode(given)[0].decode()}"
        texts.append(text)
        known.setdefault(text, given)
    ordered = sorted(known, key=lambda text: _order(known[text], text))
    numbers = {text: number for number, text in enumerate(ordered)}
    return [numbers[text] for text in texts], [known[text] for text in ordered]


def _order(value: Any, text: str) -> tuple[int, float, str]:
    if value is None:
        return 3, 0.0, ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return 0, value, ""
    return (1 if isinstance(value, str) else 2), 0.0, text


def _group(field: str, value: Any, summary: Mapping[str, Any]) -> dict[str, Any]:
    about_run = ("masked", "versions")
    numbers = {name: part for name, part in summary.items() if name not in about_run}
    return {"field": field, "value": value, **numbers}


def sort_groups(groups: list[dict[str, Any]], by: ScoreName, *, descending: bool) -> None:
    """Sort groups by a mean; those without one are last."""

    def key(group: Mapping[str, Any]) -> tuple[bool, float]:
        value = _mean(group, by)
        return (value is None) != descending, 0.0 if value is None else value

    groups.sort(key=key, reverse=descending)


def _mean(group: Mapping[str, Any], by: ScoreName) -> float | None:
    """Return a mean of a group; the lowest, if it has several."""
    numbers = group["evaluators"][by.evaluator]
    means: dict[str | None, float | None] = {None: numbers["mean"], **numbers.get("means", {})}
    chosen = means.values() if by.part is None else [means.get(by.part)]
    return min((value for value in chosen if value is not None), default=None)
