"""What is asked of the workflow: every item in every trial, each with its key."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, overload

from limpet.fingerprints.keys import Occurrences, digest, output_key
from limpet.journal.files import make_directory, read_whole, replace_file
from limpet.journal.index import KEY_BYTES, NO_KEY
from limpet.journal.layout import Layout
from limpet.journal.lines import crc32
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

    @property
    def identity(self) -> str:
        """Which item it is, whatever it is called and whatever else its row holds."""
        return f"{self.seen}-{self.occurrence}"

    def key(self, fingerprint: str) -> str:
        """Return the key of the workflow's cell, if the workflow has this fingerprint."""
        return output_key(self.seen, fingerprint, self.trial, self.occurrence)


class AskedItems(Sequence[Asked]):
    """All that is asked, trial by trial, in the order of the dataset; each made when it is wanted.

    Args:
        items: All items: which occurrence one is does not depend on what is selected.
        trials: How often each is asked.
        workflow: What will see of them what counts.
        places: The places of those that are asked; None: all.
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
        self._repeated: dict[int, int] = {}  # by place, which occurrence: most are the first
        occurrences, seen = Occurrences(), bytearray()
        for place, item in enumerate(items):
            content = digest(workflow.seen(item))
            seen += bytes.fromhex(content)
            if number := occurrences.number(content):
                self._repeated[place] = number
        self._seen = bytes(seen)

    def __len__(self) -> int:
        return len(self._places) * self._trials

    @overload
    def __getitem__(self, at: int) -> Asked: ...

    @overload
    def __getitem__(self, at: slice) -> list[Asked]: ...

    def __getitem__(self, at: int | slice) -> Asked | list[Asked]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        trial, at = divmod(range(len(self))[at], len(self._places))
        item = self._items[place := self._places[at]]
        public_id = item.id if self._trials == 1 else f"{item.id}_rep{trial}"
        return Asked(item, trial, *self._content(place), public_id)

    def _content(self, place: int) -> tuple[str, int]:
        begin = place * KEY_BYTES
        return self._seen[begin : begin + KEY_BYTES].hex(), self._repeated.get(place, 0)

    def keys(self, fingerprint: str) -> Iterator[str]:
        """Yield the keys of the workflow's cells, if the workflow has this fingerprint."""
        for trial in range(self._trials):
            for place in self._places:
                seen, occurrence = self._content(place)
                yield output_key(seen, fingerprint, trial, occurrence)


class Note(NamedTuple):
    """Which keys count, for those who only read the files.

    Attributes:
        keys: Those of the workflow as it is now, in the order of the dataset.
        standing: By such a key, that of an earlier version's answer, which counts until there is
            one under the key itself; and which version that is.
    """

    keys: list[bytes]
    standing: dict[bytes, tuple[bytes, bytes]]


def write_asked(layout: Layout, keys: bytes, standing: Mapping[str, tuple[str, str]]) -> None:
    """Leave a note of which keys count now: all of them, an empty one, and those that stand."""
    triples = [bytes.fromhex(now + "".join(one)) for now, one in standing.items()]
    together = keys + (b"".join([NO_KEY, *triples]) if standing else b"")
    make_directory(layout.asked.parent)
    replace_file(layout.asked, [together, crc32(together).to_bytes(_CRC_BYTES)])


def read_asked(layout: Layout) -> Note | None:
    """Return which keys count now; None if nobody left a note of them, or it is damaged."""
    try:
        raw = read_whole(layout.asked)
    except FileNotFoundError:
        return None
    together, crc = raw[:-_CRC_BYTES], raw[-_CRC_BYTES:]
    if len(together) % KEY_BYTES or crc != crc32(together).to_bytes(_CRC_BYTES):
        return None
    keys = [together[at : at + KEY_BYTES] for at in range(0, len(together), KEY_BYTES)]
    end = keys.index(NO_KEY) if NO_KEY in keys else len(keys)
    rest = keys[end + 1 :]
    triples = zip(rest[::3], rest[1::3], rest[2::3], strict=False)
    return Note(keys[:end], {now: (before, version) for now, before, version in triples})
