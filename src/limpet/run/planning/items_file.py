"""Which items does a run have, in which order, and what is the key of each?

`items.jsonl` has one line for every item of the dataset, even if a limit or a sample selects some
of them:

    {"key":"<32 hex>","id":"q1","input_field":"question","expected_field":"answer","row":{…}}

The key is the digest of what the workflow sees of the item; with the workflow's fingerprint and the
trial it gives the key of a cell (`output_key`). Some lines have more between key and id:
`occurrence`, the item's number among those with the same key, and `earlier_answers`: by trial, why
an earlier answer counts. `input` and `expected` have their own values where they are not fields of
the row.

A session rewrites the file when it begins, and only if its content changes. `run.json` has its size
and checksum.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple
from zlib import crc32

import orjson

from limpet.datasets.items import PackedItems
from limpet.errors import JournalError
from limpet.fingerprints.keys import FIRST, OutputKeys, item_identity
from limpet.journal.files import replace_file
from limpet.journal.layout import Layout
from limpet.journal.lines import KEY_BYTES, checksum
from limpet.json_values import NotPlainError, dumps, encode, encode_canonical
from limpet.run.run_file import Session
from limpet.shapes import Item

KEY = slice(len(b'{"key":"'), len(b'{"key":"') + 2 * KEY_BYTES)
GROUP_BYTES = 2**20
_SOME = 1_000


class EarlierAnswer(NamedTuple):
    """Why an earlier answer counts for an item in one trial.

    Attributes:
        fingerprint: The earlier workflow that gave it; it counts until the current one has
            answered. Empty: the current one gave it.
        below: The user keeps the current workflow's answer although one of its files has
            changed, while its generation is below this. 0: no.
    """

    fingerprint: str = ""
    below: int = 0


class Content(NamedTuple):
    """The content behind the key of an item's cell: see `item_identity`."""

    seen: str
    occurrence: int = 0


class Contents:
    """The content behind the keys of all items, in little memory.

    Attributes:
        seen: The digests of what the workflow sees, 16 bytes each.
        repeated: By position, the item's number among those with its digest, unless it is first.
    """

    def __init__(self, seen: bytes, repeated: Mapping[int, int]) -> None:
        self.seen = seen
        self.repeated = repeated

    def __getitem__(self, position: int) -> Content:
        begin = position * KEY_BYTES
        return Content(self.seen[begin : begin + KEY_BYTES].hex(), self.repeated.get(position, 0))

    def identity(self, position: int) -> bytes:
        """Return the identity of an item."""
        return item_identity(*self[position])

    def identities(self, positions: Iterable[int]) -> list[bytes]:
        """Return the identities of items."""
        digests = self.seen
        if self.repeated:
            return [self.identity(position) for position in positions]
        return [
            digests[position * KEY_BYTES : (position + 1) * KEY_BYTES] + FIRST
            for position in positions
        ]

    def keys(self, fingerprint: str, trial: int, positions: Iterable[int]) -> list[bytes]:
        """Return the keys of items' cells, if the workflow has this fingerprint."""
        return OutputKeys(fingerprint, trial).keys(self.identities(positions))


EarlierAnswers = Mapping[int, Mapping[int, EarlierAnswer]]
"""Earlier answers by the item's position in the dataset, and by trial."""


# ---- writing ------------------------------------------------------------------------------------


class ItemsMark(NamedTuple):
    """What a session records about `items.jsonl`: see `Session`."""

    items_file: list[int]
    items_made_of: str
    earlier_answers: int | None


NOT_KNOWN = ItemsMark([], "", None)


def mark_of(session: Session | None) -> ItemsMark:
    """Return what a session recorded about `items.jsonl`."""
    if session is None:
        return NOT_KNOWN
    return ItemsMark(session.items_file, session.items_made_of, session.earlier_answers)


