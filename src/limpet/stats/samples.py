"""Are these scores usable, and which values form an item or a group?"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limpet.errors import ScoresError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Values = Iterable[Any]
Names = Iterable[Hashable]
Range = tuple[float, float] | None

FEWEST_GROUPS = 5
ROUNDING = 1e-12
"""Values in 0..1 this close to each other differ by a rounding error."""
NEAR = 1e-6
"""A value outside its range by at most this share of the width is clipped to the end."""
_NUMBERS = int | float | np.number | np.bool_
_LARGEST = 1e150  # the square of a larger number may overflow


@dataclass(frozen=True, slots=True)
class Sample:
    """The items' means, mapped from the scores' range to 0..1.

    Attributes:
        means: The mean of each item's trials.
        group_of: The number of each item's group; None without groups.
        single: Whether every item has one trial.
    """

    means: Floats
    group_of: Ints | None
    single: bool


def sample(
    values: Floats,
    items: Names | None,
    groups: Names | None,
) -> Sample:
    """Average the trials of each item; a group belongs to an item, not to a trial."""
    group_of = None if groups is None else numbered(groups, len(values), "groups")
    if items is None:
        return Sample(values, group_of, single=True)
    item_of = numbered(items, len(values), "items")
    trials = np.bincount(item_of)
    means = np.bincount(item_of, values) / trials
    of_items = None
    if group_of is not None:
        of_items = np.zeros(len(trials), dtype=np.int64)
        of_items[item_of] = group_of
        if not np.array_equal(of_items[item_of], group_of):
            raise ScoresError("trials of one item are in different groups")
    return Sample(means, of_items, single=len(trials) == len(values))


def numbered(names: Names, count: int, argument: str) -> Ints:
    """Number the names by their first appearance."""
    numbers: dict[Hashable, int] = {}
    each = names.tolist() if isinstance(names, np.ndarray) else listed(names, argument)
    try:
        found = np.array([numbers.setdefault(name, len(numbers)) for name in each], np.int64)
        has_nan = any(name != name for name in numbers)  # noqa: PLR0124 - only NaN is not itself
    except TypeError as error:
        raise ScoresError(f"{argument} must be strings or numbers: {error}") from error
    if has_nan:
        raise ScoresError(f"{argument}: one is NaN, which names no item or group")
    if len(found) != count:
        raise ScoresError(f"{argument}: {len(found)} for {count} values; each value needs one")
    return found


def listed(values: Iterable[Any], argument: str) -> list[Any]:
    """Return the values as a list.

    Raises:
        ScoresError: They are bytes, a mapping, or not iterable.
    """
    try:
        if not isinstance(values, (bytes, Mapping)):
            return list(values)
    except TypeError:
        pass
    raise ScoresError(
        f"{argument} must be a list, not {values!r:.80}",
        hint=f"Give one of {argument} for each value, in a list, an array or a column.",
    )


def scores(values: Values, among: Range, *, missing: bool = False) -> Floats:
    """Return the values mapped to 0..1, or unchanged without a range.

    Args:
        values: Numbers or booleans.
        among: Their range.
        missing: Whether None and NaN are allowed; they become NaN.
    """
    found = floats(values, "values", missing=missing)
    if not found.size:
        raise ScoresError("there are no values")
    bad = np.isinf(found) if missing else ~np.isfinite(found)
    if bad.any():
        at = int(bad.argmax())
        raise ScoresError(
            f"value {at} is {found[at]}: must be a finite number",
            hint="A failed call has no score: omit it here, and count it as failed.",
        )
    if among is None:
        if (large := np.abs(found) > _LARGEST).any():
            at = int(large.argmax())
            raise ScoresError(f"value {at} is {found[at]:g}: too large")
        return found
    low, high = limits(among)
    near = NEAR * (high - low)
    outside = (found < low - near) | (found > high + near)
    if outside.any():
        at = int(outside.argmax())
        raise ScoresError(
            f"value {at} is {found[at]:g}: outside the range {low:g} to {high:g}",
            hint="Say which values a score can have: range=(1, 5), or range=None for any.",
        )
    mapped = (found - low) / (high - low)
    mapped[mapped < ROUNDING] = 0.0
    mapped[mapped > 1 - ROUNDING] = 1.0
    return mapped


def floats(values: Values, argument: str, *, missing: bool = False) -> Floats:
    """Return numbers or booleans as floats.

    Args:
        values: The numbers.
        argument: Their name in messages.
        missing: Whether None is allowed; it becomes NaN.

    Raises:
        ScoresError: They are not a list of numbers.
    """
    each = values if isinstance(values, np.ndarray) and values.ndim else listed(values, argument)
    if missing:
        each = [np.nan if value is None else value for value in each]
    try:
        found = np.asarray(each)
    except ValueError:
        found = np.asarray(each, dtype=object)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "biuf"):
        odd = [one for one in each if not isinstance(one, _NUMBERS)]
        if odd or found.ndim != 1:  # else they are whole numbers of any size
            raise ScoresError(f"{argument} must be numbers, not {(odd or [*each])[0]!r:.80}")
    try:
        return found.astype(np.float64)
    except OverflowError as error:
        raise ScoresError("a value is too large") from error


def limits(among: Sequence[float] | None) -> tuple[float, float]:
    """Return the two ends of a range."""
    if among is None:
        raise ScoresError(
            "unbounded scores have no worst and no best: a range is needed",
            hint="Say which values the score can have: range=(1, 5).",
        )
    try:
        low, high = (number(range=end) for end in listed(among, "range"))
    except (ScoresError, ValueError) as error:
        raise ScoresError(f"range={among!r:.80}: must be two numbers, like (1, 5)") from error
    if not (math.isfinite(high - low) and low < high):
        raise ScoresError(f"range=({low:g}, {high:g}): must be two finite numbers, the lower first")
    return low, high


def confidence(level: float) -> float:
    """Return the level if it is valid."""
    if not 0 < number(level=level) < 1:
        raise ScoresError(f"level={level!r}: must be between 0 and 1, like 0.95")
    return level


def number(**argument: Any) -> float:
    """Return an argument if it is a number.

    Raises:
        ScoresError: It is not.
    """
    ((name, value),) = argument.items()
    if isinstance(value, bool | np.bool_) or not isinstance(value, _NUMBERS):
        raise ScoresError(f"{name}={value!r:.80}: must be a number")
    return float(value)


def whole_number(**argument: Any) -> int:
    """Return an argument if it is a whole number.

    Raises:
        ScoresError: It is not.
    """
    ((name, value),) = argument.items()
    if not number(**argument).is_integer():
        raise ScoresError(f"{name}={value!r}: must be a whole number")
    return int(value)
