"""What does a run in progress look like on a terminal?"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from limpet.report.words import by_error, duration
from limpet.run.session_view import so_far_data, so_far_words
from limpet.run.watcher import Snapshot, StepSnapshot
from limpet.text import count, one_line

_WIDE, _ROOMY, _TIGHT = 100, 64, 36
_OLD_S = 10.0


class ProgressTable:
    """A snapshot, drawn to fit the terminal.

    Args:
        snapshot: The snapshot.
        below: How many lines of the terminal are for what is drawn below it.
    """

    def __init__(self, snapshot: Snapshot, below: int = 0) -> None:
        self._snapshot = snapshot
        self._below = below

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        lines = notes(self._snapshot, tell_flight=width < _ROOMY)
        steps = self._snapshot.steps
        if width < _WIDE and not self._snapshot.stopping:
            paced = [step for step in steps if step.pace and step.left]
            lines += [f"{one_line(step.name)}: {step.pace}" for step in paced]
        # One line less than the screen: a picture that fills it cannot be erased.
        height = console.height - 1 - self._below
        room = max(1, height - len(lines))
        if len(steps) > room:
            lines.insert(0, f"… {len(steps) - room + 1} more steps")
            steps = steps[: room - 1]
        lines += so_far_words(self._snapshot)  # as many as there is room for
        parts: list[RenderableType] = [_steps(self._snapshot, steps, width)]
        for line in lines[: max(1, height - len(steps))]:
            parts.append(Text(line, style="dim", overflow="ellipsis", no_wrap=True))  # noqa: PERF401
        yield Group(*parts)


def _steps(snapshot: Snapshot, steps: Sequence[StepSnapshot], width: int) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(8, width // 4))
    if width >= _ROOMY:
        table.add_column(width=min(40, width // 3))
    table.add_column(justify="right", no_wrap=True)
    if width >= _TIGHT:
        table.add_column(justify="right", no_wrap=True)
    if width >= _ROOMY:
        table.add_column(justify="right", no_wrap=True)
    if width >= _WIDE:
        table.add_column(no_wrap=True, overflow="ellipsis")
    for step in steps:
        cells: list[RenderableType] = [Text(one_line(step.name))]
        if width >= _ROOMY:
            cells.append(bar(step))
        cells.append(Text(done_of(step)))
        if width >= _TIGHT:
            cells.append(Text(f"{rate_of(step)}/s" if rate_of(step) else ""))
        if width >= _ROOMY:
            flying = len(step.in_flight)
            cells.append(Text(f"{flying:,} in flight" if flying else ""))
        if width >= _WIDE:
            pace = step.pace if step.left and not snapshot.stopping else ""
            cells.append(Text(pace, style="dim"))
        table.add_row(*cells)
    return table


def done_of(step: StepSnapshot) -> str:
    """Return how many cells of a step are done, of how many: `20/60`."""
    return f"{step.kept + step.done:,}/{step.total:,}"


def bar(step: StepSnapshot, width: int | None = None) -> ProgressBar:
    """Return a step's progress bar; without `width`, as wide as its column."""
    style = "yellow" if step.failed else "green"
    return ProgressBar(
        max(step.total, 1), step.ended, width=width, complete_style=style, finished_style=style
    )


def rate_of(step: StepSnapshot) -> str:
    """Return how many calls end per second; empty if none are left."""
    if not step.left or not step.rate:
        return ""
    return f"{step.rate:,.0f}" if step.rate >= 10 else f"{step.rate:.2g}"  # noqa: PLR2004


def failures(snapshot: Snapshot) -> list[str]:
    """Return the failures of each step by exception."""
    failed = [step for step in snapshot.steps if step.errors]
    return [f"{one_line(step.name)} failed: {by_error(step.errors)}" for step in failed]


def notes(snapshot: Snapshot, *, tell_flight: bool = False) -> list[str]:
    """Return remarks on a snapshot, a line each; with `tell_flight`, also the calls in flight."""
    retries = sum(step.retries for step in snapshot.steps)
    parts = [f"{snapshot.in_flight:,} in flight"] if tell_flight and snapshot.in_flight else []
    parts += [count(retries, "retry", "retries")] if retries else []
    parts += failures(snapshot)
    tokens = sum(step.tokens.get("total_tokens", 0) for step in snapshot.steps)
    parts += [count(tokens, "token")] if tokens else []
    parts.append(f"{duration(snapshot.seconds)} so far")
    left_s = snapshot.left_s
    if left_s and not snapshot.stopping:
        parts.append(f"about {duration(left_s)} left")
    lines = [" · ".join(parts)]
    oldest = max(
        (call for step in snapshot.steps for call in step.in_flight),
        key=lambda call: call.seconds,
        default=None,
    )
    if oldest is not None and oldest.seconds >= _OLD_S:
        again = f" (attempt {oldest.attempt})" if oldest.attempt > 1 else ""
        lines.append(
            f"oldest call in flight: {one_line(oldest.id)}{again}, {duration(oldest.seconds)}"
        )
    return lines


def progress_line(snapshot: Snapshot) -> str:
    """Return a snapshot in one line, for a log."""
    parts = [", ".join(f"{one_line(step.name)} {done_of(step)}" for step in snapshot.steps)]
    first = snapshot.steps[0] if snapshot.steps else None
    if first is not None and first.pace and first.left:
        parts.append(first.pace)
    return " · ".join([*parts, *so_far_words(snapshot), *notes(snapshot, tell_flight=True)])


def as_data(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as JSON data."""
    so_far = so_far_data(snapshot)
    return {
        "seconds": round(snapshot.seconds, 3),
        "left_s": None if snapshot.left_s is None else round(snapshot.left_s, 1),
        "stopping": snapshot.stopping,
        "steps": [_step_data(step, so_far.get(step.name, {})) for step in snapshot.steps],
    }


def _step_data(step: StepSnapshot, so_far: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": step.name,
        "total": step.total,
        "kept": step.kept,
        "done": step.done,
        "failed": dict(step.failed),
        "errors": dict(step.errors),
        "retries": step.retries,
        "rate": round(step.rate, 3),
        "pace": step.pace,
        "tokens": dict(step.tokens),
        "so_far": so_far,
        "in_flight": [
            {
                "id": call.id,
                "trial": call.trial,
                "attempt": call.attempt,
                "seconds": round(call.seconds, 3),
            }
            for call in step.in_flight
        ],
    }
