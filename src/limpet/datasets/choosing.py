"""In which order do items come, and how many?

Each item has a rank, a hash of the seed and its id. A sample is the items of the lowest ranks, a
shuffle is the order of the ranks. So a larger sample holds the smaller one, and a row more or less
moves no other: what a run has already paid for stays useful, as it would not with a random draw.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from limpet.datasets.packed import PackedItems
from limpet.types import Item


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of the items of a dataset are meant: a sample, or the first, or the first of a sample.

    Attributes:
        sample: So many, chosen by `seed`; None: all.
        limit: The first so many of these; None: all.
        seed: Which sample.
    """

    sample: int | None = None
    limit: int | None = None
    seed: int = 0

    def places(self, items: Sequence[Item]) -> Sequence[int]:
        """Return the places of those that are meant, in the order of the dataset."""
        places: Sequence[int] = range(len(items))
        if self.sample is not None and self.sample < len(items):
            places = sorted(_ranked(items, self.seed)[: self.sample])
        return places[: self.limit]


def choose(items: PackedItems, selection: Selection, *, shuffle: bool) -> PackedItems:
    """Return the items shuffled, then those that are selected."""
    if shuffle:
        items = items.at(_ranked(items, selection.seed))
    if selection.sample is None and selection.limit is None:
        return items
    return items.at(selection.places(items))


def _ranked(items: Sequence[Item], seed: int) -> list[int]:
    """Return the places of the items, that of the lowest rank first."""
    names = items.names if isinstance(items, PackedItems) else [item.id for item in items]
    ranks = [_rank(seed, name) for name in names]
    return sorted(range(len(items)), key=ranks.__getitem__)


def _rank(seed: int, name: str) -> bytes:
    text = f"{seed}:{name}".encode(errors="surrogatepass")
    return blake2b(text, digest_size=8).digest()
