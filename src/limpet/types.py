"""Types that users read but seldom create: results, and arguments of hooks."""

from limpet.evaluators.protocol import Scored
from limpet.run.comparing.results import Comparison
from limpet.run.planning.plan import Plan
from limpet.run.results.map_result import MapResult
from limpet.run.watcher import Watcher
from limpet.shapes import Cell, CellStatus, Failure, Outcome, Scale

__all__ = [
    "Cell",
    "CellStatus",
    "Comparison",
    "Failure",
    "MapResult",
    "Outcome",
    "Plan",
    "Scale",
    "Scored",
    "Watcher",
]
