"""The live page of runs: a server that reads their directories and writes only labels."""

from importlib import import_module
from typing import Any

from limpet.run.evaluation_result import ReportFile, load_run, report_with

__all__ = ["load_run"]


def _write(*arguments: Any) -> ReportFile:
    """Write a report; the pages are imported on first use."""
    made: ReportFile = import_module("limpet.view.html_report").write_report(*arguments)
    return made


report_with(_write)
