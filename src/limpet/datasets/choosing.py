"""In which order do items come, and how many?

Each item has a rank, a hash of the seed and its id. A sample is the items of the lowest ranks, a
shuffle is the order of the ranks. So a larger sample holds the smaller one, and a row more or less
moves no other: what a run has already paid for stays useful, as it would not with a random draw.
"""

from hashlib import blake2b

from limpet.datasets.packed import PackedItems


def choose(
    items: PackedItems, *, shuffle: bool, sample: int | None, limit: int | None, seed: int
) -> PackedItems:
    """Return the items shuffled, then sampled, then only the first `limit` of them."""
    if shuffle or (sample is not None and sample < len(items)):
        ranks = [_rank(seed, name) for name in items.names]
        order = sorted(range(len(items)), key=ranks.__getitem__)[:sample]
        items = items.at(order if shuffle else sorted(order))
    return items if limit is None else items[:limit]


def _rank(seed: int, name: str) -> bytes:
    text = f"{seed}:{name}".encode(errors="surrogatepass")
    return blake2b(text, digest_size=8).digest()
