"""How wide is the 95% interval of a score, over the items so far?

With failures it is the interval of the bounds: each failure is the worst score at the lower end and
the best at the upper. A score without a range has neither: with a failure it has no half-width.
Trials are averaged per item.
"""

import math
from array import array
from collections.abc import Hashable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from limpet.errors import ScoresError
from limpet.run.request import Goal
from limpet.run.results.score_words import ScoreName, counted, values_of
from limpet.shapes import Scale
from limpet.text import count, one_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

FIRST_LOOK, FIRST_LOOK_UNLESS_BINARY = 30, 100
"""With fewer items, a narrow interval may be chance."""
_UNKNOWN, _NUMBER, _FAILED, _NO_NUMBER = range(4)
_UNIT = (0.0, 1.0)


class GoalScore:
    """The values of one score.

    Args:
        goal: Its goal.
        items: The number of items.
        trials: The number of trials.
        scale: What the score means.
        groups: The group of each item; None: no groups.

    Attributes:
        goal: Its goal.
    """

    def __init__(
        self, goal: Goal, items: int, trials: int, scale: Scale, groups: Sequence[Hashable] | None
    ) -> None:
        self.goal = goal
        self._scale = scale
        self._groups = groups
        self._shape = (trials, items)
        self._values = array("d", bytes(8 * items * trials))
        self._states = bytearray(items * trials)
        self._parts: dict[str, None] = {}
        self._has_number = False
        self._outside = ""
        self._unbounded = 0

    def is_known(self, cell: int) -> bool:
        """Return whether a cell has ended: trial t of the item at position p is t * items + p."""
        return self._states[cell] != _UNKNOWN

    def add(self, cell: int, record: Mapping[str, Any]) -> None:
        """Add the score of a cell, from its record."""
        values = dict(values_of(record))
        value = values.get(self.goal.name.part)
        if value is None:
            self._parts |= dict.fromkeys(part for part in values if part is not None)
            self._states[cell] = _NO_NUMBER
        else:
            value = counted(value, self._scale)
            low, high = self._scale.range or (-math.inf, math.inf)
            if not low <= value <= high:
                self._outside = f"gives {value:g}, outside its range {low:g} to {high:g}"
            self._has_number = True
            self._states[cell] = _NUMBER
            self._values[cell] = value

    def add_failure(self, cell: int) -> None:
        self._states[cell] = _FAILED

    def forget(self, cell: int, *, only_failed: bool = False) -> None:
        """Forget the score of a cell, which runs again."""
        if not only_failed or self._states[cell] == _FAILED:
            self._states[cell] = _UNKNOWN

    @property
    def problem(self) -> str:
        """Why it has no half-width; empty: it may have one."""
        name = self.goal.name
        if self._outside:
            return f"{one_line(str(name))} {self._outside}"
        if self._unbounded:
            failures = count(self._unbounded, "failure")
            return f"{one_line(str(name))} has {failures} and no range: declare it to count them"
        if self._has_number or _NO_NUMBER not in self._states:
            return ""
        if not self._parts:
            return f"{one_line(str(name))} gives no numbers"
        known = ", ".join(one_line(str(ScoreName(name.evaluator, part))) for part in self._parts)
        if name.part is None:
            return f"{one_line(name.evaluator)} gives several scores: name one of {known}"
        return f"{one_line(name.evaluator)} has no score {one_line(name.part)}, only {known}"

    def half_width(self, positions: Sequence[int], *, drained: bool) -> float | None:
        """Return the half-width over the items at these positions; None: too few items.

        Args:
            positions: The positions of the items that were begun.
            drained: Whether none is in progress: a cell without an outcome has then failed.
                Otherwise, items in progress are left out.
        """
        import numpy as np  # noqa: PLC0415 - slow to import

        chosen = np.asarray(positions, dtype=np.intp)
        states = np.frombuffer(self._states, np.uint8).reshape(self._shape)[:, chosen]
        values = np.frombuffer(self._values, np.float64).reshape(self._shape)[:, chosen]
        if drained:
            states = np.where(states == _UNKNOWN, _FAILED, states)
        else:
            ended = (states != _UNKNOWN).all(axis=0)
            states, values = states[:, ended], values[:, ended]
            chosen = chosen[ended]
        numbers = states == _NUMBER
        item_of = np.broadcast_to(chosen, states.shape)
        return self._measured(values[numbers], item_of[numbers], item_of[states == _FAILED])

    def _measured(self, values: "Array", items: "Array", failed: "Array") -> float | None:
        """Return the half-width; None: too few items.

        Args:
            values: The values.
            items: The position of the item of each value.
            failed: The position of the item of each failure.
        """
        import numpy as np  # noqa: PLC0415 - slow to import

        from limpet import stats  # noqa: PLC0415 - imports NumPy

        among = self._range_of(values) if len(values) else _UNIT
        # A failure could have been any number: no half-width covers it.
        self._unbounded = len(failed) if among is None else 0
        if self.problem or len(np.unique(items)) < FIRST_LOOK:
            return None
        several = self._shape[0] > 1
        is_plain = not several and self._groups is None
        is_binary = is_plain and among is not None and bool(np.isin(values, among).all())
        if not is_binary and len(np.unique(items)) < FIRST_LOOK_UNLESS_BINARY:
            return None
        groups, lost_groups = (
            None if self._groups is None else [self._groups[position] for position in positions]
            for positions in (items, failed)
        )
        item_of = items if several else None
        try:
            if not len(failed):
                found = stats.interval(values, items=item_of, groups=groups, range=among)
            else:
                found = stats.bounds(
                    values,
                    failed.tolist(),
                    items=item_of,
                    groups=groups,
                    failed_groups=lost_groups,
                    range=among,
                )
        except ScoresError:  # fewer than five groups
            return None
        return (found.high - found.low) / 2

    def _range_of(self, values: "Array") -> tuple[float, float] | None:
        """Return the range of the score; None: any number, so failures have no bounds."""
        if self._scale.range is not None:
            return self._scale.range
        return _UNIT if float(values.min()) >= 0 and float(values.max()) <= 1 else None


def load_statistics() -> None:
    """Import NumPy and SciPy before calls are in flight: that takes half a second."""
    import_module("limpet.stats.failures")
    import_module("scipy.special")  # imported there only when used
