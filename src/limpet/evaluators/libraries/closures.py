"""What does an evaluator that is a function hold, and how does it get something else to hold?

openevals and Inspect return functions: prompt and model are in their closures. A copy of such a
function holds a model without retries, and the user's own stays unchanged.
"""

import re
import string
from collections.abc import Callable, Iterator
from functools import partial
from operator import is_not
from types import CellType, FunctionType
from typing import Any

Replace = Callable[[str, Any], Any]
"""Returns what a variable of this name and value becomes; the same object: it stays."""


def variables(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values that a function holds in its closure, or a partial has filled."""
    if isinstance(function, partial):
        yield from ((f"argument {place}", value) for place, value in enumerate(function.args))
        yield from function.keywords.items()
    elif isinstance(function, FunctionType):
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                yield name, cell.cell_contents
            except ValueError:  # it has no value yet
                continue


def is_of(thing: Any, package: str) -> bool:
    """Return whether an object is a function of a package, or a partial of one."""
    function = thing.func if isinstance(thing, partial) else thing
    module = getattr(function, "__module__", None)
    is_function = isinstance(function, FunctionType) and isinstance(module, str)
    return is_function and str(module).partition(".")[0] == package


def replaced(function: Any, replace: Replace, package: str) -> Any:
    """Return a function that holds other values; the same function if nothing changes.

    Only what changes is copied, so that variables which functions share stay shared. Functions that
    it holds are copied too if they are of the package.
    """
    values = dict(variables(function))
    new = {name: _new(name, value, replace, package) for name, value in values.items()}
    if all(new[name] is value for name, value in values.items()):
        return function
    if isinstance(function, partial):
        named = {name: new[name] for name in function.keywords}
        return partial(function.func, *(new[name] for name in new if name not in named), **named)
    cells = zip(function.__code__.co_freevars, function.__closure__, strict=True)
    closure = tuple(
        cell if new.get(name) is values.get(name) else CellType(new[name]) for name, cell in cells
    )
    code, names = function.__code__, function.__globals__
    copy = FunctionType(code, names, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _new(name: str, value: Any, replace: Replace, package: str) -> Any:
    if is_of(value, package):
        return replaced(value, replace, package)
    if isinstance(value, list):
        items = [_new(name, item, replace, package) for item in value]
        return items if any(map(is_not, items, value)) else value
    return replace(name, value)


def format_fields(template: str) -> tuple[str, ...] | None:
    """Return the names in a template for `str.format`; None if it is not one."""
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(template) if field]
    except ValueError:
        return None
    return tuple(dict.fromkeys(re.split(r"[.\[]", field)[0] for field in fields))
