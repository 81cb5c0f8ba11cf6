"""Which column is the id, which the input, which the expected answer?"""

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from limpet.errors import DatasetError
from limpet.text import one_line

_DEFAULTS = {"id": ("id",), "input": ("question", "input"), "expected": ("answer", "expected")}
_MOST_SHOWN = 20
_SEPARATORS = {";": "semicolons", "\t": "tabs", ",": "commas", "|": "bars"}


class Roles(NamedTuple):
    """Which column is what.

    Attributes:
        id: The column of the ids; None: ids come from the content.
        input: The column of the inputs.
        expected: The column of the expected answers; None if there is none.
    """

    id: str | None
    input: str
    expected: str | None


def find_roles(
    place: str,
    columns: Collection[str],
    *,
    id: str | None,  # noqa: A002 - the words of `load`
    input: str | None,  # noqa: A002
    expected: str | None,
) -> Roles:
    """Return which column is what: as the caller says, else by the usual names.

    Raises:
        DatasetError: A column that is named, or any for the input, is not there.
    """
    for role, name in (("id", id), ("input", input), ("expected", expected)):
        if name is not None:
            check_column(place, columns, name, f"{role}={name!r}: ")
    asked = input if input is not None else _usual("input", columns)
    if asked is None:
        raise _no_input(place, columns)
    if expected is None:
        # A column that is asked is not at the same time its own answer.
        expected = _usual("expected", [name for name in columns if name != asked])
    return Roles(id if id is not None else _usual("id", columns), asked, expected)


def check_column(place: str, columns: Collection[str], name: str, asker: str = "") -> None:
    """Raise `DatasetError` if there is no such column, with those there are and the nearest."""
    if name in columns:
        return
    near = nearest(name, columns)
    raise DatasetError(
        f"{place}: {asker}there is no column {one_line(repr(name))}; the columns are "
        f"{listed(columns)}",
        hint=_hint_of_separator(columns) or (f"did you mean {near}?" if near else None),
    )


def nearest(name: str, names: Collection[str]) -> str | None:
    """Return the name that was probably meant, quoted; None if none is near."""
    folded = {one.casefold().strip(): one for one in reversed(list(names))}
    found = get_close_matches(name.casefold().strip(), folded, n=1)
    return one_line(repr(folded[found[0]])) if found else None


def listed(names: Collection[str]) -> str:
    """Return names, quoted, as many as a message can bear."""
    shown = [one_line(repr(name)) for name in list(names)[:_MOST_SHOWN]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _usual(role: str, columns: Collection[str]) -> str | None:
    return next((name for name in _DEFAULTS[role] if name in columns), None)


def _no_input(place: str, columns: Collection[str]) -> DatasetError:
    wanted: Sequence[str] = _DEFAULTS["input"]
    near = next((found for name in wanted if (found := nearest(name, columns))), None)
    shown = near or '"…"'
    hint = _hint_of_separator(columns) or f"say which one is asked: input={shown}"
    return DatasetError(
        f"{place}: there is no column 'question' or 'input'; the columns are {listed(columns)}",
        hint=hint,
    )


def _hint_of_separator(columns: Collection[str]) -> str | None:
    """Return what may be the matter with a file of a single column, as Excel writes in Europe."""
    if len(columns) != 1:
        return None
    (only,) = columns
    word = next((word for sign, word in _SEPARATORS.items() if sign in only), None)
    if word is None:
        return None
    return f"its cells seem to be separated by {word}: .csv means commas, .tsv tabs"
