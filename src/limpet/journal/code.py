"""Is this still the function that made those results?

Its fingerprint covers what decides what it does, as far as that can be read without running it:

- its own code, and that of the functions and classes it uses from the user's own modules, as the
  syntax tree without comments and docstrings, so that only an edit that does something counts;
- the values it uses: globals, what it closes over, its defaults, what a `functools.partial` has
  bound, what a callable object was made with;
- of libraries only the names of what is used: their version is the user's to declare.

What the code itself changes is state and does not count: a counter, a cache, a list that is
appended to. Nor do secrets, time-outs and paths, which change no result.

Source is believed only if it compiles to the code that is in memory: a file may have been edited
since it was imported. Else, and where there is no source, the bytecode stands in.

Still open. What a function imports by a name it computes, what it reads from files, and what an
object of a library holds is not seen.
"""

import contextlib
import functools
import logging
from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from limpet.journal.fingerprint import digest
from limpet.journal.plain import NotPlainError
from limpet.journal.source import (
    closed_over_state,
    is_users,
    is_users_module,
    methods_of,
    modules_imported,
    mutated_attributes,
    mutated_globals,
    names_used,
    source_of,
    source_of_class,
    source_of_file,
)
from limpet.journal.values import comparable, is_beside_the_point

logger = logging.getLogger("limpet.journal")
Parts = dict[str, str]
"""The fingerprint of each thing that counts, by its name."""


def code_parts(function: Any) -> Parts:
    """Return the fingerprint of a function, part by part, so that a change can be named."""
    reading = _Reading(_module_of(function))
    reading.take(function)
    # Of a function from a library there may be nothing else to tell it by.
    reading.keep("function", _full_name(function))
    return reading.parts


