"""Which answers changed between two runs, in which direction, and by how much?

Columns with a place per item and trial, so that a page can filter and sort a million answers.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limpet.errors import LimpetError
from limpet.run.comparing.comparable import Comparable, PairedLabels, taken
from limpet.run.comparing.compare import label_changes
from limpet.run.comparing.pairs import Rows
from limpet.run.comparing.scores import SAME, PairedScores
from limpet.run.reading.score_table import Flags, Floats
from limpet.run.results.score_words import ScoreName, no_such_score
from limpet.text import hint_near, quoted

DIRECTIONS = ("none", "same", "better", "worse", "failed", "recovered", "changed")
"""What may happen to a score; its number is the position here. The first: no score in both runs,
and no failure in one. "changed" is another label: no label is better than another."""
_NONE, _SAME, _BETTER, _WORSE, _FAILED, _RECOVERED, _CHANGED = range(len(DIRECTIONS))
_SORTS = ("", "change", "-change", "position", "-position")
Cells = NDArray[np.intp]


@dataclass(slots=True)
class ScoreChanges:
    """One score of all pairs, as columns.

    Attributes:
        name: The score.
        directions: What happened to it: the positions in `DIRECTIONS`.
        gains: By how much it became better, as a share of its range; a failure is the whole range.
        base: The values of the base, or the numbers of its labels.
        new: The same of the new run.
        labels: The labels of both runs by their numbers; None: the score is a number.
    """

    name: ScoreName
    directions: NDArray[np.int8]
    gains: NDArray[np.float32]
    base: NDArray[np.float64]
    new: NDArray[np.float64]
    labels: tuple[Sequence[str], Sequence[str]] | None = None

    def values(self, cell: int) -> tuple[float | str | None, float | str | None]:
        """Return the value or label in both runs; None: there is none."""
        found: list[float | str | None] = []
        for side, values in enumerate((self.base, self.new)):
            value = float(values[cell])
            if np.isnan(value):
                found.append(None)
            else:
                found.append(value if self.labels is None else self.labels[side][int(value)])
        return found[0], found[1]

    def totals(self) -> dict[str, int]:
        """Return the number of answers in each direction."""
        counts = np.bincount(self.directions, minlength=len(DIRECTIONS)).tolist()
        return dict(zip(DIRECTIONS, counts, strict=True))


class Changes:
    """The answers of two runs that belong together, by their cells: item by item, trial by trial.

    Args:
        found: What can be compared.
        hidden: The items of which a score must not be seen: as if neither run had it.

    Attributes:
        ids: The id of each item.
        trials: The number of trials that both runs have.
        base_rows: The row of each item in the base's table; -1: it has none.
        new_rows: The row of each item in the new run's table; -1: it has none.
        scores: The changes of each score.
    """

    def __init__(
        self, found: Comparable, hidden: Mapping[ScoreName, Collection[str]] = MappingProxyType({})
    ) -> None:
        pairs, self._hidden = found.pairs, hidden
        self.base_rows, self.new_rows = pairs.base_rows, pairs.new_rows
        self.trials = min(pairs.base.table.trials, pairs.new.table.trials)
        self.ids = list(pairs.base.table.ids)
        self.ids += [pairs.new.table.ids[row] for row in self.new_rows[len(self.ids) :]]
        numbers = [self._of_numbers(one, found) for one in found.scores]
        self.scores = numbers + [self._of_labels(one, found) for one in found.labels]

    def _of_numbers(self, scores: PairedScores, found: Comparable) -> ScoreChanges:
        hides = self._hides(scores.name, scores.at)[:, None]
        base, new = (np.where(hides, np.nan, one) for one in (scores.base, scores.new))
        change = new - base
        change[np.abs(change) <= SAME] = 0.0
        turned = change if scores.higher_is_better else -change
        directions = np.select([turned > 0, turned < 0, turned == 0], [_BETTER, _WORSE, _SAME], 0)
        if scores.range is not None:
            width = scores.range[1] - scores.range[0]
        else:
            width = np.nanmax(np.abs(change), initial=0.0)
        gains = np.nan_to_num(turned) / (width or 1.0)
        return self._spread(scores.name, scores.at, found, directions, gains, (base, new))

    def _of_labels(self, labels: PairedLabels, found: Comparable) -> ScoreChanges:
        hides = self._hides(labels.name, labels.at)[:, None]
        base, new = (
            np.where(hides | (one.numbers < 0), np.nan, one.numbers)
            for one in (labels.base, labels.new)
        )
        directions = np.where(np.isnan(base + new), _NONE, _SAME)
        changed = [(row, trial) for row, trial, *_ in label_changes(labels) if not hides[row]]
        directions[tuple(np.array(changed, np.intp).reshape(-1, 2).T)] = _CHANGED
        gains = np.zeros(directions.shape)
        made = self._spread(labels.name, labels.at, found, directions, gains, (base, new))
        made.labels = (labels.base.names, labels.new.names)
        return made

    def _hides(self, name: ScoreName, at: Rows) -> Flags:
        hidden = self._hidden.get(name, ())
        if not hidden:
            return np.zeros(len(at), np.bool_)
        return np.array([self.ids[one] in hidden for one in at.tolist()], np.bool_)

    def _spread(
        self,
        name: ScoreName,
        at: Rows,
        found: Comparable,
        directions: NDArray[np.int64],
        gains: Floats,
        values: tuple[Floats, Floats],
    ) -> ScoreChanges:
        """Return columns with a place for each cell, of the items at `at`; failures are added."""
        base, new = (np.isnan(one) for one in values)
        for side, rows, missing, other, direction in (
            (found.pairs.new, self.new_rows, new, base, _FAILED),
            (found.pairs.base, self.base_rows, base, new, _RECOVERED),
        ):
            table = side.table
            failed = table.failed | table.failed_scores[name.evaluator]
            turned = taken(failed, rows[at], self.trials, none=False) & missing & ~other
            directions[turned] = direction
            gains[turned] = -1.0 if direction == _FAILED else 1.0
        return ScoreChanges(
            name,
            self._placed(at, directions, np.int8, _NONE),
            self._placed(at, gains, np.float32, 0.0),
            self._placed(at, values[0], np.float64, np.nan),
            self._placed(at, values[1], np.float64, np.nan),
        )

    def _placed(self, at: Rows, some: NDArray[Any], dtype: type, none: float) -> NDArray[Any]:
        placed: NDArray[Any] = np.full((len(self.ids), self.trials), none, dtype)
        placed[at] = some
        return placed.reshape(-1)

    # ---- choosing -------------------------------------------------------------------------------

    def where(self, cell: int) -> tuple[str, int]:
        """Return the id and the trial of a cell."""
        row, trial = divmod(int(cell), self.trials)
        return self.ids[row], trial

    def cell(self, id_: str, trial: int) -> int | None:
        """Return the cell of an item in a trial; None: there is none."""
        if id_ not in self.ids or not 0 <= trial < self.trials:
            return None
        return self.ids.index(id_) * self.trials + trial

    def changed(self) -> int:
        """Return how many answers changed in any score."""
        return int(self._held(self.scores, None).sum())

    def chosen(self, score: str = "", direction: str = "", sort: str = "") -> Cells:
        """Return the cells of some answers, in an order.

        Args:
            score: The score that is meant; empty: any.
            direction: One of `DIRECTIONS`; empty: all in which something changed.
            sort: "change": the greatest loss first; "position": as in the dataset; "-" before it
                reverses it; empty: the greatest gain, the greatest loss, the second of each, …

        Raises:
            LimpetError: There is no such score, direction or order.
        """
        some = [one for one in self.scores if score in ("", str(one.name))]
        if not some:
            raise no_such_score(score, [str(one.name) for one in self.scores])
        if direction and direction not in DIRECTIONS[1:]:
            known = DIRECTIONS[1:]
            why = f"direction={quoted(direction)}: must be one of {', '.join(known)}"
            raise LimpetError(why, hint=hint_near(direction, [*known]))
        if sort not in _SORTS:
            raise LimpetError(f"sort={quoted(sort)}: must be change, position, or one with a -")
        wanted = DIRECTIONS.index(direction) if direction else None
        cells = np.flatnonzero(self._held(some, wanted))
        if sort.endswith("position"):
            return cells[::-1] if sort.startswith("-") else cells
        gains = self._gains(some, wanted, cells)
        if sort:
            return cells[np.argsort(gains if sort == "change" else -gains, kind="stable")]
        return cells[_both_first(gains)]

    def _held(self, some: Sequence[ScoreChanges], wanted: int | None) -> Flags:
        held = np.zeros(len(self.ids) * self.trials, np.bool_)
        for one in some:
            held |= one.directions > _SAME if wanted is None else one.directions == wanted
        return held

    def _gains(
        self, some: Sequence[ScoreChanges], wanted: int | None, cells: Cells
    ) -> NDArray[np.float32]:
        """Return the greatest gain or loss of each cell among scores that went as wanted."""
        greatest = np.zeros(len(cells), np.float32)
        for one in some:
            gains = one.gains[cells]
            if wanted is not None:
                gains = np.where(one.directions[cells] == wanted, gains, np.float32(0))
            greatest = np.where(np.abs(gains) > np.abs(greatest), gains, greatest)
        return greatest


def _both_first(gains: NDArray[np.float32]) -> Cells:
    """Return an order in which gains and losses take turns, the greatest first."""
    ranks = np.zeros(len(gains), np.intp)
    for side in (gains > 0, gains < 0, gains == 0):
        at = np.flatnonzero(side)
        ranks[at[np.argsort(-np.abs(gains[at]), kind="stable")]] = np.arange(len(at))
    return np.lexsort((gains < 0, ranks, gains == 0))
