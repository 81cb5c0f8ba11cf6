"""How does a machine watch a run?"""

import contextlib
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from queue import Empty, SimpleQueue
from typing import Any, Self, TextIO

from limpet.report.jsonl import json_line
from limpet.report.live import View
from limpet.report.progress import as_data
from limpet.run.planning.plan import Plan
from limpet.run.run_file import WORKFLOW
from limpet.secrets.masking import by_environment
from limpet.text import text_of
from limpet.types import Cell, CellStatus, Outcome


class EventView(View):
    """Writes one JSON object per event, and the progress every two seconds.

    A separate thread writes them: a slow reader must not block the run, and a closed pipe must not
    end it.
    """

    def __init__(self, out: TextIO, every_s: float = 2.0) -> None:
        super().__init__()
        self._every_s = every_s
        self._out: TextIO | None = out
        self._queue: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="limpet-events", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.put(None)
        self._thread.join()

    def say(self, event: str, **facts: Any) -> None:
        """Write an event."""
        self._queue.put({"event": event, **facts})

    def _write(self) -> None:
        due = time.monotonic() + self._every_s
        while True:
            with contextlib.suppress(Empty):
                event = self._queue.get(timeout=max(0.0, due - time.monotonic()))
                if event is None:
                    return
                self._print(event)
            if time.monotonic() >= due:
                due = time.monotonic() + self._every_s
                if self.plan is not None:
                    self._print({"event": "progress", **as_data(self.snapshot())})

    def _print(self, event: dict[str, Any]) -> None:
        if self._out is None:
            return
        try:
            self._out.write(json_line(event) + "\n")
            self._out.flush()
        except (OSError, ValueError):  # the reader is gone; the run continues
            self._out = None

    # ---- called by the run ----------------------------------------------------------------------

    def planned(self, plan: Plan) -> None:
        super().planned(plan)
        self.say("planned", text=str(plan), calls=plan.calls, plan=asdict(plan))

    def started(self, cell: Cell, attempt: int) -> None:
        super().started(cell, attempt)
        self.say("started", **_named(cell), attempt=attempt)

    def attempt_failed(self, cell: Cell, met: Mapping[str, Any]) -> None:
        super().attempt_failed(cell, met)
        self.say("attempt_failed", **_named(cell), **met)

    def finished(self, outcome: Outcome) -> None:
        super().finished(outcome)
        facts: dict[str, Any] = {"status": outcome.status.value, "attempts": outcome.attempts}
        facts["seconds"] = outcome.seconds
        if outcome.status is CellStatus.FAILED and outcome.failure is not None:
            facts |= {"class": outcome.failure.kind, "message": outcome.failure.message}
        elif outcome.cell.step != WORKFLOW:
            names = ("score", "scores", "label")
            facts |= {name: outcome.record[name] for name in names if name in outcome.record}
        self.say("finished", **_named(outcome.cell), **facts)

    def stopping(self, reason: Exception) -> None:
        super().stopping(reason)
        why = by_environment().certain.text(text_of(reason))
        self.say("stopping", reason=why, in_flight=self.snapshot().in_flight)


def _named(cell: Cell) -> dict[str, Any]:
    return {"step": cell.step, "id": cell.id, "trial": cell.trial}
