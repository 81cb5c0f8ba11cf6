"""What does a line of a column look like, and when is it valid?

    {"_limpet":{"key":"<32 hex>","id":…,"trial":…,"status":…,…},<the record>,"_crc":"9f0c11aa"}

Our facts come first and the key has a fixed position, so a scan reads a few bytes of each line.
The CRC32 covers every byte before `,"_crc"`: a line is valid if it is complete and matches its CRC.
A line without `_limpet`, written by another program, is valid if it parses.
"""

import json
import re
import sys
import time
from binascii import unhexlify
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any
from zlib import crc32

from limpet.errors import JournalError
from limpet.journal.files import CHUNK_BYTES, open_to_read, size_of
from limpet.json_values import NotPlainError, decode, encode, is_deep_text
from limpet.shapes import Outcome

PREFIX = b'{"_limpet":{"key":"'
KEY_BYTES = 16
KEY = slice(len(PREFIX), len(PREFIX) + 2 * KEY_BYTES)
_TAIL = b',"_crc":"%08x"}\n'
TAIL_BYTES = len(_TAIL % 0)
_LONGEST_LINE = 2**32 - 1  # the longest that an index entry can describe
_MOST_CHECKED = 2**28
_OURS = frozenset({"_limpet", "_crc"})
_ID = re.compile(rb'","id":("(?:[^"\\]|\\.)*"|[^,]+),"trial":(\d+)')
# JSON escapes quotes inside strings, so the first match is our fact and nothing else.
_GENERATION = re.compile(rb'"status":"\w+"(?:,"generation":(\d+),)?')
_WRAP = "value"
"""The field of a record that is not an object, or that uses one of our names."""


class LineKind(IntEnum):
    """The kind of a line: our record, another program's JSON, or damage."""

    RECORD = 0
    FOREIGN = 1
    BAD = 2


@dataclass(frozen=True, slots=True)
class Entry:
    """A line that was read: our facts, and the public record."""

    facts: Mapping[str, Any]
    record: Any


def encode_outcome(outcome: Outcome, more: Mapping[str, Any] | None = None) -> bytes:
    """Return the line for an outcome.

    Args:
        outcome: How the cell ended.
        more: Additional facts.

    Raises:
        NotPlainError: Its record cannot be stored as JSON.
    """
    cell = outcome.cell
    facts = {"key": cell.key, "id": cell.id, "trial": cell.trial, "status": outcome.status.value}
    if outcome.generation:  # here, where `generation_of` looks for it
        facts["generation"] = outcome.generation
    facts["attempts"], facts["seconds"] = outcome.attempts, outcome.seconds
    facts["at"] = timestamp()
    facts.update(outcome.facts or (), **(more or {}))
    is_own, fields = _fields_of(outcome.record)
    if not is_own:
        facts["wrapped"] = True
    encoded, marked = encode({"_limpet": facts, **fields})
    if marked:
        facts["marked"] = True
        encoded, _ = encode({"_limpet": facts, **fields})
    if len(encoded) + TAIL_BYTES > _LONGEST_LINE:
        raise NotPlainError(f"it takes {len(encoded):,} bytes; the maximum is 4 GiB")
    return seal(encoded)


def _fields_of(record: Any) -> tuple[bool, dict[str, Any]]:
    """Return a record's fields, and whether they are its own or a wrapper."""
    if isinstance(record, Mapping):
        fields = dict(record)
        if all(isinstance(name, str) for name in fields) and _OURS.isdisjoint(fields):
            return True, fields
    return False, {_WRAP: record}


def seal(encoded: bytes) -> bytes:
    """Return the line for a JSON object, with its CRC as the last field."""
    body = encoded[:-1]
    return body + _TAIL % crc32(body)


def is_column(path: Path) -> bool:
    """Return whether a file is a column: it has a record, damage, or nothing yet.

    A file with a column's name may be something else, like the live file of a toolkit run: JSON
    with neither the start nor the end of a record.
    """
    is_first = True
    try:
        with open_to_read(path) as file:
            if file.read(len(PREFIX)) == PREFIX:  # nearly always
                return True
            file.seek(0)
            for line in file:
                if looks_like_record(line) or (is_first and _is_damaged(line)):
                    return True
                is_first &= not line.strip()
    except FileNotFoundError:
        return False
    except JournalError:  # a directory or a pipe: opening it reports that
        return True
    return is_first


def looks_like_record(line: bytes) -> bool:
    """Return whether a line has the start or the end of a record."""
    return (
        line.startswith(PREFIX)
        or PREFIX.startswith(line)
        or line[-TAIL_BYTES:].startswith(b',"_crc":"')
    )


