"""Which cells have the lowest score? Of a hundred thousand, only these are read."""

import heapq
import math

from limpet.run.reading.noted_scores import packed_arrays
from limpet.run.reading.run_results import RunResults
from limpet.run.results.score_names import ScoreName


def worst_cells(run: RunResults, name: ScoreName, most: int, *, highest: bool = False) -> list[int]:
    """Return the numbers of the cells with the lowest scores, the lowest first.

    Args:
        run: The run.
        name: The score; of several of an evaluator, the lowest counts.
        most: How many at most. Cells without a score are none of them.
        highest: Those with the highest scores instead, the highest first.
    """
    noted = run.noted_scores()
    packed = packed_arrays(run.numbers()) if noted is None else noted[1]
    lowest: dict[int, float] = {}
    for kind, *names in packed:
        if kind == "cells" and names[0] == name.evaluator and name.part in (None, names[1]):
            cells = memoryview(packed["cells", *names].content).cast("Q")
            values = memoryview(packed["values", *names].content).cast("d")
            for cell, value in zip(cells, values, strict=True):
                if not math.isnan(value):
                    lowest[cell] = min(value, lowest.get(cell, value))
    sign = -1 if highest else 1
    return [cell for _, cell in heapq.nsmallest(most, ((sign * v, c) for c, v in lowest.items()))]
