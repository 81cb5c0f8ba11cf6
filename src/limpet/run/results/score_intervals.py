"""What does a mean tell?

Its interval for questions like these, its bounds if everything that failed had been wrong, or
right, and what several trials add. Where a number would be meaningless, a sentence says why.

It imports NumPy and SciPy, so it is imported only if there are scores.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from limpet import stats
from limpet.errors import ScoresError
from limpet.run.results.costs import mean
from limpet.run.results.score_words import ScoreName, range_words
from limpet.shapes import Scale
from limpet.text import count

if TYPE_CHECKING:
    from limpet.run.results.score_numbers import CellItems, PartScores, ScoreNumbers


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LEVEL = 0.95
_MOST_LABELS = 50
_UNIT = (0.0, 1.0)


def claims(
    scores: "ScoreNumbers", cell_items: "CellItems", failed: Sequence[int], in_flight: int
) -> dict[str, dict[str, Any]]:
    """Return the intervals of each score of an evaluator, by name, as in `summary.json`.

    Args:
        scores: The scores.
        cell_items: Which item and group each cell belongs to.
        failed: The cells without a score because of a failure.
        in_flight: How many more cells will have a score.
    """
    found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for part, values in scores.parts.items():
        about = _Sample(values, scores.scale, cell_items, failed, in_flight).claims()
        if missing := scores.completed - len(values.values):
            about["without"] = missing
            note = f"{count(missing, 'score is a label', 'scores are labels')} without a number"
            if part is not None:  # it may not be there at all
                note = f"{count(missing, 'answer has', 'answers have')} no number for it"
            about["interval_note"] = "; ".join(filter(None, (note, about.get("interval_note"))))
        found[str(ScoreName(scores.name, part))] |= about
    for part, labels in scores.labels.items():
        if shares := _label_shares(labels, scores.scale, cell_items):
            found[str(ScoreName(scores.name, part))]["label_intervals"] = shares
    return found


class _Sample:
    """The values of one score, in the order of their cells."""

    def __init__(
        self,
        scores: "PartScores",
        scale: Scale,
        cell_items: "CellItems",
        failed: Sequence[int],
        in_flight: int,
    ) -> None:
        cells = np.array(scores.cells, dtype=np.int64)
        order = np.argsort(cells, kind="stable")
        cells, self._values = cells[order], np.array(scores.values)[order]
        self._items = _items_of(cells, cell_items)
        self._groups = _groups_of(cells, cell_items, scale)
        self._scale = scale
        self._trials = cell_items.trials
        lost = np.array(sorted(failed), dtype=np.int64)
        lost_items = _items_of(lost, cell_items)
        self._lost: list[int] = (lost if lost_items is None else lost_items).tolist()
        self._lost += range(-in_flight, 0)  # whichever items they are
        self._in_flight = in_flight
        lost_groups = _groups_of(lost, cell_items, scale)
        self._lost_groups: list[int | None] | None = None
        if lost_groups is not None:
            self._lost_groups = [*lost_groups.tolist(), *[None] * in_flight]
        is_unit = bool(self._values.min() >= 0 and self._values.max() <= 1)
        self._range = scale.range or (_UNIT if is_unit else None)

    def claims(self) -> dict[str, Any]:
        with np.errstate(all="ignore"):  # a number that is too large is left out
            return self._claims()

    def _claims(self) -> dict[str, Any]:
        found = self._item_mean()
        if outside := self._outside():
            lie = count(outside, "score lies", "scores lie")
            found["interval_note"] = f"{lie} outside the declared range {range_words(self._scale)}"
            return found
        notes: list[str] = []
        if interval := self._interval(notes):
            found["interval"] = interval
        if self._lost and self._range is not None:
            found["bounds"] = self._bounds()
        elif self._lost:
            failed = len(self._lost) - self._in_flight
            which = [f"{failed:,} that failed"] if failed else []
            which += [f"{self._in_flight:,} in flight"] if self._in_flight else []
            notes.append(f"without {' and '.join(which)}: declare the range to count them")
        if self._trials > 1:
            found |= self._of_trials()
        return found | ({"interval_note": "; ".join(notes)} if notes else {})

    def _item_mean(self) -> dict[str, Any]:
        """Return the mean of the items' means, if the items have different numbers of scores."""
        if self._items is None:
            return {}
        means, trials = _per_item(self._values, self._items)
        if (
            trials.min() == trials.max()
        ):  # then it is the mean of all scores, which is known exactly
            return {}
        return {"mean": _mean(means)} if np.isfinite(means).all() else {}

    def _outside(self) -> int:
        if self._scale.range is None:
            return 0
        low, high = self._scale.range
        return int(((self._values < low) | (self._values > high)).sum())

    def _interval(self, notes: list[str]) -> dict[str, Any] | None:
        same = self._values.min() == self._values.max()
        is_one = len(self._values) == 1 or (self._items is not None and len({*self._items}) == 1)
        is_yes_or_no = self._range == _UNIT and self._trials == 1 and self._values[0] in (0, 1)
        if is_one and not is_yes_or_no:  # Wilson's interval of it is nearly everything
            notes.append("one item: too few for an interval")
        elif self._range is None and same:
            notes.append("all scores are equal: declare the range for an interval")
        else:
            try:
                found = stats.interval(
                    self._values,
                    items=self._items,
                    groups=self._groups,
                    range=self._range,
                    level=LEVEL,
                )
            except ScoresError as error:
                notes.append(str(error))
                return None
            if (data := _interval_data(found)) is not None:
                return data
            notes.append("the scores are too large for an interval")
        return None

    def _bounds(self) -> dict[str, Any]:
        """Return the interval and the means with missing scores as worst, and as best."""
        assert self._range is not None
        low, high = self._range
        worst, best = (low, high) if self._scale.higher_is_better else (high, low)
        found: dict[str, Any] = {
            "missing": len(self._lost), "worst": self._with(worst), "best": self._with(best)
        }  # fmt: skip
        if self._in_flight:
            found["in_flight"] = self._in_flight
        try:
            interval = stats.bounds(
                self._values,
                self._lost,
                items=self._items,
                groups=self._groups,
                failed_groups=self._lost_groups,
                range=self._range,
                level=LEVEL,
            )
        except ScoresError:  # the interval, too, was refused, and the note says why
            return found
        return {"low": interval.low, "high": interval.high, **found}

    def _with(self, value: float) -> float:
        """Return the mean with this value for all missing scores."""
        values = np.concatenate([self._values, np.full(len(self._lost), value)])
        if self._items is None:
            return _mean(values)
        means, _ = _per_item(
            values, np.concatenate([self._items, np.array(self._lost, dtype=np.int64)])
        )
        return _mean(means)

    def _of_trials(self) -> dict[str, Any]:
        """Return pass@k and pass^k, and whether more trials or more items would help more."""
        assert self._items is not None
        found: dict[str, Any] = {}
        is_binary = self._range == _UNIT and bool(((self._values == 0) | (self._values == 1)).all())
        if is_binary:
            found |= self._passes()
        try:
            within, between = stats.variance_parts(self._values, self._items)
            more = stats.helps_more(self._values, self._items).more
        except ScoresError:  # no item has two scores, or there is only one item
            return found
        if math.isfinite(within + between) and within + between > 0:
            found |= {"within": within, "between": between, "more_helps": more}
        return found

    def _passes(self) -> dict[str, Any]:
        passed = self._values if self._scale.higher_is_better else 1 - self._values
        means, trials = _per_item(passed, self._items)
        successes = (means * trials).round().astype(int)
        groups = None if self._groups is None else _first(self._groups, self._items)
        found: dict[str, dict[str, Any]] = {"pass_at_k": {}, "pass_hat_k": {}}
        for k in range(1, self._trials + 1):
            have = trials >= k
            for name, chance in (("pass_at_k", stats.pass_at_k), ("pass_hat_k", stats.pass_hat_k)):
                if have.any():
                    of_items = chance(trials[have], successes[have], k)
                    about = {"mean": math.fsum(of_items) / len(of_items), "n": len(of_items)}
                    try:
                        of_groups = None if groups is None else groups[have]
                        ends = stats.interval(of_items, groups=of_groups, level=LEVEL)
                        about |= {"low": ends.low, "high": ends.high}
                    except ScoresError:  # too few groups: the note says so
                        pass
                    found[name][str(k)] = about
        return found


