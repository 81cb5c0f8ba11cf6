"""Which columns are the id, the input and the expected answer?"""

from collections.abc import Collection
from typing import NamedTuple

from limpet.errors import DatasetError
from limpet.text import hint_near, nearest, one_line

_DEFAULTS = {"id": ("id",), "input": ("question", "input"), "expected": ("answer", "expected")}
_MOST_SHOWN = 20
_SEPARATORS = {";": "semicolons", "\t": "tabs", ",": "commas", "|": "bars"}


class MissingColumnError(DatasetError):
    """The dataset lacks a column that an argument names.

    Attributes:
        argument: The argument: `("expected",)`, or `("filter", "allow", column)`.
        flaw: The problem, without the location.
    """

    argument: tuple[str, ...] = ()
    flaw: str = ""


class Roles(NamedTuple):
    """The columns of id, input and expected answer.

    Attributes:
        id: The column of the ids; None: ids are derived from the content.
        input: The column of the inputs.
        expected: The column of the expected answers; None: the dataset has none.
    """

    id: str | None
    input: str
    expected: str | None


def find_roles(
    location: str,
    columns: Collection[str],
    *,
    id: str | None,  # noqa: A002 - the public names
    input: str | None,  # noqa: A002
    expected: str | None,
) -> Roles:
    """Return the columns' roles: as given, or by the usual names.

    Raises:
        MissingColumnError: A given column is missing, or no column is found for the input.
    """
    for role, name in (("id", id), ("input", input), ("expected", expected)):
        if name is not None:
            check_column(location, columns, name, f"{role}={name!r}: ", (role,))
    chosen = input if input is not None else _usual("input", columns)
    if chosen is None:
        raise _no_input(location, columns)
    if expected is None:
        # The input column is never also the expected answer.
        expected = _usual("expected", [name for name in columns if name != chosen])
    return Roles(id if id is not None else _usual("id", columns), chosen, expected)


def check_column(
    location: str, columns: Collection[str], name: str, asker: str, argument: tuple[str, ...]
) -> None:
    """Raise `MissingColumnError` if a column is missing, listing the columns and the closest one.

    Args:
        location: The dataset's name in messages.
        columns: Its columns.
        name: The column.
        asker: The argument that names it, in messages.
        argument: That argument.
    """
    if name not in columns:
        hint = hint_of_separator(columns) or hint_near(name, columns)
        raise _missing(location, columns, one_line(repr(name)), hint, argument, asker)


def no_column(names: str, columns: Collection[str]) -> str:
    """Return the message for a missing column."""
    return f"there is no column {names}; the columns are {listed(columns)}"


def _missing(
    location: str,
    columns: Collection[str],
    names: str,
    hint: str | None,
    argument: tuple[str, ...],
    asker: str = "",
) -> MissingColumnError:
    flaw = no_column(names, columns)
    error = MissingColumnError(f"{location}: {asker}{flaw}", hint=hint)
    error.argument, error.flaw = argument, flaw
    return error


def listed(names: Collection[str]) -> str:
    """Return the names, quoted, as many as fit in a message."""
    shown = [one_line(repr(name)) for name in list(names)[:_MOST_SHOWN]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _usual(role: str, columns: Collection[str]) -> str | None:
    return next((name for name in _DEFAULTS[role] if name in columns), None)


def _no_input(location: str, columns: Collection[str]) -> MissingColumnError:
    matches = (nearest(name, columns) for name in _DEFAULTS["input"])
    near = one_line(next(filter(None, matches), "…"))
    name_it = f"name the input column: input: {near} (in Python: input='{near}')"
    hint = hint_of_separator(columns) or name_it
    return _missing(location, columns, "'question' or 'input'", hint, ("input",))


def hint_of_separator(columns: Collection[str]) -> str | None:
    """Return a hint for a file read as a single column: Excel writes semicolons in Europe."""
    if len(columns) != 1:
        return None
    (only,) = columns
    sign = next((sign for sign in _SEPARATORS if sign in only), None)
    if sign is None:
        return None
    written = "\\t" if sign == "\t" else sign
    return (
        f"its cells seem to be separated by {_SEPARATORS[sign]}: set "
        f'delimiter: "{written}" (in Python: delimiter="{written}")'
    )
