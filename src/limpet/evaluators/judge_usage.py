"""What did the calls of a judge use in total?

Plain dicts, as ballots hold them: token counts, the cost if a server states it, and the same counts
by model, from which prices are applied.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from limpet.types import USAGE_COUNTS
from limpet.usage import usage_of


def plain_usage(reported: Any, model: str) -> dict[str, Any] | None:
    """Return what one call used as plain data; None if unknown.

    Args:
        reported: A `Usage`, or a client's own mapping or object. What is not a count is left out:
            a reply that is paid for must not be lost for it.
        model: The name of the model that was called.
    """
    usage, _ = usage_of(reported)
    if usage is None:
        return None
    counts = {name: count for name in USAGE_COUNTS if (count := getattr(usage, name)) is not None}
    counts.setdefault("total_tokens", usage.prompt_tokens + usage.completion_tokens)
    plain: dict[str, Any] = dict(counts)
    if usage.cost is not None:
        plain["cost"] = usage.cost
    plain["models"] = usage.models or {model: counts}
    return plain


def total_usage(usages: Iterable[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """Return the sum of what several calls used; None if all are unknown."""
    known = [usage for usage in usages if usage is not None]
    if not known:
        return None
    if len(known) == 1:
        return {**known[0], "models": known[0].get("models") or {}}
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
