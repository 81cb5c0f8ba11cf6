"""Which items does a run ask about, in which order, and what is the key of each?

`items.jsonl` has one line for every item of the dataset, even where a limit or a sample selects
some of them:

    {"key":"<32 hex>","id":"q1","input_field":"question","expected_field":"answer","row":{…}}

The key is the digest of what the workflow sees of the item; with the workflow's fingerprint and the
trial it gives the key of a cell (`output_key`). Some lines have more between key and id:
`occurrence`, the item's number among those with the same key, and `standing`, by trial, why an
earlier answer counts. `input` and `expected` have a value of their own where they are not fields of
the row.

The file is written whole when a session begins, and only if its content changes. Its size and
checksum are noted in `index/items.json`, which may be deleted.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from limpet.datasets.items import PackedItems
from limpet.errors import JournalError
from limpet.fingerprints.keys import FIRST, OutputKeys, item_identity, seen_bytes
from limpet.journal.files import make_directory, read_whole, replace_file
from limpet.journal.layout import Layout
from limpet.journal.lines import KEY_BYTES, checksum, crc32
from limpet.json_values import NotPlainError, dumps, encode, encode_canonical
from limpet.types import Item

EARLIER_FILES = "made from files that have changed since"
"""The version of an answer that is kept although a file it was made from has changed."""
KEY = slice(len(b'{"key":"'), len(b'{"key":"') + 2 * KEY_BYTES)
GROUP_BYTES = 2**20
_SOME = 1_000


class EarlierAnswer(NamedTuple):
    """Why an earlier answer counts for an item in one trial.

    Attributes:
        version: The fingerprint of the earlier workflow that gave it; it counts until the current
            one has answered. Empty: the current one gave it.
        below: The user keeps the current workflow's answer although a file it was made from has
            changed, as long as its generation is below this. 0: this is not the case.
    """

    version: str = ""
    below: int = 0

    def counts(self, *, has_own: bool) -> bool:
        """Return whether the earlier workflow's answer counts.

        Args:
            has_own: Whether the current workflow has answered.
        """
        return bool(self.version) and not has_own

    def version_shown(self, own: int | None) -> str:
        """Return the version of the answer that counts; empty: the current one.

        Args:
            own: The generation of the current workflow's answer; None: there is none.
        """
        if self.counts(has_own=own is not None):
            return self.version
        return EARLIER_FILES if own is not None and own < self.below else ""


class Content(NamedTuple):
    """What the key of an item's cell is made of: see `item_identity`."""

    seen: str
    occurrence: int = 0


class Contents:
    """What the keys of all items are made of, in little memory.

    Attributes:
        seen: The digests of what the workflow sees, 16 bytes each.
        repeated: By place, the item's number among those with the same digest, if not the first.
    """

    def __init__(self, seen: bytes, repeated: Mapping[int, int]) -> None:
        self.seen = seen
        self.repeated = repeated

    def __getitem__(self, place: int) -> Content:
        begin = place * KEY_BYTES
        return Content(self.seen[begin : begin + KEY_BYTES].hex(), self.repeated.get(place, 0))

    def identity(self, place: int) -> bytes:
        """Return the identity of an item."""
        return item_identity(*self[place])

    def identities(self, places: Iterable[int]) -> list[bytes]:
        """Return the identities of items."""
        digests = self.seen
        if self.repeated:
            return [self.identity(place) for place in places]
        return [digests[place * KEY_BYTES : (place + 1) * KEY_BYTES] + FIRST for place in places]

    def keys(self, fingerprint: str, trial: int, places: Iterable[int]) -> list[bytes]:
        """Return the keys of items' cells, if the workflow has this fingerprint."""
        return OutputKeys(fingerprint, trial).keys(self.identities(places))


Standings = Mapping[int, Mapping[int, EarlierAnswer]]
"""By an item's place in the dataset, and by trial."""


# ---- writing ------------------------------------------------------------------------------------


def write_items(
    layout: Layout, items: Sequence[Item], contents: Contents, standings: Standings
) -> None:
    """Bring `items.jsonl` up to date.

    Args:
        layout: The run's layout.
        items: Every item of the dataset.
        contents: What the key of each is made of.
        standings: Why earlier answers count, for the items where they do.

    Raises:
        OSError: It cannot be written.
    """
    made_of = _made_of(items, contents, standings)
    known = noted_of(layout)
    if known.get("made_of") == made_of and is_whole(layout):
        return
    note: dict[str, Any] = {"bytes": 0, "crc": 0}

    def counted() -> Iterator[bytes]:
        for piece in _pieces(_lines(items, contents, standings)):
            note["bytes"] += len(piece)
            note["crc"] = crc32(piece, note["crc"])
            yield piece

    # If this is interrupted, the note of the old file must not be taken for one of the new.
    layout.items_note.unlink(missing_ok=True)
    replace_file(layout.items, counted())
    note |= {"made_of": made_of, "standing": len(standings)}
    make_directory(layout.items_note.parent)
    replace_file(layout.items_note, [dumps(note).encode()])


