"""Which items are selected, and in which order?

Each item has a rank: a hash of the seed and its id. A sample is the items with the lowest ranks; a
shuffle is the order of the ranks. So a larger sample contains the smaller one, and adding or
removing a row moves no other: results already paid for stay useful, unlike with a random draw.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from limpet.datasets.packed import PackedItems
from limpet.types import Item


@dataclass(frozen=True, slots=True)
class Selection:
    """Which items of a dataset are selected.

    Attributes:
        sample: How many to sample by `seed`; None: all.
        limit: How many of these to take, from the first; None: all.
        seed: The seed of the sample.
    """

    sample: int | None = None
    limit: int | None = None
    seed: int = 0

    def places(self, items: Sequence[Item]) -> Sequence[int]:
        """Return the positions of the selected items, in dataset order."""
        places: Sequence[int] = range(len(items))
        if self.sample is not None and self.sample < len(items):
            places = sorted(_ranked(items, self.seed)[: self.sample])
        return places[: self.limit]


def choose(items: PackedItems, selection: Selection, *, shuffle: bool) -> PackedItems:
    """Shuffle the items if asked, then return the selected ones."""
    if shuffle:
        items = items.at(_ranked(items, selection.seed))
    if selection.sample is None and selection.limit is None:
        return items
    return items.at(selection.places(items))


def _ranked(items: Sequence[Item], seed: int) -> list[int]:
    """Return the positions of the items, lowest rank first."""
    names = items.names if isinstance(items, PackedItems) else [item.id for item in items]
    ranks = [_rank(seed, name) for name in names]
    return sorted(range(len(items)), key=ranks.__getitem__)


def _rank(seed: int, name: str) -> bytes:
    text = f"{seed}:{name}".encode(errors="surrogatepass")
    return blake2b(text, digest_size=8).digest()
