"""What is this step, and is it still the same?

`identity_of` inspects a step when a run is planned; `record_state` inspects it again when the run
ends. Whatever changed in between (a counter, a cache, a connection pool) is state: its first value
in this process counts, for this step and every other step that uses it. A change between two runs
is an edit. If the process is killed before the second inspection, only the first one counts.

`walk/` collects everything a step depends on, `code/` reads its source, `files/` records the files
it reads, `part_contents.py` and `differences.py` show people what changed.
"""

import gc
import os
import re
import sys
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from limpet.fingerprints.part_contents import PartContent, PartContents, shown_parts
from limpet.fingerprints.walk.collector import Collector
from limpet.fingerprints.walk.result import WalkResult, digest_of
from limpet.fingerprints.walk.safe_access import module_name
from limpet.secrets.known import certain_secrets

# ---- What did the runs of this process leave behind, and in which objects? ----------------------
#
# A run leaves a counter at 4. This counter counts by its first value, but a new object under the
# same name is an edit, even with an equal value. So values that a run left are recorded with the
# objects that hold them, not by name and value alone.
#
# An immutable global (a string, a number) has no such object. Set by hand to the value that a run
# left there, it is taken for state.

_MOST = 64
"""How many objects are remembered per name: those without weak references are kept alive."""


@dataclass
class _Left:
    """The values that runs left in certain objects.

    Attributes:
        holders: References to the objects; each returns None once its object is gone.
        first: The first digest, by the digest that was left; None if the part was new.
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


def first_value(part: str, digest: str, holders: tuple[Any, ...]) -> tuple[str | None] | None:
    """Return the digest that counts in place of one that a run left; None if no run left it."""
    for left in _left.get(part, ()):
        if digest in left.first and left.is_in(_real(holders)):
            return (left.first[digest],)
    return None


def record_left(part: str, digest: str, first: str | None, holders: tuple[Any, ...]) -> None:
    """Record the digest that a run left, and the first one, which counts instead."""
    real = _real(holders)
    known = [left for left in _left[part] if not left.is_gone]
    entry = next((left for left in known if left.is_in(real)), None)
    if entry is None:
        entry = _Left(tuple(map(_reference, real)))
    else:
        known.remove(entry)
    entry.first[digest] = first
    _left[part] = [*known, entry][-_MOST:]  # the latest is last


def record_removed(step: tuple[str, str], name: str, first: str, holder: Any) -> None:
    """Record a part that a run removed from an object."""
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


# ---- What is this step, and is it still the same? -----------------------------------------------

_TRIES = 5
_NUMBER = re.compile(r" \(\d+\)$")
_CLOSED_OVER = re.compile(r"(.+)\.closed over \d+")


@dataclass(frozen=True, slots=True)
class Identity:
    """Everything a step's results depend on besides the item.

    Attributes:
        parts: The digest of each part that counts, by name.
        left_out: Why a part does not count, by name.
        state: Names of parts that changed during a run: their first value counts.
        found: The digest of each part as it is now, including state.
        holders: The object that has each part as an attribute; None if it belongs to a module.
        home: The module of the step. Names in it are written without the module.
        modules: The user's modules that contribute a part.
        code: The file and line of each of the user's functions that counts.
        sources: The user's source files that count in full.
        shown: The source or value of each part, for people.
    """

    parts: Mapping[str, str]
    left_out: Mapping[str, str] = field(default_factory=dict)
    state: tuple[str, ...] = ()
    found: Mapping[str, str] = field(default_factory=dict, repr=False)
    holders: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    home: str = field(default="", repr=False)
    modules: frozenset[str] = field(default=frozenset(), repr=False)
    code: frozenset[tuple[str, int]] = field(default=frozenset(), repr=False)
    sources: frozenset[str] = field(default=frozenset(), repr=False)
    shown: PartContents = field(default_factory=PartContents, repr=False, compare=False)

    @property
    def fingerprint(self) -> str:
        """32 hex digits over all parts."""
        return digest_of(sorted(self.parts.items()))


# Every secret seen so far: state may still hold one after its variable is gone.
_known_secrets: set[str] = set()
# Digests that counted when a run was planned, by name. The end of a run never makes them state.
_counted: dict[str, set[str]] = defaultdict(set)


def identity_of(thing: Any, *, secrets: Iterable[str] = ()) -> Identity:
    """Return the current identity of a step.

    Args:
        thing: A function, a class or an instance.
        secrets: Secret values to ignore, in addition to those in the environment.
    """
    result, home = _inspect(thing, secrets), module_name(thing)
    parts, state = dict(result.parts), []
    for name, digest in result.parts.items():
        part = _absolute(name, home)
        first_known = first_value(part, digest, result.holders.get(name, ()))
        if first_known is None:
            _counted[part].add(digest)
        else:  # a run left this value
            state.append(name)
            (first,) = first_known
            if first is None:
                del parts[name]
            else:
                parts[name] = first
    for name, first in removed_parts((home, result.parts["function"]), result).items():
        state.append(name)
        parts[name] = first
    left_out, shown = dict(result.left_out), PartContents(lambda: _shown(result, state))
    found, names = dict(result.parts), tuple(sorted(state))
    code, holders = frozenset(result.code), {name: held[0] for name, held in result.holders.items()}
    modules, sources = result.modules, result.sources
    return Identity(parts, left_out, names, found, holders, home, modules, code, sources, shown)


def parts_for_worker(thing: Any) -> dict[str, str]:
    """Return the parts that a worker must have, even though it does not run the script."""
    return _inspect(thing, (), for_worker=True).parts


def _shown(result: WalkResult, state: Iterable[str]) -> dict[str, PartContent]:
    shown = shown_parts(result)
    for name in state:  # the first value counts, not the current one
        shown[name] = PartContent(shown[name].kind if name in shown else "value")
    return shown


def record_state(thing: Any, planned: Identity, *, secrets: Iterable[str] = ()) -> tuple[str, ...]:
    """Inspect a step again after a run, and record which parts are state.

    Args:
        thing: The same object as in `identity_of`.
        planned: Its identity when the run was planned.
        secrets: The same as in `identity_of`.

    Returns:
        The names of the parts that are state.
    """
    result = _inspect(thing, secrets)
    state = set(planned.state)
    for name in result.parts.keys() | planned.found.keys():
        digest = result.parts.get(name)
        if digest == planned.found.get(name):
            continue
        first, part = planned.parts.get(name), _absolute(name, planned.home)
        if digest in _counted[part]:  # another run was planned with it meanwhile
            continue
        state.add(name)
        if digest is not None:
            # By name, not by step: a workflow and its evaluators may share a counter.
            record_left(part, digest, first, result.holders.get(name, ()))
        elif first is not None:
            step, holder = (planned.home, result.parts["function"]), planned.holders.get(name)
            record_removed(step, name, first, holder)
    return tuple(sorted(state))


def changed_parts(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the parts that differ between two identities, named for people."""
    changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    if len(changed) > 1:
        changed = [name for name in changed if name != "function"]  # the other names say more
    # Several parts may have the same name: a function and its wrapper.
    return list(dict.fromkeys(_with_change(name, before, now) for name in changed))


