"""Is what a session noted for later readers still true of the run?"""

import json
import platform
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from limpet.errors import JournalError
from limpet.fingerprints.keys import digest
from limpet.journal.event_log import EventLog, Started
from limpet.journal.files import make_directory, open_to_read, read_whole, replace_file
from limpet.journal.layout import Layout
from limpet.journal.lines import checksum, crc32
from limpet.json_values import dumps
from limpet.run.planning.items_file import is_whole, noted_of
from limpet.run.planning.redo import read_outdated, read_redone
from limpet.run.results.summary import NUMBERS, Numbers
from limpet.run.run_file import RunFile, to_data
from limpet.version import VERSION

# ---- How much of the events of a session that runs was read already? ----------------------------
#
# Most events of a long session are of calls that have ended. So a session of a large run notes in
# `index/events`, with its totals, which calls were in flight and what else its events say: a
# checksum of all that follows, and a line of JSON. A reader believes it if the events that it is
# of have the checksum that it names, and reads those that follow. The file may be deleted: readers
# then read all events.

_FORM = 1


def write_events(layout: Layout, log: EventLog) -> None:
    """Note what the events say. The file need not survive a power cut.

    Args:
        layout: The run's layout.
        log: The events that were read, with the starts of calls.

    Raises:
        OSError: They cannot be written.
    """
    about = {
        "form": _FORM,
        "start": log.start,
        "end": log.end,
        "crc": log.crc,
        "begun": list(log.begun.values()),
        "retries": log.retries,
        "pace": log.pace,
        "stopping": log.is_stopping,
    }
    line = dumps(about).encode()
    make_directory(layout.events_note.parent)
    replace_file(layout.events_note, [b"%08x\n" % crc32(line), line], sync=False)


def read_events(layout: Layout, start: int) -> EventLog:
    """Return the events of a session, as far as they were noted; `refresh` reads the rest.

    Args:
        layout: The run's layout.
        start: Where the session begins in the events.
    """
    with suppress(OSError, ValueError, LookupError, TypeError, JournalError):
        known, _, line = read_whole(layout.events_note).partition(b"\n")
        about = json.loads(line)
        is_of = (about["form"], about["start"]) == (_FORM, start) and known == b"%08x" % crc32(line)
        end = int(about["end"])
        is_there = is_of and layout.events.stat().st_size >= end
        if is_there and checksum(layout.events, end, (start, 0)) == about["crc"]:
            log = EventLog(layout.events, start)
            calls = [Started(*call) for call in about["begun"]]
            log.begun = {(call.step, call.key): call for call in calls}
            log.retries, log.pace = Counter(about["retries"]), dict(about["pace"])
            log.is_stopping, log.end, log.crc = bool(about["stopping"]), end, about["crc"]
            return log
    return EventLog(layout.events, start)


# ---- Is the summary that a session noted at its end still that of the run? ----------------------
#
# Adding up a hundred thousand items takes a second. So a session notes its numbers in
# `index/summary` when it ends, whether or not the run is complete:
#
#     {"of":"<digest>","crc":<crc>}
#     {"n":100000,"workflow":{…},…}
#
# `of` is a digest of all that the numbers follow from: every byte of the columns, of the failures
# and of the items, and what `run.json` asks. The file may be deleted: readers then add up.


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


# ---- Are the scores that a session noted at its end still those of the run? ---------------------
#
# Reading the columns of a hundred thousand items takes seconds, and a comparison reads two runs.
# So a session notes what each cell scored in `index/scores` when it ends: a line of JSON, and then
# the arrays it names, one after the other.
#
#     {"of":"<digest>","cells":100000,"parts":[[["answered"],"Q",800000],…],"crc":<crc>}
#
# `of` is the digest of all that they follow from, as in `index/summary`. The file may be deleted:
# readers then read the columns.

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


