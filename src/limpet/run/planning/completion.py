"""Is the run already complete?

Looking up every cell of a hundred thousand items takes seconds. A complete run records a hash of
what was asked, and a checksum of each of its files, including the columns. When the same is asked
again and every byte is the same, nothing needs to be looked up. Bytes are compared because a
flipped bit changes neither size nor time.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from limpet.errors import JournalError
from limpet.fingerprints.files.project import Project
from limpet.journal.files import open_to_read
from limpet.journal.layout import Layout
from limpet.journal.lines import crc32
from limpet.run.planning.files_read import FilesRead
from limpet.run.planning.items_file import is_whole
from limpet.run.run_file import Completion

_PIECE_BYTES = 2**20


def completed(
    layout: Layout, asked: str, records: Mapping[str, int], steps: Sequence[str], project: Project
) -> Completion:
    """Return the record that a run is complete, with the number of records of each step.

    Raises:
        OSError: A file cannot be read.
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
    """Return the number of records of each step if the run is complete.

    None if something else is asked, the run did not complete, or its files have changed.
    """
    if known is None or known.asked != asked or not is_whole(layout):
        return None
    try:
        records = {step: known.columns[step][0] for step in steps}
        is_same = known == completed(layout, asked, records, steps, project)
    except (OSError, JournalError, KeyError, IndexError):
        # A file is missing, damaged, or not a regular file.
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
