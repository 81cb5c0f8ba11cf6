"""Where does which client say how many tokens a call took?

In a mapping or in an object of its own, under names of its own. Nothing of it is trusted: what is
no count is left out and named, and what raises when it is read costs that one count.
"""

import math
from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import Any

from limpet.types import Usage

COUNTS = (
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "total_tokens",
)
LARGEST = 2**53

_PLACES: Mapping[str, tuple[str, ...]] = {
    "prompt_tokens": ("prompt_tokens", "input_tokens", "prompt_token_count", "inputTokens"),
    "completion_tokens": (
        "completion_tokens",
        "output_tokens",
        "candidates_token_count",
        "outputTokens",
    ),
    "cached_tokens": (
        "cached_tokens",
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
        "input_token_details.cache_read",
        "cache_read_input_tokens",
        "cacheReadInputTokens",
        "cached_content_token_count",
    ),
    "reasoning_tokens": (
        "reasoning_tokens",
        "completion_tokens_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",
        "output_token_details.reasoning",
        "thoughts_token_count",
    ),
    "total_tokens": ("total_tokens", "total_token_count", "totalTokens"),
}
# What these clients count apart, others count among the first: by client, where it stands.
_BESIDE: Mapping[str, tuple[str, ...]] = {
    "input_tokens": ("cache_read_input_tokens", "cache_creation_input_tokens"),
    "inputTokens": ("cacheReadInputTokens", "cacheWriteInputTokens"),
    "candidates_token_count": ("thoughts_token_count",),
}


def usage_told(said: object) -> tuple[Usage | None, list[str]]:
    """Return what a workflow says that it used, in whatever shape; and what of it is wrong.

    Args:
        said: A `Usage`, a mapping, or a client's own object.
    """
    if said is None or (isinstance(said, Mapping) and not said):
        return None, []
    counts, wrong = counts_in(said)
    more: dict[str, Any] = {}
    for name, read in (("cost", _cost), ("models", _models), ("times", _times)):
        found = _found(said, name, wrong)
        if found is not None:
            try:
                more[name] = read(found)
            except Exception:  # noqa: BLE001 - a foreign mapping may raise anything
                wrong.append(f"{name}, of type {type(found).__name__}, is not what it should be")
    if not counts and not more and not isinstance(said, Usage):
        kind = type(said).__name__
        return None, wrong or [f"of type {kind}, it has no count of tokens by a name that is known"]
    return Usage(**{"prompt_tokens": 0, "completion_tokens": 0, **counts, **more}), wrong


def counts_in(said: object) -> tuple[dict[str, int], list[str]]:
    """Return the counts that a client tells, by our names; and what of them is no count."""
    counts: dict[str, int] = {}
    wrong: list[str] = []
    for name, places in _PLACES.items():
        for place in places:
            count = _count(said, place, wrong)
            if count is not None:
                apart = (_count(said, one, wrong) or 0 for one in _BESIDE.get(place, ()))
                counts[name] = count + sum(apart)
            if counts.get(name):  # some say 0 in one place and the number in another
                break
    return counts, wrong


def _count(said: object, place: str, wrong: list[str]) -> int | None:
    found = _found(said, place, wrong)
    if found is None or is_count(found):
        return None if found is None else int(found)
    wrong.append(f"{place}, of type {type(found).__name__}, is no count of tokens")
    return None


def is_count(value: Any) -> bool:
    """Tell whether a value is a number of tokens."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return 0 <= float(value) < LARGEST  # NaN is not
    except (OverflowError, ValueError, TypeError):
        return False


def _found(said: Any, place: str, wrong: list[str]) -> Any:
    try:
        for part in place.split("."):
            said = said.get(part) if isinstance(said, Mapping) else getattr(said, part, None)
            if said is None:
                return None
    except BaseException as error:  # noqa: BLE001 - a foreign property may raise anything
        wrong.append(f"{place} cannot be read: {type(error).__name__}")
        return None
    return said


def _cost(found: Any) -> float:
    if isinstance(found, bool) or not isinstance(found, (Real, Decimal)):
        raise TypeError
    cost = float(found)
    if not 0 <= cost < math.inf:
        raise ValueError
    return cost


def _models(found: Any) -> dict[str, dict[str, int]]:
    told = {model: {**counts} for model, counts in found.items()}
    if not all(one is None or is_count(one) for counts in told.values() for one in counts.values()):
        raise ValueError
    return {
        str(model): {str(name): int(one) for name, one in counts.items() if one is not None}
        for model, counts in told.items()
    }


def _times(found: Any) -> dict[str, float]:
    times = {str(name): float(one) for name, one in found.items()}
    if not all(map(math.isfinite, times.values())):
        raise ValueError
    return times