def item_means(scores: "PartScores", cell_items: "CellItems") -> Floats:
    """Return the mean of each item."""
    cells, values = np.array(scores.cells, dtype=np.int64), np.array(scores.values)
    items = _items_of(cells, cell_items)
    return values if items is None else _per_item(values, items)[0]


def item_groups(scores: "PartScores", cell_items: "CellItems", scale: Scale) -> list[bytes] | None:
    """Return the value that groups each item, in the order of `item_means`; None: no groups."""
    cells = np.array(scores.cells, dtype=np.int64)
    items, groups = _items_of(cells, cell_items), _groups_of(cells, cell_items, scale)
    if groups is None or scale.group is None:
        return None
    values = cell_items.group_values(scale.group)
    return [values[number] for number in (groups if items is None else _first(groups, items))]


def _items_of(cells: Ints, cell_items: "CellItems") -> Ints | None:
    """Return the item of each cell; None: each has its own."""
    if cell_items.trials == 1:
        return None
    return np.array(cell_items.items, dtype=np.int64)[cells]


def _groups_of(cells: Ints, cell_items: "CellItems", scale: Scale) -> Ints | None:
    """Return the group of each cell; None: there are no groups."""
    if scale.group is None:
        return None
    items = _items_of(cells, cell_items)
    return np.array(cell_items.groups[scale.group], dtype=np.int64)[
        cells if items is None else items
    ]


