"""How far is a run? As a screen, a line and data."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from limpet.journal.event_log import Started
from limpet.report.runs import scores_of
from limpet.report.summary import claim_lines, masked_words, note_lines
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
from limpet.run.reading import RunReader
from limpet.run.results.score_numbers import earlier_words
from limpet.run.results.score_words import ScoreName, people_notes, score_words, stop_when_lines
from limpet.run.run_file import to_data
from limpet.run.session_view import so_far_data, so_far_words
from limpet.run.watcher import Snapshot, StepSnapshot
from limpet.text import count, harmless, one_line

# ---- What does a run in progress look like on a terminal? ---------------------------------------

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


# ---- How far is a run? As a screen, a line and data. --------------------------------------------

_STYLES = {
    "running": "green", "finished": "green", "enough": "green", "limited": "green",
    "stopped": "yellow", "cut off": "red",
}  # fmt: skip
_MOST_CALLS, _OLDEST = 5, 3


class StatusScreen:
    """The state of a run, drawn to fit the width of the terminal."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._snapshot = reader.snapshot()
        self._cut_off = reader.cut_off_calls()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        reader, state = self._reader, self._reader.state
        failed = sum(sum(step.failed.values()) for step in self._snapshot.steps)
        words = f"limited to {_selected(reader)}" if state == "limited" else state
        words += f", {failed:,} failed" if failed else ""
        title = Text(f"{one_line(str(reader.path))}: ", style="bold")
        yield title + Text(words, style=_STYLES[state])
        yield Text("")
        with_bar = console.is_terminal and options.max_width >= _ROOMY
        yield _step_rows(self._snapshot, with_bar=with_bar, is_redo=bool(reader.counting.redos))
        yield Text("")
        if scores := score_words_of(reader):
            yield from wrapped(scores, options.max_width, 0)
            known = scores_of(reader)
            yield from map(Text, (*note_lines(known), *claim_lines(known)))
            yield Text("")
        for line in _lines(reader, self._snapshot, self._cut_off):
            yield Text(line)


