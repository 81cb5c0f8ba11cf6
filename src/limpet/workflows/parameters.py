"""Which parts of an item does a user's function get as arguments?"""

import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from limpet.errors import LimpetError
from limpet.fingerprints.keys import digest
from limpet.fingerprints.steps import DependsOn, OwnCode
from limpet.secrets.in_configs import without_secrets
from limpet.shapes import Item
from limpet.text import did_you_mean, hint_near, nearest, one_line, quoted


def names_wanted(function: Any) -> list[str]:
    """Return the names of the required parameters of a function.

    Raises:
        LimpetError: It takes no arguments, or none by name.
    """
    parameters = _parameters(_hashable(function))
    by_position = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]
    required = [p.name for p in parameters if _is_named(p) and p.default is p.empty]
    if by_position and by_position + required != by_position[:1]:
        raise LimpetError(
            f"{_shown(function)} takes {', '.join(by_position)} by position only",
            hint="let it take its arguments by name, or only the input",
        )
    if not by_position and not any(map(_is_named, parameters)):
        raise LimpetError(
            f"{_shown(function)} takes no argument by name",
            hint="let it take the input, columns of the dataset, or `item`",
        )
    return by_position + required


def first_by_position_only(function: Any) -> str | None:
    """Return the name of the first parameter if it cannot be passed by name."""
    first = next(iter(_parameters(_hashable(function))), None)
    return first.name if first is not None and first.kind is first.POSITIONAL_ONLY else None


def names_given(function: Any, item: Item, *, after_first: bool = False) -> list[str]:
    """Return the parameters a function gets by name: the required ones, and columns with a default.

    Args:
        function: The function.
        item: The item.
        after_first: Omit its first parameter.
    """
    bound = function.keywords if isinstance(function, functools.partial) else {}
    return [
        name
        for name, has_default in _named(_hashable(function), after_first)
        if not has_default or (name in item.row and name not in bound)
    ]


def _hashable(function: Any) -> Any:
    """Return the function, or its `__call__` if it has no hash, like a dataclass object."""
    return function if type(function).__hash__ is not None else function.__call__


@functools.lru_cache(maxsize=256)
def _named(function: Any, after_first: bool) -> list[tuple[str, bool]]:  # noqa: FBT001 - as given
    """Return the parameters that can be passed by name, and whether they have a default."""
    parameters = _parameters(function)[after_first:]
    return [(p.name, p.default is not p.empty) for p in parameters if _is_named(p)]


@functools.lru_cache(maxsize=256)
def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError) as error:  # some builtins have no signature
        raise LimpetError(
            f"{_shown(function)}: its parameters cannot be read", hint="wrap it in a def"
        ) from error


def _shown(function: Any) -> str:
    """Return a function's name, as in the file that defines it."""
    name = getattr(function, "__qualname__", None)
    return name if isinstance(name, str) else one_line(function)


def _is_named(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)


def takes_input_first(names: list[str], item: Item) -> bool:
    """Return whether a function with these required parameters gets the item's input first.

    It does unless its first parameter is a column, `item` or `expected`. All other parameters are
    bound by name.

    Raises:
        LimpetError: The dataset has no column for another parameter, or the first one looks like a
            misspelt column other than the input.
    """
    known = {*item.row, "item", "input", "expected"}
    missing = next((name for name in names[1:] if name not in known), None)
    if missing is None and len(names) > 1 and names[0] not in known:
        near = nearest(names[0], item.row)
        missing = None if near is None or item.row[near] == item.input else names[0]
    if missing is None:
        return not names or names == ["input"] or names[0] not in known
    columns = ", ".join(sorted(item.row))
    raise LimpetError(
        f"the workflow has a parameter {missing!r}, but the dataset has no column of that name"
        f"{did_you_mean(missing, known)}",
        hint=f"columns: {columns}; or take one argument for the input, or `item`",
    )


def value_for(name: str, item: Item) -> Any:
    """Return the value for a parameter of this name."""
    if name in item.row:
        return item.row[name]
    if name == "item":
        return item
    if name in ("input", "expected"):
        return getattr(item, name)
    raise LimpetError(
        f"item {item.id!r} has no column {name!r}, which the workflow needs",
        hint="give the parameter a default value, or add the column to the row",
    )


# ---- Which arguments does a configuration bind to the user's function or class? -----------------
#
# They are part of its identity, by name and value: a changed argument is a changed workflow. A
# string with a secret's name is not: another key gives the same answers.

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class ArgumentFlaw(NamedTuple):
    """The problem with an argument; without a name, with all of them together."""

    name: str
    text: str
    hint: str | None = None


class BoundCode(OwnCode):
    """The user's own code, and the arguments bound to it."""

    def __init__(
        self,
        thing: Any,
        version: str | None,
        args: Mapping[str, Any] | None,
        depends_on: DependsOn | None = None,
    ) -> None:
        super().__init__(thing, version, depends_on)
        self._args = dict(args or {})

    @property
    def stated(self) -> Mapping[str, str]:
        counted = {name: digest(value) for name, value in self._counted.items()}
        return {**super().stated, **counted}

    @property
    def described(self) -> Mapping[str, Any]:
        return {**super().described, **self._counted}

    @property
    def _counted(self) -> dict[str, Any]:
        # Not the bare name: the code may have a part with that name.
        counted: dict[str, Any] = without_secrets(self._args)
        return {f"argument {name}": value for name, value in counted.items()}


def flaws_of_arguments(thing: Any, args: Mapping[str, Any]) -> Iterator[ArgumentFlaw]:
    """Yield the arguments that a function or class cannot take."""
    try:
        parameters = inspect.signature(thing).parameters
    except (ValueError, TypeError):  # no signature: the first call will show it
        return
    name_of_thing = one_line(getattr(thing, "__name__", type(thing).__name__))
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = [name for name, p in parameters.items() if p.kind in _NAMED]
    for name in args:
        parameter = parameters.get(name)
        if name in named or (takes_any and not _is_by_position(parameter)):
            continue
        if _is_by_position(parameter):
            yield ArgumentFlaw(name, f"{name_of_thing} takes it by position only")
        else:
            known = f"its parameters: {', '.join(named)}" if named else "it has no parameters"
            hint = hint_near(name, named) or known
            yield ArgumentFlaw(name, f"{name_of_thing} has no parameter {quoted(name)}", hint)
    if not isinstance(thing, type) and named and all(p in args for p in parameters):
        yield ArgumentFlaw("", f"sets every parameter of {name_of_thing}", "keep one for the input")


def _is_by_position(parameter: inspect.Parameter | None) -> bool:
    return parameter is not None and parameter.kind is parameter.POSITIONAL_ONLY


def first_free(function: Any, args: Mapping[str, Any]) -> str | None:
    """Return the name of the parameter that takes the input; None: it is passed by position."""
    parameters = inspect.signature(function).parameters.values() if args else ()
    free = next((p for p in parameters if p.name not in args), None)
    return free.name if free is not None and free.kind in _NAMED else None
