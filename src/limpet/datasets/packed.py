"""How do a million rows fit in little memory?

As JSON: three hundred bytes where a dict of strings takes eight hundred. An item is created on each
access, so the caller may change it.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any, TypeAlias, overload

import orjson

from limpet.datasets.columns import Roles
from limpet.json_values import encode_canonical, encode_plain, plain_size
from limpet.types import Item

Packed: TypeAlias = bytes | dict[str, Any]
"""A row as JSON, or the row itself if the fast decoder would not restore it exactly."""

_CHUNK = 1_000


def pack(values: dict[str, Any]) -> Packed:
    """Pack a row that was read from a file."""
    encoded = encode_plain(values) if plain_size(values) is not None else None
    # A copy: the encoder's buffer has spare room, four kilobytes per row.
    return values if encoded is None else bytes(memoryview(encoded))


def unpack(packed: Packed) -> dict[str, Any]:
    """Return the row of a packed one."""
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

    def at(self, places: Sequence[int]) -> "PackedItems":
        """Return the items at these positions, in this order."""
        names = [self.names[place] for place in places]
        return PackedItems(names, [self.rows[place] for place in places], self.roles)

    def digest(self) -> str:
        """Return a hash that changes if any item changes."""
        digest = blake2b(encode_canonical(self.roles), digest_size=16)
        # Ids follow from the rows, except for the numbering of equal rows.
        digest.update("\n".join(self.names).encode(errors="surrogatepass"))
        rows = iter(self.rows)
        while chunk := list(islice(rows, _CHUNK)):
            encoded = [row if isinstance(row, bytes) else encode_canonical(row) for row in chunk]
            digest.update(b"\n".join(encoded) + b"\n")  # our JSON contains no line ends
        return digest.hexdigest()
