"""A comparison as JSON data."""

import math
from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any

from limpet.run.comparing.results import (
    AmountDifference,
    Comparison,
    Flip,
    GateResult,
    LabelComparison,
    LeftOut,
    RunAbout,
    RunComparison,
    ScoreComparison,
    ScoreDifference,
)


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON data. A missing number is None."""
    return {
        "base": _about(comparison.base),
        "gates": [_gate(gate) for gate in comparison.gates],
        "verdict": comparison.verdict,
        "new": [_run(run) for run in comparison.new],
        "by": comparison.by,
        "group": comparison.group,
        "these_questions": comparison.these_questions,
    }


def _run(run: RunComparison) -> dict[str, Any]:
    return {
        **_about(run.about),
        "scores": {name: _score(score) for name, score in run.scores.items()},
        "left_out": _left_out(run.left_out),
        "notes": [*run.about.notes, *run.notes],
        "flips": [_flip(flip) for flip in run.flips],
        "cost": _amounts(run.cost),
        "latency": _amounts(run.latency),
    }


def _about(about: RunAbout) -> dict[str, Any]:
    data = asdict(about)
    data["interim"] = data.pop("is_running")
    return {**data, "failed_scores": dict(about.failed_scores), "notes": [*about.notes]}


def _score(score: ScoreComparison | LabelComparison) -> dict[str, Any]:
    if isinstance(score, LabelComparison):
        changes = [
            {"from": before, "to": after, "n": number}
            for (before, after), number in score.changes.items()
        ]
        both = {"base": dict(score.base), "new": dict(score.new)}
        return {"n": score.n, **both, "changes": changes, "missing": score.missing}
    more = {
        "p_holm": _number(score.p_holm),
        "why_not_known": score.why_not_known,
        "range": None if score.range is None else [*score.range],
        "higher_is_better": score.higher_is_better,
        "groups": score.groups,
    }
    data = _difference(score) | more
    if score.slices:
        data["slices"] = [
            {
                "value": one.value,
                **({"n": 0} if one.difference is None else _difference(one.difference)),
                "p_bh": _number(one.p_bh),
            }
            for one in score.slices
        ]
    return data


def _difference(found: ScoreDifference) -> dict[str, Any]:
    data = {field.name: _number(getattr(found, field.name)) for field in fields(ScoreDifference)}
    if found.bounds is not None:
        bounds = found.bounds._asdict()
        data["bounds"] = {name: _number(end) for name, end in bounds.items()}
    return data


def _left_out(left_out: Iterable[LeftOut]) -> dict[str, list[dict[str, Any]]]:
    data: dict[str, list[dict[str, Any]]] = {}
    for one in left_out:
        facts = {"name": one.name, "why": one.why, "n": one.n, "ids": [*one.ids]}
        data.setdefault(one.kind, []).append({**facts, "allow": one.allow})
    return data


def _flip(flip: Flip) -> dict[str, Any]:
    return {
        "score": flip.score,
        "id": flip.id,
        "trial": flip.trial,
        "delta": flip.delta,
        "worse": flip.is_worse,
        "base": {"value": flip.base.value, "output": flip.base.output},
        "new": {"value": flip.new.value, "output": flip.new.output},
    }


def _gate(gate: GateResult) -> dict[str, Any]:
    return {field.name: _number(getattr(gate, field.name)) for field in fields(GateResult)}


def _amounts(found: AmountDifference | None) -> dict[str, Any] | None:
    if found is None:
        return None
    data = {name: _number(getattr(found, name)) for name in ("n", "delta", "low", "high")}
    return {**data, "base": asdict(found.base), "new": asdict(found.new)}


def _number(value: Any) -> Any:
    """Return a value that JSON can hold: None for a missing end of an interval."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