def score_words_of(reader: RunReader) -> dict[str, str]:
    """Return the scores of a run that is not running, by name."""
    return {
        one_line(str(ScoreName(name, part))): words
        for name, numbers in scores_of(reader).items()
        if numbers.get("completed")
        for part, words in score_words(numbers).items()
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


def _lines(reader: RunReader, snapshot: Snapshot, cut_off: list[Started]) -> Iterator[str]:
    yield from so_far_words(snapshot)
    yield from _people_lines(reader)
    yield from failures(snapshot)
    for step in snapshot.steps:
        if step.pace and step.left:
            yield f"{one_line(step.name)} pace: {one_line(step.pace)}"
        yield from _oldest(step)
    yield from standing_lines(reader)
    if cut_off:
        ids = ", ".join(one_line(call.id) for call in cut_off[:_MOST_CALLS])
        more = f" and {len(cut_off) - _MOST_CALLS:,} more" if len(cut_off) > _MOST_CALLS else ""
        what = f"{count(len(cut_off), 'call')} in flight when it was cut off"
        yield f"{what}, possibly paid for: {ids}{more}"
    tokens = sum(step.tokens.get("total_tokens", 0) for step in snapshot.steps)
    if tokens:
        yield f"{count(tokens, 'token')} in this session"
    yield from masked_words(reader.summary_written())
    if reason := stop_reason(reader):
        yield f"stopped: {one_line(reason)}"
    if reader.state == "enough":
        yield from stop_when_lines(reader.summary_written())
    yield _times(reader, snapshot)
    if reader.is_running and reader.holder is not None:
        who = reader.holder
        where = f"process {who.pid} on {one_line(who.host)}"
        yield f"running in {where}, started {moment(who.started)}"
    yield from map(one_line, _unlogged_remarks(reader))
    yield _next_step(reader, snapshot)


def _unlogged_remarks(reader: RunReader) -> list[str]:
    """Return the remarks on what could not be read, without the one that is on stderr already."""
    return [remark for remark in reader.remarks if remark != reader.logged]


def _people_lines(reader: RunReader) -> Iterator[str]:
    """Yield the means of judges as people's labels correct them."""
    if reader.is_running or not reader.layout.people.exists():  # it takes long while it changes
        return
    for name, numbers in reader.summary()["evaluators"].items():
        for part in (None, *numbers.get("calibrated_by_score", {})):
            for note in people_notes(numbers, part):
                yield f"{one_line(str(ScoreName(name, part)))}: {note}"


def stop_reason(reader: RunReader) -> str | None:
    """Return why the last session stopped early; None: it did not, or that is not known."""
    reason = reader.summary_written().get("stop_reason") if reader.state == "stopped" else None
    return reason if isinstance(reason, str) else None


def standing_lines(reader: RunReader) -> Iterator[str]:
    """Yield remarks on skipped rows, outdated results, steps to run again, and a selection."""
    if reader.state not in ("running", "cut off"):  # what is written is from an earlier session
        yield from skipped_rows(reader.summary_written().get("bad_rows", ()))
    if reader.by_current_version is not None:
        yield by_current(*reader.by_current_version)
    if not reader.is_running:  # else they are being made again
        yield from earlier_words(reader.earlier_on_disk)
    for redo in reader.counting.redos:
        steps = ", ".join(map(one_line, sorted(redo.steps)))
        items = "" if redo.items is None else f" of {count(len(redo.items), 'item')}"
        yield f"to run again: {steps}{items}; until then the earlier results are kept"
    if reader.counting.redos and not reader.is_running:
        yield f"the redo is unfinished: {HOW_TO_CANCEL}"
    if reader.state == "limited":
        yield f"the last session finished what it selected: {_selected(reader)}"
    elif reader.session.selected is not None:
        yield f"the last session selected {_selected(reader)}"


def _selected(reader: RunReader) -> str:
    session = reader.session
    return f"{session.selected or 0:,} of {count(session.of or 0, 'item')}"


def _oldest(step: StepSnapshot) -> Iterator[str]:
    calls = step.in_flight[:_OLDEST]
    if calls:
        shown = (
            f"{one_line(call.id)} {f'trial {call.trial} ' if call.trial else ''}"
            f"{duration(call.seconds)}" + (f" (attempt {call.attempt})" if call.attempt > 1 else "")
            for call in calls
        )
        yield f"{one_line(step.name)}, oldest calls: {', '.join(shown)}"


def _times(reader: RunReader, snapshot: Snapshot) -> str:
    number = len(reader.run_file.sessions)
    session = f"session {number}" if number else "no session recorded"
    parts = [session]
    if reader.began_at:
        parts.append(f"began {moment(reader.began_at)}")
    if reader.is_running:
        parts.append(f"{duration(snapshot.seconds)} so far")
        if snapshot.left_s and not snapshot.stopping:
            parts.append(f"about {duration(snapshot.left_s)} left")
    elif reader.last_at:
        parts.append(f"ran {duration(snapshot.seconds)}")
        parts.append(f"last active {ago(reader.last_at)}")
    return " · ".join(parts)


def _next_step(reader: RunReader, snapshot: Snapshot) -> str:
    run = shlex.quote(harmless(str(reader.path)))
    if snapshot.stopping:
        return "stopping: waiting for the calls in flight"
    if reader.state == "running":
        return f"watch it: limpet status {run} --watch"
    if reader.state == "enough":
        return "for the rest, run the same command without stop_when: finished results are kept"
    if reader.state == "limited":
        return "for the rest, run the same command without a limit: finished results are kept"
    if reader.state in ("stopped", "cut off"):
        return "to resume, run the same command again: finished results are kept"
    if any(step.failed for step in snapshot.steps):
        return f"see why: limpet show {run} --failed; to retry, run the same command again"
    return f"see the results: limpet show {run}"


def status_line(reader: RunReader, snapshot: Snapshot) -> str:
    """Return a run in one line, for a log. It changes only when something happens."""
    steps = [f"{one_line(step.name)} {done_of(step)}" for step in snapshot.steps]
    parts = [f"{reader.state}: {', '.join(steps)}", *failures(snapshot)]
    parts += [f"{snapshot.in_flight:,} in flight"] if snapshot.in_flight else []
    return " · ".join(parts)


def _score_data(reader: RunReader) -> dict[str, Any]:
    """Return the means of a run that is not running, with their intervals."""
    names = ("mean", "interval", "bounds", "interim")
    several = ("means", "intervals", "bounds_by_score")
    return {
        evaluator: {name: numbers[name] for name in (*names, *several) if name in numbers}
        for evaluator, numbers in scores_of(reader).items()
    }


def status_data(reader: RunReader) -> dict[str, Any]:
    """Return the state of a run as JSON data."""
    who = reader.holder
    return {
        "run": str(reader.path),
        "kind": reader.kind,
        "state": reader.state,
        "sessions": len(reader.run_file.sessions),
        "stop_reason": stop_reason(reader),
        "stop_when": reader.summary_written().get("stop_when")
        if reader.state == "enough"
        else None,
        "began": reader.began_at or None,
        "last_at": reader.last_at or None,
        "holder": None
        if who is None
        else {"pid": who.pid, "host": who.host, "started": who.started, "alive": who.is_alive},
        **as_data(reader.snapshot()),
        "cut_off_calls": [
            {"step": call.step, "id": call.id, "attempt": call.attempt, "at": call.at}
            for call in reader.cut_off_calls()
        ],
        "scores": _score_data(reader),
        "selected": reader.session.selected,
        "redo": [to_data(redo) for redo in reader.counting.redos],
        "by_current_version": reader.by_current_version and reader.by_current_version[0],
        "earlier_on_disk": reader.earlier_on_disk,
        "remarks": [*_unlogged_remarks(reader), *standing_lines(reader)],
    }