# ---- How much of a run that has not ended was added up already? ---------------------------------
#
# Adding up a hundred thousand items takes seconds, and a page opens a run while it runs. So a
# session of a large run notes its totals in `index/totals` now and then: a checksum of all that
# follows, a line of JSON, and the arrays it refers to by their numbers.
#
#     9f0c11aa
#     {"form":2,"of":"<digest>","ends":{"workflow_output.jsonl":[<bytes>,<crc>],…},"known":{…},…}
#
# They are the totals of the first bytes of each column and of the failures. A reader believes them
# if these bytes have that checksum, and `of`, the digest of all that is asked, is the same; it
# adds what follows. The file may be deleted: readers then add up everything.

_TOTALS_FORM = 2
_ARRAY = "array"
_CHUNK_BYTES = 2**20


class TotalsNote(NamedTuple):
    """What is known of the first lines of a run.

    Attributes:
        known: The totals: lists, dicts, arrays, numbers and texts.
        ends: By file, how many bytes they are of, and their CRC32.
    """

    known: Mapping[str, Any]
    ends: Mapping[Path, tuple[int, int]]


def write_totals(layout: Layout, asked: str, note: TotalsNote) -> None:
    """Note totals. The file need not survive a power cut: a damaged one is not believed.

    Args:
        layout: The run's layout.
        asked: The digest of all that is asked.
        note: The totals.

    Raises:
        OSError: They cannot be written.
    """
    arrays: list[array[Any]] = []

    def number_of(part: Any) -> dict[str, int]:
        if not isinstance(part, array):
            raise TypeError(f"{part!r}: not an array")
        arrays.append(part)
        return {_ARRAY: len(arrays) - 1}

    known = dumps(note.known, default=number_of)
    ends = {path.name: end for path, end in note.ends.items()}
    sizes = [[part.typecode, len(part)] for part in arrays]
    about = {"form": _TOTALS_FORM, "of": asked, "ends": ends, "arrays": sizes, "known": known}
    content = [dumps(about).encode() + b"\n", *(memoryview(part).cast("B") for part in arrays)]
    crc = 0
    for piece in content:
        crc = crc32(piece, crc)
    make_directory(layout.totals_note.parent)
    pieces = (bytes(piece) for piece in content)  # one at a time
    replace_file(layout.totals_note, _with_crc(crc, pieces), sync=False)


def _with_crc(crc: int, pieces: Iterable[bytes]) -> Iterable[bytes]:
    yield b"%08x\n" % crc
    yield from pieces


def read_totals(layout: Layout, asked: str, paths: Iterable[Path]) -> TotalsNote | None:
    """Return the totals that were noted, if the files still begin with what they are of.

    Args:
        layout: The run's layout.
        asked: The digest of all that is asked.
        paths: The columns and the failures.
    """
    with suppress(OSError, EOFError, ValueError, LookupError, TypeError, JournalError):
        about, arrays = _read(layout.totals_note, asked)
        ends = {
            path: (int(end), int(crc)) for path in paths for end, crc in [about["ends"][path.name]]
        }
        if len(ends) == len(about["ends"]) and all(map(_begins_with, ends, ends.values())):
            known = json.loads(about["known"], object_hook=lambda part: _resolved(part, arrays))
            return TotalsNote(known, ends)
    return None


def _read(path: Path, asked: str) -> tuple[dict[str, Any], list["array[Any]"]]:
    with open_to_read(path) as file:
        known, crc = file.readline(), 0
        while chunk := file.read(_CHUNK_BYTES):
            crc = crc32(chunk, crc)
        if known != b"%08x\n" % crc:
            raise ValueError("damaged")
        file.seek(len(known))  # nothing is allocated by a length that is damaged
        about = json.loads(file.readline())
        if (about["form"], about["of"]) != (_TOTALS_FORM, asked):
            raise ValueError("of something else")
        arrays = []
        for typecode, length in about["arrays"]:
            arrays.append(array(typecode))
            arrays[-1].fromfile(file, length)
    return about, arrays


def _begins_with(path: Path, known: tuple[int, int]) -> bool:
    end, crc = known
    try:
        return path.stat().st_size >= end and checksum(path, end) == crc
    except FileNotFoundError:
        return not end


def _resolved(part: dict[str, Any], arrays: list["array[Any]"]) -> Any:
    return arrays[part[_ARRAY]] if part.keys() == {_ARRAY} else part
