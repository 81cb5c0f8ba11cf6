"""Are the scores that a session noted at its end still those of the run?

Reading the columns of a hundred thousand items takes seconds, and a comparison reads two runs. So a
session notes what each cell scored in `index/scores` when it ends: a line of JSON, and then the
arrays it names, one after the other.

    {"of":"<digest>","cells":100000,"parts":[[["answered"],"Q",800000],…],"crc":<crc>}

`of` is the digest of all that they follow from, as in `index/summary`. The file may be deleted:
readers then read the columns.
"""

import json
from array import array
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from limpet.errors import JournalError
from limpet.journal.files import make_directory, read_whole, replace_file
from limpet.journal.layout import Layout
from limpet.journal.lines import crc32
from limpet.json_values import dumps
from limpet.run.results.summary import Numbers

ArrayName = tuple[str | None, ...]
"""What an array holds, like `("values", "judge", "tone")`."""
LEAST_CELLS = 2_000
"""With fewer, reading the columns is as fast."""


class PackedArray(NamedTuple):
    """An array: its type as in the module `array`, and its bytes."""

    typecode: str
    content: bytes | memoryview


PackedArrays = Mapping[ArrayName, PackedArray]


def packed_arrays(numbers: Numbers) -> dict[ArrayName, PackedArray]:
    """Return what each cell scored, as arrays of numbers of cells and of values."""
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


def note_scores(layout: Layout, inputs: str, numbers: Numbers) -> None:
    """Note what each cell scored.

    Raises:
        OSError: It cannot be written.
    """
    if numbers.items < LEAST_CELLS:
        layout.scores_note.unlink(missing_ok=True)
        return
    packed = packed_arrays(numbers)
    listed = [[name, one.typecode, len(one.content)] for name, one in packed.items()]
    contents = [one.content for one in packed.values()]
    about = {"of": inputs, "cells": numbers.items, "parts": listed}
    about["crc"] = _crc(about, contents)
    make_directory(layout.scores_note.parent)
    head = [dumps(about).encode(), b"\n"]
    replace_file(layout.scores_note, chain(head, map(bytes, contents)))


def noted_scores(layout: Layout, inputs: str) -> tuple[int, PackedArrays] | None:
    """Return the number of cells and the arrays, if they were noted for the same inputs."""
    with suppress(OSError, ValueError, KeyError, TypeError, JournalError):
        head, _, content = read_whole(layout.scores_note).partition(b"\n")
        about = json.loads(head)
        if about["of"] == inputs and about.pop("crc") == _crc(about, [content]):
            return about["cells"], _split(memoryview(content), about["parts"])
    return None


def _crc(about: Mapping[str, object], contents: Iterable[bytes | memoryview]) -> int:
    """Return the CRC of all but itself: what the arrays are called, too, may be damaged."""
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
