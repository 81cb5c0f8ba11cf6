"""How was a run configured, and what changed since it last ran? In the words of `limpet why`."""

from typing import Any

from multidict import MultiMapping

from limpet.report.why import in_short
from limpet.run.planning.changes import heading
from limpet.run.planning.why import StepWhy, why_on_disk
from limpet.secrets.in_configs import masked
from limpet.secrets.masking import Mask
from limpet.view.shown_values import Shortener
from limpet.view.viewed_runs import ViewedRun

_MOST_SESSIONS, _MOST_SETTINGS, _MOST_DIFFERENCES, _MOST_LINES = 10, 40, 40, 60
_PART = 4_000
_SETTINGS = ("setting", "value")  # not variables of the environment


def setup_answer(opened: ViewedRun, _: MultiMapping[str] | None = None) -> dict[str, Any]:
    """Return the configuration of a run, as its files have it: without secrets."""
    run_file, why = opened.reader.run_file, why_on_disk(opened.reader)
    summary = opened.run_table.summary()
    steps = (summary["workflow"], *summary["evaluators"].values())
    return {
        # An earlier Limpet kept keys that nobody declared.
        "configuration": Shortener()(Mask().trace(masked(run_file.configuration))[0]),
        "versions": {"limpet": run_file.limpet, **summary.get("versions", {})},
        "models": sorted({model for step in steps for model in step.get("models", {})}),
        "imported": run_file.imported[:_MOST_SESSIONS],
        "sessions": [
            {"began": one.began, "ended": one.ended, "items": one.items, "trials": one.trials,
             "selected": one.selected, "of": one.of, "rows": one.items_made_of,
             "steps": list(one.steps)}
            for one in run_file.sessions[-_MOST_SESSIONS:]
        ],
        "steps": [_step(step) for step in why.steps],
        "remarks": list(why.remarks),
    }  # fmt: skip


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
