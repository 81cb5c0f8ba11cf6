"""What does `limpet.evaluate()` show in a script?

The public functions come from here, so that a script shows its run and code inside the library does
not. The drawing code is imported when a run begins: that takes longer than importing `limpet`.
"""

import sys
import threading
from importlib import import_module
from typing import Self

from limpet.run.api import aevaluate, evaluate
from limpet.run.session_view import SessionView, show_with
from limpet.text import is_terminal

# ---- What does a script log about its run? ------------------------------------------------------
#
# A line after a few seconds, then one every half minute: a short run logs nothing. The code that
# writes a line is imported for the first one.

_FIRST_S, _EVERY_S = 4.0, 30.0


class LogLines(SessionView):
    """Logs a line after a few seconds, then every half minute, and why the run stops."""

    def __init__(self) -> None:
        super().__init__()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._say, name="limpet-lines", daemon=True)

    def _say(self) -> None:
        wait_s = _FIRST_S
        while not self._over.wait(wait_s):
            import_module("limpet.report.terminal").say(self._line())
            wait_s = _EVERY_S

    def stopping(self, reason: Exception) -> None:
        super().stopping(reason)
        why = import_module("limpet.report.views").reason_words(reason)
        import_module("limpet.report.terminal").say(f"stopping: {why}")

    def _line(self) -> str:
        if self.plan is None:
            return "preparing the run"
        line: str = import_module("limpet.report.status").progress_line(self.snapshot())
        return line

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


# ---- What does `limpet.evaluate()` show in a script? --------------------------------------------

__all__ = ["aevaluate", "evaluate"]


def _view() -> SessionView:
    if not is_terminal(sys.stderr):
        return LogLines()
    view: SessionView = import_module("limpet.report.views").script_view()
    return view


show_with(_view)
