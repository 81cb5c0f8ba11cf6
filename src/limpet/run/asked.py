"""What is asked of the workflow: every item in every trial, each with its key."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

from limpet.journal.checksum import crc32
from limpet.journal.files import make_directory, replace_file
from limpet.journal.fingerprint import Occurrences, digest, output_key
from limpet.journal.index import KEY_BYTES
from limpet.journal.layout import Layout
from limpet.types import Item
from limpet.workflows.protocol import Workflow

_CRC_BYTES = 4


class Asked(NamedTuple):
    """One item in one trial.

    Attributes:
        item: The item.
        trial: Which repetition, from 0.
        seen: The digest of what the workflow sees of the item.
        occurrence: Which of the items of which it sees the same.
        public_id: The id in the files that others read: with several trials, `<id>_rep<N>`.
    """

    item: Item
    trial: int
    seen: str
    occurrence: int
    public_id: str

    def key(self, fingerprint: str) -> str:
        """Return the key of the workflow's cell, if the workflow has this fingerprint."""
        return output_key(self.seen, fingerprint, self.trial, self.occurrence)


class AskedItems(Sequence[Asked]):
    """All that is asked, trial by trial, in the order of the dataset; each made when it is wanted.

    Args:
        items: The items.
        trials: How often each is asked.
        workflow: What will see of them what counts.
    """

    def __init__(self, items: Sequence[Item], trials: int, workflow: Workflow) -> None:
        self._items = items
        self._trials = trials
        self._repeated: dict[int, int] = {}  # by place, which occurrence: most are the first
        occurrences, seen = Occurrences(), bytearray()
        for place, item in enumerate(items):
            content = digest(workflow.seen(item))
            seen += bytes.fromhex(content)
            if number := occurrences.number(content):
                self._repeated[place] = number
        self._seen = bytes(seen)

    def __len__(self) -> int:
        return len(self._items) * self._trials

    @overload
    def __getitem__(self, at: int) -> Asked: ...

    @overload
    def __getitem__(self, at: slice) -> list[Asked]: ...

    def __getitem__(self, at: int | slice) -> Asked | list[Asked]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        trial, place = divmod(range(len(self))[at], len(self._items))
        item = self._items[place]
        public_id = item.id if self._trials == 1 else f"{item.id}_rep{trial}"
        return Asked(item, trial, *self._content(place), public_id)

    def _content(self, place: int) -> tuple[str, int]:
        begin = place * KEY_BYTES
        return self._seen[begin : begin + KEY_BYTES].hex(), self._repeated.get(place, 0)

    def keys(self, fingerprint: str) -> Iterator[str]:
        """Yield the keys of the workflow's cells, if the workflow has this fingerprint."""
        for trial in range(self._trials):
            for place in range(len(self._items)):
                seen, occurrence = self._content(place)
                yield output_key(seen, fingerprint, trial, occurrence)


def write_asked(layout: Layout, together: bytes) -> None:
    """Leave a note of which keys count now, for those who only read the files."""
    make_directory(layout.asked.parent)
    replace_file(layout.asked, [together, crc32(together).to_bytes(_CRC_BYTES)])


def read_asked(layout: Layout) -> list[bytes] | None:
    """Return the keys that count now, in the order of the dataset.

    None if nobody left a note of them, or it is damaged.
    """
    try:
        raw = layout.asked.read_bytes()
    except FileNotFoundError:
        return None
    together, crc = raw[:-_CRC_BYTES], raw[-_CRC_BYTES:]
    if len(together) % KEY_BYTES or crc != crc32(together).to_bytes(_CRC_BYTES):
        return None
    return [together[at : at + KEY_BYTES] for at in range(0, len(together), KEY_BYTES)]
