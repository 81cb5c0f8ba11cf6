"""What did each cell score?

One array for each score, an item a row and a trial a column, so that runs can be compared and drawn
without reading their items one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limpet.run.reading.asked_cells import AskedCells
from limpet.run.reading.noted_scores import Parts
from limpet.run.results.filters import ScoreName

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of one score.

    Attributes:
        names: The labels.
        numbers: By item and trial, the label's place among them; -1: none.
    """

    names: list[str]
    numbers: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """What came out of each cell. Each array has an item a row and a trial a column.

    Attributes:
        ids: The ids of the items, in order.
        places: The items' places in `items.jsonl`; empty: it is missing or damaged.
        trials: The number of trials.
        answered: Whether the workflow answered.
        failed: Whether the workflow failed.
        seconds: How long an answer took; NaN: there is none.
        costs: What it cost; NaN: not known.
        scores: The values by name; NaN: there is none.
        labels: The labels by name.
        failed_scores: By evaluator, whether it failed to score an answer.
    """

    ids: Sequence[str]
    places: Sequence[int]
    trials: int
    answered: Flags
    failed: Flags
    seconds: Floats
    costs: Floats
    scores: dict[ScoreName, Floats] = field(default_factory=dict)
    labels: dict[ScoreName, Labels] = field(default_factory=dict)
    failed_scores: dict[str, Flags] = field(default_factory=dict)

    @property
    def evaluators(self) -> list[str]:
        """The evaluators, in order."""
        return list(self.failed_scores)


def score_table(asked: AskedCells, cells: int, parts: Parts) -> ScoreTable:
    """Return the table of a run.

    Args:
        asked: Which cells there are.
        cells: How many they are.
        parts: What each scored, by the number of the cell.
    """
    grid = _Grid(asked, cells)
    arrays = {name: np.frombuffer(part.content, part.typecode) for name, part in parts.items()}
    answered = arrays["answered",]
    table = ScoreTable(
        grid.ids,
        grid.places,
        grid.trials,
        grid.flags(answered),
        grid.flags(arrays["failed",]),
        grid.floats(answered, arrays["seconds",]),
        grid.floats(answered, arrays["costs",]),
    )
    for name, array in arrays.items():
        match name:
            case ("failed", str() as evaluator):
                table.failed_scores[evaluator] = grid.flags(array)
            case ("cells", str() as evaluator, part):
                values = arrays["values", evaluator, part]
                table.scores[ScoreName(evaluator, part)] = grid.floats(array, values)
            case ("label", str() as evaluator, part, str() as label):
                of_part = ScoreName(evaluator, part)
                labels = table.labels.setdefault(of_part, Labels([], grid.filled(-1, np.int32)))
                labels.numbers[grid.at(array)] = len(labels.names)
                labels.names.append(label)
    return table


class _Grid:
    """Where in a table is the cell with a number?"""

    def __init__(self, asked: AskedCells, cells: int) -> None:
        self._shape: NDArray[np.int64] | None = None
        if asked.file is not None:  # items in order, trial by trial
            self.places = asked.places
            self.trials = max(1, cells // max(1, len(self.places)))
            ids = list(asked.file.ids())
            is_all = len(ids) == len(self.places)
            self.ids = ids if is_all else [ids[place] for place in self.places]
        else:
            found = [(cell.id, cell.trial) for cell in asked.cells()]
            rows = {id_: row for row, id_ in enumerate(dict.fromkeys(id_ for id_, _ in found))}
            self.places, self.ids = (), list(rows)
            self.trials = max((trial + 1 for _, trial in found), default=1)
            self._shape = np.array([(rows[id_], trial) for id_, trial in found], np.int64)
            self._shape.shape = (len(found), 2)

    def at(self, numbers: Any) -> tuple[Any, Any]:
        """Return the rows and columns of cells."""
        numbers = numbers.astype(np.int64)
        if self._shape is not None:
            return self._shape[numbers, 0], self._shape[numbers, 1]
        trials, rows = np.divmod(numbers, max(1, len(self.ids)))
        return rows, trials

    def filled(self, value: Any, dtype: Any) -> NDArray[Any]:
        return np.full((len(self.ids), self.trials), value, dtype)

    def flags(self, numbers: Any) -> Flags:
        flags = self.filled(False, np.bool_)  # noqa: FBT003 - the value to fill with
        flags[self.at(numbers)] = True
        return flags

    def floats(self, numbers: Any, values: Any) -> Floats:
        floats = self.filled(np.nan, np.float64)
        floats[self.at(numbers)] = values
        return floats
