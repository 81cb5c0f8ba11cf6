"""What does a line of a column look like, and when does it count?

    {"_limpet":{"key":"<32 hex>","id":…,"trial":…,"status":…,…},<the record>,"_crc":"9f0c11aa"}

The key stands at a fixed place, so that a scan slices it out. The CRC32 covers every byte before
`,"_crc"`: a line counts when it is whole and its CRC fits. A line that others wrote, without
`_limpet`, counts if it parses.
"""

import json
import re
import time
from binascii import unhexlify
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import Any

from orjson import dumps

from limpet.errors import JournalError
from limpet.journal.checksum import crc32
from limpet.journal.files import Parts
from limpet.json_values import NotPlainError, decode, encode, plain_size
from limpet.types import CellStatus, Outcome

PREFIX = b'{"_limpet":{"key":"'
KEY = slice(len(PREFIX), len(PREFIX) + 32)
TAIL_BYTES = len(b',"_crc":"00000000"}\n')
SEAL_BYTES = TAIL_BYTES - 1  # it takes the place of the last brace
_SEALED = b'%b,"_crc":"%08x"}\n'
_COPY_BYTES = 2_000
LONGEST_LINE = 2**32 - 1  # what an index entry can say
OURS = ("_limpet", "_crc")
_ID = re.compile(rb'","id":("(?:[^"\\]|\\.)*"|[^,]+),"trial":(\d+)')
WRAP = "value"
"""Where a record stands that is not an object, or that uses a name of ours."""


class LineKind(IntEnum):
    """What a line of a column is."""

    COMPLETED = 0
    COMPLETED_WITH_RETRIES = 1
    FOREIGN = 2
    BAD = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """A line as it was read: our facts, and the public record."""

    facts: Mapping[str, Any]
    record: Any


def encode_outcome(outcome: Outcome, more: Mapping[str, Any] | None = None) -> bytes:
    """Return the JSON for an outcome, whole but for its CRC: see `sealed`.

    Args:
        outcome: How the cell ended.
        more: Further facts about it.

    Raises:
        NotPlainError: Its record cannot be kept as JSON at all.
    """
    facts, record = _facts_of(outcome), outcome.record
    facts |= {**(outcome.facts or {}), **(more or {})}
    is_own, fields = _fields_of(record)
    if not is_own:
        facts["wrapped"] = True
    encoded, marked = encode({"_limpet": facts, **fields})
    if marked:
        facts["marked"] = True
        encoded, _ = encode({"_limpet": facts, **fields})
    if len(encoded) + TAIL_BYTES > LONGEST_LINE:
        raise NotPlainError(f"it takes {len(encoded):,} bytes; 4 GiB are the most")
    return encoded


def encode_plain_outcome(outcome: Outcome) -> bytes | None:
    """Do what `encode_outcome` does, for an outcome whose record `plain_size` found plain.

    None if it is not that simple after all: then `encode_outcome` knows what to do.
    """
    # Written out, as each call of a function would cost a twentieth of the whole append.
    (_, id_, trial, key), status, record, attempts, seconds, _, generation, more = outcome
    if type(record) is not dict or "_limpet" in record or "_crc" in record:
        return None
    if generation:
        return None
    facts = {
        "key": key, "id": id_, "trial": trial, "status": status._value_,
        "attempts": attempts, "seconds": seconds, "at": timestamp(),
    }  # fmt: skip
    if more:
        if plain_size(more) is None:
            return None
        facts.update(more)
    try:
        return dumps({"_limpet": facts, **record})
    except TypeError:
        return None


def sealed(texts: Sequence[bytes]) -> Parts:
    """Return the lines for records that were encoded, in as few parts as is quick."""
    if sum(map(len, texts)) < _COPY_BYTES * len(texts):
        # All in one go: half of what it takes one by one.
        bodies = [text[:-1] for text in texts]
        sums = map(crc32, bodies)
        return [_SEALED * len(bodies) % tuple(chain.from_iterable(zip(bodies, sums, strict=True)))]
    parts: list[bytes | memoryview] = []
    for text in texts:  # a long one is not copied
        body = memoryview(text)[:-1]
        parts += (body, _seal(crc32(body)))
    return parts


