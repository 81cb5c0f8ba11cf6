"""How does each call get data of its own, so that what it changes is nobody else's?

Rows are mostly plain JSON, and for that `copy.deepcopy` takes ten times as long as a loop: it keeps
a memo of everything. What cannot change is handed over as it is.
"""

import copy
import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

from limpet.types import Item

_UNCHANGING = frozenset(
    {str, int, float, bool, type(None), bytes, complex, Decimal, UUID}
    | {dt.date, dt.datetime, dt.time, dt.timedelta}
)


def own_copy(value: Any) -> Any:
    """Return a copy that shares nothing that can be changed.

    What refuses to be copied, such as a lock or a connection, is handed over as it is.
    """
    if type(value) in _UNCHANGING:
        return value
    if type(value) is Item:
        return _own_item(value)
    return _copied(value, _deep)


def own_containers(value: Any) -> Any:
    """Copy dicts, lists, tuples and sets only: whatever else is in them stays the same object."""
    return value if type(value) in _UNCHANGING else _copied(value, lambda one: one)


def _copied(value: Any, other: Callable[[Any], Any]) -> Any:
    try:
        return _plainly(value, other)
    except RecursionError:  # very deep, or it holds itself
        return other(value)


def _plainly(value: Any, other: Callable[[Any], Any]) -> Any:
    # Atoms are looked at here and not one call deeper: that is half of the time it takes.
    kind = type(value)
    if kind is dict:
        return {
            key: one if type(one) in _UNCHANGING else _plainly(one, other)
            for key, one in value.items()
        }
    if kind is list or kind is tuple:
        return kind([one if type(one) in _UNCHANGING else _plainly(one, other) for one in value])
    if kind is set:
        return set(value)
    return value if kind in _UNCHANGING else other(value)


def _deep(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except BaseException:  # noqa: BLE001 - a foreign __deepcopy__ may raise anything
        return value


def _own_item(item: Item) -> Item:
    row = own_copy(item.row)
    if type(item.input) in _UNCHANGING and type(item.expected) in _UNCHANGING:
        return Item(item.id, item.input, item.expected, row)
    # The input mostly is a value of the row: then it is the same one in the copy, too.
    same = {id(one): row[name] for name, one in item.row.items()} if type(row) is dict else {}
    parts = {"input": item.input, "expected": item.expected}
    own = {name: same[id(one)] if id(one) in same else own_copy(one) for name, one in parts.items()}
    return Item(item.id, own["input"], own["expected"], row)
