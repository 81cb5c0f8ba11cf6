"""Who is told what happens in a run, as it happens?"""

from collections.abc import Mapping
from typing import Any

from limpet.pacing.pacer import Pacer
from limpet.run.planning.plan import Plan
from limpet.types import Cell, Outcome


class Watcher:
    """Told of a run's progress, on the event loop of the run. It must be quick, and not raise.

    A subclass has the methods that it wants to hear of; those here do nothing.
    """

    def planned(self, plan: Plan) -> None:
        """It is settled what will be done. Nothing has been spent yet."""

    def paced(self, step: str, pace: Pacer | str) -> None:
        """What holds a step's pace: a pacer, which may be asked at any time, or in words."""

    def started(self, cell: Cell, attempt: int) -> None:
        """An attempt started."""

    def attempt_failed(self, cell: Cell, met: Mapping[str, Any]) -> None:
        """An attempt failed: what it met, as in `failures.jsonl`; `retry_in` if it goes on."""

    def finished(self, outcome: Outcome) -> None:
        """A cell ended, and that is on disk."""

    def stopping(self, reason: Exception) -> None:
        """No more work is taken; what is in flight may end."""
