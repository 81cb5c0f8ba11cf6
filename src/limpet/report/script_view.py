"""How does a person see a run that a script started on a terminal?

As with `limpet run`: the plan, a bar per step, the summary. All of it goes to stderr: stdout is the
script's.
"""

import os
import shlex
import time
from pathlib import Path

from limpet.errors import EarlyStopError
from limpet.report.live_display import is_drawing
from limpet.report.summary import remarks, summary_table
from limpet.report.terminal import say, stderr_console
from limpet.report.views import LiveView, View, reason_words
from limpet.run.results.evaluation_result import EvaluationResult
from limpet.run.session_view import SessionView
from limpet.text import harmless


def script_view() -> SessionView:
    """Return a view on the terminal of stderr; one without effect while another run is shown."""
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
            hint = None if isinstance(reason, EarlyStopError) else "run the script again to resume"
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
