"""Which cells are there, a million of them, without making one before it is needed?"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from limpet.journal.index import KEY_BYTES
from limpet.run.executing.cells import Call
from limpet.run.planning.work_items import WorkItem, WorkItems
from limpet.types import Cell


class Keys(Sequence[str]):
    """Keys, one after the other, 16 bytes each.

    Args:
        keys: Each as 32 hex digits.
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
    """Cells of a step, each made when it is asked for.

    Args:
        step: Which.
        asked: What is asked, all of it.
        keys: The key of each.
        places: Which of them these are.
    """

    def __init__(
        self, step: str, asked: WorkItems, keys: Keys, places: "range | array[int]"
    ) -> None:
        self._step = step
        self._asked = asked
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
            return Calls(self._step, self._asked, self._keys, self._places[at])
        return self._made(self._places[at])

    def __iter__(self) -> Iterator[Call]:
        return map(self._made, self._places)

    def _made(self, place: int) -> Call:
        one: WorkItem = self._asked[place]
        return one, Cell(self._step, one.item.id, one.trial, self._keys[place])
