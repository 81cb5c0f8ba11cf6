"""How far is a run? As a screen, a line and data."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from limpet.report.summary import claim_lines, interval_notes, masked_words, used_words
from limpet.report.tables import cell, plain_table, wrapped
from limpet.report.words import (
    ago,
    by_current,
    by_error,
    duration,
    moment,
    skipped_rows,
    without_answer,
)
from limpet.run.planning.plan import HOW_TO_CANCEL
from limpet.run.reading.description import Description
from limpet.run.results.score_numbers import earlier_words
from limpet.run.results.score_words import claims_of, people_notes, score_words, stop_when_lines
from limpet.run.run_file import to_data
from limpet.run.session_view import so_far_data, so_far_words
from limpet.run.watcher import Snapshot, StepSnapshot
from limpet.text import count, harmless, one_line

# ---- What does a run in progress look like on a terminal? ---------------------------------------

_ROOMY, _TIGHT = 64, 36
_OLD_S = 10.0


class ProgressTable:
    """A snapshot, drawn to fit the terminal.

    Args:
        snapshot: The snapshot.
        below: How many lines of the terminal to leave free below it.
    """

    def __init__(self, snapshot: Snapshot, below: int = 0) -> None:
        self._snapshot = snapshot
        self._below = below

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        lines = notes(self._snapshot, tell_flight=width < _ROOMY)
        steps = self._snapshot.steps
        if not self._snapshot.stopping:
            paced: dict[str, list[str]] = {}  # the steps at one endpoint say the same
            for step in steps:
                if step.pace and step.left:
                    paced.setdefault(step.pace, []).append(one_line(step.name))
            lines += [f"{', '.join(names)}: {pace}" for pace, names in paced.items()]
        # One line less than the screen: a full screen cannot be erased.
        height = console.height - 1 - self._below
        room = max(1, height - len(lines))
        if len(steps) > room:
            lines.insert(0, f"… {len(steps) - room + 1} more steps")
            steps = steps[: room - 1]
        lines += so_far_words(self._snapshot)  # as many as there is room for
        parts: list[RenderableType] = [_steps(steps, width)]
        for line in lines[: max(1, height - len(steps))]:
            parts.append(Text(line, style="dim", overflow="ellipsis", no_wrap=True))  # noqa: PERF401
        yield Group(*parts)


def _steps(steps: Sequence[StepSnapshot], width: int) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(8, width // 4))
    if width >= _ROOMY:
        table.add_column(width=min(40, width // 4))
    table.add_column(justify="right", no_wrap=True)
    if width >= _TIGHT:
        table.add_column(justify="right", no_wrap=True)
    if width >= _ROOMY:
        table.add_column(justify="right", no_wrap=True)
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
    if left_s:
        parts.append(f"about {duration(left_s)} left")
    if snapshot.paused and not snapshot.stopping:
        parts.insert(0, "paused by limpet ctl")
    lines = [" · ".join(parts)]
    lines += _trouble(snapshot)
    oldest = max(
        (call for step in snapshot.steps for call in step.in_flight),
        key=lambda call: call.seconds,
        default=None,
    )
    if oldest is not None and oldest.seconds >= _OLD_S and not oldest.stalled:
        again = f" (attempt {oldest.attempt})" if oldest.attempt > 1 else ""
        lines.append(
            f"oldest call in flight: {one_line(oldest.id)}{again}, {duration(oldest.seconds)}"
        )
    return lines


def _trouble(snapshot: Snapshot) -> Iterator[str]:
    """Yield which calls are stalled, and why a step does not get on."""
    for step in snapshot.steps:
        if step.waits:
            yield f"{one_line(step.name)}: no progress for a minute: {one_line(step.waits)}"
        stalled = [call for call in step.in_flight if call.stalled]
        shown = (f"{one_line(call.id)} {duration(call.seconds)}" for call in stalled[:_OLDEST])
        if stalled:
            many = count(len(stalled), "call")
            yield f"{one_line(step.name)}: {many} far beyond the usual: {', '.join(shown)}"


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
        "paused": snapshot.paused,
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
        "waits": step.waits,
        "so_far": so_far,
        "in_flight": [
            {
                "id": call.id,
                "trial": call.trial,
                "attempt": call.attempt,
                "seconds": round(call.seconds, 3),
                "stalled": call.stalled,
            }
            for call in step.in_flight
        ],
    }


# ---- How far is a run? As a screen, a line and data. --------------------------------------------

_STYLES = {
    "running": "green", "finished": "green", "enough": "green", "limited": "green",
    "stopped": "yellow", "cut off": "red",
}  # fmt: skip
_MOST_CALLS, _OLDEST = 5, 3


class StatusScreen:
    """The state of a run, drawn to fit the width of the terminal."""

    def __init__(self, run: Description) -> None:
        self._run = run

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        run = self._run
        words = f"limited to {_selected(run)}" if run.state == "limited" else run.state_now
        words += f", {run.failed:,} failed" if run.failed else ""
        title = Text(f"{one_line(run.run)}: ", style="bold")
        yield title + Text(words, style=_STYLES[run.state])
        yield Text("")
        with_bar = console.is_terminal and options.max_width >= _ROOMY
        yield _step_rows(run.progress, with_bar=with_bar, is_redo=bool(run.redos))
        yield Text("")
        if scores := score_words_of(run):
            yield from wrapped(scores, options.max_width, 0)
            yield from map(Text, (*interval_notes(run.scores), *claim_lines(run.scores)))
            yield Text("")
        for line in _lines(run):
            yield Text(line)


def score_words_of(run: Description) -> dict[str, str]:
    """Return the scores of a run that is not running, by name."""
    return {
        one_line(name): score_words(score)
        for name, score in run.scores.items()
        if score["completed"]
    }


def _step_rows(snapshot: Snapshot, *, with_bar: bool, is_redo: bool) -> Any:
    steps = snapshot.steps
    lost = sum(steps[0].failed.values()) if steps else 0
    note = without_answer(lost) if lost and not is_redo else ""  # a redo keeps earlier answers
    names = ["step", *([""] if with_bar else []), "done"]
    optional = {
        "failed": [_some(sum(step.failed.values())) for step in steps],
        "retries": [_some(step.retries) for step in steps],
        "in flight": [_some(len(step.in_flight)) for step in steps],
        "/s": [rate_of(step) for step in steps],
        "note": ["" if step is steps[0] else note for step in steps],
    }
    shown = {name: cells for name, cells in optional.items() if any(cells)}
    numbers = [name for name in ("done", *shown) if name != "note"]
    table = plain_table(*names, *shown, fixed=[""], numbers=numbers)
    for number, step in enumerate(steps):
        drawn = [bar(step, width=20)] if with_bar else []
        cells = [column[number] for column in shown.values()]
        table.add_row(cell(one_line(step.name)), *drawn, done_of(step), *cells)
    return table


def _some(number: int) -> str:
    return f"{number:,}" if number else ""


def _lines(run: Description) -> Iterator[str]:
    progress = run.progress
    yield from so_far_words(progress)
    yield from _people_lines(run)
    yield from failures(progress)
    yield from _trouble(progress)
    for step in progress.steps:
        if step.pace and step.left:
            yield f"{one_line(step.name)} pace: {one_line(step.pace)}"
        yield from _oldest(step)
    yield from remark_lines(run)
    if run.cut_off:
        ids = ", ".join(one_line(call.id) for call in run.cut_off[:_MOST_CALLS])
        left = len(run.cut_off) - _MOST_CALLS
        what = f"{count(len(run.cut_off), 'call')} in flight when it was cut off"
        yield f"{what}, possibly paid for: {ids}{f' and {left:,} more' if left > 0 else ''}"
    tokens = sum(step.tokens.get("total_tokens", 0) for step in progress.steps)
    if tokens:
        yield f"{count(tokens, 'token')} in this session"
    if used := list(used_words(run.used)):
        yield " · ".join(used)
    yield from masked_words(run.summary)
    if run.stop_reason:
        yield f"stopped: {one_line(run.stop_reason)}"
    yield from enough_lines(run)
    yield _times(run)
    if run.is_running and (who := run.holder) is not None:
        where = f"process {who.pid} on {one_line(who.host)}"
        yield f"running in {where}, started {moment(who.started)}"
    yield from map(one_line, _unlogged_remarks(run))
    yield _next_step(run)


def _unlogged_remarks(run: Description) -> list[str]:
    """Return the remarks on unreadable data, without the one already on stderr."""
    return [remark for remark in run.remarks if remark != run.logged]


def _people_lines(run: Description) -> Iterator[str]:
    """Yield the means of judges, corrected by people's labels."""
    for name, score in run.scores.items():
        yield from (f"{one_line(name)}: {note}" for note in people_notes(score))


