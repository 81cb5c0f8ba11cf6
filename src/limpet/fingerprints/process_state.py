"""What did the runs of this process leave behind, and in which objects?

A run leaves a counter at 4. The counter counts by its first value, but only this counter: a new
object under the same name is an edit, even with an equal value. So what a run left is recorded with
the objects that held it, not by name and value alone.

An immutable global (a string, a number) has no such object. If you set it by hand to the value that
a run left there, it is taken for state.
"""

import weakref
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from limpet.fingerprints.walk.result import WalkResult

_MOST = 64
"""How many objects are remembered per name: those without weak references are kept alive."""


@dataclass
class _Left:
    """What runs left in certain objects.

    Attributes:
        holders: References to the objects; each returns None once its object is gone.
        first: The digest that counts instead, by the digest that was left; None if nothing counts.
    """

    holders: tuple[Callable[[], Any], ...]
    first: dict[str, str | None] = field(default_factory=dict)

    def is_in(self, holders: tuple[Any, ...]) -> bool:
        return len(holders) == len(self.holders) and all(
            holder is reference() for holder, reference in zip(holders, self.holders, strict=True)
        )

    @property
    def is_gone(self) -> bool:
        return any(reference() is None for reference in self.holders)


_left: dict[str, list[_Left]] = defaultdict(list)
# Parts that a run removed, by step: the object that had the part, and the digest that counts.
_removed: dict[tuple[str, str], dict[str, tuple[Callable[[], Any] | None, str]]] = defaultdict(dict)


def first_value(place: str, now: str, holders: tuple[Any, ...]) -> tuple[str | None] | None:
    """Return the digest that counts in place of one that a run left; None if no run left it."""
    for left in _left.get(place, ()):
        if now in left.first and left.is_in(_real(holders)):
            return (left.first[now],)
    return None


def note_left(place: str, now: str, first: str | None, holders: tuple[Any, ...]) -> None:
    """Note what a run left, and the digest that counts instead."""
    real = _real(holders)
    known = [left for left in _left[place] if not left.is_gone]
    entry = next((left for left in known if left.is_in(real)), None)
    if entry is None:
        entry = _Left(tuple(map(_reference, real)))
    else:
        known.remove(entry)
    entry.first[now] = first
    _left[place] = [*known, entry][-_MOST:]  # the latest is last


def note_removed(step: tuple[str, str], name: str, first: str, holder: Any) -> None:
    """Note a part that a run removed from an object."""
    _removed[step][name] = (None if holder is None else _reference(holder), first)


def removed_parts(step: tuple[str, str], result: WalkResult) -> dict[str, str]:
    """Return the parts that runs removed from objects that the step still uses."""
    found = {}
    for name, (holder, first) in _removed.get(step, {}).items():
        if name not in result.parts and (holder is None or id(holder()) in result.visited):
            found[name] = first
    return found


def _real(holders: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(holder for holder in holders if holder is not None)


def _reference(thing: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(thing)
    except TypeError:  # a list, a dict
        return lambda: thing
