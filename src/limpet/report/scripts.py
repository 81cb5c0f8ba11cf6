"""What does `limpet.evaluate()` show in a script?

The public functions come from here, so that a script shows its run and code inside the library does
not. What draws is imported when a run begins: importing it takes longer than importing `limpet`.
"""

import sys
from importlib import import_module

from limpet.report.log_lines import LogLines
from limpet.report.streams import is_terminal
from limpet.run.api import aevaluate, evaluate
from limpet.run.session_view import SessionView, show_with

__all__ = ["aevaluate", "evaluate"]


def _view() -> SessionView:
    if not is_terminal(sys.stderr):
        return LogLines()
    view: SessionView = import_module("limpet.report.script_view").script_view()
    return view


show_with(_view)
