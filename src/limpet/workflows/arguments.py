"""Which arguments does a user's function want from an item?"""

import functools
import inspect
from difflib import get_close_matches
from typing import Any

from limpet.errors import LimpetError
from limpet.types import Item


def names_wanted(function: Any) -> list[str]:
    """Return the names of the arguments a function must get.

    Raises:
        LimpetError: It takes none, or cannot be called with arguments by name.
    """
    parameters = _parameters(function)
    by_place = [one.name for one in parameters if one.kind is one.POSITIONAL_ONLY]
    needed = [one.name for one in parameters if _is_named(one) and one.default is one.empty]
    if by_place and by_place + needed != by_place[:1]:
        raise LimpetError(
            f"{function!r}: takes {', '.join(by_place)} by place only",
            hint="let it take its arguments by name, or the input alone",
        )
    if not by_place and not any(_is_named(one) for one in parameters):
        raise LimpetError(
            f"{function!r}: takes no argument by name",
            hint="let it take the input, columns of the dataset, or `item`",
        )
    return by_place + needed


def names_given(function: Any, item: Item) -> list[str]:
    """Return the arguments a function gets: those it must, and columns it has a default for."""
    bound = function.keywords if isinstance(function, functools.partial) else {}
    return [
        one.name
        for one in _parameters(function)
        if _is_named(one)
        and (one.default is one.empty or (one.name in item.row and one.name not in bound))
    ]


@functools.lru_cache(maxsize=256)
def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError) as error:  # some builtins do not tell
        raise LimpetError(
            f"{function!r}: its parameters cannot be read", hint="wrap it in a def"
        ) from error


def _is_named(one: inspect.Parameter) -> bool:
    return one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)


def wants_input_alone(names: list[str], item: Item) -> bool:
    """Tell whether a function of these parameters is to get the item's input and nothing else.

    Raises:
        LimpetError: It wants something that the dataset does not have.
    """
    known = {*item.row, "item", "input", "expected"}
    if names and all(name in known for name in names) and names != ["input"]:
        return False
    if len(names) <= 1:
        return True
    missing = next(name for name in names if name not in known)
    near = get_close_matches(missing, known, n=1)
    raise LimpetError(
        f"the workflow wants {missing!r}, and the dataset has no such column",
        hint=(f"did you mean {near[0]!r}? " if near else "")
        + f"columns: {', '.join(sorted(item.row))}; or take one argument for the input, or `item`",
    )


def value_for(name: str, item: Item) -> Any:
    """Return what a parameter of this name gets."""
    if name in item.row:
        return item.row[name]
    if name == "item":
        return item
    if name in ("input", "expected"):
        return getattr(item, name)
    raise LimpetError(
        f"item {item.id!r} has no column {name!r}, which the workflow wants",
        hint="give the parameter a default, or the row a value",
    )
