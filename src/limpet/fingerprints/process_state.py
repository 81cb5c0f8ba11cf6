"""What did runs of this process leave behind, and in which objects?

A run leaves a counter at 4. The counter counts by the value that it began with: but only that
counter. Another object that stands under its name now is an edit, whatever its value: so what a run
left is known by the objects that held it when the run ended, and not by its name and value alone.

What a module holds directly and is no object that may change (a text, a number) has nothing to be
told by: set by hand to what a run left there, it is taken for that.
"""

import weakref
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from limpet.fingerprints.walk.result import WalkResult

_MOST = 64
"""How many objects are remembered under one name: what has no weak reference is kept alive."""


@dataclass
class _Left:
    """What runs left in some objects.

    Attributes:
        holders: Return the objects, or None for one that is gone.
        first: By the digest of what was left: what counts in its place; None: nothing does.
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
# What a run took away, by the step it was part of: whose it was, and what counts in its place.
_taken: dict[tuple[str, str], dict[str, tuple[Callable[[], Any] | None, str]]] = defaultdict(dict)


def first_value(place: str, now: str, holders: tuple[Any, ...]) -> tuple[str | None] | None:
    """Return what counts in place of what a run left there; None: no run did."""
    for left in _left.get(place, ()):
        if now in left.first and left.is_in(_real(holders)):
            return (left.first[now],)
    return None


def note_left(place: str, now: str, first: str | None, holders: tuple[Any, ...]) -> None:
    """Note what a run left, and what counts in its place."""
    real = _real(holders)
    known = [left for left in _left[place] if not left.is_gone]
    there = next((left for left in known if left.is_in(real)), None)
    if there is None:
        there = _Left(tuple(map(_reference, real)))
    else:
        known.remove(there)
    there.first[now] = first
    _left[place] = [*known, there][-_MOST:]  # the latest last


def note_taken(step: tuple[str, str], name: str, first: str, holder: Any) -> None:
    """Note what a run took away from an object."""
    _taken[step][name] = (None if holder is None else _reference(holder), first)


def taken_away(step: tuple[str, str], result: WalkResult) -> dict[str, str]:
    """Return what counts of a step that a run took away from objects that are still there."""
    found = {}
    for name, (holder, first) in _taken.get(step, {}).items():
        if name not in result.parts and (holder is None or id(holder()) in result.met):
            found[name] = first
    return found


def _real(holders: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(holder for holder in holders if holder is not None)


def _reference(thing: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(thing)
    except TypeError:  # a list, a dict
        return lambda: thing