def _with_change(name: str, before: Mapping[str, str], now: Mapping[str, str]) -> str:
    base = _NUMBER.sub("", name)  # others of this name have numbers
    words = in_words(base if base in {*before, *now} else own_name(name, now))
    if name not in before:
        return f"{words} (now used)"
    return words if name in now else f"{words} (no longer used)"


def own_name(name: str, parts: Iterable[str]) -> str:
    """Return the name of a part, without the number that its wrapper adds."""
    base = name.removesuffix(" (2)")
    is_wrapped = base != name and any(part.endswith(f"{base}.__wrapped__") for part in parts)
    return base if is_wrapped else name


def in_words(name: str) -> str:
    """Return the name of a part in plain words."""
    words = name
    if name.endswith(".__doc__"):
        words = f"the docstring of {name.removesuffix('.__doc__')}"
    if found := _CLOSED_OVER.match(name):
        words = f"what {found[1]} closes over"
    for begin, kind in (("file of ", "module "), ("variable ", "environment variable ")):
        if name.startswith(begin):
            words = kind + name.removeprefix(begin)
    return words


def _inspect(thing: Any, secrets: Iterable[str], *, for_worker: bool = False) -> WalkResult:
    _known_secrets.update(certain_secrets(os.environ), secrets)
    hidden = frozenset(_known_secrets)
    for remaining in reversed(range(_TRIES)):
        try:
            with _paused_collector():
                walk = Collector(hidden, for_worker=for_worker)
                result = walk.collect(thing)
                result.parts  # noqa: B018 - computed before the walk is cleared
                vars(walk).clear()  # or the garbage collector traverses every syntax tree
        except RuntimeError:  # a thread changed a dict during iteration
            if not remaining:
                raise
        else:
            break
    return result


def _absolute(name: str, home: str) -> str:
    """Return a name that is the same for every step."""
    module = name.rpartition(".")[0]
    while module:
        if module in sys.modules:
            return name
        module = module.rpartition(".")[0]
    return f"{home}.{name}"


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Pause the garbage collector, which would traverse all new nodes again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
