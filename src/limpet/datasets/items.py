"""How does a row become an item with a stable id?

Rows are kept as JSON to save memory: three hundred bytes where a dict of strings takes eight
hundred. An item is created on each access, so the caller may change it.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from hashlib import blake2b
from itertools import islice
from numbers import Real
from typing import Any, TypeAlias, overload
from uuid import UUID

import orjson

from limpet.datasets.columns import Roles
from limpet.datasets.rows import BadRows, Flaw, SourceTable, is_nan
from limpet.errors import DatasetError
from limpet.fingerprints.keys import Occurrences, digest
from limpet.json_values import NotPlainError, encode_canonical, encode_plain, plain_size
from limpet.shapes import Item
from limpet.text import one_line, quoted

Packed: TypeAlias = bytes | dict[str, Any]
"""A row as JSON, or the row itself if the fast decoder would not restore it exactly."""

_CHUNK = 1_000
_HASH_DIGITS = 16


def pack(values: dict[str, Any]) -> Packed:
    """Pack a row that was read from a file."""
    encoded = encode_plain(values) if plain_size(values) is not None else None
    # A copy: the encoder's buffer has four kilobytes to spare per row.
    return values if encoded is None else bytes(memoryview(encoded))


def unpack(packed: Packed) -> dict[str, Any]:
    """Unpack a row."""
    return orjson.loads(packed) if isinstance(packed, bytes) else packed


class PackedItems(Sequence[Item]):
    """The items of a dataset, in order, each created on access.

    Args:
        names: Their ids.
        rows: Their rows.
        roles: The columns of input and expected answer.
    """

    def __init__(self, names: Sequence[str], rows: Sequence[Packed], roles: Roles) -> None:
        self.names = names
        self.rows = rows
        self.roles = roles

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, at: int) -> Item: ...

    @overload
    def __getitem__(self, at: slice) -> "PackedItems": ...

    def __getitem__(self, at: int | slice) -> "Item | PackedItems":
        if isinstance(at, slice):
            return PackedItems(self.names[at], self.rows[at], self.roles)
        return self._item(self.names[at], self.rows[at])

    def __iter__(self) -> Iterator[Item]:
        return map(self._item, self.names, self.rows)

    def _item(self, name: str, packed: Packed) -> Item:
        row, roles = unpack(packed), self.roles
        expected = None if roles.expected is None else row.get(roles.expected)
        return Item(name, row[roles.input], expected, row)

    def at(self, positions: Sequence[int]) -> "PackedItems":
        """Return the items at these positions, in this order."""
        names = [self.names[position] for position in positions]
        return PackedItems(names, [self.rows[position] for position in positions], self.roles)

    def digest(self) -> str:
        """Return a hash that changes if any item changes.

        Raises:
            DatasetError: A row has no JSON form.
        """
        digest = blake2b(encode_canonical(self.roles), digest_size=16)
        # Ids follow from the rows, except for the numbering of equal rows.
        digest.update("\n".join(self.names).encode(errors="surrogatepass"))
        rows = map(_canonical, self.names, self.rows)
        while encoded := list(islice(rows, _CHUNK)):
            digest.update(b"\n".join(encoded) + b"\n")  # our JSON contains no line ends
        return digest.hexdigest()


class _UnusableError(ValueError):
    """A row cannot become an item; `value` is shown with the message."""

    def __init__(self, reason: str, value: object) -> None:
        super().__init__(reason)
        self.value = value


class ItemMaker:
    """Turns rows into items, and collects the rows that cannot become one.

    Args:
        roles: The columns of id, input and expected answer.
        table: The source of the rows.
    """

    def __init__(self, roles: Roles, table: SourceTable) -> None:
        self.roles = roles
        self._table = table
        self._numbers: dict[str, int] = {}
        self._occurrences = Occurrences()
        self._names: list[str] = []
        self._rows: list[Packed] = []
        self._flaws: list[Flaw] = []

    def take(self, number: int, values: dict[str, Any], packed: Packed) -> None:
        """Add the row that starts at `number`."""
        try:
            _check_input(values, self.roles.input)
            name = self._id_of(number, values)
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

    def _id_of(self, number: int, values: dict[str, Any]) -> str:
        column = self.roles.id
        if column is None:
            return self._id_of_content(values)
        name = _text_of(values.get(column), column, values)
        first = self._numbers.get(name)
        if first is not None:  # may be on the same line: a JSON array can have many rows in one
            raise _UnusableError(f"the same id as {self._table.unit} {first}", f"{column}={name!r}")
        self._numbers[name] = number
        return name

    def _id_of_content(self, values: dict[str, Any]) -> str:
        # Only equal rows are numbered, so an inserted row changes no other id.
        try:
            content = digest(values)[:_HASH_DIGITS]
        except NotPlainError as error:
            raise _UnusableError(_no_json_form(values, error), values) from error
        occurrence = self._occurrences.number(content)
        return f"{content}-{occurrence}" if occurrence else content


def _check_input(values: dict[str, Any], column: str) -> None:
    value = values.get(column)
    if value is None or is_nan(value):
        # An empty string is a valid input; null is a missing one.
        state = "is null" if column in values else "is missing"
        raise _UnusableError(f"the input {one_line(repr(column))} {state}", values)


def _canonical(name: str, row: Packed) -> bytes:
    if isinstance(row, bytes):
        return row
    try:
        return encode_canonical(row)
    except NotPlainError as error:
        hint = "convert it to a string or a number first, or remove the column"
        raise DatasetError(
            f"item {quoted(name)}: {_no_json_form(row, error)}", hint=hint
        ) from error


def _no_json_form(values: dict[str, Any], error: NotPlainError) -> str:
    for column, value in values.items():
        try:
            encode_canonical([[value]])  # as deep as in its row
        except NotPlainError as its_error:
            return f"{one_line(repr(column))} cannot be stored as JSON: {its_error}"
    return f"it cannot be stored as JSON: {error}"


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
