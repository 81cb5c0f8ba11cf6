"""How does a person watch a run?

Each view is a tally that shows what it counts: a live table on a terminal, a line per minute in a
log, or nothing. `events` has the view for machines.
"""

import signal
import threading
from typing import Self

from rich.console import Group, RenderableType
from rich.text import Text

from limpet.errors import EarlyStopError, InterruptedRunError, LimpetError
from limpet.executors.dispatch import STOP_GRACE_S
from limpet.report.busy import Waiting
from limpet.report.picture import Picture
from limpet.report.progress import ProgressTable, progress_line
from limpet.report.terminal import talk
from limpet.report.words import count
from limpet.run.planning.plan import Plan
from limpet.run.progress.watcher import Tally
from limpet.secrets.masking import by_environment
from limpet.text import harmless, text_of


class View(Tally):
    """Shows nothing; the base of all views."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Clean up the terminal. May be called more than once."""


class TalkingView(View):
    """Prints the plan, and why a run stops."""

    def planned(self, plan: Plan) -> None:
        super().planned(plan)
        talk().print(Text(harmless(str(plan)), style="dim"))

    def stopping(self, reason: Exception) -> None:
        super().stopping(reason)
        talk().print(Text(f"stopping: {self._why(reason)}", style="yellow"))

    def _why(self, reason: Exception) -> str:
        if isinstance(reason, InterruptedRunError):
            flying = count(self.snapshot().in_flight, "call")
            if reason.signum in (None, signal.SIGINT):
                return f"{flying} in flight, press again to stop now"
            return f"{flying} in flight, waiting up to {STOP_GRACE_S:g} seconds"
        if isinstance(reason, EarlyStopError):  # the hint follows at the end
            many = self.snapshot().in_flight
            wait = f"; {count(many, 'call')} in flight, Ctrl-C to stop now" if many else ""
            return harmless(text_of(reason)) + wait
        hint = reason.hint if isinstance(reason, LimpetError) else None
        safe = by_environment().certain.text(text_of(reason))
        return harmless(safe + (f"; {hint}" if hint else ""))


class LiveView(TalkingView):
    """A table that is redrawn a few times a second."""

    def __init__(self) -> None:
        super().__init__()
        self._preparing = Waiting("preparing the run")
        self._writing: Waiting | None = None
        self._picture = Picture(self._draw)

    def _draw(self) -> RenderableType:
        if self.plan is None:
            return self._preparing()
        now = self.snapshot()
        if now.in_flight or (any(step.left for step in now.steps) and not now.stopping):
            return ProgressTable(now)
        self._writing = self._writing or Waiting("writing the result files")
        return Group(*([ProgressTable(now)] if self.plan.calls else []), self._writing())

    def __enter__(self) -> Self:
        self._picture.begin()
        return self

    def end(self) -> None:
        self._picture.end()


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
                talk().print(Text(progress_line(self.snapshot())))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def end(self) -> None:
        self._over.set()
        self._thread.join()