def enough_lines(run: Description) -> list[str]:
    """Return why `stop_when` ended the run, if it did."""
    return stop_when_lines(run.summary) if run.state == "enough" else []


def remark_lines(run: Description) -> Iterator[str]:
    """Yield remarks on skipped rows, outdated results, steps to run again, and a selection."""
    if run.state not in ("running", "cut off"):  # the file is from an earlier session
        yield from skipped_rows(run.summary.get("bad_rows", ()))
    if run.by_current_version is not None:
        yield by_current(*run.by_current_version)
    if not run.is_running:  # else they are being made again
        yield from earlier_words(run.earlier_on_disk)
    for redo in run.redos:
        steps = ", ".join(map(one_line, sorted(redo.steps)))
        items = "" if redo.items is None else f" of {count(len(redo.items), 'item')}"
        yield f"to run again: {steps}{items}; until then the earlier results are kept"
    if run.redos and not run.is_running:
        yield f"the redo is unfinished: {HOW_TO_CANCEL}"
    if run.state == "limited":
        yield f"the last session finished what it selected: {_selected(run)}"
    elif run.selected is not None:
        yield f"the last session selected {_selected(run)}"


def _selected(run: Description) -> str:
    selected, of = run.selected or (0, 0)
    return f"{selected:,} of {count(of, 'item')}"


