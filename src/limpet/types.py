"""Types that users read but seldom create: results, and arguments of hooks."""

from limpet.evaluators.protocol import Scored
from limpet.run.comparing.results import Comparison
from limpet.run.planning.forecast import Between
from limpet.run.planning.plan import Forecast, Plan
from limpet.run.results.map_result import MapResult
from limpet.run.watcher import Watcher
from limpet.shapes import Cell, CellStatus, Failure, Outcome, Scale

__all__ = [
    "Between",
    "Cell",
    "CellStatus",
    "Comparison",
    "Failure",
    "Forecast",
    "MapResult",
    "Outcome",
    "Plan",
    "Scale",
    "Scored",
    "Watcher",
]
