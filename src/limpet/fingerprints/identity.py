"""What is this step, and is it still what it was?

A step is looked at when a run is planned and again when the run ends. What differs in between (a
counter, a cache, a pool of connections) is state: its first value in this process is what counts,
for this step and for every other that uses it. What changed between two runs is an edit. If the
second look never comes, because the process was killed, the first alone counts.
"""

import gc
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from limpet.fingerprints.explaining.shown import Showing, Shown, shown_parts
from limpet.fingerprints.process_state import first_value, note_left, note_taken, taken_away
from limpet.fingerprints.walk.result import WalkResult, digest_of
from limpet.fingerprints.walk.safe_access import module_name
from limpet.fingerprints.walk.walk import Walk
from limpet.secrets.known import certain_secrets
from limpet.secrets.names import is_secret_name

_TRIES = 5
_CLOSED_OVER = re.compile(r"(.+)\.closed over \d+")


@dataclass(frozen=True, slots=True)
class Identity:
    """What a step's results depend on besides the item.

    Attributes:
        parts: The digest of each thing that counts, by its name.
        left_out: What does not count, by its name: why.
        state: The names of what changed while a run was going on: their first value counts.
        found: The digest of each thing as it was found, state as well.
        holders: Whose attribute each thing is; None: a module's.
        home: The module that the step is from: what is in it is named without it.
        modules: The user's modules of which something counts.
        code: The user's functions that count: file and line of each.
        shown: What each thing is, for people: its source, its value.
    """

    parts: Mapping[str, str]
    left_out: Mapping[str, str] = field(default_factory=dict)
    state: tuple[str, ...] = ()
    found: Mapping[str, str] = field(default_factory=dict, repr=False)
    holders: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    home: str = field(default="", repr=False)
    modules: frozenset[str] = field(default=frozenset(), repr=False)
    code: frozenset[tuple[str, int]] = field(default=frozenset(), repr=False)
    shown: Showing = field(default_factory=Showing, repr=False, compare=False)

    @property
    def digest(self) -> str:
        """32 hex digits of all that counts."""
        return digest_of(sorted(self.parts.items()))


# What was a secret at any look: state may hold it, and is the same when its variable is gone.
_known_secrets: set[str] = set()
# What counted as it is, by its name: somebody meant it so, and no run's end makes it state.
_counted: dict[str, set[str]] = defaultdict(set)


def identity_of(
    thing: Any,
    *,
    is_secret: Callable[[str], bool] = is_secret_name,
    secrets: Iterable[str] = (),
) -> Identity:
    """Look at a step as it is now.

    Args:
        thing: A function, a class, an instance.
        is_secret: Tells whether a name is a secret's.
        secrets: Values that are secrets, and do not count, beside those of the environment.
    """
    result, home = _look(thing, is_secret, secrets), module_name(thing)
    parts, state = dict(result.parts), []
    for name, now in result.parts.items():
        place = _absolute(name, home)
        left = first_value(place, now, result.holders.get(name, ()))
        if left is None:
            _counted[place].add(now)
        else:  # as a run left it
            state.append(name)
            (first,) = left
            if first is None:
                del parts[name]
            else:
                parts[name] = first
    for name, first in taken_away((home, result.parts["function"]), result).items():
        state.append(name)
        parts[name] = first
    left_out, shown = dict(result.left_out), Showing(lambda: _shown(result, state))
    found, names = dict(result.parts), tuple(sorted(state))
    code, holders = frozenset(result.code), {name: held[0] for name, held in result.holders.items()}
    return Identity(parts, left_out, names, found, holders, home, result.modules, code, shown)


def _shown(result: WalkResult, state: Iterable[str]) -> dict[str, Shown]:
    shown = shown_parts(result)
    for name in state:  # what is there is not what counts
        shown[name] = Shown(shown[name].kind if name in shown else "value")
    return shown


def note_end(
    thing: Any,
    planned: Identity,
    *,
    is_secret: Callable[[str], bool] = is_secret_name,
    secrets: Iterable[str] = (),
) -> tuple[str, ...]:
    """Look again when a run has ended.

    Args:
        thing: What was looked at.
        planned: What was found when the run was planned.
        is_secret: As it was for that.
        secrets: As they were for that.

    Returns:
        The names of what is state.
    """
    result = _look(thing, is_secret, secrets)
    state = set(planned.state)
    for name in result.parts.keys() | planned.found.keys():
        now = result.parts.get(name)
        if now == planned.found.get(name):
            continue
        first, place = planned.parts.get(name), _absolute(name, planned.home)
        if now in _counted[place]:  # another run was planned with it, while this one was going on
            continue
        state.add(name)
        if now is not None:
            # By its name, and not by step: a workflow and its evaluators may share a counter.
            note_left(place, now, first, result.holders.get(name, ()))
        elif first is not None:
            step, holder = (planned.home, result.parts["function"]), planned.holders.get(name)
            note_taken(step, name, first, holder)
    return tuple(sorted(state))


def changed_parts(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Name what differs between two identities, as a person would."""
    changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    if len(changed) > 1:
        changed = [name for name in changed if name != "function"]  # the rest says more
    # Several may be called the same: a function, and the wrapper that has its name.
    return list(dict.fromkeys(_with_change(name, before, now) for name in changed))


def _with_change(name: str, before: Mapping[str, str], now: Mapping[str, str]) -> str:
    words = in_words(own_name(name, now))
    if name not in before:
        return f"{words} (new)"
    return words if name in now else f"{words} (no longer used)"


def own_name(name: str, parts: Iterable[str]) -> str:
    """Return the name of a part; that of a function without the number that its wrapper caused."""
    base = name.removesuffix(" (2)")
    is_wrapped = base != name and any(part.endswith(f"{base}.__wrapped__") for part in parts)
    return base if is_wrapped else name


def in_words(name: str) -> str:
    """Return the name of a part as a person would say it."""
    words = name
    if name.endswith(".__doc__"):
        words = f"the docstring of {name.removesuffix('.__doc__')}"
    if found := _CLOSED_OVER.match(name):
        words = f"what {found[1]} closes over"
    for begin, kind in (("file of ", "module "), ("variable ", "environment variable ")):
        if name.startswith(begin):
            words = kind + name.removeprefix(begin)
    return words


def _look(thing: Any, is_secret: Callable[[str], bool], secrets: Iterable[str]) -> WalkResult:
    _known_secrets.update(certain_secrets(os.environ), secrets)
    hidden = frozenset(_known_secrets)
    for left in reversed(range(_TRIES)):
        try:
            with _without_collections():
                walk = Walk(is_secret, hidden)
                result = walk.look(thing)
                result.parts  # noqa: B018 - made while it lasts
                vars(walk).clear()  # else the collector would go over all trees to free them
        except RuntimeError:  # a thread put something into a dict that was being read
            if not left:
                raise
        else:
            break
    return result


def _absolute(name: str, home: str) -> str:
    """Return a name that is the same whichever step uses it."""
    module = name.rpartition(".")[0]
    while module:
        if module in sys.modules:
            return name
        module = module.rpartition(".")[0]
    return f"{home}.{name}"


@contextmanager
def _without_collections() -> Iterator[None]:
    """Make a hundred thousand nodes without the collector looking at each of them again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
