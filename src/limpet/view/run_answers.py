"""What does a page show about all runs, and about one run?"""

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limpet.errors import LimpetError
from limpet.journal.layout import layout_at
from limpet.report.items import grouped
from limpet.report.runs import version_note
from limpet.report.status import enough_lines, remark_lines
from limpet.run.reading.description import Description, describe, unreadable
from limpet.run.reading.progress import age_s
from limpet.run.reading.reader import RunReader
from limpet.run.reading.run_table import failed_rows
from limpet.run.results.summary import NUMBERS
from limpet.run.watcher import StepSnapshot
from limpet.text import one_line, text_of
from limpet.view.field_answers import few_valued, fields_of
from limpet.view.label_answers import draw_answer
from limpet.view.shape_answers import shape_of
from limpet.view.shown_values import Shortener, line_of, score_claims
from limpet.view.viewed_runs import ViewedRun, ViewedRuns

logger = logging.getLogger("limpet.view")
_MOST_LIVE, _MOST_ITEMS = 4, 200_000
_MOST_AT_ONCE = 100_000
"""Reading the results of a run with more cells takes seconds: its progress is shown first."""
_MOST_FAILURES, _MOST_GROUPS, _MOST_IDS = 2_000, 50, 3
_MOST_TRACEBACKS, _LONGEST_TRACEBACK = 10, 4_000
_MOST_IN_FLIGHT = 50
_LEAST_ENDED = 20
"""The p99 of fewer calls says little."""


class RunsList:
    """All runs, a line each; a run is read again only if its files have changed."""

    def __init__(self, runs: ViewedRuns) -> None:
        self._runs = runs
        self._known: dict[str, tuple[object, dict[str, Any]]] = {}

    def answer(self) -> dict[str, Any]:
        """Return all runs, the latest first."""
        lines = {}
        live = 0
        for address, path in self._runs.paths().items():
            mark, line = self._known.get(address, (None, {}))
            now = mark_of(path)
            is_open = line.get("state") == "running"
            if is_open or now != mark:
                with_scores = live < _MOST_LIVE
                line = self._line(address, path, with_scores=with_scores, is_open=is_open)
            live += line["state"] == "running"
            lines[address] = (now, line)
        self._known = lines
        found = [{**line, "age_s": age_s(line["last_at"])} for _, line in lines.values()]
        return {"runs": sorted(found, key=lambda line: line["last_at"] or "", reverse=True)}

    def _line(
        self, address: str, path: Path, *, with_scores: bool, is_open: bool
    ) -> dict[str, Any]:
        try:
            if not is_open:
                with RunReader(path) as reader:
                    if not reader.is_running:
                        return _line(address, describe(reader))
            with self._runs.use(address) as opened:
                run_table = opened.run_table
                opened.reader.refresh()
                numbers = None
                if with_scores and len(opened.reader) <= _MOST_ITEMS:
                    run_table.refresh()
                    numbers = run_table.summary()
                return _line(address, describe(opened.reader, numbers=numbers))
        except (OSError, LimpetError, ValueError) as error:
            return _line(address, unreadable(path, text_of(error)))
        except Exception as error:
            logger.exception("%s: cannot be shown", one_line(str(path)))
            why = f"{type(error).__name__}: {one_line(text_of(error))}"
            return _line(address, unreadable(path, why))


def mark_of(path: Path) -> object:
    """Return a value that changes with the files of a run, and when a session ends or dies."""
    layout = layout_at(path)
    names = (
        layout.home / "run.json",
        layout.events,
        layout.failures,
        layout.lock,
        layout.people,
        layout.labels,
        *layout.columns(),
    )
    found = []
    for name in names:
        try:
            about = name.stat()
            found.append((about.st_mtime_ns, about.st_size))
        except OSError:
            found.append((0, 0))
    return found


def _line(address: str, run: Description) -> dict[str, Any]:
    return {
        "name": address,
        "path": address,
        "state": run.state,
        "state_now": run.state_now,
        **({} if run.why is None else {"why": run.why}),
        "sessions": run.sessions,
        "began": run.began,
        "last_at": run.last_at,
        "done": run.done,
        "total": run.total,
        "failed": run.failed,
        "scores": score_claims(run.summary),
        "note": version_note(run),
        "cost": run.used.get("cost"),
        "tokens": run.used.get("tokens"),
        "tags": run.tags,
    }


def first_answer(path: Path, address: str) -> dict[str, Any] | None:
    """Return the name and the progress of a large run, without reading its results; None: small."""
    with RunReader(path) as reader:
        session = reader.session
        if (session.items or 0) * session.trials * len(session.steps) <= _MOST_AT_ONCE:
            return None
        run = describe(reader, numbers={"workflow": {}, "scores": {}, "evaluators": {}})
    return {"run": address, "is_first": True, **run_data(run)}


