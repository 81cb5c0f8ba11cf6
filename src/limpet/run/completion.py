"""Was all of this done before?

Looking up every cell of a hundred thousand items takes seconds. A run that ended with nothing left
to do writes down what it was asked, as one hash, how many records its columns had, and a checksum
of each file it wrote at its end. Asked the same again, with columns of which every line was just
checked, as opening a journal does, and files that are still whole, there is nothing to look up.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from limpet.datasets.packed import PackedItems
from limpet.journal.checksum import crc32
from limpet.journal.encoding import encode_canonical
from limpet.journal.fingerprint import digest
from limpet.journal.journal import Journal
from limpet.run.asked import read_asked
from limpet.types import Item

_PIECE_BYTES = 2**20


def asked_hash(
    items: Sequence[Item],
    versions: Mapping[str, str],
    trials: int,
    options: Sequence[Any],
) -> str:
    """Return a hash of everything that decides which cells there are, and of the files' shape."""
    rows = items.digest() if isinstance(items, PackedItems) else _digest_of(items)
    return digest(list(versions.items()), trials, list(options), rows)


def _digest_of(items: Sequence[Item]) -> str:
    together = blake2b(digest_size=16)
    for one in items:  # one by one: a million rows at once take a gigabyte
        together.update(encode_canonical([one.id, one.input, one.expected, dict(one.row)]))
    return together.hexdigest()


def sizes_of(journal: Journal, steps: Sequence[str]) -> dict[str, list[int]]:
    """Return how many records each column has, and how many bytes."""
    columns = {step: journal.column(step) for step in steps}
    return {step: [len(column), column.path.stat().st_size] for step, column in columns.items()}


def is_complete(
    journal: Journal, about: Mapping[str, Any], asked: str, steps: Sequence[str]
) -> bool:
    """Tell whether a run that was asked the same ended with nothing left to do, and still is so."""
    known = about.get("complete", {})
    if known.get("asked") != asked or known.get("columns") != sizes_of(journal, steps):
        return False
    # A damaged record may have an earlier one of the same key behind it.
    if any(journal.column(step).state.bad_lines for step in steps):
        return False
    if read_asked(journal.layout) is None:
        return False
    try:
        return bool(known.get("files") == checksums_of(journal, steps))
    except OSError:  # one of them is gone
        return False


def checksums_of(journal: Journal, steps: Sequence[str]) -> dict[str, int]:
    """Return a checksum of each file that a run writes at its end.

    Raises:
        OSError: One of them cannot be read.
    """
    names = ["summary.json", *(f"{step}_output.json" for step in steps)]
    return {name: _checksum(journal.layout.home / name) for name in names}


def _checksum(path: Path) -> int:
    crc = 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE_BYTES):
            crc = crc32(piece, crc)
    return crc