def _seal(crc: int) -> bytes:
    return b',"_crc":"%08x"}\n' % crc


def _facts_of(outcome: Outcome) -> dict[str, Any]:
    (_, id_, trial, key), status, _, attempts, seconds, _, generation, _ = outcome
    status_text = status._value_  # five times faster than .value
    if generation:  # here, where `stamp_of` looks for it
        return {
            "key": key, "id": id_, "trial": trial, "status": status_text, "generation": generation,
            "attempts": attempts, "seconds": seconds, "at": timestamp(),
        }  # fmt: skip
    return {
        "key": key, "id": id_, "trial": trial, "status": status_text,
        "attempts": attempts, "seconds": seconds, "at": timestamp(),
    }  # fmt: skip


def _fields_of(record: Any) -> tuple[bool, dict[str, Any]]:
    """Return a record's fields, and whether they are its own or it had to be wrapped."""
    if isinstance(record, Mapping) and all(isinstance(key, str) for key in record):
        fields = dict(record)
        if not any(name in fields for name in OURS):
            return True, fields
    return False, {WRAP: record}


def is_whole(line: bytes) -> bool:
    """Tell whether a line of ours has its CRC and its line end."""
    body = line[:-TAIL_BYTES]
    return line.startswith(PREFIX) and line[len(body) :] == _seal(crc32(body))


def key_of(line: bytes) -> bytes | None:
    """Return the key of a line of ours, or None if there is none at its place."""
    try:
        return unhexlify(line[KEY])
    except ValueError:
        return None


def id_and_trial_of(line: bytes) -> tuple[str, int]:
    """Return the id and the trial of a whole line of ours, without reading the rest of it."""
    found = _ID.match(line, KEY.stop)
    return ("", 0) if found is None else (str(json.loads(found[1])), int(found[2]))


def kind_of(line: bytes) -> LineKind:
    """Tell what a line is, by its bytes alone. One without its line end does not count."""
    if not line.endswith(b"\n"):
        return LineKind.BAD
    if line.startswith(PREFIX):
        return stamp_of(line)[0] if is_whole(line) and key_of(line) else LineKind.BAD
    if not line.strip():
        return LineKind.FOREIGN
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return LineKind.BAD
    ours = isinstance(value, dict) and any(name in value for name in OURS)
    return LineKind.BAD if ours else LineKind.FOREIGN


def stamp_of(line: bytes) -> tuple[LineKind, int]:
    """Return the kind and the generation of a whole line of ours."""
    # In JSON text every quote is escaped, so this finds the fact and nothing else.
    at = line.find(b'"status":"') + 10
    end = line.find(b'"', at)
    retried = end - at > len(CellStatus.COMPLETED)
    kind = LineKind.COMPLETED_WITH_RETRIES if retried else LineKind.COMPLETED
    if not line.startswith(b',"generation":', end + 1):
        return kind, 0
    digits = line[end + 15 : line.find(b",", end + 15)]
    return kind, int(digits) if digits.isdigit() else 0


def decode_line(line: bytes) -> Entry:
    """Read a line that counts.

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
    return Entry(facts, fields[WRAP] if facts.get("wrapped") else fields)


_latest = (0.0, 0.0, "")
"""From when to when a text is the right one: making it costs more than encoding the record."""


def timestamp() -> str:
    """Return the time as `2026-11-14T10:00:00.120Z`."""
    global _latest  # noqa: PLW0603 - see there
    begin, end, text = _latest
    now = time.time()
    if not begin <= now < end:
        at = int(now * 1000)
        second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at // 1000))
        text = f"{second}.{at % 1000:03d}Z"
        _latest = (at / 1000, (at + 1) / 1000, text)
    return text