def write_items(
    layout: Layout,
    items: Sequence[Item],
    contents: Contents,
    earlier_answers: EarlierAnswers,
    known: ItemsMark = NOT_KNOWN,
) -> ItemsMark:
    """Bring `items.jsonl` up to date.

    Args:
        layout: The run's layout.
        items: Every item of the dataset.
        contents: The content behind the keys.
        earlier_answers: Why earlier answers count, where they do.
        known: What the last session recorded about the file.

    Raises:
        OSError: It cannot be written.
    """
    made_of = _made_of(items, contents, earlier_answers)
    if known.items_made_of == made_of and is_whole(layout, known.items_file):
        return known
    written = [0, 0]

    def counted() -> Iterator[bytes]:
        for piece in _pieces(_lines(items, contents, earlier_answers)):
            written[:] = written[0] + len(piece), crc32(piece, written[1])
            yield piece

    replace_file(layout.items, counted())
    return ItemsMark(written, made_of, len(earlier_answers))


def items_digest(items: Sequence[Item]) -> str:
    """Return a digest that changes if any item changes."""
    if isinstance(items, PackedItems):
        return items.digest()
    together = blake2b(digest_size=16)
    for item in items:  # one at a time: a million rows at once take a gigabyte
        together.update(encode_canonical([item.id, item.input, item.expected, dict(item.row)]))
    return together.hexdigest()


def _made_of(items: Sequence[Item], contents: Contents, earlier_answers: EarlierAnswers) -> str:
    together = blake2b(items_digest(items).encode() + contents.seen, digest_size=16)
    more = [
        contents.repeated,
        {position: dict(trials) for position, trials in earlier_answers.items()},
    ]
    together.update(encode_canonical(more))
    return together.hexdigest()


def _lines(
    items: Sequence[Item], contents: Contents, earlier_answers: EarlierAnswers
) -> Iterator[bytes]:
    if not isinstance(items, PackedItems):
        for position, item in enumerate(items):
            begin = _begin(contents[position], earlier_answers.get(position))
            yield _with_fields(begin, item.id, _given(item), dict(item.row))
        return
    roles = items.roles
    fields: dict[str, Any] = {"input_field": roles.input}
    if roles.expected is not None:
        fields["expected_field"] = roles.expected
    between = b"," + orjson.dumps(fields)[1:-1] + b',"row":'
    plain, repeated = _begins(contents.seen), contents.repeated
    for position, (name, row, begin) in enumerate(zip(items.names, items.rows, plain, strict=True)):
        if position in earlier_answers or position in repeated:
            begin = _begin(contents[position], earlier_answers.get(position))  # noqa: PLW2901 - few have more
        if isinstance(row, bytes):  # already JSON
            yield b"".join((begin, json_text(name), between, row, b"}\n"))
        else:
            yield _with_fields(begin, name, fields, row)


def _begins(seen: bytes) -> Iterator[bytes]:
    """Yield the beginnings of plain items' lines, a thousand digests at a time.

    A million calls of `_begin` take a second longer.
    """
    for at in range(0, len(seen), _SOME * KEY_BYTES):
        digests = seen[at : at + _SOME * KEY_BYTES].hex(" ", KEY_BYTES).encode().split(b" ")
        yield from [b'{"key":"%b","id":' % digest for digest in digests]


def _begin(content: Content, earlier: Mapping[int, EarlierAnswer] | None) -> bytes:
    if not content.occurrence and earlier is None:
        return b'{"key":"%b","id":' % content.seen.encode()
    more: dict[str, Any] = {"occurrence": content.occurrence} if content.occurrence else {}
    if earlier is not None:
        more["earlier_answers"] = {str(trial): list(why) for trial, why in sorted(earlier.items())}
    return b'{"key":"%b",%b,"id":' % (content.seen.encode(), orjson.dumps(more)[1:-1])


def _with_fields(begin: bytes, name: str, fields: dict[str, Any], row: dict[str, Any]) -> bytes:
    """Return the line of an item whose row may not be plain JSON."""
    try:
        text, is_marked = encode({**fields, "row": row})
    except NotPlainError:  # its cells fail, too: a record holds the row
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


def is_whole(layout: Layout, known: Sequence[int]) -> bool:
    """Return whether `items.jsonl` has the size and the checksum that were recorded."""
    try:
        size = layout.items.stat().st_size
        return bool(known) and size == known[0] and [size, checksum(layout.items)] == known
    except (OSError, JournalError):
        return False


def identity_of(layout: Layout) -> tuple[int, int, int] | None:
    """Return a value that changes when the file is replaced; None if it is missing."""
    with suppress(OSError):
        status = layout.items.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns
    return None
