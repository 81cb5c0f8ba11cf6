"""What did the calls use, and what did that cost?

Among a cell's facts, `usage` is flat: numbers that can be added up. What cannot stands beside it:
`models`, the same counts by model, and `times`, as `nat eval` knows them.
"""

import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

from limpet.types import Output, Usage

Prices = Mapping[str, Mapping[str, float]]
"""By model, what a million tokens cost: `prompt`, `completion`, and `cached` where that is less."""

_COUNTS = (
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "total_tokens",
)
_KINDS = ("prompt", "completion", "cached")
_MILLION = 1_000_000
_MOST = sys.float_info.max
ANY_MODEL = "*"


def check_prices(prices: Prices) -> None:
    """Refuse prices that make no sense.

    Raises:
        TypeError: They are not a mapping of mappings of numbers.
        ValueError: One of them is unknown or negative.
    """
    if not isinstance(prices, Mapping):
        raise TypeError(f"prices={prices!r}: must be a mapping, model by model")
    for model, one in prices.items():
        if not isinstance(one, Mapping):
            raise TypeError(
                f"prices[{model!r}]={one!r}: must be a mapping, such as {{'prompt': 2}}"
            )
        for kind, price in one.items():
            if kind not in _KINDS:
                known = ", ".join(_KINDS)
                raise ValueError(f"prices[{model!r}]: there is no {kind!r}; there are {known}")
            if isinstance(price, bool) or not isinstance(price, (int, float)) or not price >= 0:
                raise ValueError(
                    f"prices[{model!r}][{kind!r}]={price!r}: must be a number from 0 on"
                )


def usage_facts(output: Output | None, prices: Prices | None) -> dict[str, Any] | None:
    """Return what is known of a cell's usage, to stand among its facts; None if nothing is."""
    usage = None if output is None else output.usage
    if not isinstance(usage, Usage):
        return None
    counts = {name: getattr(usage, name) for name in _COUNTS}
    if counts["total_tokens"] is None:
        counts["total_tokens"] = usage.prompt_tokens + usage.completion_tokens
    cost = usage.cost
    if cost is None and prices:
        cost = cost_of(usage.models or {ANY_MODEL: counts}, prices)
    flat = {**counts, "cost": cost}
    facts: dict[str, Any] = {"usage": {name: one for name, one in flat.items() if one is not None}}
    if usage.models:
        facts["models"] = {model: dict(one) for model, one in usage.models.items()}
    if usage.times:
        facts["times"] = dict(usage.times)
    return facts


def cost_of(models: Mapping[str, Mapping[str, Any]], prices: Prices) -> float | None:
    """Return what these tokens cost; None if a model has no price, or nobody can tell."""
    cost = 0.0
    for model, counts in models.items():
        price = prices.get(model, prices.get(ANY_MODEL))
        if price is None and model == ANY_MODEL and len(prices) == 1:
            price = next(iter(prices.values()))  # the answer names no model, and there is but one
        if price is None:
            return None
        cached = counts.get("cached_tokens") or 0
        fresh = max(0, (counts.get("prompt_tokens") or 0) - cached)
        try:
            cost += fresh * price.get("prompt", 0.0)
            cost += cached * price.get("cached", price.get("prompt", 0.0))
            cost += (counts.get("completion_tokens") or 0) * price.get("completion", 0.0)
        except OverflowError:  # so many tokens that no float can count them
            return None
    return cost / _MILLION


def add_counts(total: MutableMapping[str, float], counts: Mapping[str, Any]) -> None:
    """Add the counts that are numbers, each as far as a float goes."""
    for name, one in counts.items():
        if isinstance(one, (int, float)) and -_MOST <= one <= _MOST:
            have = total.get(name, 0)
            if -_MOST <= have <= _MOST:
                total[name] = have + one


def bounded(total: Mapping[str, float]) -> dict[str, float]:
    """Return the sums that are numbers; one beyond all bounds tells nothing, and is left out."""
    return {name: one for name, one in total.items() if is_bounded(one)}


def is_bounded(number: float) -> bool:
    """Tell whether a float can hold a number: no NaN, not infinite, not 10 ** 400."""
    return -_MOST <= number <= _MOST
