"""How does each call get its own data, so that its changes affect no other call?

Rows are mostly plain JSON, for which `copy.deepcopy` takes ten times as long as a loop, because it
keeps a memo. Immutable values are shared.
"""

import copy
import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

from limpet.foreign import is_interrupt
from limpet.shapes import Item

_IMMUTABLE = frozenset(
    {str, int, float, bool, type(None), bytes, complex, Decimal, UUID}
    | {dt.date, dt.datetime, dt.time, dt.timedelta}
)


def own_copy(value: Any) -> Any:
    """Return a copy that shares no mutable value with the original.

    Values that cannot be copied, like a lock or a connection, are shared.
    """
    if type(value) in _IMMUTABLE:
        return value
    if type(value) is Item:
        return _own_item(value)
    return _copied(value, _deep)


def own_containers(value: Any) -> Any:
    """Copy dicts, lists, tuples and sets only; all other values are shared."""
    return value if type(value) in _IMMUTABLE else _copied(value, lambda other: other)


def _copied(value: Any, other: Callable[[Any], Any]) -> Any:
    try:
        return _plainly(value, other)
    except RecursionError:  # very deep, or it contains itself
        return other(value)


def _plainly(value: Any, other: Callable[[Any], Any]) -> Any:
    # Immutable values are checked here, not one call deeper: that saves half of the time.
    kind = type(value)
    if kind is dict:
        return {
            key: part if type(part) in _IMMUTABLE else _plainly(part, other)
            for key, part in value.items()
        }
    if kind is list or kind is tuple:
        return kind([part if type(part) in _IMMUTABLE else _plainly(part, other) for part in value])
    if kind is set:
        return set(value)
    return value if kind in _IMMUTABLE else other(value)


def _deep(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except BaseException as error:  # __deepcopy__ may raise anything
        if is_interrupt(error):
            raise
        return value


def _own_item(item: Item) -> Item:
    row = own_copy(item.row)
    if type(item.input) in _IMMUTABLE and type(item.expected) in _IMMUTABLE:
        return Item(item.id, item.input, item.expected, row)
    # The input is usually a value of the row: then the copies must be the same object, too.
    shared = {id(part): row[name] for name, part in item.row.items()} if type(row) is dict else {}

    def copied(part: Any) -> Any:
        return shared[id(part)] if id(part) in shared else own_copy(part)

    return Item(item.id, copied(item.input), copied(item.expected), row)