def run_answer(opened: ViewedRun, address: str, *, can_label: bool) -> dict[str, Any]:
    """Return everything about a run but its items."""
    reader, run_table = opened.reader, opened.run_table
    run_table.refresh()
    run = describe(reader, reader.snapshot(whole=False), run_table.summary())
    reason = opened.why_no_labels()
    can_label = can_label and opened.can_label
    calls = [call for step in run.progress.steps for call in step.in_flight]
    return {
        "run": address,
        **run_data(run),
        "failures": _failures(opened),
        "evaluators": list(reader.evaluators),
        "trials": reader.trials,
        "fields": fields_of(opened),
        "few_valued": few_valued(opened),
        "shape": shape_of(opened),
        "timeline": opened.timeline.data([call.seconds for call in calls]),
        "can_label": can_label and not reason,
        "can_order": can_label and run.is_running,
        "cannot_label": reason if can_label and reason else None,
        "labels": draw_answer(opened),
    }


def run_data(run: Description) -> dict[str, Any]:
    """Return the data of a run as a whole."""
    seconds, seconds_are_all = run.worked_s
    return {
        "state": run.state,
        "stopping": run.progress.stopping,
        "paused": run.progress.paused,
        "stop_reason": run.stop_reason,
        "began": run.first_began,
        "last_at": run.last_at,
        "sessions": run.sessions,
        "seconds": seconds,
        "seconds_are_all": seconds_are_all,
        "summary": {name: run.summary[name] for name in NUMBERS if name in run.summary},
        "scores": score_claims(run.summary),
        "steps": [_step(step, run) for step in run.progress.steps],
        "in_flight": _in_flight(run),
        "time_left_s": run.progress.left_s if run.is_running else None,
        "used": _used(run),
        "remarks": [*run.remarks, *enough_lines(run), *remark_lines(run)],
        "tags": run.tags,
    }


def _failures(opened: ViewedRun) -> list[dict[str, Any]]:
    """Return the failures, grouped by cause, the most frequent first."""
    run_table = opened.run_table
    if opened.failures[0] != run_table.version:
        positions = failed_rows(run_table.table).nonzero()[0]
        groups = grouped(run_table.read(positions[:_MOST_FAILURES]))
        known = [
            {
                "step": group.step,
                "class": group.error.get("class", ""),
                "type": group.error.get("type", ""),
                "message": line_of(group.error.get("message", "")),
                "traceback": _traceback(group.error) if number < _MOST_TRACEBACKS else None,
                "count": len(group.ids),
                "ids": group.ids[:_MOST_IDS],
                "trials": group.trials[:_MOST_IDS],
                "of_first": _MOST_FAILURES if len(positions) > _MOST_FAILURES else None,
            }
            for number, group in enumerate(groups[:_MOST_GROUPS])
        ]
        opened.failures = (run_table.version, known)
    return opened.failures[1]


def _traceback(error: Mapping[str, Any]) -> str | None:
    """Return the end of a failure's traceback, where it failed; None: it has none."""
    text = error.get("traceback")
    return Shortener()(text[-_LONGEST_TRACEBACK:]) if isinstance(text, str) and text else None


def _step(step: StepSnapshot, run: Description) -> dict[str, Any]:
    return {
        "name": step.name,
        "done": step.kept + step.done,
        "total": step.total,
        "failed": sum(step.failed.values()),
        "in_flight": len(step.in_flight),
        "rate": step.rate,
        "eta_s": step.left_s,
        "pace": step.waits or step.pace,
        "retries": run.retries[step.name],
    }


def _in_flight(run: Description) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    for step in run.progress.steps:
        known = run.evaluators.get(step.name, run.summary["workflow"])
        p99 = known.get("quantiles", {}).get("seconds", {}).get("p99")
        if known.get("completed", 0) < _LEAST_ENDED:
            p99 = None
        calls += [
            {
                "step": step.name,
                "id": call.id,
                "trial": call.trial,
                "attempt": call.attempt,
                "age_s": call.seconds,
                "p99_s": p99,
                "is_stuck": call.stalled,
            }
            for call in step.in_flight
        ]
    return sorted(calls, key=lambda call: -float(call["age_s"]))[:_MOST_IN_FLIGHT]


def _used(run: Description) -> list[dict[str, Any]]:
    """Return what each step used, and how long its calls took."""
    found = []
    for name, numbers in (("workflow", run.summary["workflow"]), *run.evaluators.items()):
        usage, quantiles = numbers.get("usage", {}), numbers.get("quantiles", {})
        if usage or quantiles:
            found.append({
                "step": name, "cost": usage.get("cost"), "tokens": usage.get("total_tokens"),
                "seconds": quantiles.get("seconds"), "each_cost": quantiles.get("cost"),
                "each_tokens": quantiles.get("total_tokens"),
            })  # fmt: skip
    return found


def now_if_running(opened: ViewedRun) -> int:
    """Return a number that changes each second while a run is running: ages and rates do."""
    return int(time.time()) if opened.reader.is_running else 0
