"""What is a cell of a typed table, in the words of JSON?

Text, numbers, booleans and null stay as they are; what has no word of its own becomes its exact
text: a date in ISO form, a decimal by its digits; a duration its seconds. Values are known by their
shape: neither pandas nor NumPy is imported.
"""

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

_AS_IT_IS = frozenset({str, int, bool, type(None), bytes})
_MISSING = frozenset({"NAType", "NaTType"})


def plain_cell(value: Any) -> Any:
    """Return a cell's value, with None for NaN, NaT and NA."""
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind.__name__ in _MISSING or is_nan(value):
        return None
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if callable(isoformat := getattr(value, "isoformat", None)):
        return isoformat()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, dict):
        return {name: plain_cell(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_cell(one) for one in value]
    if callable(to_list := getattr(value, "tolist", None)):  # NumPy's arrays and scalars
        return plain_cell(to_list()) if not isinstance(value, float) else float(value)
    return value


def is_nan(value: object) -> bool:
    """Tell whether a value is a float that is not a number."""
    return isinstance(value, float) and value != value  # noqa: PLR0124 - that is what NaN is
