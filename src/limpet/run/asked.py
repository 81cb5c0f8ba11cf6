"""What is asked of the workflow: every item in every trial, each with its key."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

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


def ask(items: Iterable[Item], trials: int, workflow: Workflow) -> list[Asked]:
    """Return what is asked, trial by trial, in the order of the dataset."""
    occurrences = Occurrences()
    seen = []
    for item in items:
        content = digest(workflow.seen(item))
        seen.append((item, content, occurrences.number(content)))
    return [
        Asked(item, trial, content, number, item.id if trials == 1 else f"{item.id}_rep{trial}")
        for trial in range(trials)
        for item, content, number in seen
    ]


def write_asked(layout: Layout, keys: Sequence[str]) -> None:
    """Leave a note of which keys count now, for those who only read the files."""
    make_directory(layout.asked.parent)
    together = bytes.fromhex("".join(keys))
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