def changed_parts(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Name what differs between two fingerprints."""
    changed = [name for name in {*before, *now} if before.get(name) != now.get(name)]
    return sorted(set(changed) - {"function"}) or sorted(changed)


class _Reading:
    """Reads a function and all that it uses, each thing once."""

    def __init__(self, home: str) -> None:
        self.parts: Parts = {}
        # Names from the function's own module go without it: run as a script, it has another.
        self._home = home
        self._seen: list[Any] = []  # the things themselves, so that no id is used again

    def take(self, value: Any) -> None:
        """Read a thing that can be called."""
        if any(value is one for one in self._seen):
            return
        self._seen.append(value)
        kind = type(value)
        if kind is functools.partial:
            self.take(value.func)
            self._use_values(value.func, [*enumerate(value.args), *value.keywords.items()])
        elif kind is MethodType:
            self.take(value.__func__)
            self._take_object(value.__self__)
        elif kind is FunctionType:
            self._take_function(value)
        elif issubclass(kind, type):
            self._take_class(value)
        elif kind is not BuiltinFunctionType:
            self._take_object(value)
        wrapped = _attributes_of(value).get("__wrapped__")
        if callable(wrapped):
            self.take(wrapped)

    def _take_function(self, function: FunctionType) -> None:
        if not is_users(function):
            self._use_closure(function, frozenset())
            return
        code = function.__code__
        self.keep(self._name_of(function), source_of(code))
        self._use_closure(function, closed_over_state(code))
        self._use_surroundings(function)

    def _use_surroundings(self, function: FunctionType) -> None:
        by_name = function.__kwdefaults__ or {}
        defaults = [*enumerate(function.__defaults__ or ()), *by_name.items()]
        self._use_values(function, [(name, one) for name, one in defaults if not _can_change(one)])
        self._use_globals(function.__code__, function.__globals__, function.__module__)
        package = function.__globals__.get("__package__")
        for path in modules_imported(function.__code__, package):
            if f"module {path.stem}" not in self.parts:
                self.keep(f"module {path.stem}", source_of_file(path))

    def _use_closure(self, function: FunctionType, state: frozenset[str]) -> None:
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            with contextlib.suppress(ValueError):  # the cell is empty: not bound yet
                if name not in state:
                    self._use(f"{self._name_of(function)}.{name}", name, cell.cell_contents)

    def _take_class(self, cls: type) -> None:
        if not is_users(cls):
            return
        self.keep(self._name_of(cls), source_of_class(cls))
        for method in methods_of(cls):
            if is_users(method):
                self._use_surroundings(method)
        # A class attribute may come from elsewhere: MODEL = settings.MODEL.
        plain = {name: one for name, one in vars(cls).items() if not name.startswith("_")}
        self._use_values(cls, [(name, one) for name, one in plain.items() if not callable(one)])
        for base in cls.__bases__:
            self.take(base)

    def _take_object(self, value: Any) -> None:
        self.take(type(value))
        state = mutated_attributes(type(value))
        attributes = _attributes_of(value)
        self._use_values(
            type(value), [(name, one) for name, one in attributes.items() if name not in state]
        )
        if not attributes and not is_users(type(value)):
            # An operator.itemgetter, a ufunc: what it would be pickled as says what it is.
            with contextlib.suppress(Exception):
                self.keep(self._name_of(type(value)), repr(value.__reduce__()))

    def _use_globals(self, code: CodeType, scope: Mapping[str, Any], module: str) -> None:
        state = mutated_globals(code, scope)
        for first, *rest in names_used(code):
            if first not in scope or first in state:
                continue
            value, name = scope[first], first
            while type(value) is ModuleType and rest:
                name = rest.pop(0)
                if not is_users_module(value):
                    # By its name alone: a library may look its names up only when they are used.
                    value = f"{value.__name__}.{name}"
                    break
                value = vars(value).get(name)
            self._use(self._short(module, name), name, value)

    def _use_values(self, owner: Any, values: Iterable[tuple[Any, Any]]) -> None:
        for name, value in values:
            self._use(f"{self._name_of(owner)}({name})", str(name), value)

    def _use(self, full_name: str, name: str, value: Any) -> None:
        """Read a value by what it is. Foreign objects may do anything when looked at."""
        if full_name in self.parts or type(value) is ModuleType or is_beside_the_point(name, value):
            return
        try:
            wrapped = _attributes_of(value).get("__wrapped__")
            if callable(wrapped):
                self.take(wrapped)
            shown = comparable(value, self.take)
        except Exception:  # noqa: BLE001 - said below
            logger.debug("%s cannot be read, and is not part of the fingerprint", full_name)
        else:
            if shown is not None:
                self.keep(full_name, shown)

    def keep(self, name: str, value: Any) -> None:
        """Add a part."""
        while name in self.parts:
            name += "'"  # a wrapper has the name of what it wraps
        with contextlib.suppress(NotPlainError):
            self.parts[name] = digest(value)

    def _name_of(self, thing: Any) -> str:
        return self._short(_module_of(thing), getattr(thing, "__qualname__", "?"))

    def _short(self, module: str, name: str) -> str:
        return name if module == self._home else f"{module}.{name}"


def _can_change(default: Any) -> bool:
    """A list as a default is a cache, or it stands in the source."""
    return isinstance(default, (list, dict, set))


def _attributes_of(value: Any) -> dict[str, Any]:
    """Return what an object holds, without running any code of its own."""
    attributes: dict[str, Any] = {}
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            with contextlib.suppress(AttributeError, TypeError):
                attributes[name] = vars(cls)[name].__get__(value)
    with contextlib.suppress(AttributeError, TypeError):
        attributes.update(object.__getattribute__(value, "__dict__"))
    return attributes


def _module_of(thing: Any) -> str:
    while type(thing) is functools.partial:
        thing = thing.func
    module = getattr(thing, "__module__", None)
    return module if isinstance(module, str) else ""


def _full_name(thing: Any) -> str:
    while type(thing) is functools.partial:
        thing = thing.func
    name = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None)
    # A script's own module has another name when it is imported: the name alone is enough.
    module = _module_of(thing) if not is_users(thing) else ""
    return f"{module}.{name or type(thing).__qualname__}"
