"""What does a page say of runs, and of one run?"""

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limpet.errors import LimpetError
from limpet.journal.layout import layout_at
from limpet.report.items import grouped
from limpet.report.runs import scores_of, version_note
from limpet.report.status import standing_lines, stop_reason
from limpet.run.housekeeping import tags_of
from limpet.run.reading.heads import failed_rows
from limpet.run.reading.progress import age_s
from limpet.run.reading.reader import RunReader
from limpet.run.results.score_words import stop_when_lines
from limpet.run.watcher import Snapshot, StepSnapshot
from limpet.text import one_line, text_of
from limpet.view.label_answers import draw_answer
from limpet.view.opened_runs import OpenedRun, OpenedRuns
from limpet.view.shown_values import line_of, score_claims, used

logger = logging.getLogger("limpet.view")
_MOST_LIVE, _MOST_ITEMS = 4, 200_000
_MOST_FAILURES, _MOST_GROUPS, _MOST_IDS = 2_000, 50, 3
_MOST_IN_FLIGHT = 50
_FIRST_ROWS, _MOST_FIELDS = 20, 50
_STUCK, _LEAST_ENDED = 2.0, 20
"""A call that takes so many times the p99, of so many at least, may be stuck."""


class RunsList:
    """All runs in a line each; a run whose files have not changed is not read again."""

    def __init__(self, runs: OpenedRuns) -> None:
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
                        return _line(address, reader, _summary(reader))
            with self._runs.use(address) as opened:
                heads = opened.heads
                opened.reader.refresh()
                has_scores = with_scores and len(opened.reader) <= _MOST_ITEMS
                if has_scores:
                    heads.refresh()
                return _line(address, opened.reader, heads.summary() if has_scores else {})
        except (OSError, LimpetError, ValueError) as error:
            why = text_of(error).replace(f"{path.resolve()}/", "")
            return {**_nothing(address), "state": "unreadable", "why": why}
        except Exception as error:
            logger.exception("%s: cannot be shown", one_line(str(path)))
            why = f"{type(error).__name__}: {one_line(text_of(error))}"
            return {**_nothing(address), "state": "unreadable", "why": why}


def mark_of(path: Path) -> object:
    """Return what changes with the files of a run, and when a session of it ends or dies."""
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


def _summary(reader: RunReader) -> Mapping[str, Any]:
    if not reader.is_as_recorded:
        return reader.summary()
    if reader.state == "cut off":  # what is on disk is from an earlier session
        return reader.summary() if len(reader) <= _MOST_ITEMS else {}
    return {**reader.summary_written(), "evaluators": scores_of(reader)}


def _nothing(address: str) -> dict[str, Any]:
    return {
        "name": address, "path": address, "sessions": 0, "began": None, "last_at": None, "done": 0,
        "asked": 0, "failed": 0, "scores": [], "cost": None, "tokens": None, "tags": [],
        "note": "",
    }  # fmt: skip


def _line(address: str, reader: RunReader, summary: Mapping[str, Any]) -> dict[str, Any]:
    steps, usage = reader.counts.steps, used(summary)
    return {
        **_nothing(address),
        "state": reader.state,
        "sessions": len(reader.run_file.sessions),
        "began": reader.began_at or None,
        "last_at": reader.last_at or None,
        "done": steps[0].kept + steps[0].done if steps else 0,
        "asked": steps[0].total if steps else 0,
        "failed": sum(sum(step.failed.values()) for step in steps),
        "scores": score_claims(summary),
        "note": version_note(reader.by_current_version, reader.earlier_on_disk),
        "cost": usage.get("cost"),
        "tokens": usage.get("tokens"),
        "tags": tags_of(reader.layout),
    }


