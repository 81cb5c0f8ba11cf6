"""How does a person or a program watch a run?

Each view counts, and shows its counts: a live table on a terminal, a line per minute in a log, one
JSON object per event, or nothing.
"""

import contextlib
import os
import shlex
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self, TextIO

from rich.console import Group, RenderableType

from limpet.errors import FailFastError, InterruptedRunError, LimpetError
from limpet.executors.dispatch import STOP_GRACE_S
from limpet.report.status import ProgressTable, as_data, progress_line
from limpet.report.summary import remarks, summary_table
from limpet.report.terminal import LiveDisplay, Waiting, is_drawing, say, stderr_console
from limpet.report.words import json_line
from limpet.run.evaluation_result import EvaluationResult
from limpet.run.planning.plan import Plan
from limpet.run.run_file import WORKFLOW
from limpet.run.session_view import SessionView
from limpet.secrets.masking import by_environment
from limpet.shapes import Cell, CellStatus, Outcome
from limpet.text import count, harmless, text_of


def reason_words(reason: Exception, hint: str | None = None) -> str:
    """Return why a run stops, without secrets, with a hint: by default, the error's own."""
    if hint is None and isinstance(reason, LimpetError):
        hint = reason.hint
    safe = by_environment().certain.text(text_of(reason))
    return f"{safe}; {hint}" if hint else safe


class View(SessionView):
    """Shows nothing; the base of all views."""

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Clean up the terminal. May be called more than once."""


class TalkingView(View):
    """Prints the plan, and why a run stops."""

    def planned(self, plan: Plan) -> None:
        super().planned(plan)
        is_foreseen = plan.forecast is not None and plan.forecast.source
        say(str(plan if is_foreseen else replace(plan, forecast=None)), "dim")

    def stopping(self, reason: Exception) -> None:
        super().stopping(reason)
        say(f"stopping: {self._why(reason)}", "yellow")

    def ordered(self, order: str, words: str) -> None:
        super().ordered(order, words)
        if order != "stop":  # `stopping` says it
            say(f"limpet ctl: {words}", "yellow")

    def _why(self, reason: Exception) -> str:
        if isinstance(reason, InterruptedRunError):
            flying = count(self.snapshot().in_flight, "call")
            if reason.signum in (None, signal.SIGINT):
                return f"{flying} in flight, press again to stop now"
            return f"{flying} in flight, waiting up to {STOP_GRACE_S:g} seconds"
        if isinstance(reason, FailFastError):  # printed in full at the end
            many = self.snapshot().in_flight
            return f"{count(many, 'call')} in flight, Ctrl-C to stop now" if many else "see below"
        return reason_words(reason)


class LiveView(TalkingView):
    """A table that is redrawn a few times a second."""

    def __init__(self) -> None:
        super().__init__()
        self._preparing = Waiting("preparing the run")
        self._writing: Waiting | None = None
        self._display = LiveDisplay(self._draw)

    def _draw(self) -> RenderableType:
        if self.plan is None:
            return self._preparing()
        now = self.snapshot()
        if now.in_flight or (any(step.left for step in now.steps) and not now.stopping):
            return ProgressTable(now)
        self._writing = self._writing or Waiting("writing the result files")
        table = [ProgressTable(now, below=1)] if self.plan.calls else []
        return Group(*table, self._writing())

    def __enter__(self) -> Self:
        self._display.begin()
        return self

    def end(self) -> None:
        self._display.end()


class LineView(TalkingView):
    """A line per minute, for logs."""

    def __init__(self, every_s: float = 60.0) -> None:
        super().__init__()
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._say, name="limpet-lines", daemon=True)

    def _say(self) -> None:
        while not self._over.wait(self._every_s):
            if self.plan is not None:
                say(progress_line(self.snapshot()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def end(self) -> None:
        self._over.set()
        self._thread.join()


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
        self.say("planned", **as_event(plan))

    def started(self, cell: Cell, attempt: int) -> None:
        super().started(cell, attempt)
        self.say("started", **_named(cell), attempt=attempt)

    def taken(self, cell: Cell, worker: str) -> None:
        super().taken(cell, worker)
        self.say("taken", **_named(cell), worker=worker)

    def attempt_failed(self, cell: Cell, facts: Mapping[str, Any]) -> None:
        super().attempt_failed(cell, facts)
        self.say("attempt_failed", **_named(cell), **facts)

    def finished(self, outcome: Outcome) -> None:
        super().finished(outcome)
        facts: dict[str, Any] = {"status": outcome.status.value, "attempts": outcome.attempts}
        facts["seconds"] = outcome.seconds
        if outcome.status is CellStatus.FAILED and outcome.failure is not None:
            facts |= {"class": outcome.failure.kind, "message": outcome.failure.message}
        elif outcome.cell.step != WORKFLOW:
            names = ("value", "label", "scores")
            facts |= {name: outcome.record[name] for name in names if name in outcome.record}
        self.say("finished", **_named(outcome.cell), **facts)

    def stopping(self, reason: Exception) -> None:
        super().stopping(reason)
        why = reason_words(reason, hint="")
        self.say("stopping", reason=why, in_flight=self.snapshot().in_flight)

    def stalled(self, cell: Cell, seconds: float) -> None:
        super().stalled(cell, seconds)
        self.say("stalled", **_named(cell), seconds=round(seconds, 1))

    def waits(self, step: str, words: str) -> None:
        super().waits(step, words)
        self.say("no_progress", step=step, words=words)

    def ordered(self, order: str, words: str) -> None:
        super().ordered(order, words)
        self.say("order", order=order, words=words)


def as_event(plan: Plan) -> dict[str, Any]:
    """Return a plan as the facts of an event."""
    forecast = None if plan.forecast is None else plan.forecast.as_data()
    facts = {"text": str(plan), "calls": plan.calls, "forecast": forecast}
    return {**facts, "plan": asdict(plan)}


def _named(cell: Cell) -> dict[str, Any]:
    return {"step": cell.step, "id": cell.id, "trial": cell.trial}


# ---- How does a person see a run that a script started on a terminal? ---------------------------
#
# As with `limpet run`: the plan, a bar per step, the summary. All of it goes to stderr: stdout
# belongs to the script.


def script_view() -> SessionView:
    """Return a view on stderr's terminal; it shows nothing while another run is shown."""
    if is_drawing():
        return View()
    stderr_console.cache_clear()  # the script may have replaced stderr
    return OnTerminal()


class OnTerminal(LiveView):
    """The plan, a live table and the summary."""

    def __init__(self) -> None:
        super().__init__()
        self._started = time.monotonic()

    def ended(self, result: EvaluationResult) -> None:
        self.end()
        console = stderr_console()
        console.print()
        console.print(summary_table(result.summary))
        console.print()
        for line in remarks(result.summary, time.monotonic() - self._started):
            say(line, "dim")
        reason = result.stop_reason
        if reason is not None:
            hint = None if isinstance(reason, FailFastError) else "run the script again to resume"
            say(f"stopped: {reason_words(reason, hint)}", "yellow")
        if result.run is not None:
            say(_next(result, Path(result.run)), wrap=False)


def _next(result: EvaluationResult, run: Path) -> str:
    path = shlex.quote(
        harmless(os.path.relpath(run) if run.is_relative_to(Path.cwd()) else str(run))
    )
    steps = [result.summary["workflow"], *result.summary["evaluators"].values()]
    if any(step["failed"] for step in steps):
        return f"see why: limpet show {path} --failed"
    return f"see the results: limpet show {path}"
