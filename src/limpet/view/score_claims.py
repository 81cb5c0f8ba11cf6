"""What does a summary say of each score, for a page?"""

from collections.abc import Iterator, Mapping
from typing import Any

from limpet.run.results.score_words import ScoreName, claim_of, headline, of_completed, people_notes


def score_claims(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each score of a summary: its mean, its interval and what to say beside them."""
    known = summary.get("evaluators")
    return [
        _claim(name, part, numbers)
        for name, numbers in (known.items() if isinstance(known, Mapping) else ())
        if isinstance(numbers, Mapping)
        for part in _parts(numbers)
    ]


def _parts(numbers: Mapping[str, Any]) -> Iterator[str | None]:
    several = list(dict.fromkeys([*numbers.get("means", {}), *numbers.get("labels_by_score", {})]))
    if numbers.get("mean") is not None or numbers.get("labels") or not several:
        yield None
    yield from several


def _claim(name: str, part: str | None, numbers: Mapping[str, Any]) -> dict[str, Any]:
    mean, interval, bounds = claim_of(numbers, part)
    is_bounded = bool(bounds and "low" in bounds)
    ends = (bounds if is_bounded else interval) or {}
    waiting = (bounds or {}).get("in_flight", 0)
    labels = numbers.get("labels") if part is None else numbers.get("labels_by_score", {}).get(part)
    note = (
        numbers.get("interval_note")
        if part is None
        else numbers.get("interval_notes", {}).get(part)
    )
    return {
        "name": str(ScoreName(name, part)),
        "mean": mean,
        "low": ends.get("low"),
        "high": ends.get("high"),
        "words": headline(numbers, part),
        "beside": of_completed(numbers, part),
        "bounded": is_bounded,
        "missing": (bounds or {}).get("missing", 0) - waiting,
        "waiting": waiting,
        "method": (interval or {}).get("method"),
        "range": numbers.get("range"),
        "higher_is_better": numbers.get("higher_is_better", True),
        "interim": bool(numbers.get("interim")),
        "n": numbers.get("completed", 0),
        "failed": sum(numbers.get("failed", {}).values()),
        "notes": [*filter(None, [note]), *people_notes(numbers, part)],
        "labels": labels or {},
    }


def used(summary: Mapping[str, Any]) -> dict[str, float]:
    """Return what all steps together used: `cost` and `tokens`, where that is known."""
    evaluators = summary.get("evaluators") or {}
    usages = [
        step.get("usage", {}) for step in (summary.get("workflow") or {}, *evaluators.values())
    ]
    found = {}
    for shown, name in (("cost", "cost"), ("tokens", "total_tokens")):
        values = [usage[name] for usage in usages if isinstance(usage.get(name), (int, float))]
        if values:
            found[shown] = sum(values)
    return found
