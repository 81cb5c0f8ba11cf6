"""Sequences of keys and calls that stay small for a million cells."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from limpet.journal.index import KEY_BYTES
from limpet.run.executing.cells import Call
from limpet.run.planning.work_items import WorkItems
from limpet.types import Cell


class Keys(Sequence[str]):
    """Keys, stored in 16 bytes each.

    Args:
        keys: The keys, as 32 hex digits each.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        raw = bytearray()
        for key in keys:
            raw += bytes.fromhex(key)
        self.raw = bytes(raw)

    def __len__(self) -> int:
        return len(self.raw) // KEY_BYTES

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> list[str]: ...

    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        begin = range(len(self))[at] * KEY_BYTES
        return self.raw[begin : begin + KEY_BYTES].hex()


class Calls(Sequence[Call]):
    """Calls of a step, created on access.

    Args:
        step: The step's name.
        work_items: All work items.
        keys: The key of each work item.
        places: The places of the work items in this sequence.
    """

    def __init__(
        self, step: str, work_items: WorkItems, keys: Keys, places: "range | array[int]"
    ) -> None:
        self._step = step
        self._work_items = work_items
        self._keys = keys
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> Call: ...

    @overload
    def __getitem__(self, at: slice) -> "Calls": ...

    def __getitem__(self, at: int | slice) -> "Call | Calls":
        if isinstance(at, slice):
            return Calls(self._step, self._work_items, self._keys, self._places[at])
        return self._call_at(self._places[at])

    def __iter__(self) -> Iterator[Call]:
        return map(self._call_at, self._places)

    def _call_at(self, place: int) -> Call:
        work_item = self._work_items[place]
        return work_item, Cell(self._step, work_item.item.id, work_item.trial, self._keys[place])
