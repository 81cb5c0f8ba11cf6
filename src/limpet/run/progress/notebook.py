"""What a notebook shows of a run: its progress, and its results.

Plain HTML without widgets, scripts or style sheets: it looks right in every front end, and is saved
with the notebook. Everything in it is escaped.
"""

import sys
import threading
from collections.abc import Mapping
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from limpet.run.progress.html_table import table_html
from limpet.run.progress.session_view import SessionView
from limpet.run.progress.so_far import so_far_words
from limpet.run.progress.watcher import Snapshot, StepSnapshot
from limpet.run.results.score_words import people_notes, score_words
from limpet.run.results.version_counts import current

if TYPE_CHECKING:
    from limpet.run.results.evaluation_result import EvaluationResult

if TYPE_CHECKING:
    from limpet.run.results.evaluation_result import EvaluationResult

_EVERY_S = 0.5


def in_notebook() -> bool:
    """Return whether a notebook's kernel runs this process, which can show HTML."""
    ipython = sys.modules.get("IPython")  # a kernel has imported it
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class NotebookView(SessionView):
    """A tally that a notebook shows, updated twice a second."""

    def __init__(self) -> None:
        super().__init__()
        display: Any = import_module("IPython.display")  # imported only in a notebook
        self._html = display.HTML
        self._handle = display.display(display.HTML(""), display_id=True)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="limpet-notebook", daemon=True)

    def _draw(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._update(progress_html(self.snapshot()))

    def _update(self, html: str) -> None:
        if self.plan is not None:
            self._handle.update(self._html(html))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._update(progress_html(self.snapshot()))

    def ended(self, result: "EvaluationResult") -> None:
        """Show the result of a run that stopped: the cell ends with an error, and shows nothing."""
        if result.stop_reason is not None:
            import_module("IPython.display").display(result)


def progress_html(snapshot: Snapshot) -> str:
    """Return the progress of a run as a table with bars."""
    rows = [_progress_row(step) for step in snapshot.steps]
    scores = "".join(f"<p>{escape(line)}</p>" for line in so_far_words(snapshot))
    return table_html(("step", "", "done", "failed", "in flight", "pace"), rows) + scores


def _progress_row(step: StepSnapshot) -> list[str]:
    bar = f'<progress max="{max(step.total, 1)}" value="{step.ended}"></progress>'
    failed = sum(step.failed.values())
    return [
        escape(step.name),
        bar,
        f"{step.kept + step.done:,}/{step.total:,}",
        f"{failed:,}" if failed else "",
        f"{len(step.in_flight):,}" if step.in_flight else "",
        escape(step.pace) if step.left else "",
    ]


def summary_html(summary: Mapping[str, Any]) -> str:
    """Return the summary of a run as a table."""
    asked, workflow = summary["n"], summary["workflow"]
    rows = [_summary_row("workflow", workflow, asked)]
    lost = sum(workflow["failed"].values())
    for name, numbers in summary["evaluators"].items():
        rows.append(_summary_row(name, numbers, asked, lost))
        for part, words in score_words(numbers).items():
            if part is not None:
                rows.append(["&nbsp;&nbsp;" + escape(part), "", "", "", escape(words)])
    return table_html(("step", "done", "failed", "not run", "mean (95%)"), rows)


def _summary_row(name: str, numbers: Mapping[str, Any], asked: int, lost: int = 0) -> list[str]:
    """Return a step's counts; `lost` items have no answer, so they get no score."""
    failed = ", ".join(f"{kind} {count:,}" for kind, count in numbers["failed"].items())
    far = current(numbers)
    not_run = f"{left:,}" if (left := far.not_run - lost) else ""
    done = f"{far.done:,}/{asked - lost:,}"
    words = score_words(numbers) if "mean" in numbers and numbers["completed"] else {}
    mean = escape(words.get(None, ""))
    if note := numbers.get("interval_note"):
        mean = f"{mean} ({escape(note)})"
    if "by_current_version" in numbers:
        of = f"{numbers['by_current_version']:,} of {numbers['completed']:,}"
        mean = f"{mean} ({of} answers are from the current version)".strip()
    mean = " · ".join([mean, *map(escape, people_notes(numbers))])
    return [escape(name), done, escape(failed), not_run, mean]
