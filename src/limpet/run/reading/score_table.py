"""What did each cell score?

One array per score, with a row per item and a column per trial: runs can be compared and drawn
without reading their items one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limpet.run.reading.requested_cells import RequestedCells
from limpet.run.reading.saved_numbers import ArrayName, PackedArrays
from limpet.run.results.score_words import ScoreName

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LabelTable:
    """The labels of one score.

    Attributes:
        names: The labels.
        numbers: By item and trial, the index of the label; -1: none.
    """

    names: list[str]
    numbers: NDArray[np.int32]

    def set(self, label: str, at: tuple[Any, Any]) -> None:
        """Give a label to cells."""
        if label not in self.names:
            self.names.append(label)
        self.numbers[at] = self.names.index(label)


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """The results of all cells. Each array has a row per item and a column per trial.

    Attributes:
        ids: The ids of the items, in order.
        positions: The positions of the items in `items.jsonl`; empty: it is missing or damaged.
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
    positions: Sequence[int]
    trials: int
    answered: Flags
    failed: Flags
    seconds: Floats
    costs: Floats
    scores: dict[ScoreName, Floats] = field(default_factory=dict)
    labels: dict[ScoreName, LabelTable] = field(default_factory=dict)
    failed_scores: dict[str, Flags] = field(default_factory=dict)

    @property
    def evaluators(self) -> list[str]:
        """The evaluators, in order."""
        return list(self.failed_scores)


def score_table(requested: RequestedCells, cells: int, packed: PackedArrays) -> ScoreTable:
    """Return the table of a run.

    Args:
        requested: The requested cells.
        cells: The number of cells.
        packed: The scores, by the number of the cell.
    """
    return GrowingTable(requested, cells).add(packed)


class GrowingTable:
    """The table of a run that grows: only new results are written to it.

    Args:
        requested: The requested cells.
        cells: The number of cells.

    Attributes:
        grid: Where in the table each cell is.
        table: The table.
    """

    def __init__(self, requested: RequestedCells, cells: int) -> None:
        self.grid = grid = Grid(requested, cells)
        self._known: dict[ArrayName, int] = {}
        flags, floats = grid.filled(False, np.bool_), grid.filled(np.nan, np.float64)  # noqa: FBT003
        self.table = ScoreTable(
            grid.ids, grid.positions, grid.trials, flags, flags.copy(), floats, floats.copy()
        )

    def add(self, packed: PackedArrays) -> ScoreTable:
        """Add what is new, and return the table.

        Args:
            packed: The scores, known cells first, and the failures that count now.
        """
        table, grid = self.table, self.grid
        arrays = {name: np.frombuffer(one.content, one.typecode) for name, one in packed.items()}
        new = {name: array[self._known.get(name, 0) :] for name, array in arrays.items()}
        for name, array in arrays.items():
            match name:
                case ("answered",):
                    at = grid.at(new[name])
                    table.answered[at] = True
                    table.seconds[at], table.costs[at] = new["seconds",], new["costs",]
                case ("failed",):
                    _set_flags(table.failed, grid.at(array))
                case ("failed", str() as evaluator):
                    empty = grid.filled(False, np.bool_)  # noqa: FBT003 - the value to fill with
                    flags = table.failed_scores.setdefault(evaluator, empty)
                    _set_flags(flags, grid.at(array))
                case ("cells", str() as evaluator, part):
                    of_part = ScoreName(evaluator, part)
                    if of_part not in table.scores:
                        table.scores[of_part] = grid.filled(np.nan, np.float64)
                    values = new["values", evaluator, part]
                    table.scores[of_part][grid.at(new[name])] = values
                case ("label", str() as evaluator, part, str() as label):
                    of_part = ScoreName(evaluator, part)
                    if of_part not in table.labels:
                        table.labels[of_part] = LabelTable([], grid.filled(-1, np.int32))
                    table.labels[of_part].set(label, grid.at(new[name]))
        self._known = {name: len(array) for name, array in arrays.items()}
        return table


def _set_flags(flags: Flags, at: tuple[Any, Any]) -> None:
    flags[...] = False
    flags[at] = True


class Grid:
    """Where in a table is the cell with a number?"""

    def __init__(self, requested: RequestedCells, cells: int) -> None:
        self._shape: NDArray[np.int64] | None = None
        if requested.file is not None:  # items in order, trial by trial
            self.positions = requested.positions
            self.trials = max(1, cells // max(1, len(self.positions)))
            ids = list(requested.file.ids())
            is_all = len(ids) == len(self.positions)
            self.ids = ids if is_all else [ids[position] for position in self.positions]
        else:
            found = [(cell.id, cell.trial) for cell in requested.cells()]
            rows = {id_: row for row, id_ in enumerate(dict.fromkeys(id_ for id_, _ in found))}
            self.positions, self.ids = (), list(rows)
            self.trials = max((trial + 1 for _, trial in found), default=1)
            at = [(rows[id_], trial) for id_, trial in found]
            self._shape = np.array(at, np.int64).reshape(len(found), 2)

    def at(self, numbers: Any) -> tuple[Any, Any]:
        """Return the rows and columns of cells."""
        numbers = numbers.astype(np.int64)
        if self._shape is not None:
            return self._shape[numbers, 0], self._shape[numbers, 1]
        trials, rows = np.divmod(numbers, max(1, len(self.ids)))
        return rows, trials

    def filled(self, value: Any, dtype: Any) -> NDArray[Any]:
        return np.full((len(self.ids), self.trials), value, dtype)

    def number(self, row: int, trial: int) -> int | None:
        """Return the number of the cell of an item in a trial; None: there is none."""
        if self._shape is None:
            return trial * len(self.ids) + row
        at = np.flatnonzero((self._shape == (row, trial)).all(axis=1))
        return int(at[0]) if len(at) else None
