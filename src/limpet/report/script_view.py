"""How does a person see a run that a script started?

On a terminal as with `limpet run`: the plan, a bar per step, the summary. All of it goes to stderr:
stdout belongs to the script. In a log, a line soon and then every half minute, so that a short run
adds nothing.
"""

import os
import shlex
import sys
import threading
import time
from pathlib import Path
from typing import Self

from limpet.errors import EarlyStopError
from limpet.report.live_display import is_drawing
from limpet.report.progress import progress_line
from limpet.report.summary import remarks, summary_table
from limpet.report.terminal import is_terminal, say, stderr_console
from limpet.report.views import LiveView, View, reason_words
from limpet.run.progress.session_view import SessionView
from limpet.run.results.evaluation_result import EvaluationResult
from limpet.text import harmless

_FIRST_S, _EVERY_S = 4.0, 30.0


def script_view() -> SessionView:
    """Return a view that fits stderr; one without effect while another run is shown."""
    if is_drawing():
        return View()
    stderr_console.cache_clear()  # the script may have replaced stderr
    on_terminal = is_terminal(sys.stderr) and stderr_console().is_terminal
    return OnTerminal() if on_terminal else InLog()


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


class InLog(View):
    """A line after a few seconds, and then every half minute."""

    def __init__(self, first_s: float = _FIRST_S, every_s: float = _EVERY_S) -> None:
        super().__init__()
        self._first_s, self._every_s = first_s, every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._say, name="limpet-lines", daemon=True)

    def _say(self) -> None:
        wait_s = self._first_s
        while not self._over.wait(wait_s):
            say("preparing the run" if self.plan is None else progress_line(self.snapshot()))
            wait_s = self._every_s

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def end(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
