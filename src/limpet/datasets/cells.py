"""How is a value of a typed table represented in JSON?

Strings, numbers, booleans and null stay unchanged. A date becomes an ISO string, a decimal its
digits, a duration its seconds. Values are recognised by their shape: neither pandas nor NumPy is
imported.
"""

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

_UNCHANGED = frozenset({str, int, bool, type(None), bytes})
_MISSING = frozenset({"NAType", "NaTType"})


def plain_cell(value: Any) -> Any:
    """Return a table value as JSON data, with None for NaN, NaT and NA."""
    kind = type(value)
    if kind in _UNCHANGED:
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
        return {name: plain_cell(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_cell(part) for part in value]
    if callable(to_list := getattr(value, "tolist", None)):  # NumPy's arrays and scalars
        return plain_cell(to_list()) if not isinstance(value, float) else float(value)
    return value


def is_nan(value: object) -> bool:
    """Return whether a value is NaN."""
    return isinstance(value, float) and value != value  # noqa: PLR0124 - true for NaN only
