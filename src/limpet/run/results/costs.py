"""What did the calls use and cost?

Among a cell's facts, `usage` is flat: numbers that can be added up. Beside it are `models`, the
same counts by model, and `times`, in the toolkit's form.
"""

import math
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from fractions import Fraction
from math import fsum
from typing import Any

from limpet.errors import LimpetError
from limpet.shapes import USAGE_COUNTS, Usage
from limpet.text import one_line
from limpet.usage import model_names_of

Prices = Mapping[str, Mapping[str, float]]
"""By model, the price of a million tokens: `prompt`, `completion`, and where these have another
price than the rest of the prompt, `cached` (read from a cache) and `cache_write` (written to it).

The model's name is the one that was asked for, or the one that the server returned."""

_KINDS = ("prompt", "completion", "cached", "cache_write")
_MILLION = 1_000_000
_MOST = sys.float_info.max
ANY_MODEL = "*"
_NAMELESS = "the usage that your function returns names no model"


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
                raise ValueError(f"{where}[{kind!r}]={price!r}: must be a number, 0 or more")


def usage_facts(usage: Usage | None, prices: Prices | None) -> dict[str, Any]:
    """Return a cell's usage as facts for its line; empty if it is not known."""
    if usage is None:
        return {}
    counts = {name: getattr(usage, name) for name in USAGE_COUNTS}
    if counts["total_tokens"] is None:
        counts["total_tokens"] = usage.prompt_tokens + usage.completion_tokens
    cost = usage.cost
    if cost is None and prices:
        cost = cost_of(usage.models or {ANY_MODEL: counts}, usage.requested or {}, prices)
    flat = {**counts, "cost": cost}
    known = {name: count for name, count in flat.items() if count is not None}
    facts: dict[str, Any] = {"usage": known}
    if usage.models:
        facts["models"] = {model: dict(by_model) for model, by_model in usage.models.items()}
    if usage.requested:
        facts["requested"] = dict(usage.requested)
    if usage.times:
        facts["times"] = dict(usage.times)
    return facts


def price_of(
    model: str, requested: Mapping[str, str], prices: Prices
) -> Mapping[str, float] | None:
    """Return the price of a model; None if it has none.

    Args:
        model: Its name, as the server returned it.
        requested: The name that was asked for, where the server returned another.
        prices: The prices.
    """
    if model == ANY_MODEL and len(prices) == 1:
        return next(iter(prices.values()))  # the only one
    names = (model, requested.get(model, model), ANY_MODEL)
    return next((prices[name] for name in names if name in prices), None)


def cost_of(
    models: Mapping[str, Mapping[str, Any]], requested: Mapping[str, str], prices: Prices
) -> float | None:
    """Return what these tokens cost; None if a model has no price, or the cost is too large."""
    cost = 0.0
    for model, counts in models.items():
        price = price_of(model, requested, prices)
        if price is None:
            return None
        cached = counts.get("cached_tokens") or 0
        written = counts.get("cache_write_tokens") or 0
        fresh = max(0, (counts.get("prompt_tokens") or 0) - cached - written)
        try:
            cost += fresh * price.get("prompt", 0.0)
            cost += cached * price.get("cached", price.get("prompt", 0.0))
            cost += written * price.get("cache_write", price.get("prompt", 0.0))
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
    """Add the counts of many calls; five times as fast if all report the same integers."""
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
    """Return the values that are numbers a float can hold."""
    # Not `is_bounded`: this runs for each count of each call.
    return [one for one in values if isinstance(one, (int, float)) and -_MOST <= one <= _MOST]


def is_bounded(number: float) -> bool:
    """Return whether a float can hold a number: not NaN, not infinite, not 10 ** 400."""
    return -_MOST <= number <= _MOST


# ---- Which prices have no model, and which models have no price? --------------------------------
#
# A price counts for the name that was asked for, and for the one that the server returned:
# `gpt-4.1` is answered as `gpt-4.1-2025-04-14`.