def _oldest(step: StepSnapshot) -> Iterator[str]:
    calls = step.in_flight[:_OLDEST]
    if calls:
        shown = (
            f"{one_line(call.id)} {f'trial {call.trial} ' if call.trial else ''}"
            f"{duration(call.seconds)}" + (f" (attempt {call.attempt})" if call.attempt > 1 else "")
            for call in calls
        )
        yield f"{one_line(step.name)}, oldest calls: {', '.join(shown)}"


def _times(run: Description) -> str:
    progress = run.progress
    parts = [f"session {run.sessions}" if run.sessions else "no session recorded"]
    if run.began:
        parts.append(f"began {moment(run.began)}")
    if run.is_running:
        parts.append(f"{duration(progress.seconds)} so far")
        if progress.left_s:
            parts.append(f"about {duration(progress.left_s)} left")
    elif run.last_at:
        parts.append(f"ran {duration(progress.seconds)}")
        parts.append(f"last active {ago(run.last_at)}")
    return " · ".join(parts)


def _next_step(run: Description) -> str:
    path = shlex.quote(harmless(run.run))
    if run.progress.stopping:
        return "stopping: waiting for the calls in flight"
    if run.paused:
        then = "" if run.is_running else ", then run the same command again"
        return f"paused: limpet ctl {path} resume{then}"
    if run.is_running:
        return f"watch it: limpet status {path} --watch"
    if run.state == "enough":
        return "for the rest, run the same command without stop_when: finished results are kept"
    if run.state == "limited":
        return "for the rest, run the same command without a limit: finished results are kept"
    if run.redos:  # its flag would redo everything
        return "to go on, run the same command without --redo…: finished results are kept"
    if run.state in ("stopped", "cut off"):
        return "to resume, run the same command again: finished results are kept"
    if run.failed:
        return f"see why: limpet show {path} --failed; to retry, run the same command again"
    return f"see the results: limpet show {path}"


def status_line(run: Description) -> str:
    """Return a run in one line, for a log. It changes only when something happens."""
    progress = run.progress
    steps = [f"{one_line(step.name)} {done_of(step)}" for step in progress.steps]
    parts = [f"{run.state_now}: {', '.join(steps)}", *failures(progress)]
    parts += [f"{progress.in_flight:,} in flight"] if progress.in_flight else []
    return " · ".join(parts)


def status_data(run: Description) -> dict[str, Any]:
    """Return the state of a run as JSON data."""
    who = run.holder
    return {
        "run": run.run,
        "kind": run.kind,
        "state": run.state,
        "sessions": run.sessions,
        "stop_reason": run.stop_reason,
        "stop_when": run.summary.get("stop_when") if run.state == "enough" else None,
        "began": run.began,
        "last_at": run.last_at,
        "holder": None
        if who is None
        else {"pid": who.pid, "host": who.host, "started": who.started, "alive": who.is_alive},
        **as_data(run.progress),
        "cut_off_calls": [
            {"step": call.step, "id": call.id, "attempt": call.attempt, "at": call.at}
            for call in run.cut_off
        ],
        "scores": claims_of(run.scores),
        "used": run.used,
        "selected": run.selected and run.selected[0],
        "redo": [to_data(redo) for redo in run.redos],
        "by_current_version": run.by_current_version and run.by_current_version[0],
        "earlier_on_disk": run.earlier_on_disk,
        "remarks": [*_unlogged_remarks(run), *remark_lines(run)],
    }
