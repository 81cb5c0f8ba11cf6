"""How much of a run that has not ended was added up already?

Adding up a hundred thousand items takes seconds, and a page opens a run while it runs. So a session
of a large run notes its totals in `index/totals` now and then: a checksum of all that follows, a
line of JSON, and the arrays it refers to by their numbers.

    9f0c11aa
    {"form":2,"of":"<digest>","ends":{"workflow_output.jsonl":[<bytes>,<crc>],…},"known":{…},…}

They are the totals of the first bytes of each column and of the failures. A reader believes them if
these bytes have that checksum, and `of`, the digest of all that is asked, is the same; it adds what
follows. The file may be deleted: readers then add up everything.
"""

import json
from array import array
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from limpet.errors import JournalError
from limpet.journal.files import make_directory, open_to_read, replace_file
from limpet.journal.layout import Layout
from limpet.journal.lines import checksum, crc32
from limpet.json_values import dumps

_FORM = 2
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
    about = {"form": _FORM, "of": asked, "ends": ends, "arrays": sizes, "known": known}
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
        if (about["form"], about["of"]) != (_FORM, asked):
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
