"""Is the summary that a session noted at its end still that of the run?

Adding up a hundred thousand items takes a second. So a session notes its numbers in `index/summary`
when it ends, whether or not the run is complete:

    {"of":"<digest>","crc":<crc>}
    {"n":100000,"workflow":{…},…}

`of` is a digest of all that the numbers follow from: every byte of the columns, of the failures and
of the items, and what `run.json` asks. The file may be deleted: readers then add up.
"""

import json
import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from limpet.errors import JournalError
from limpet.fingerprints.keys import digest
from limpet.journal.files import make_directory, read_whole, replace_file
from limpet.journal.layout import Layout
from limpet.journal.lines import checksum, crc32
from limpet.json_values import dumps
from limpet.run.planning.items_file import is_whole, noted_of
from limpet.run.planning.redo import read_outdated, read_redone
from limpet.run.results.summary import NUMBERS
from limpet.run.run_file import RunFile
from limpet.run.typed_json import to_data
from limpet.version import VERSION


def digest_of_asked(layout: Layout, run_file: RunFile) -> str | None:
    """Return a digest of all that is asked; None if that is not known."""
    session = run_file.session
    if session is None or not is_whole(layout):
        return None
    known = noted_of(layout)
    return digest(
        [VERSION, platform.python_version()],
        [known.get("bytes"), known.get("crc")],
        to_data([*run_file.selections]),
        to_data(run_file.steps),
        session.trials,
        to_data(run_file.redo),
        to_data(run_file.scales),
        [read_redone(layout), read_outdated(layout)],
    )


def digest_of_inputs(layout: Layout, run_file: RunFile, ends: Mapping[Path, int]) -> str | None:
    """Return a digest of all that a summary follows from; None if that is not known.

    Args:
        layout: The run's layout.
        run_file: What is asked.
        ends: How many bytes count, for each column of the last session and for the failures.
    """
    asked = digest_of_asked(layout, run_file)
    with suppress(OSError, JournalError):
        columns = [[path.name, end, checksum(path, end)] for path, end in ends.items()]
        return None if asked is None else digest(asked, columns)
    return None


def note_summary(layout: Layout, inputs: str, summary: Mapping[str, Any]) -> None:
    """Note the numbers of a summary.

    Raises:
        OSError: They cannot be written.
    """
    numbers = dumps({name: summary[name] for name in NUMBERS}).encode()
    head = dumps({"of": inputs, "crc": crc32(numbers)}).encode()
    make_directory(layout.summary_note.parent)
    replace_file(layout.summary_note, [head, b"\n", numbers])


def noted_summary(layout: Layout, inputs: str) -> dict[str, Any] | None:
    """Return the numbers if they were noted for the same inputs, else None."""
    with suppress(OSError, ValueError, KeyError, TypeError, JournalError):
        head, _, numbers = read_whole(layout.summary_note).partition(b"\n")
        if json.loads(head) == {"of": inputs, "crc": crc32(numbers)}:
            found: dict[str, Any] = json.loads(numbers)
            return found
    return None
