"""Which arguments does a user's function want from an item?"""

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.types import Item

Pick = Callable[[Item], dict[str, Any]]


def names_wanted(function: Any) -> tuple[list[str], bool]:
    """Return the names of the arguments a function must get, and whether it takes any others.

    Raises:
        TypeError: It cannot be called with arguments by name.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError as error:  # some builtins do not tell
        raise TypeError(f"{function!r}: its parameters cannot be read; wrap it in a def") from error
    only_by_place = [one.name for one in parameters if one.kind is one.POSITIONAL_ONLY]
    if len(only_by_place) > 1:
        raise TypeError(f"{function!r}: takes {only_by_place} by place only; wrap it in a def")
    named = [
        one.name
        for one in parameters
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) and one.default is one.empty
    ]
    return only_by_place + named, any(one.kind is one.VAR_KEYWORD for one in parameters)


def wants_input_alone(names: list[str], item: Item) -> bool:
    """Tell whether a function of these parameters is to get the item's input and nothing else.

    Raises:
        HoldfastError: It wants something that the dataset does not have.
    """
    known = {*item.row, "item", "input", "expected"}
    if all(name in known for name in names) and names != ["input"]:
        return not names
    if len(names) == 1:
        return True
    missing = next(name for name in names if name not in known)
    near = get_close_matches(missing, known, n=1)
    raise HoldfastError(
        f"the workflow wants {missing!r}, and the dataset has no such column",
        hint=(f"did you mean {near[0]!r}? " if near else "")
        + f"columns: {', '.join(sorted(item.row))}; or take one argument for the input, or `item`",
    )


def value_for(name: str, item: Item) -> Any:
    """Return what a parameter of this name gets."""
    if name in item.row:
        return item.row[name]
    return item if name == "item" else getattr(item, name)
