"""Which items changed most, and what did both runs answer?"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from limpet.run.comparing.comparable import Comparable, PairedLabels
from limpet.run.comparing.results import Answer, Flip
from limpet.run.comparing.scores import PairedScores
from limpet.run.results.evaluation_result import ItemResult


class _Change(NamedTuple):
    """An item that changed; `at` is its place among the pairs."""

    score: str
    at: int
    trial: int
    delta: float | None
    is_worse: bool
    base: Any
    new: Any


def flips(found: Comparable, most: int) -> list[Flip]:
    """Return the items that changed most, at most so many of each score.

    The biggest changes come first, and of equal ones what got worse.
    """
    changes = [
        *(change for scores in found.scores for change in _of_numbers(scores, most)),
        *(change for labels in found.labels for change in _of_labels(labels, most)),
    ]
    pairs = found.pairs
    base = pairs.base.read({int(pairs.base_rows[change.at]) for change in changes})
    new = pairs.new.read({int(pairs.new_rows[change.at]) for change in changes})
    return [
        Flip(
            change.score,
            pairs.base.table.ids[pairs.base_rows[change.at]],
            change.trial,
            change.delta,
            change.is_worse,
            _answer(base.get((int(pairs.base_rows[change.at]), change.trial)), change.base),
            _answer(new.get((int(pairs.new_rows[change.at]), change.trial)), change.new),
        )
        for change in changes
    ]


def _answer(item: ItemResult | None, score: Any) -> Answer:
    return Answer(None if item is None else item.output, score)


def _of_numbers(scores: PairedScores, most: int) -> Iterator[_Change]:
    change = scores.changes()
    turned = change if scores.higher_is_better else -change
    some = np.flatnonzero(np.nan_to_num(change))
    order = np.lexsort((some, turned[some] > 0, -np.abs(change[some])))
    for row in some[order[:most]]:
        moved = np.abs(scores.new[row] - scores.base[row])
        trial = int(np.nanargmax(moved))
        yield _Change(
            str(scores.name),
            int(scores.at[row]),
            trial,
            float(change[row]),
            bool(turned[row] < 0),
            float(scores.base[row, trial]),
            float(scores.new[row, trial]),
        )


def _of_labels(labels: PairedLabels, most: int) -> Iterator[_Change]:
    for row, trial, before, after in label_changes(labels)[:most]:
        at = int(labels.at[row])
        yield _Change(str(labels.name), at, trial, None, False, before, after)  # noqa: FBT003


def label_changes(labels: PairedLabels) -> Sequence[tuple[int, int, str, str]]:
    """Return the cells whose label changed: row, trial, from, to."""
    base, new = labels.base, labels.new
    # The same label may have another number in the other run.
    number_in_base = {name: number for number, name in enumerate(base.names)}
    turned = np.array([number_in_base.get(name, -1) for name in new.names])
    there = (base.numbers >= 0) & (new.numbers >= 0)
    changed = there & (turned[new.numbers] != base.numbers)
    return [
        (row, trial, base.names[base.numbers[row, trial]], new.names[new.numbers[row, trial]])
        for row, trial in np.argwhere(changed).tolist()
    ]
