"""The work items of a run: every item in every trial, each with its key."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

from limpet.fingerprints.keys import Occurrences, digest, item_identity, output_key
from limpet.run.planning.items_file import Contents
from limpet.types import Item
from limpet.workflows.protocol import Workflow


class WorkItem(NamedTuple):
    """An item in a trial.

    Attributes:
        item: The item.
        trial: The trial, counted from 0.
        seen: The digest of what the workflow sees of the item.
        occurrence: The number of earlier items with the same digest.
    """

    item: Item
    trial: int
    seen: str
    occurrence: int

    @property
    def identity(self) -> bytes:
        """The item's identity, independent of its id and of fields the workflow does not see."""
        return item_identity(self.seen, self.occurrence)

    def key(self, fingerprint: str) -> str:
        """Return the key of the workflow's cell under this fingerprint."""
        return output_key(self.seen, fingerprint, self.trial, self.occurrence)


class WorkItems(Sequence[WorkItem]):
    """All work items, trial by trial, in the order of the dataset; created on access.

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

    @overload
    def __getitem__(self, at: int) -> WorkItem: ...

    @overload
    def __getitem__(self, at: slice) -> list[WorkItem]: ...

    def __getitem__(self, at: int | slice) -> WorkItem | list[WorkItem]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        trial, at = divmod(range(len(self))[at], len(self._places))
        item = self._items[place := self._places[at]]
        return WorkItem(item, trial, *self.contents[place])

    def place(self, at: int) -> tuple[int, int]:
        """Return the place in the dataset and the trial of a work item."""
        trial, at = divmod(at, len(self._places))
        return self._places[at], trial

    def keys(self, fingerprint: str) -> Iterator[str]:
        """Yield the keys of the workflow's cells under this fingerprint."""
        for trial in range(self._trials):
            for key in self.contents.keys(fingerprint, trial, self._places):
                yield key.hex()