def _is_damaged(line: bytes) -> bool:
    if not line.endswith(b"\n") or not line.strip() or is_deep_text(line):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def checksum(path: Path, size: int | None = None, start: tuple[int, int] = (0, 0)) -> int:
    """Return the CRC32 of a file.

    Args:
        path: The file.
        size: How many of its bytes count; None: all.
        start: How many of them are already known, and their CRC32.

    Raises:
        JournalError: It is not a regular file.
        OSError: It cannot be read.
    """
    at, crc = start
    left = sys.maxsize if size is None else size - at
    with open_to_read(path, buffering=0) as file:
        file.seek(at)
        while piece := file.read(min(CHUNK_BYTES, left)):
            crc = crc32(piece, crc)
            left -= len(piece)
    return crc


def size_and_crc(path: Path, start: tuple[int, int] = (0, 0)) -> list[int]:
    """Return the size of a file and the CRC32 of its start: 256 MiB take 0.15 s.

    Args:
        path: The file.
        start: An earlier result, if the file has only grown since.

    Raises:
        JournalError: It is not a regular file.
        OSError: It cannot be read.
    """
    size = size_of(path)
    known = start if start[0] <= min(size, _MOST_CHECKED) else (0, 0)
    return [size, checksum(path, min(size, _MOST_CHECKED), known)]


def is_whole(line: bytes) -> bool:
    """Return whether a line of ours matches its CRC and has its line end."""
    return line.startswith(PREFIX) and line.endswith(_TAIL % crc32(line[:-TAIL_BYTES]))


def are_whole(lines: Sequence[bytes]) -> bool:
    """Return whether all lines are whole, three times as fast as `is_whole` for each."""
    crcs = tuple(map(crc32, [line[:-TAIL_BYTES] for line in lines]))
    tails = b"".join([line[-TAIL_BYTES:] for line in lines])
    heads = b"".join([line[: len(PREFIX)] for line in lines])
    return tails == _TAIL * len(lines) % crcs and heads == PREFIX * len(lines)


def key_of(line: bytes) -> bytes | None:
    """Return the key of a line of ours; None if it is not in its position."""
    try:
        return unhexlify(line[KEY])
    except ValueError:
        return None


def keys_in(lines: Sequence[bytes]) -> list[bytes]:
    """Return the keys of lines of ours; empty if one is not in its position."""
    try:
        keys = unhexlify(b"".join([line[KEY] for line in lines]))
    except ValueError:
        return []
    return [keys[at : at + KEY_BYTES] for at in range(0, len(keys), KEY_BYTES)]


def id_and_trial_of(line: bytes) -> tuple[str, int]:
    """Return the id and trial of a whole line of ours, without parsing the rest."""
    match = _ID.match(line, KEY.stop)
    return ("", 0) if match is None else (str(json.loads(match[1])), int(match[2]))


def generation_of(line: bytes) -> int:
    """Return the generation of a whole line of ours."""
    match = _GENERATION.search(line, KEY.stop)
    return 0 if match is None else int(match[1] or 0)


def kind_of(line: bytes) -> LineKind:
    """Return the kind of a line. Without its line end it is damaged."""
    if not line.endswith(b"\n"):
        return LineKind.BAD
    if line.startswith(PREFIX):
        return LineKind.RECORD if is_whole(line) and key_of(line) else LineKind.BAD
    if not line.strip():
        return LineKind.FOREIGN
    if is_deep_text(line):
        return LineKind.BAD
    try:
        value = json.loads(line)
    except ValueError:
        return LineKind.BAD
    ours = isinstance(value, dict) and any(name in value for name in _OURS)
    return LineKind.BAD if ours else LineKind.FOREIGN


def decode_line(line: bytes) -> Entry:
    """Decode a valid line.

    Raises:
        ValueError: It is not JSON.
        JournalError: It is not an object.
    """
    marked = b'"marked":true' in line and bool(json.loads(line)["_limpet"].get("marked"))
    fields = decode(line, marked=marked)
    if not isinstance(fields, dict):
        raise JournalError("a line of the journal is JSON, but not an object")
    facts = fields.pop("_limpet", {})
    fields.pop("_crc", None)
    return Entry(facts, fields[_WRAP] if facts.get("wrapped") else fields)


def timestamp() -> str:
    """Return the time as `2026-11-14T10:00:00.120Z`."""
    seconds, thousandths = divmod(time.time_ns() // 1_000_000, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{thousandths:03d}Z"