def _per_item(values: Floats, items: Any) -> tuple[Floats, Ints]:
    """Return the mean of each item, and the number of its values."""
    _, of_item = np.unique(items, return_inverse=True)
    trials = np.bincount(of_item)
    return np.bincount(of_item, values) / trials, trials


def _mean(values: Floats) -> float:
    found = mean(values.tolist())
    assert found is not None
    return found


def _first(groups: Ints, items: Any) -> Ints:
    """Return the group of each item."""
    _, at = np.unique(items, return_index=True)
    return groups[at]


def _interval_data(interval: stats.Interval) -> dict[str, Any] | None:
    """Return an interval as JSON data; None if an end is not finite."""
    if not math.isfinite(interval.high - interval.low):
        return None
    found = {
        "low": interval.low, "high": interval.high, "method": interval.method, "n": interval.n,
        "level": LEVEL,
    }  # fmt: skip
    return found if interval.groups is None else {**found, "groups": interval.groups}


def _label_shares(
    labels: Mapping[str, Sequence[int]], scale: Scale, cell_items: "CellItems"
) -> dict[str, Any]:
    """Return the interval of each label's share; of many labels, only the most frequent."""
    counts = Counter({label: len(cells) for label, cells in labels.items()})
    total = counts.total()
    ranked = sorted(counts, key=lambda label: (-counts[label], label))[:_MOST_LABELS]
    if cell_items.trials == 1 and scale.group is None:
        shares = {label: stats.proportion(counts[label], total, level=LEVEL) for label in ranked}
        return {label: {"low": one.low, "high": one.high} for label, one in shares.items()}
    cells = np.array([cell for of_label in labels.values() for cell in of_label], dtype=np.int64)
    whose = np.repeat(np.arange(len(labels)), [len(of_label) for of_label in labels.values()])
    order = np.argsort(cells, kind="stable")
    cells, whose = cells[order], whose[order]
    items, groups = _items_of(cells, cell_items), _groups_of(cells, cell_items, scale)
    numbers = {label: number for number, label in enumerate(labels)}
    found = {}
    for label in ranked:
        has = (whose == numbers[label]).astype(float)
        try:
            one = stats.interval(has, items=items, groups=groups, level=LEVEL)
        except ScoresError:  # too few groups
            return {}
        found[label] = {"low": one.low, "high": one.high}
    return found
