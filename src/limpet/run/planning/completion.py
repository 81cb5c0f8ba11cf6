"""Was all of this done before?

Looking up every cell of a hundred thousand items takes seconds. A run that ended with nothing left
to do writes down what it was asked, as one hash, and a checksum of each of its files, columns and
all. Asked the same again, with every byte of them as it was, there is nothing to look up: a flipped
bit changes no size and no time, so the bytes are what is compared.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from limpet.errors import JournalError
from limpet.fingerprints.files.project import Project
from limpet.fingerprints.keys import digest
from limpet.journal.files import open_to_read
from limpet.journal.layout import Layout
from limpet.journal.lines import crc32
from limpet.run.planning.files_read import FilesRead
from limpet.run.planning.items_file import is_whole, items_digest
from limpet.run.run_file import Completion
from limpet.types import Item

_PIECE_BYTES = 2**20


def asked_hash(
    items: Sequence[Item],
    versions: Mapping[str, str],
    trials: int,
    options: Sequence[Any],
) -> str:
    """Return a hash of everything that decides which cells there are, and of the files' shape."""
    return digest(list(versions.items()), trials, list(options), items_digest(items))


def completed(
    layout: Layout, asked: str, records: Mapping[str, int], steps: Sequence[str], project: Project
) -> Completion:
    """Return the note that a run is complete.

    Args:
        layout: Where its files lie.
        asked: What `asked_hash` says.
        records: How many each column has, by its step.
        steps: All of them.
        project: Whose files the results may depend on.

    Raises:
        OSError: One of its files cannot be read.
    """
    columns = {step: [records[step], layout.column(step).stat().st_size] for step in steps}
    return Completion(asked, columns, _checksums(layout, steps), FilesRead(layout).state(project))


def records_if_complete(
    layout: Layout,
    known: Completion | None,
    asked: str,
    steps: Sequence[str],
    project: Project,
) -> dict[str, int] | None:
    """Return how many records each step has, in a run with nothing left to do.

    None if it was asked something else, did not end so, or is not as it was then.
    """
    if known is None or known.asked != asked or not is_whole(layout):
        return None
    try:
        records = {step: known.columns[step][0] for step in steps}
        is_same = known == completed(layout, asked, records, steps, project)
    except (OSError, JournalError, KeyError, IndexError):
        # A file is gone, or damaged, or something else stands in its place.
        return None
    return records if is_same else None


def _checksums(layout: Layout, steps: Sequence[str]) -> dict[str, int]:
    written = [layout.home / f"{step}_output.json" for step in steps]
    files = [layout.home / "summary.json", *written, *map(layout.column, steps)]
    return {path.name: _checksum(path) for path in files}


def _checksum(path: Path) -> int:
    crc = 0
    with open_to_read(path, buffering=0) as file:
        while piece := file.read(_PIECE_BYTES):
            crc = crc32(piece, crc)
    return crc
