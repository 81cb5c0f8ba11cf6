"""Who shows a run that a script starts, and what does a notebook show of it?"""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from html import escape
from importlib import import_module
from typing import Any, Self

from limpet.run.results.score_numbers import current
from limpet.run.results.score_words import people_notes, score_words, scores_of, span
from limpet.run.watcher import ScoreSoFar, Snapshot, StepSnapshot, Tally
from limpet.text import one_line, table_html

# ---- Who shows a run that a script starts? ------------------------------------------------------
#
# `limpet.report` draws on terminals, and this room cannot import it: it registers a function here
# that returns a view. Without one, a script shows nothing.


class SessionView(Tally):
    """A tally that shows what it counts while a session lasts; this one shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop showing it."""

    def ended(self, result: Any) -> None:
        """Show what came out: an `EvaluationResult`."""


_on_stderr: list[Callable[[], SessionView]] = []


def show_with(view: Callable[[], SessionView]) -> None:
    """Show the runs of scripts with a view from this function."""
    _on_stderr[:] = [view]


def view_on_stderr() -> SessionView | None:
    """Return a new view; None: there is none."""
    return _on_stderr[0]() if _on_stderr else None


# ---- What are the means while a run is running? -------------------------------------------------
#
# They are marked as such, for slow items come last and are often wrong. What is in flight and what
# failed counts as the lowest and as the highest score possible.


def so_far_words(snapshot: Snapshot) -> list[str]:
    """Return the means so far, a line each: `correct 0.8 of 15 so far (0.52–0.87 with …)`."""
    lines = []
    for _, name, score, flying, failed in _scores(snapshot):
        words = f"{one_line(name)} {score.mean:.3f} of {score.n:,} so far"
        about = [f"{flying:,} in flight"] if flying else []
        about += [f"{failed:,} failed"] if failed else []
        if about and (ends := _ends(score, flying + failed)):
            words += f" ({span(*ends)} with {', '.join(about)})"
        lines.append(words)
    return lines


def so_far_data(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """Return the means so far by step and score, as JSON data."""
    found: dict[str, dict[str, Any]] = {}
    for step, name, score, flying, failed in _scores(snapshot):
        about: dict[str, Any] = {"mean": score.mean, "n": score.n}
        if ends := _ends(score, flying + failed):
            about |= {"low": ends[0], "high": ends[1]}
        found.setdefault(step, {})[name] = about
    return found


def _scores(snapshot: Snapshot) -> Iterator[tuple[str, str, ScoreSoFar, int, int]]:
    """Yield each score with its step and name, the calls in flight for it, and the failures."""
    for step in snapshot.steps[1:]:
        first = snapshot.steps[0]
        flying = len(first.in_flight) + len(step.in_flight)
        failed = sum(first.failed.values()) + sum(step.failed.values())
        for name, score in step.scores.items():
            yield step.name, name, score, flying, failed


def _ends(score: ScoreSoFar, missing: int) -> tuple[float, float] | None:
    """Return the mean if all that is missing were the lowest, and the highest; None: unknown."""
    if score.range is None:
        return None
    n = score.n + missing
    low, high = ((score.mean * score.n + end * missing) / n for end in score.range)
    return low, high


# ---- What a notebook shows of a run: its progress, and its results. -----------------------------
#
# Plain HTML without widgets, scripts or style sheets: it looks right in every front end, and is
# saved with the notebook. Everything in it is escaped.

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

    def ended(self, result: Any) -> None:
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
    total, workflow = summary["n"], summary["workflow"]
    rows = [_summary_row("workflow", workflow, total)]
    lost = sum(workflow["failed"].values())
    for name, numbers in summary["evaluators"].items():
        scores = scores_of(summary, name)
        rows.append(_summary_row(name, numbers, total, lost, scores.pop(name, {})))
        for full_name, score in scores.items():
            part = escape(full_name.removeprefix(f"{name}."))
            rows.append([f"&nbsp;&nbsp;{part}", "", "", "", _score_html(score)])
    return table_html(("step", "done", "failed", "not run", "mean (95%)"), rows)


def _score_html(score: Mapping[str, Any]) -> str:
    mean = score_words(score) if score.get("completed") else ""
    if note := score.get("interval_note"):
        mean = f"{mean} ({note})"
    return " · ".join(map(escape, [mean, *people_notes(score)]))


def _summary_row(
    name: str,
    numbers: Mapping[str, Any],
    total: int,
    lost: int = 0,
    score: Mapping[str, Any] | None = None,
) -> list[str]:
    """Return a step's counts, and its only score; `lost` items have no answer to score."""
    failed = ", ".join(f"{kind} {count:,}" for kind, count in numbers["failed"].items())
    far = current(numbers)
    not_run = f"{left:,}" if (left := far.not_run - lost) else ""
    done = f"{far.done:,}/{total - lost:,}"
    mean = _score_html(score or {})
    if "by_current_version" in numbers:
        of = f"{numbers['by_current_version']:,} of {numbers['completed']:,}"
        mean = f"{mean} ({of} answers are from the current version)".strip()
    return [escape(name), done, escape(failed), not_run, mean]