def items_digest(items: Sequence[Item]) -> str:
    """Return a hash that changes if any item changes."""
    if isinstance(items, PackedItems):
        return items.digest()
    together = blake2b(digest_size=16)
    for item in items:  # one at a time: a million rows at once take a gigabyte
        together.update(encode_canonical([item.id, item.input, item.expected, dict(item.row)]))
    return together.hexdigest()


def _made_of(items: Sequence[Item], contents: Contents, standings: Standings) -> str:
    together = blake2b(items_digest(items).encode() + contents.seen, digest_size=16)
    more = [contents.repeated, {place: dict(trials) for place, trials in standings.items()}]
    together.update(encode_canonical(more))
    return together.hexdigest()


def _lines(items: Sequence[Item], contents: Contents, standings: Standings) -> Iterator[bytes]:
    if not isinstance(items, PackedItems):
        for place, item in enumerate(items):
            begin = _begin(contents[place], standings.get(place))
            yield _with_fields(begin, item.id, _given(item), dict(item.row))
        return
    roles = items.roles
    fields: dict[str, Any] = {"input_field": roles.input}
    if roles.expected is not None:
        fields["expected_field"] = roles.expected
    between = b"," + orjson.dumps(fields)[1:-1] + b',"row":'
    plain, repeated = _begins(contents.seen), contents.repeated
    for place, (name, row, begin) in enumerate(zip(items.names, items.rows, plain, strict=True)):
        if place in standings or place in repeated:
            begin = _begin(contents[place], standings.get(place))  # noqa: PLW2901 - few have more
        if isinstance(row, bytes):  # already JSON
            yield b"".join((begin, json_text(name), between, row, b"}\n"))
        else:
            yield _with_fields(begin, name, fields, row)


def _begins(seen: bytes) -> Iterator[bytes]:
    """Yield the beginnings of the lines of items that have no more, a thousand digests at a time.

    A million calls of `_begin` take a second longer.
    """
    for at in range(0, len(seen), _SOME * KEY_BYTES):
        digests = seen[at : at + _SOME * KEY_BYTES].hex(" ", KEY_BYTES).encode().split(b" ")
        yield from [b'{"key":"%b","id":' % digest for digest in digests]


def _begin(content: Content, standing: Mapping[int, EarlierAnswer] | None) -> bytes:
    if not content.occurrence and standing is None:
        return b'{"key":"%b","id":' % content.seen.encode()
    more: dict[str, Any] = {"occurrence": content.occurrence} if content.occurrence else {}
    if standing is not None:
        more["standing"] = {str(trial): list(why) for trial, why in sorted(standing.items())}
    return b'{"key":"%b",%b,"id":' % (content.seen.encode(), orjson.dumps(more)[1:-1])


def _with_fields(begin: bytes, name: str, fields: dict[str, Any], row: dict[str, Any]) -> bytes:
    """Return the line of an item whose row may not be plain JSON."""
    try:
        text, is_marked = encode({**fields, "row": row})
    except NotPlainError:  # its cells fail, too: an answer cannot be kept beside it
        row = {field: value for field, value in row.items() if _can_be_kept(value)}
        kept = {field: value for field, value in fields.items() if _can_be_kept(value)}
        text, is_marked = encode({**kept, "row": row})
    mark = b',"marked":true' if is_marked else b""
    return b"".join((begin, json_text(name), mark, b",", text[1:], b"\n"))


def _given(item: Item) -> dict[str, Any]:
    return {"input": item.input, "expected": item.expected}


def _can_be_kept(value: Any) -> bool:
    try:
        encode(value)
    except NotPlainError:
        return False
    return True


def json_text(text: str) -> bytes:
    """Return any string as JSON."""
    try:
        return orjson.dumps(text)
    except TypeError:  # a lone surrogate
        return dumps(text).encode()


