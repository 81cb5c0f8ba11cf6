"""Are the numbers that a session saved at its end still those of the run?

Adding up a hundred thousand items takes seconds, and a comparison reads two runs. So a session
saves its numbers in `index/numbers` when it ends, whether or not the run is complete: a line of
JSON, followed by the arrays it names, with the scores of each cell.

    {"of":"<digest>","summary":{…},"cells":100000,"parts":[[["answered"],"Q",800000],…],"crc":<crc>}

`of` is a digest of all that determines the numbers: every byte of the columns, the failures and the
items, and the request in `run.json`. The file may be deleted: readers then add up the results.
"""

import json
import platform
from array import array
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from limpet.errors import JournalError
from limpet.fingerprints.keys import digest
from limpet.journal.files import make_directory, read_whole, replace_file
from limpet.journal.layout import Layout
from limpet.journal.lines import checksum
from limpet.json_values import dumps
from limpet.run.planning.counting import read_generations
from limpet.run.planning.items_file import is_whole
from limpet.run.results.summary import NUMBERS, Numbers
from limpet.run.run_file import RunFile, to_data
from limpet.version import VERSION

ArrayName = tuple[str | None, ...]
"""The name of an array, like `("values", "judge", "tone")`."""


class PackedArray(NamedTuple):
    """An array: its type as in the module `array`, and its bytes."""

    typecode: str
    content: bytes | memoryview


PackedArrays = Mapping[ArrayName, PackedArray]


class SavedNumbers(NamedTuple):
    """The numbers of a run.

    Attributes:
        summary: The part of `summary.json` that follows from the results alone.
        cells: The number of cells.
        arrays: The scores, by the number of the cell.
    """

    summary: dict[str, Any]
    cells: int
    arrays: PackedArrays


def digest_of_inputs(layout: Layout, run_file: RunFile, ends: Mapping[Path, int]) -> str | None:
    """Return a digest of all that determines the numbers; None: not known.

    Args:
        layout: The run's layout.
        run_file: The request.
        ends: How many bytes to cover of each column of the last session, and of the failures.
    """
    session = run_file.session
    if session is None or not is_whole(layout, session.items_file):
        return None
    with suppress(OSError, JournalError):
        return digest(
            [VERSION, platform.python_version()],
            session.items_file,
            to_data([*run_file.selections]),
            to_data(run_file.steps),
            session.trials,
            to_data(run_file.redo),
            to_data(run_file.scales),
            [read_generations(path) for path in (layout.redone, layout.outdated)],
            [[path.name, end, checksum(path, end)] for path, end in ends.items()],
        )
    return None


def packed_arrays(numbers: Numbers) -> dict[ArrayName, PackedArray]:
    """Return the scores as arrays: numbers of cells, and their values."""
    arrays: dict[ArrayName, array[int] | array[float]] = {
        ("answered",): numbers.answered_cells,
        ("seconds",): numbers.seconds,
        ("costs",): numbers.costs,
        ("failed",): numbers.failures.cells,
    }
    for name, scores in numbers.scores.items():
        arrays["failed", name] = scores.failures.cells
        for part, (cells, values) in scores.parts.items():
            arrays["cells", name, part], arrays["values", name, part] = cells, values
        for part, by_label in scores.labels.items():
            for label, labelled in by_label.items():
                arrays["label", name, part, label] = labelled
    return {
        name: PackedArray(one.typecode, memoryview(one).cast("B")) for name, one in arrays.items()
    }


def save_numbers(layout: Layout, inputs: str, numbers: Numbers) -> None:
    """Save the numbers of a run.

    Raises:
        OSError: They cannot be written.
    """
    packed, summary = packed_arrays(numbers), numbers.summary()
    contents = [one.content for one in packed.values()]
    about = {
        "of": inputs,
        "summary": {name: summary[name] for name in NUMBERS},
        "cells": numbers.items,
        "parts": [[name, one.typecode, len(one.content)] for name, one in packed.items()],
    }
    about["crc"] = _crc(about, contents)
    make_directory(layout.numbers.parent)
    head = [dumps(about).encode(), b"\n"]
    replace_file(layout.numbers, chain(head, map(bytes, contents)))


def saved_numbers(layout: Layout, inputs: str) -> SavedNumbers | None:
    """Return the numbers if they were saved for the same inputs, else None."""
    with suppress(OSError, ValueError, KeyError, TypeError, JournalError):
        head, _, content = read_whole(layout.numbers).partition(b"\n")
        about = json.loads(head)
        if about["of"] == inputs and about.pop("crc") == _crc(about, [content]):
            arrays = _split(memoryview(content), about["parts"])
            return SavedNumbers(about["summary"], about["cells"], arrays)
    return None


def _crc(about: Mapping[str, object], contents: Iterable[bytes | memoryview]) -> int:
    """Return the CRC of everything else: the names of the arrays may be damaged, too."""
    crc = crc32(dumps(about).encode())
    for content in contents:
        crc = crc32(content, crc)
    return crc


def _split(
    content: memoryview, listed: Iterable[tuple[list[str | None], str, int]]
) -> PackedArrays:
    packed, at = dict[ArrayName, PackedArray](), 0
    for name, typecode, size in listed:
        packed[tuple(name)] = PackedArray(typecode, content[at : at + size])
        at += size
    return packed
