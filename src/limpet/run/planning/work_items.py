"""The work items of a run: every item in every trial, with its key and its call.

All of them are created on access: what is held stays small for a million cells.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload

from limpet.fingerprints.keys import Occurrences, digest, item_identity, output_key
from limpet.journal.lines import KEY_BYTES
from limpet.run.planning.items_file import Content, Contents
from limpet.run.run_file import WORKFLOW
from limpet.types import Cell, Item
from limpet.workflows.protocol import Workflow


class WorkItem(NamedTuple):
    """An item in a trial.

    Attributes:
        item: The item.
        trial: The trial, counted from 0.
        content: What the workflow sees of the item.
    """

    item: Item
    trial: int
    content: Content

    @property
    def identity(self) -> bytes:
        """The item's identity, independent of its id and of fields the workflow does not see."""
        return item_identity(*self.content)

    def key(self, fingerprint: str) -> str:
        """Return the key of the workflow's cell under this fingerprint."""
        return output_key(self.content.seen, fingerprint, self.trial, self.content.occurrence)


Call = tuple[WorkItem, Cell]
"""A work item, and the cell of its answer."""


class WorkItems:
    """All work items, trial by trial, in the order of the dataset.

    Args:
        items: All items of the dataset: an occurrence does not depend on the selection.
        trials: The number of trials.
        workflow: The workflow, which says what it sees of an item.
        places: The places of the selected items; None: all.

    Attributes:
        contents: What the keys of all items are made of.
    """

    def __init__(
        self,
        items: Sequence[Item],
        trials: int,
        workflow: Workflow,
        places: Sequence[int] | None = None,
    ) -> None:
        self._items = items
        self._trials = trials
        self._places = range(len(items)) if places is None else places
        occurrences, seen, repeated = Occurrences(), bytearray(), {}
        for place, item in enumerate(items):
            content = digest(workflow.seen(item))
            seen += bytes.fromhex(content)
            if number := occurrences.number(content):
                repeated[place] = number
        self.contents = Contents(bytes(seen), repeated)

    def __len__(self) -> int:
        return len(self._places) * self._trials

    def __getitem__(self, at: int) -> WorkItem:
        place, trial = self.place(at)
        return WorkItem(self._items[place], trial, self.contents[place])

    def __iter__(self) -> Iterator[WorkItem]:
        return map(self.__getitem__, range(len(self)))

    def place(self, at: int) -> tuple[int, int]:
        """Return the place in the dataset and the trial of a work item."""
        trial, at = divmod(at, len(self._places))
        return self._places[at], trial

    def keys(self, fingerprint: str) -> "Keys":
        """Return the keys of the workflow's cells under this fingerprint."""
        return Keys(
            key
            for trial in range(self._trials)
            for key in self.contents.keys(fingerprint, trial, self._places)
        )


class Keys:
    """Keys of 32 hex digits, stored in 16 bytes each."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self._raw = b"".join(keys)

    def __len__(self) -> int:
        return len(self._raw) // KEY_BYTES

    def __getitem__(self, place: int) -> str:
        begin = place * KEY_BYTES
        return self._raw[begin : begin + KEY_BYTES].hex()

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))


class Calls(Sequence[Call]):
    """The calls of the work items at these places; there is a key for every work item."""

    def __init__(self, work_items: WorkItems, keys: Keys, places: "array[int]") -> None:
        self._work_items = work_items
        self._keys = keys
        self._places = places

    def at(self, places: "array[int]") -> "Calls":
        """Return the calls of the work items at other places."""
        return Calls(self._work_items, self._keys, places)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> Call: ...

    @overload
    def __getitem__(self, at: slice) -> "Calls": ...

    def __getitem__(self, at: int | slice) -> "Call | Calls":
        if isinstance(at, slice):
            return Calls(self._work_items, self._keys, self._places[at])
        return self._call_at(self._places[at])

    def __iter__(self) -> Iterator[Call]:
        return map(self._call_at, self._places)

    def _call_at(self, place: int) -> Call:
        work_item = self._work_items[place]
        return work_item, Cell(WORKFLOW, work_item.item.id, work_item.trial, self._keys[place])
