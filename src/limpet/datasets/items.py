"""How does a row become an item with a stable id?"""

from decimal import Decimal
from numbers import Real
from typing import Any
from uuid import UUID

from limpet.datasets.cells import is_nan
from limpet.datasets.columns import Roles
from limpet.datasets.packed import Packed, PackedItems
from limpet.datasets.rows import BadRows, Flaw, Table
from limpet.fingerprints.keys import Occurrences, digest
from limpet.json_values import NotPlainError
from limpet.text import one_line

_HASH_DIGITS = 16


class _UnusableError(ValueError):
    """A row cannot become an item. The message says why; `value` is shown with it."""

    def __init__(self, reason: str, value: object) -> None:
        super().__init__(reason)
        self.value = value


class ItemMaker:
    """Turns rows into items, and collects the rows that cannot become one.

    Args:
        roles: The columns of id, input and expected answer.
        table: The source of the rows.
    """

    def __init__(self, roles: Roles, table: Table) -> None:
        self.roles = roles
        self._ids = _Ids(roles.id, table)
        self._names: list[str] = []
        self._rows: list[Packed] = []
        self._flaws: list[Flaw] = []

    def take(self, number: int, values: dict[str, Any], packed: Packed) -> None:
        """Add the row that begins at `number`."""
        try:
            _check_input(values, self.roles.input)
            name = self._ids.of(number, values)
        except _UnusableError as error:
            self._flaws.append(Flaw(number, error.value, str(error)))
            return
        self._names.append(name)
        self._rows.append(packed)

    def items(self, bad: BadRows) -> PackedItems:
        """Return the items; rows that cannot become one are added to `bad`."""
        for flaw in self._flaws:
            bad.add(*flaw)
        return PackedItems(self._names, self._rows, self.roles)


def _check_input(values: dict[str, Any], column: str) -> None:
    value = values.get(column)
    if value is None or is_nan(value):
        # An empty string is a valid input; null is a missing one.
        state = "is null" if column in values else "is missing"
        raise _UnusableError(f"the input {one_line(repr(column))} {state}", values)


class _Ids:
    """Assigns each row its id: from the id column, or from its content."""

    def __init__(self, column: str | None, table: Table) -> None:
        self._column = column
        self._table = table
        self._taken: dict[str, int] = {}
        self._occurrences = Occurrences()

    def of(self, number: int, values: dict[str, Any]) -> str:
        """Return the id of the row that begins at `number`."""
        if self._column is None:
            return self._of_content(values)
        name = _text_of(values.get(self._column), self._column, values)
        first = self._taken.get(name)
        if first is not None:  # may be on the same line: a JSON array can have many rows in one
            raise _UnusableError(
                f"the same id as at {self._table.unit} {first}", f"{self._column}={name!r}"
            )
        self._taken[name] = number
        return name

    def _of_content(self, values: dict[str, Any]) -> str:
        # Only equal rows are numbered, so an inserted row changes no other id.
        try:
            content = digest(values)[:_HASH_DIGITS]
        except NotPlainError as error:
            reason = f"without an id column, ids are made from the content, but {error}"
            raise _UnusableError(reason, values) from error
        occurrence = self._occurrences.number(content)
        return f"{content}-{occurrence}" if occurrence else content


def _text_of(value: Any, column: str, values: dict[str, Any]) -> str:
    if isinstance(value, str) and value and not value.isspace():
        return value
    if value is None or isinstance(value, str) or is_nan(value):
        raise _UnusableError(f"the id {one_line(repr(column))} is blank or missing", values)
    shown = f"{column}={one_line(value)}"
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal, UUID)):
        raise _UnusableError(
            f"an id must be a string or a number, not {type(value).__name__}", shown
        )
    try:
        return str(value)
    except ValueError as error:  # an int of more than 4,300 digits
        raise _UnusableError(f"the id cannot be a string: {error}", shown) from error
