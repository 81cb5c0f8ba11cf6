"""What did the calls use, and what did that cost?

Among a cell's facts, `usage` is flat: numbers that can be added up. What cannot be is beside it:
`models`, the same counts by model, and `times`, as in `nat eval`.
"""

import sys
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any

from limpet.types import USAGE_COUNTS, Usage

Prices = Mapping[str, Mapping[str, float]]
"""By model, the price of a million tokens: `prompt`, `completion`, and `cached` if that is less.

The model's name is the one that was asked for, or the one that the server returned."""

_KINDS = ("prompt", "completion", "cached")
_MILLION = 1_000_000
_MOST = sys.float_info.max
ANY_MODEL = "*"


def check_prices(prices: Prices) -> None:
    """Check prices.

    Raises:
        TypeError: They are not a mapping of mappings of numbers.
        ValueError: A kind is unknown, or a price is negative.
    """
    if not isinstance(prices, Mapping):
        raise TypeError(f"prices={prices!r}: must be a mapping, model by model")
    for model, by_kind in prices.items():
        where = f"prices[{model!r}]"
        if not isinstance(by_kind, Mapping):
            raise TypeError(f"{where}={by_kind!r}: must be a mapping, for example {{'prompt': 2}}")
        for kind, price in by_kind.items():
            if kind not in _KINDS:
                raise ValueError(f"{where}: {kind!r} is unknown; the kinds are {', '.join(_KINDS)}")
            if isinstance(price, bool) or not isinstance(price, (int, float)) or not price >= 0:
                raise ValueError(f"{where}[{kind!r}]={price!r}: must be a number from 0")


def usage_facts(usage: Usage | None, prices: Prices | None) -> dict[str, Any]:
    """Return a cell's usage as facts for its line; empty if it is not known."""
    if usage is None:
        return {}
    counts = {name: getattr(usage, name) for name in USAGE_COUNTS}
    if counts["total_tokens"] is None:
        counts["total_tokens"] = usage.prompt_tokens + usage.completion_tokens
    cost = usage.cost
    if cost is None and prices:
        cost = cost_of(usage.models or {ANY_MODEL: counts}, usage.asked or {}, prices)
    flat = {**counts, "cost": cost}
    known = {name: count for name, count in flat.items() if count is not None}
    facts: dict[str, Any] = {"usage": known}
    if usage.models:
        facts["models"] = {model: dict(by_model) for model, by_model in usage.models.items()}
    if usage.asked:
        facts["asked"] = dict(usage.asked)
    if usage.times:
        facts["times"] = dict(usage.times)
    return facts


def price_of(model: str, asked: Mapping[str, str], prices: Prices) -> Mapping[str, float] | None:
    """Return the price of a model; None if it has none.

    Args:
        model: Its name, as the server returned it.
        asked: The name that was asked for, where the server returned another.
        prices: The prices.
    """
    if model == ANY_MODEL and len(prices) == 1:
        return next(iter(prices.values()))  # the only one
    names = (model, asked.get(model, model), ANY_MODEL)
    return next((prices[name] for name in names if name in prices), None)


def cost_of(
    models: Mapping[str, Mapping[str, Any]], asked: Mapping[str, str], prices: Prices
) -> float | None:
    """Return what these tokens cost; None if a model has no price, or the cost is too large."""
    cost = 0.0
    for model, counts in models.items():
        price = price_of(model, asked, prices)
        if price is None:
            return None
        cached = counts.get("cached_tokens") or 0
        fresh = max(0, (counts.get("prompt_tokens") or 0) - cached)
        try:
            cost += fresh * price.get("prompt", 0.0)
            cost += cached * price.get("cached", price.get("prompt", 0.0))
            cost += (counts.get("completion_tokens") or 0) * price.get("completion", 0.0)
        except OverflowError:  # too many tokens for a float
            return None
    return cost / _MILLION


def add_counts(total: MutableMapping[str, float], counts: Mapping[str, Any]) -> None:
    """Add the counts that are numbers, as far as a float can hold them."""
    for name, count in counts.items():
        # Not `is_bounded`: this runs for each count of each call.
        if isinstance(count, (int, float)) and -_MOST <= count <= _MOST:
            sum_ = total.get(name, 0)
            if -_MOST <= sum_ <= _MOST:
                total[name] = sum_ + count


def add_all_counts(total: MutableMapping[str, float], many: Sequence[Mapping[str, Any]]) -> None:
    """Add the counts of many calls, in a fifth of the time if all report the same whole numbers."""
    names = list(many[0]) if many else []
    if all(list(counts) == names for counts in many):
        columns = {name: [counts[name] for counts in many] for name in names}
        if all(map(_are_plain, columns.values())):
            add_counts(total, {name: sum(column) for name, column in columns.items()})
            return
    for counts in many:
        add_counts(total, counts)


def _are_plain(values: Sequence[Any]) -> bool:
    return {*map(type, values)} == {int} and is_bounded(min(values)) and is_bounded(max(values))


def bounded(total: Mapping[str, float]) -> dict[str, float]:
    """Return the sums that a float can hold."""
    return {name: sum_ for name, sum_ in total.items() if is_bounded(sum_)}


def numbers_in(values: Iterable[Any]) -> list[float]:
    """Return those of the values that are numbers that a float can hold."""
    # Not `is_bounded`: this runs for each count of each call.
    return [one for one in values if isinstance(one, (int, float)) and -_MOST <= one <= _MOST]


def is_bounded(number: float) -> bool:
    """Return whether a float can hold a number: not NaN, not infinite, not 10 ** 400."""
    return -_MOST <= number <= _MOST
