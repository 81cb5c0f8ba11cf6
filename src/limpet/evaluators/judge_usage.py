"""What did the calls of a judge use in total?

Plain dicts, as ballots hold them: token counts, the cost if a server states it, and the same counts
by model, from which prices are applied.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from limpet.types import Usage

_COUNTS = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "cached_tokens",
    "reasoning_tokens",
)


def plain_usage(usage: Any, model: str) -> dict[str, Any] | None:
    """Return what one call used as plain data; None if unknown.

    Args:
        usage: A `Usage`, or a mapping like it.
        model: The name of the model that was called.
    """
    if usage is None:
        return None
    counts = {name: count for name in _COUNTS if (count := _get(usage, name)) is not None}
    if "total_tokens" not in counts:
        counts["total_tokens"] = sum(
            counts.get(name, 0) for name in ("prompt_tokens", "completion_tokens")
        )
    plain: dict[str, Any] = dict(counts)
    if (cost := _get(usage, "cost")) is not None:
        plain["cost"] = cost
    plain["models"] = _get(usage, "models") or {model: counts}
    return plain


def _get(usage: Any, name: str) -> Any:
    if isinstance(usage, Mapping):
        return usage.get(name)
    return getattr(usage, name) if isinstance(usage, Usage) else None


def total_usage(usages: Iterable[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """Return the sum of what several calls used; None if all are unknown."""
    known = [usage for usage in usages if usage is not None]
    if not known:
        return None
    total: dict[str, Any] = {}
    models: dict[str, dict[str, int]] = {}
    for usage in known:
        _add(total, {name: value for name, value in usage.items() if name != "models"})
        for model, counts in (usage.get("models") or {}).items():
            _add(models.setdefault(model, {}), counts)
    return {**total, "models": models}


def _add(total: dict[str, Any], counts: Mapping[str, Any]) -> None:
    for name, count in counts.items():
        total[name] = total.get(name, 0) + count