def _pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines joined, about a megabyte at a time."""
    group: list[bytes] = []
    size = 0
    for line in lines:
        group.append(line)
        size += len(line)
        if size >= GROUP_BYTES:
            yield b"".join(group)
            group, size = [], 0
    yield b"".join(group)


# ---- reading ------------------------------------------------------------------------------------


def is_whole(layout: Layout) -> bool:
    """Return whether `items.jsonl` is what was written."""
    known = noted_of(layout)
    try:
        is_of_size = layout.items.stat().st_size == known.get("bytes")
        return is_of_size and checksum(layout.items) == known.get("crc")
    except (OSError, JournalError):
        return False


def items_mark(layout: Layout) -> list[int]:
    """Return the size and the checksum of `items.jsonl`; empty if it is missing."""
    with suppress(OSError, JournalError):
        size, known = layout.items.stat().st_size, noted_of(layout)
        crc = known.get("crc") if known.get("bytes") == size else None
        return [size, checksum(layout.items) if crc is None else int(crc)]
    return []


def has_standing(layout: Layout) -> bool:
    """Return whether an earlier answer counts for some item, or that is not known."""
    return noted_of(layout).get("standing") != 0


def identity_of(layout: Layout) -> tuple[int, int, bytes] | None:
    """Return a value that changes when the file is replaced; None if it is missing."""
    with suppress(OSError, JournalError):
        status, note = layout.items.stat(), b""
        with suppress(FileNotFoundError):
            note = read_whole(layout.items_note)
        return status.st_ino, status.st_size, note
    return None


def noted_of(layout: Layout) -> dict[str, Any]:
    """Return the note about the file; empty if it is missing or cannot be read."""
    with suppress(OSError, ValueError, JournalError):
        known = json.loads(read_whole(layout.items_note))
        return known if isinstance(known, dict) else {}
    return {}


# ---- What do the evaluators see of each item, as digests? ---------------------------------------
#
# The key of a score contains the digest of what its evaluator reads of the item. So that a reader
# need not open a hundred thousand rows to find their scores, a session writes these digests to
# `index/items_seen`: a line of JSON, and then for each distinct `reads` 16 bytes per item.
#
#     {"items":[<bytes>,<crc>],"reads":[["expected","output"]],"crc":<crc>}
#
# `items` says of which `items.jsonl` they are, by its size and checksum. The file may be deleted:
# readers then open the rows.

Reads = frozenset[str]
UNKNOWN = bytes(KEY_BYTES)
"""Stands for the digest of an item that has no JSON form."""
_NOT_OF_ITEMS = frozenset({"output", "trace"})


def sees_items(reads: Collection[str]) -> bool:
    """Return whether an evaluator reads anything of the item."""
    return not _NOT_OF_ITEMS.issuperset(reads)


def write_seen(layout: Layout, items: Sequence[Item], reads: Iterable[Collection[str]]) -> None:
    """Bring `index/items_seen` up to date. `items.jsonl` must be up to date already.

    Args:
        layout: The run's layout.
        items: Every item of the dataset.
        reads: What each evaluator reads.

    Raises:
        OSError: It cannot be written.
    """
    note = noted_of(layout)
    size_and_crc = (note.get("bytes", 0), note.get("crc", 0))
    wanted = sorted({tuple(sorted(parts)) for parts in reads if sees_items(parts)})
    if set(map(frozenset, wanted)) <= read_seen(layout, size_and_crc).keys():
        return
    digests: list[bytearray] = [bytearray() for _ in wanted]
    for item in items:
        for parts, known in zip(wanted, digests, strict=True):
            known.extend(_digest(item, parts))
    crc = 0
    for known in digests:
        crc = crc32(known, crc)
    about = {"items": size_and_crc, "reads": wanted, "crc": crc}
    make_directory(layout.items_seen.parent)
    replace_file(layout.items_seen, _seen_pieces(about, digests))


def _digest(item: Item, reads: Sequence[str]) -> bytes:
    try:
        return seen_bytes(item, reads)
    except NotPlainError:
        return UNKNOWN


def _seen_pieces(about: Mapping[str, Any], digests: Iterable[bytearray]) -> Iterator[bytes]:
    yield orjson.dumps(about) + b"\n"
    yield from map(bytes, digests)


def read_seen(layout: Layout, items: tuple[int, int]) -> dict[Reads, bytes]:
    """Return the digests by what is read, in the order of the items; empty: they are not known.

    Args:
        layout: The run's layout.
        items: The size and the checksum of `items.jsonl`.
    """
    with suppress(OSError, ValueError, KeyError, TypeError, JournalError):
        head, _, digests = read_whole(layout.items_seen).partition(b"\n")
        about = orjson.loads(head)
        if tuple(about["items"]) == items and about["crc"] == crc32(digests):
            reads = [frozenset(parts) for parts in about["reads"]]
            size = len(digests) // max(1, len(reads))
            return {parts: digests[n * size : (n + 1) * size] for n, parts in enumerate(reads)}
    return {}
