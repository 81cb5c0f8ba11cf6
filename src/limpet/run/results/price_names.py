"""Which prices are for no model, and which models have none?

A price counts for the name that was asked for, and for the one that the server returned: `gpt-4.1`
is answered as `gpt-4.1-2025-04-14`.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from limpet.run.results.costs import ANY_MODEL, Prices, price_of
from limpet.text import one_line
from limpet.usage import model_names_of


def add_price_gaps(summary: dict[str, Any], prices: Prices | None) -> None:
    """Set `prices` of a summary: the prices that no model has, and the models without one."""
    summary.pop("prices", None)
    if not prices:
        return
    steps = [summary["workflow"], *summary["evaluators"].values()]
    models: dict[str, Any] = {}
    asked: dict[str, str] = {}
    nameless = False
    for step in steps:
        models |= step.get("models") or {}
        asked |= step.get("asked") or {}
        nameless |= "models" not in step and bool(step.get("usage", {}).get("total_tokens"))
    seen = {*models, *asked.values()}
    is_only_one = nameless and len(prices) == 1  # then it is the price of whatever was asked
    gaps = {
        "unused": [] if is_only_one else _others(prices, seen),
        "missing": [name for name in models if price_of(name, asked, prices) is None],
    }
    if any(gaps.values()):
        summary["prices"] = gaps


def gap_lines(summary: Mapping[str, Any]) -> Iterable[str]:
    """Yield remarks on prices, a line each."""
    gaps = summary.get("prices") or {}
    if unused := gaps.get("unused"):
        yield f"no model that was asked is called {_listed(unused)}: the price is not used"
    if missing := gaps.get("missing"):
        yield f"{_listed(missing)}: no price, so the cost is unknown"


def planned_gaps(
    prices: Prices | None, steps: Iterable[Any], before: Iterable[Mapping[str, Any]]
) -> str:
    """Return a remark on the prices of a plan; empty if there is none to make.

    Args:
        prices: The prices.
        steps: The workflow and the evaluators.
        before: The numbers of the steps in the last session.
    """
    if not prices:
        return ""
    asked: dict[str, str] = {}
    for numbers in before:
        models = numbers.get("models") or {}
        asked |= {model: model for model in models} | dict(numbers.get("asked") or {})
    named = [model_names_of(step) for step in steps]
    known = dict.fromkeys(name for names in named for name in names or ())
    served = {name: model for model, name in asked.items()}
    missing = [
        name
        for name in known
        if price_of(served.get(name, name), asked | {name: name}, prices) is None
    ]
    unused = _others(prices, {*known, *asked, *asked.values()})
    words = [f"no price for {_listed(missing)}"] if missing else []
    if unused and None not in named:
        words.append(f"no model for the price of {_listed(unused)}")
    # The server may return other names, for which there is a price.
    return f"by the names that are asked for, {' and '.join(words)}" if words else ""


def _others(prices: Prices, names: Collection[str]) -> list[str]:
    return [model for model in prices if model != ANY_MODEL and model not in names]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(one_line, names))