def run_answer(opened: OpenedRun, address: str, *, can_label: bool) -> dict[str, Any]:
    """Return all about a run that is not about one item."""
    reader, heads = opened.reader, opened.heads
    heads.refresh()
    snapshot, summary = reader.snapshot(whole=False), heads.summary()
    state, reason = reader.state, opened.why_no_labels()
    can_label = can_label and opened.can_label
    calls = [call for step in snapshot.steps for call in step.in_flight]
    seconds, seconds_are_all = reader.worked_s
    return {
        "run": address,
        "state": state,
        "stopping": snapshot.stopping,
        "stop_reason": stop_reason(reader),
        "began": reader.run_file.sessions[0].began if reader.run_file.sessions else None,
        "last_at": reader.last_at or None,
        "sessions": len(reader.run_file.sessions),
        "trials": reader.trials,
        "seconds": seconds,
        "seconds_are_all": seconds_are_all,
        "summary": summary,
        "scores": score_claims(summary),
        "steps": [_step(step, reader) for step in snapshot.steps],
        "failures": _failures(opened),
        "in_flight": _in_flight(snapshot, summary),
        "time_left_s": snapshot.left_s if state == "running" else None,
        "evaluators": list(reader.evaluators),
        "fields": fields_of(opened),
        "timeline": opened.timeline.data([call.seconds for call in calls]),
        "used": _used(summary),
        "remarks": [*reader.remarks, *_enough(reader), *standing_lines(reader)],
        "tags": tags_of(reader.layout),
        "can_label": can_label and not reason,
        "cannot_label": reason if can_label and reason else None,
        "labels": draw_answer(opened),
    }


def _failures(opened: OpenedRun) -> list[dict[str, Any]]:
    """Return the failures, grouped by cause, the most frequent first."""
    heads = opened.heads
    if opened.failures[0] != heads.version:
        places = failed_rows(heads.table).nonzero()[0]
        groups = grouped(heads.read(places[:_MOST_FAILURES]))
        known = [
            {
                "step": group.step,
                "class": group.error.get("class", ""),
                "type": group.error.get("type", ""),
                "message": line_of(group.error.get("message", "")),
                "count": len(group.ids),
                "ids": group.ids[:_MOST_IDS],
                "trials": group.trials[:_MOST_IDS],
                "of_first": _MOST_FAILURES if len(places) > _MOST_FAILURES else None,
            }
            for group in groups[:_MOST_GROUPS]
        ]
        opened.failures = (heads.version, known)
    return opened.failures[1]


def _enough(reader: RunReader) -> list[str]:
    """Return why no more was needed, where `stop_when` ended the run."""
    return stop_when_lines(reader.summary_written()) if reader.state == "enough" else []


def fields_of(opened: OpenedRun) -> list[str]:
    """Return the fields of the dataset, from its first rows."""
    rows = len(opened.heads)
    if opened.fields[0] != rows:
        names: dict[str, None] = {}
        for item in opened.heads.read(range(min(_FIRST_ROWS, rows)), whole=False):
            names |= dict.fromkeys(name for name in item.row if name not in item.roles.values())
        opened.fields = (rows, [*names][:_MOST_FIELDS])
    return opened.fields[1]


def _step(step: StepSnapshot, reader: RunReader) -> dict[str, Any]:
    earlier = (session.steps.get(step.name) for session in reader.run_file.sessions[:-1])
    return {
        "name": step.name,
        "done": step.kept + step.done,
        "asked": step.total,
        "failed": sum(step.failed.values()),
        "in_flight": len(step.in_flight),
        "rate": step.rate,
        "eta_s": step.left_s,
        "pace": step.pace,
        "retries": step.retries + sum(one.retries or 0 for one in earlier if one is not None),
    }


def _in_flight(snapshot: Snapshot, summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    for step in snapshot.steps:
        known = summary["evaluators"].get(step.name, summary["workflow"])
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
                "is_stuck": p99 is not None and call.seconds > _STUCK * p99,
            }
            for call in step.in_flight
        ]
    return sorted(calls, key=lambda call: -float(call["age_s"]))[:_MOST_IN_FLIGHT]


def _used(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what each step used, and how long its calls took."""
    found = []
    for name, numbers in (("workflow", summary["workflow"]), *summary["evaluators"].items()):
        usage, quantiles = numbers.get("usage", {}), numbers.get("quantiles", {})
        if usage or quantiles:
            found.append({
                "step": name, "cost": usage.get("cost"), "tokens": usage.get("total_tokens"),
                "seconds": quantiles.get("seconds"), "each_cost": quantiles.get("cost"),
                "each_tokens": quantiles.get("total_tokens"),
            })  # fmt: skip
    return found


def now_if_running(opened: OpenedRun) -> int:
    """Return a number that changes each second while a run is running: ages and rates do."""
    return int(time.time()) if opened.reader.is_running else 0
