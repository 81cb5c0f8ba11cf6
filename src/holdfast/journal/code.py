"""Is this still the function that made those results?

Its fingerprint covers what decides what it does, as far as that can be read without running it:

- its own code, and that of the functions and classes it uses from the user's own modules, as the
  syntax tree without comments and docstrings, so that only an edit that does something counts;
- the constants it uses: numbers, texts and tuples of them by any name, lists and dicts by a name
  in capitals. Others are state: a counter or a cache is not part of what the function is;
- its defaults, what it closes over, and the arguments a `functools.partial` has bound.

Libraries are not read: their version is the user's to declare. Where there is no source (a lambda
in a shell, a builtin), the bytecode or the name stands in.
"""

import ast
import contextlib
import dis
import functools
import inspect
import re
import site
import sys
import sysconfig
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from holdfast.journal.fingerprint import digest
from holdfast.journal.plain import NotPlainError

Parts = dict[str, str]
"""The fingerprint of each thing that counts, by its name."""


def code_parts(function: Any) -> Parts:
    """Return the fingerprint of a function, part by part, so that a change can be named."""
    reading = _Reading(_module_of(function))
    reading.take(function)
    return reading.parts


def changed_parts(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Name what differs between two fingerprints."""
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


class _Reading:
    """Reads a function and all that it uses, each thing once."""

    def __init__(self, home: str) -> None:
        self.parts: Parts = {}
        # Names from the function's own module go without it: run as a script, it has another.
        self._home = home
        self._seen: set[int] = set()

    def take(self, value: Any) -> None:
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, functools.partial):
            self.take(value.func)
            self._keep_values(value.func, [*enumerate(value.args), *value.keywords.items()])
        elif isinstance(value, MethodType):
            self.take(value.__func__)
            self._take_object(value.__self__)
        elif isinstance(value, FunctionType):
            self._take_function(value)
        elif isinstance(value, type):
            self._take_class(value)
        elif isinstance(value, BuiltinFunctionType):
            self._keep(self._name_of(value), "builtin")
        else:
            self._take_object(value)
        if (wrapped := getattr(value, "__wrapped__", None)) is not None:
            self.take(wrapped)

    def _take_function(self, function: FunctionType) -> None:
        code = function.__code__
        if _is_users(function):
            self._keep(self._name_of(function), _source_of(code) or _shape(code))
        by_name = function.__kwdefaults__ or {}
        self._keep_values(function, [*enumerate(function.__defaults__ or ()), *by_name.items()])
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # the cell is empty: not bound yet
                self._use(f"{self._name_of(function)}.{name}", name, cell.cell_contents)
        if _is_users(function):
            self._use_globals(code, function.__globals__, function.__module__)

    def _take_class(self, cls: type) -> None:
        if not _is_users(cls):
            return
        self._keep(self._name_of(cls), _source_of(cls) or cls.__qualname__)
        for method in _methods_of(cls):
            self._use_globals(method.__code__, method.__globals__, method.__module__)
        for base in cls.__bases__:
            self.take(base)

    def _take_object(self, value: Any) -> None:
        self.take(type(value))
        if not _is_users(type(value)):
            return
        state = {
            one.argval
            for cls in type(value).__mro__
            for method in _methods_of(cls)
            if method.__name__ != "__init__"
            for one in _instructions(method.__code__)
            if one.opname == "STORE_ATTR"
        }
        attributes = getattr(value, "__dict__", {})
        self._keep_values(
            type(value), [(name, one) for name, one in attributes.items() if name not in state]
        )

    def _use_globals(self, code: CodeType, scope: Mapping[str, Any], module: str) -> None:
        for first, *rest in _names_in(code):
            if first not in scope:
                continue
            value, name = scope[first], first
            while isinstance(value, ModuleType) and rest:
                name = rest.pop(0)
                value = getattr(value, name, None)
            self._use(self._short(module, name), name, value)

    def _use(self, full_name: str, name: str, value: Any) -> None:
        if isinstance(value, ModuleType):
            return
        if isinstance(value, (FunctionType, MethodType, type, functools.partial)):
            if _is_users(value):
                self.take(value)
        elif _is_constant(name, value):
            self._keep(full_name, value)
        elif _is_users(type(value)):
            self.take(type(value))  # what an object is counts; what it holds is state
        elif (wrapped := getattr(value, "__wrapped__", None)) is not None:
            self.take(wrapped)

    def _keep_values(self, owner: Any, values: list[tuple[Any, Any]]) -> None:
        for name, value in values:
            self._use(f"{self._name_of(owner)}({name})", "GIVEN", value)

    def _keep(self, name: str, value: Any) -> None:
        while name in self.parts:
            name += "'"  # a wrapper has the name of what it wraps
        with contextlib.suppress(NotPlainError):
            self.parts[name] = digest(value)

    def _name_of(self, thing: Any) -> str:
        return self._short(_module_of(thing), getattr(thing, "__qualname__", "?"))

    def _short(self, module: str, name: str) -> str:
        return name if module == self._home else f"{module}.{name}"


def _module_of(thing: Any) -> str:
    while isinstance(thing, functools.partial):
        thing = thing.func
    return getattr(thing, "__module__", None) or ""


def _methods_of(cls: type) -> list[FunctionType]:
    members = [getattr(one, "__func__", getattr(one, "fget", one)) for one in vars(cls).values()]
    return [one for one in members if isinstance(one, FunctionType)]


def _names_in(code: CodeType) -> Iterator[list[str]]:
    """Yield what a function reads from its module: names, with the attributes read off them.

    Names it assigns are state, not constants.
    """
    written = {
        one.argval for one in _instructions(code) if one.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")
    }
    path: list[str] = []
    for one in _instructions(code):
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            if path:
                yield path
            path = [] if one.argval in written else [one.argval]
        elif one.opname in ("LOAD_ATTR", "LOAD_METHOD") and path:
            path.append(one.argval)
        elif path and one.opname not in ("CACHE", "PRECALL", "PUSH_NULL"):
            yield path
            path = []
    if path:
        yield path


def _instructions(code: CodeType) -> Iterator[Any]:
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


def _is_constant(name: str, value: Any) -> bool:
    if isinstance(value, (str, bytes, int, float, bool, type(None))):
        return True
    if isinstance(value, (tuple, frozenset)):
        return all(_is_constant(name, one) for one in value)
    return isinstance(value, (list, dict, set)) and bool(re.fullmatch(r"_*[A-Z][A-Z0-9_]*", name))


def _source_of(thing: CodeType | type) -> str | None:
    """Return source without comments, docstrings and layout; None if it cannot be read."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError):
        return None
    if isinstance(thing, CodeType) and thing.co_name == "<lambda>":
        # What is found is the whole statement around it.
        lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
        return ast.unparse(lambdas[0]) if len(lambdas) == 1 else None
    for node in ast.walk(tree):
        _drop_docstring(node)
    return ast.unparse(tree)


def _drop_docstring(node: ast.AST) -> None:
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    match node.body[0]:
        case ast.Expr(value=ast.Constant(value=str())):
            node.body = node.body[1:] or [ast.Pass()]


def _shape(code: CodeType) -> list[Any]:
    """Return what bytecode does, without where it stood."""
    constants = [_shape(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), list(code.co_varnames), constants]


def _is_users(thing: Any) -> bool:
    """Tell whether something is from the user's own modules: not Python's, not an installed one."""
    if isinstance(thing, functools.partial):
        return _is_users(thing.func)
    if isinstance(thing, (FunctionType, MethodType)):
        # Not its module: a wrapper from a library borrows the name and module of what it wraps.
        return not _is_in_library(thing.__code__.co_filename)
    module = sys.modules.get(_module_of(thing))
    if module is None or module.__name__ == "__main__":
        return True
    file = getattr(module, "__file__", None)
    return file is not None and not _is_in_library(file)  # without one: built into Python


def _is_in_library(file: str) -> bool:
    return file.startswith("<frozen") or any(
        Path(file).is_relative_to(place) for place in _libraries()
    )


@functools.cache
def _libraries() -> tuple[Path, ...]:
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[1])}
    return tuple(Path(place) for place in places if place)
