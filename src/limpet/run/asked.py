"""What is asked of the workflow: every item in every trial, each with its key."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from limpet.journal.files import make_directory, read_whole, replace_file
from limpet.journal.fingerprint import Occurrences, digest, output_key
from limpet.journal.index import KEY_BYTES, NO_KEY
from limpet.journal.layout import Layout
from limpet.types import Item
from limpet.workflows.protocol import Workflow


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


def ask(
    items: Iterable[Item], trials: int, workflow: Workflow, places: Sequence[int] | None = None
) -> list[Asked]:
    """Return what is asked, trial by trial, in the order of the dataset.

    Args:
        items: All items: which occurrence one is, does not depend on what is selected.
        trials: How often each is asked.
        workflow: What they are asked.
        places: The places of those that are asked; None: all.
    """
    occurrences = Occurrences()
    seen = []
    for item in items:
        content = digest(workflow.seen(item))
        seen.append((item, content, occurrences.number(content)))
    return [
        Asked(item, trial, content, number, item.id if trials == 1 else f"{item.id}_rep{trial}")
        for trial in range(trials)
        for item, content, number in (seen if places is None else [seen[at] for at in places])
    ]


class Note(NamedTuple):
    """Which keys count, for those who only read the files.

    Attributes:
        keys: Those of the workflow as it is now, in the order of the dataset.
        standing: By such a key, that of an earlier version's answer, which counts until there is
            one under the key itself; and which version that is.
    """

    keys: list[bytes]
    standing: dict[bytes, tuple[bytes, bytes]]


def write_asked(
    layout: Layout, keys: Sequence[str], standing: Mapping[str, tuple[str, str]]
) -> None:
    """Leave a note of which keys count now: all of them, an empty one, and those that stand."""
    triples = [NO_KEY, *(bytes.fromhex(now + "".join(one)) for now, one in standing.items())]
    make_directory(layout.asked.parent)
    replace_file(layout.asked, [bytes.fromhex("".join(keys)), *(triples if standing else [])])


def read_asked(layout: Layout) -> Note | None:
    """Return which keys count now; None if nobody left a note."""
    try:
        raw = read_whole(layout.asked)
    except FileNotFoundError:
        return None
    keys = [raw[at : at + KEY_BYTES] for at in range(0, len(raw), KEY_BYTES)]
    end = keys.index(NO_KEY) if NO_KEY in keys else len(keys)
    rest = keys[end + 1 :]
    triples = zip(rest[::3], rest[1::3], rest[2::3], strict=False)
    return Note(keys[:end], {now: (before, version) for now, before, version in triples})