def add_price_gaps(summary: dict[str, Any], prices: Prices | None) -> None:
    """Set `prices` of a summary: prices without a model, and models without a price."""
    summary.pop("prices", None)
    if not prices:
        return
    steps = [summary["workflow"], *summary["evaluators"].values()]
    models: dict[str, Any] = {}
    requested: dict[str, str] = {}
    nameless = unknown = False
    for step in steps:
        models |= step.get("models") or {}
        requested |= step.get("requested") or {}
        usage = step.get("usage", {})
        is_nameless = "models" not in step and bool(usage.get("total_tokens"))
        nameless |= is_nameless
        unknown |= is_nameless and "cost" not in usage  # a function may report a cost itself
    seen = {*models, *requested.values()}
    is_only_one = nameless and len(prices) == 1  # then it is the price of whatever was asked
    nobody_answered = not seen and not summary["workflow"].get("completed")
    gaps = {
        "unused": [] if is_only_one or nobody_answered else _others(prices, seen),
        "missing": [name for name in models if price_of(name, requested, prices) is None],
    }
    if unknown and not is_only_one and ANY_MODEL not in prices:
        gaps["missing"].append(ANY_MODEL)
    if any(gaps.values()):
        summary["prices"] = gaps


def gap_lines(summary: Mapping[str, Any]) -> Iterable[str]:
    """Yield remarks on prices, a line each."""
    gaps = summary.get("prices") or {}
    if unused := gaps.get("unused"):
        yield f"no model that was called is named {_listed(unused)}: the price is not used"
    missing = gaps.get("missing") or ()
    if named := [name for name in missing if name != ANY_MODEL]:
        yield f"{_listed(named)}: no price, so the cost is unknown"
    if ANY_MODEL in missing:
        yield f"{_NAMELESS}, so its cost is unknown"


def planned_gaps(
    prices: Prices | None, steps: Iterable[Any], before: Iterable[Mapping[str, Any]]
) -> str:
    """Return a remark on the prices of a plan; empty: there is none.

    Args:
        prices: The prices.
        steps: The workflow and the evaluators.
        before: The numbers of the steps in the last session.
    """
    if not prices:
        return ""
    requested: dict[str, str] = {}
    for numbers in before:
        models = numbers.get("models") or {}
        requested |= {model: model for model in models} | dict(numbers.get("requested") or {})
    named = [model_names_of(step) for step in steps]
    known = dict.fromkeys(name for names in named for name in names or ())
    served = {name: model for model, name in requested.items()}
    missing = [
        name
        for name in known
        if price_of(served.get(name, name), requested | {name: name}, prices) is None
    ]
    unused = _others(prices, {*known, *requested, *requested.values()})
    words = [f"no price for {_listed(missing)}"] if missing else []
    if unused and None not in named:
        words.append(f"no model for the price of {_listed(unused)}")
    # The server may return other names, for which there is a price.
    return f"by the requested names, {' and '.join(words)}" if words else ""


def check_priced(prices: Prices | None, steps: Iterable[Any]) -> None:
    """Check that each model that the steps name has a price, under the requested name.

    Raises:
        LimpetError: One has none.
    """
    names = dict.fromkeys(name for step in steps for name in model_names_of(step) or ())
    missing = [name for name in names if price_of(name, {}, prices or {}) is None]
    if missing:
        raise without_price(missing)


def without_price(models: Iterable[str]) -> LimpetError:
    """Return the error that models without a price make under a budget of cost."""
    names = [*models]
    if not names:
        return LimpetError(
            f"the budget limits the cost, and {_NAMELESS} and has no price",
            hint='name it: limpet.Usage(…, models={"gpt-4.1": {"prompt_tokens": …}}), or give one '
            'price for all models: prices: {"*": {prompt: …, completion: …}}',
        )
    return LimpetError(
        f"the budget limits the cost, and {_listed(names)} has no price",
        hint=f'add it: prices: {{"{one_line(names[0])}": {{prompt: …, completion: …}}}}',
    )


def _others(prices: Prices, names: Collection[str]) -> list[str]:
    return [model for model in prices if model != ANY_MODEL and model not in names]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(one_line, names))


# ---- What did the calls of a step use, in total and each? ---------------------------------------

_OF_EACH = ("total_tokens", "cost")
"""The counts kept of each call, for quantiles."""
_TOGETHER = 1_000
"""So many calls are added up at once, which is much faster."""
_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def quantiles(values: "array[float]") -> dict[str, float]:
    """Return the 50th, 90th and 99th percentiles."""
    known = sorted(values)
    return {name: known[math.ceil(share * len(known)) - 1] for name, share in _SHARES.items()}


