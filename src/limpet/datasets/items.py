"""How does a row become an item, with an id that is the same from run to run?"""

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
    """A row cannot be an item: the message says why, `value` is what is shown."""

    def __init__(self, reason: str, value: object) -> None:
        super().__init__(reason)
        self.value = value


class ItemMaker:
    """Makes items of rows as they come; what is wrong with some of them is said at the end.

    Args:
        roles: Which columns are the id, the input and the expected answer.
        table: Where the rows are from.
    """

    def __init__(self, roles: Roles, table: Table) -> None:
        self.roles = roles
        self._ids = _Ids(roles.id, table)
        self._names: list[str] = []
        self._rows: list[Packed] = []
        self._flaws: list[Flaw] = []

    def take(self, number: int, values: dict[str, Any], packed: Packed) -> None:
        """Take the row that begins at `number`."""
        try:
            _check_input(values, self.roles.input)
            name = self._ids.of(number, values)
        except _UnusableError as error:
            self._flaws.append(Flaw(number, error.value, str(error)))
            return
        self._names.append(name)
        self._rows.append(packed)

    def items(self, bad: BadRows) -> PackedItems:
        """Return the items; the rows that cannot be one go to `bad`."""
        for flaw in self._flaws:
            bad.add(*flaw)
        return PackedItems(self._names, self._rows, self.roles)


def _check_input(values: dict[str, Any], column: str) -> None:
    asked = values.get(column)
    if asked is None or is_nan(asked):
        # An empty text is something to ask, if an odd one; null is a question that is not there.
        state = "is null" if column in values else "is missing"
        raise _UnusableError(f"the input {one_line(repr(column))} {state}", values)


class _Ids:
    """Gives each row its id: from the id column, else from its content."""

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
        if first is not None:  # perhaps of the same line: a file of one line has many rows
            raise _UnusableError(
                f"the same id as at {self._table.unit} {first}", f"{self._column}={name!r}"
            )
        self._taken[name] = number
        return name

    def _of_content(self, values: dict[str, Any]) -> str:
        # Equal rows are counted, and only those: a row put in between shifts no other's id.
        try:
            content = digest(values)[:_HASH_DIGITS]
        except NotPlainError as error:
            reason = f"without an id column a row is told apart by its content, but {error}"
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
        raise _UnusableError(f"an id is a text or a number, not {type(value).__name__}", shown)
    try:
        return str(value)
    except ValueError as error:  # an int of more than 4,300 digits
        raise _UnusableError(f"the id has no text: {error}", shown) from error
