"""How was a run configured, and what changed since it last ran? In the words of `limpet why`."""

from typing import Any

from multidict import MultiMapping

from limpet.report.why import in_short
from limpet.run.planning.changes import heading
from limpet.run.planning.why import StepWhy, why_on_disk
from limpet.run.run_file import RunFile, Session
from limpet.text import count
from limpet.view.shown_values import Shortener
from limpet.view.viewed_runs import ViewedRun

_MOST_SESSIONS, _MOST_SETTINGS, _MOST_DIFFERENCES, _MOST_LINES = 10, 40, 40, 60
_PART = 4_000
_SETTINGS = ("setting", "value", "variable")


def setup_answer(opened: ViewedRun, _: MultiMapping[str] | None = None) -> dict[str, Any]:
    """Return the configuration of a run, as its files have it: without secrets."""
    reader = opened.reader
    run_file, why = reader.run_file, why_on_disk(reader)
    summary = opened.run_table.summary()
    return {
        "configuration": Shortener()(run_file.configuration),
        "versions": {"limpet": run_file.limpet, **summary.get("versions", {})},
        "models": sorted(
            {
                model
                for step in (summary["workflow"], *summary["evaluators"].values())
                for model in step.get("models", {})
            }
        ),
        "items": None if reader.session.items is None else _items(reader.session),
        "imported": run_file.imported[:_MOST_SESSIONS],
        "since": _since(run_file),
        "sessions": [
            {"began": one.began, "ended": one.ended, "items": _items(one)}
            for one in run_file.sessions[-_MOST_SESSIONS:]
        ],
        "steps": [_step(step) for step in why.steps],
        "remarks": list(why.remarks),
    }


def _items(session: Session) -> str:
    """Return which items a session reports on."""
    words = "unknown" if session.items is None else count(session.items, "item")
    if session.trials > 1:
        words += f" × {session.trials} trials"
    if session.selected is not None:
        words += f", {session.selected:,} of {session.of or 0:,} selected"
    return words


def _since(run_file: RunFile) -> list[str]:
    """Return how the last session differs from the one before it, beside the steps."""
    if len(run_file.sessions) == 1:
        return []
    lines = []
    before, now = run_file.sessions[-2:]
    if _items(before) != _items(now):
        lines.append(f"{_items(now)}; before: {_items(before)}")
    elif before.items_made_of and now.items_made_of and before.items_made_of != now.items_made_of:
        lines.append("the rows of the dataset changed")
    lines += [f"{name}: new" for name in now.steps if name not in before.steps]
    lines += [f"{name}: no longer used" for name in before.steps if name not in now.steps]
    return lines or ["the same items and steps as in the session before"]


def _step(step: StepWhy) -> dict[str, Any]:
    shown = Shortener(_PART)
    parts = [(name, part) for name, part in step.covers.shown.items() if part.kind in _SETTINGS]
    left = _MOST_LINES
    differences = []
    for difference in step.differences[:_MOST_DIFFERENCES]:
        lines = [shown(line) for line in difference.lines[:left]]
        left -= len(lines)
        differences.append({"heading": shown(heading(difference)), "lines": lines})
    return {
        "name": step.name,
        "words": in_short(step),
        "differences": differences,
        "more": len(step.differences) - len(differences),
        "settings": [
            [shown(part.called or name), shown(part.text)]
            for name, part in parts[:_MOST_SETTINGS]
            if part.text is not None
        ],
    }