class Used:
    """Adds up the usage of a step's calls."""

    def __init__(self) -> None:
        self._usage = Counts()
        self._models: defaultdict[str, Counts] = defaultdict(Counts)
        self._each: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        self._requested: defaultdict[str, str] = defaultdict(str)  # by the name that was returned
        self._waiting: list[Mapping[str, Any]] = []

    def add(self, calls: Sequence[Mapping[str, Any]]) -> None:
        """Add calls by the facts about them."""
        self._waiting += calls
        if len(self._waiting) >= _TOGETHER:
            self.settle()

    def settle(self) -> None:
        """Add up the calls that wait for others."""
        calls, self._waiting = self._waiting, []
        used = [facts.get("usage", {}) for facts in calls]
        self._usage.add(used)
        for name in _OF_EACH:
            self._each[name].extend(numbers_in([some[name] for some in used if name in some]))
        answered = [facts for facts in calls if "class" not in facts]  # else it failed
        self._each["seconds"].extend(numbers_in([facts.get("seconds") for facts in answered]))
        by_model: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for facts in calls:
            self._requested.update(facts.get("requested") or {})
            if "models" in facts:
                for model, counts in facts["models"].items():
                    by_model[model].append(counts)
        for model, each in by_model.items():
            self._models[model].add(each)

    def quantiles(self) -> dict[str, dict[str, float]]:
        """Return quantiles of the usage and duration of the calls, where known."""
        self.settle()
        names = ("seconds", *_OF_EACH)
        return {name: quantiles(self._each[name]) for name in names if self._each[name]}

    def summary(self) -> dict[str, Any]:
        """Return the totals."""
        self.settle()
        models = {model: counts.totals() for model, counts in self._models.items()}
        summary: dict[str, Any] = {"usage": self._usage.totals()}
        priced = len(self._each["cost"])
        if priced and (unpriced := len(self._each["total_tokens"]) - priced) > 0:
            summary["unpriced"] = unpriced
        summary |= {"models": models} if models else {}
        return summary | ({"requested": dict(self._requested)} if self._requested else {})


class Counts:
    """Adds up numbers by name: integers as such, floats exactly."""

    def __init__(self) -> None:
        self._whole: Counter[str] = Counter()
        self._floats: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))

    def add(self, counts: Sequence[Mapping[str, Any]]) -> None:
        """Add the counts of calls."""
        names = list(counts[0]) if counts else []
        if len(counts) > 1 and all(list(some) == names for some in counts):  # most are the same
            for name, *values in zip(names, *[some.values() for some in counts], strict=True):
                self._add_all(name, values)
        else:
            for some in counts:
                for name, value in some.items():
                    self._add(name, value)

    def _add_all(self, name: str, values: Sequence[Any]) -> None:
        if {*map(type, values)} == {int} and is_bounded(min(values)) and is_bounded(max(values)):
            self._whole[name] += sum(values)
            return
        for value in values:
            self._add(name, value)

    def _add(self, name: str, value: Any) -> None:
        if not isinstance(value, (int, float)) or not is_bounded(value):
            return
        if type(value) is int:
            self._whole[name] += value
        else:
            self._floats[name].append(value)

    def totals(self) -> dict[str, float]:
        """Return the sums that a float can hold."""
        totals: dict[str, float] = dict(self._whole)
        for name, values in self._floats.items():
            try:
                totals[name] = math.fsum([*values, totals.get(name, 0)])
            except OverflowError:
                totals[name] = math.inf
        return {name: total for name, total in totals.items() if is_bounded(total)}


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, exactly; None if there are no values."""
    if not values:
        return None
    try:
        return fsum(values) / len(values)
    except OverflowError:  # the sum is beyond 1e308, but the mean is not
        return float(sum(map(Fraction, values)) / len(values))


def used_by(steps: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return what steps of a summary used together: `cost` and `tokens`, where known.

    `unpriced` is there if results were made without a price: the cost leaves them out.
    """
    steps = [*steps]
    usages = [step.get("usage", {}) for step in steps]
    found = {}
    for shown, name in (("cost", "cost"), ("tokens", "total_tokens")):
        values = [usage[name] for usage in usages if isinstance(usage.get(name), (int, float))]
        if values:
            found[shown] = sum(values)
    if "cost" in found and (unpriced := sum(step.get("unpriced", 0) for step in steps)):
        found["unpriced"] = unpriced
    return found
