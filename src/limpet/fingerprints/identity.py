"""What is this step, and is it still what it was?

A step is looked at when a run is planned and again when the run ends. What differs in between (a
counter, a cache, a pool of connections) is state: its first value in this process is what counts.
What changed between two runs is an edit. If the second look never comes, because the process was
killed, the first alone counts.
"""

import gc
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from limpet.fingerprints.looked import Looked, digest_of
from limpet.fingerprints.parsed import parsed
from limpet.fingerprints.walk import Walk


@dataclass(frozen=True, slots=True)
class Identity:
    """What a step's results depend on besides the item.

    Attributes:
        parts: The digest of each thing that counts, by its name.
        left_out: What does not count, by its name: why.
        state: The names of what changed while a run was going on: their first value counts.
    """

    parts: Mapping[str, str]
    left_out: Mapping[str, str] = field(default_factory=dict)
    state: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """32 hex digits of all that counts."""
        return digest_of(sorted(self.parts.items()))


@dataclass(slots=True)
class _Memory:
    """What this process has seen of one step.

    Attributes:
        planned: What was found when the latest run was planned.
        counted: What of that counted.
        state: By name, what counts instead of what was found when the latest run ended.
    """

    planned: dict[str, str] = field(default_factory=dict)
    counted: dict[str, str] = field(default_factory=dict)
    state: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)


_memories: dict[str, _Memory] = {}


def identity_of(
    thing: Any,
    *,
    is_secret: Callable[[str], bool] = lambda _: False,
    secrets: frozenset[str] = frozenset(),
) -> Identity:
    """Look at a step as it is now.

    Args:
        thing: A function, a class, an instance.
        is_secret: Tells whether a name is a secret's.
        secrets: Values that are secrets, and do not count.
    """
    looked = _look(thing, is_secret, secrets)
    memory = _memories.setdefault(_name_of(looked), _Memory())
    parts = dict(looked.parts)
    for name, (counts, at_end) in memory.state.items():
        if looked.parts.get(name) == at_end:  # as the last run left it
            parts.pop(name, None)
            if counts is not None:
                parts[name] = counts
    memory.planned, memory.counted = dict(looked.parts), dict(parts)
    return Identity(parts, dict(looked.left_out), tuple(sorted(memory.state)))


def note_end(
    thing: Any,
    *,
    is_secret: Callable[[str], bool] = lambda _: False,
    secrets: frozenset[str] = frozenset(),
) -> tuple[str, ...]:
    """Look again when a run has ended; return the names of what changed meanwhile."""
    looked = _look(thing, is_secret, secrets)
    memory = _memories.get(_name_of(looked))
    if memory is None:
        return ()
    for name in looked.parts.keys() | memory.planned.keys():
        if looked.parts.get(name) != memory.planned.get(name) or name in memory.state:
            memory.state[name] = (memory.counted.get(name), looked.parts.get(name))
    return tuple(sorted(memory.state))


def _look(thing: Any, is_secret: Callable[[str], bool], secrets: frozenset[str]) -> Looked:
    with _without_collections():
        looked = Walk(is_secret, secrets).look(thing)
        looked.parts  # noqa: B018 - made while it lasts
    parsed.cache_clear()  # the trees of a project take tens of megabytes
    return looked


def _name_of(looked: Looked) -> str:
    return hashlib.blake2b(repr(looked.forms["function"]).encode()).hexdigest()


@contextmanager
def _without_collections() -> Iterator[None]:
    """Make a hundred thousand nodes without the collector looking at each time and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
