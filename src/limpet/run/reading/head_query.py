"""Which rows of the table are wanted, and in which order?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limpet.errors import LimpetError
from limpet.run.reading.score_table import Flags, Floats, Labels, ScoreTable
from limpet.run.results.score_names import ScoreName, no_such_score
from limpet.text import hint_near, one_line, quoted

Places = NDArray[np.intp]
PLACE, SECONDS, COST = "place", "seconds", "cost"
"""What can be sorted by besides scores; the first is the order of the dataset."""


@dataclass(frozen=True, slots=True)
class HeadQuery:
    """Conditions that columns of numbers can answer; all must hold.

    Attributes:
        failed: Only items with a failure; a name: with one of this step.
        below: What scores must be below, by name.
        above: What scores must be above, by name.
        labels: The label that scores must have, by name.
        sort: What to sort by, lowest first: a score, `seconds`, `cost`, `place`; `-` before it
            turns the order around. What has no value comes last in both.
    """

    failed: bool | str = False
    below: Mapping[str, float] = field(default_factory=dict)
    above: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    sort: str = PLACE

    def holds(self, table: ScoreTable) -> Flags:
        """Return for which rows all conditions hold.

        Raises:
            LimpetError: No score or step has this name.
        """
        held = np.ones(table.answered.size, np.bool_)
        if self.failed:
            held &= failed_rows(table) if self.failed is True else _failed_in(table, self.failed)
        for name, limit in self.below.items():
            held &= _scores(table, name) < limit
        for name, limit in self.above.items():
            held &= _scores(table, name) > limit
        for name, label in self.labels.items():
            labels = _labels(table, name)
            at = labels.names.index(label) if label in labels.names else len(labels.names)
            held &= labels.numbers.reshape(-1) == at
        return held

    def ordered(self, table: ScoreTable, places: Places) -> Places:
        """Return places in the wanted order.

        Raises:
            LimpetError: Nothing has this name.
        """
        # A score's name may begin with "-".
        is_name = self.sort in {str(name) for name in (*table.scores, *table.labels)}
        descending = self.sort.startswith("-") and not is_name
        name = self.sort[1:] if descending else self.sort
        if name == PLACE:
            return places[::-1] if descending else places
        values = _values(table, name)[places]
        return places[np.argsort(-values if descending else values, kind="stable")]


def _failed_in(table: ScoreTable, step: str) -> Flags:
    steps = {"workflow": table.failed, **table.failed_scores}
    if step not in steps:
        names = ", ".join(map(one_line, steps))
        raise LimpetError(
            f"no step is called {quoted(step)}; known: {names}", hint=hint_near(step, [*steps])
        )
    flags: Flags = steps[step].reshape(-1)
    return flags


def failed_rows(table: ScoreTable) -> Flags:
    """Return which rows have a failure, of any step."""
    failed = table.failed.reshape(-1).copy()
    for flags in table.failed_scores.values():
        failed |= flags.reshape(-1)
    return failed


def _values(table: ScoreTable, name: str) -> Floats:
    by_name = {SECONDS: table.seconds, COST: table.costs}
    if name in by_name:
        return by_name[name].reshape(-1)
    if _named(table.scores, name) is not None:
        return _scores(table, name)
    labels = _labels(table, name)
    ranks = np.full(len(labels.names) + 1, np.nan)  # the last is that of no label
    ranks[np.argsort(labels.names)] = np.arange(len(labels.names))
    return ranks[labels.numbers.reshape(-1)]


def _scores(table: ScoreTable, name: str) -> Floats:
    found = _named(table.scores, name)
    if found is None:
        raise no_such_score(name, map(str, (*table.scores, *table.labels)))
    scores: Floats = found.reshape(-1)
    return scores


def _labels(table: ScoreTable, name: str) -> Labels:
    found = _named(table.labels, name)
    if found is None:
        raise no_such_score(name, map(str, (*table.scores, *table.labels)))
    labels: Labels = found
    return labels


def _named(columns: Mapping[ScoreName, Any], name: str) -> Any:
    return next((column for known, column in columns.items() if str(known) == name), None)
