"""What is declared of an evaluator's scores, in a summary and in words?"""

from collections.abc import Mapping
from typing import Any

from limpet.types import Scale

_UNIT = (0.0, 1.0)
_NEAR = 1e-6
"""A score this near outside of its range, as a share of its width, is a rounding error."""


def scale_data(scale: Scale) -> dict[str, Any]:
    """Return what is declared of scores, as JSON data."""
    declared = {
        "range": None if scale.range is None else [*scale.range],
        "group": scale.group,
        "higher_is_better": None if scale.higher_is_better else False,
    }
    return {name: value for name, value in declared.items() if value is not None}


def scale_in(numbers: Mapping[str, Any]) -> Scale:
    """Return what the summary of an evaluator says that its scores mean."""
    among = numbers.get("range")
    return Scale(
        None if among is None else (among[0], among[1]),
        numbers.get("group"),
        numbers.get("higher_is_better", True),
    )


def range_words(scale: Scale) -> str:
    """Return a declared range: `1–5`."""
    assert scale.range is not None
    low, high = scale.range
    return f"{low:g} to {high:g}" if low < 0 else f"{low:g}–{high:g}"


def counted(value: float, scale: Scale) -> float:
    """Return a score as it counts in numbers: just outside of its range (or of 0 to 1), its end."""
    low, high = scale.range or _UNIT
    near = _NEAR * (high - low)
    return low if low - near <= value < low else high if high < value <= high + near else value
