"""What do the evaluators see of each item, as digests?

The key of a score contains the digest of what its evaluator reads of the item. So that a reader
need not open a hundred thousand rows to find their scores, a session writes these digests to
`index/items_seen`: a line of JSON, and then for each distinct `reads` 16 bytes per item.

    {"items":[<bytes>,<crc>],"reads":[["expected","output"]],"crc":<crc>}

`items` says of which `items.jsonl` they are, by its size and checksum. The file may be deleted:
readers then open the rows.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson

from limpet.errors import JournalError
from limpet.fingerprints.keys import seen_bytes
from limpet.journal.files import make_directory, read_whole, replace_file
from limpet.journal.layout import Layout
from limpet.journal.lines import KEY_BYTES, crc32
from limpet.json_values import NotPlainError
from limpet.run.planning.items_file import noted_of
from limpet.types import Item

Reads = frozenset[str]
UNKNOWN = bytes(KEY_BYTES)
"""Stands for the digest of an item that has no JSON form."""
_NOT_OF_ITEMS = frozenset({"output", "trace"})


def sees_items(reads: Collection[str]) -> bool:
    """Return whether an evaluator reads anything of the item."""
    return not _NOT_OF_ITEMS.issuperset(reads)


def write_seen(layout: Layout, items: Sequence[Item], reads: Iterable[Collection[str]]) -> None:
    """Bring `index/items_seen` up to date. `items.jsonl` must be up to date already.

    Args:
        layout: The run's layout.
        items: Every item of the dataset.
        reads: What each evaluator reads.

    Raises:
        OSError: It cannot be written.
    """
    note = noted_of(layout)
    size_and_crc = (note.get("bytes", 0), note.get("crc", 0))
    wanted = sorted({tuple(sorted(parts)) for parts in reads if sees_items(parts)})
    if set(map(frozenset, wanted)) <= read_seen(layout, size_and_crc).keys():
        return
    digests: list[bytearray] = [bytearray() for _ in wanted]
    for item in items:
        for parts, known in zip(wanted, digests, strict=True):
            known.extend(_digest(item, parts))
    crc = 0
    for known in digests:
        crc = crc32(known, crc)
    about = {"items": size_and_crc, "reads": wanted, "crc": crc}
    make_directory(layout.items_seen.parent)
    replace_file(layout.items_seen, _pieces(about, digests))


def _digest(item: Item, reads: Sequence[str]) -> bytes:
    try:
        return seen_bytes(item, reads)
    except NotPlainError:
        return UNKNOWN


def _pieces(about: Mapping[str, Any], digests: Iterable[bytearray]) -> Iterator[bytes]:
    yield orjson.dumps(about) + b"\n"
    yield from map(bytes, digests)


def read_seen(layout: Layout, items: tuple[int, int]) -> dict[Reads, bytes]:
    """Return the digests by what is read, in the order of the items; empty: they are not known.

    Args:
        layout: The run's layout.
        items: The size and the checksum of `items.jsonl`.
    """
    with suppress(OSError, ValueError, KeyError, TypeError, JournalError):
        head, _, digests = read_whole(layout.items_seen).partition(b"\n")
        about = orjson.loads(head)
        if tuple(about["items"]) == items and about["crc"] == crc32(digests):
            reads = [frozenset(parts) for parts in about["reads"]]
            size = len(digests) // max(1, len(reads))
            return {parts: digests[n * size : (n + 1) * size] for n, parts in enumerate(reads)}
    return {}
