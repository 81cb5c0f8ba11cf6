"""How are the numbers of a run kept in a file, so that others can be added to them later?

As lists, dicts and arrays that follow the form of the objects. They are read back into new objects,
which say what has to be there: a file can bring in numbers and names, and nothing else.
"""

from array import array
from collections.abc import Mapping
from typing import Any, TypeVar

from limpet.run.results.usage_totals import Used

T = TypeVar("T")
_GIVEN = frozenset({"cell_items", "scale", "_step", "_waiting"})
"""What new numbers have already, and what is settled before."""


def state_of(value: Any) -> Any:
    """Return what numbers consist of: lists, dicts, arrays, numbers and texts."""
    if value is None or isinstance(value, (int, float, str, array)):
        return value
    if isinstance(value, tuple):
        return list(map(state_of, value))
    if isinstance(value, Mapping):  # its keys need not be texts
        return [[key, state_of(part)] for key, part in value.items()]
    if isinstance(value, Used):
        value.settle()
    return {name: state_of(part) for name, part in vars(value).items() if name not in _GIVEN}


def restored(new: T, state: Any) -> T:
    """Return new numbers with what `state_of` returned for others.

    Raises:
        LookupError, TypeError, ValueError: It is of something else.
    """
    if new is None or isinstance(new, (int, float, str)):
        if not isinstance(state, (int, float, str)):
            raise TypeError(f"{state!r}: not {new!r}")
        return state  # type: ignore[return-value]
    if isinstance(new, array):
        if not isinstance(state, array) or state.typecode != new.typecode:
            raise TypeError("not such an array")
        return state  # type: ignore[return-value]
    if isinstance(new, tuple):
        parts = [restored(part, known) for part, known in zip(new, state, strict=True)]
        return type(new)(*parts)
    if isinstance(new, dict):
        for key, known in state:
            new[key] = restored(new[key], known)
        return new
    if vars(new).keys() - _GIVEN != state.keys():
        raise ValueError(f"{sorted(state)}: not {type(new).__name__}")
    for name, known in state.items():
        setattr(new, name, restored(getattr(new, name), known))
    return new
