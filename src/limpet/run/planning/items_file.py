"""Which items does a run ask about, in which order, and what is the key of each?

`items.jsonl` has one line for every item of the dataset, also where a limit or a sample selects
some of them:

    {"key":"<32 hex>","id":"q1","input_field":"question","expected_field":"answer","row":{…}}

The key is the digest of what the workflow sees of the item; with the workflow's fingerprint and the
trial it gives the key of a cell (`output_key`). Where that is not the whole story, more stands
between key and id: `occurrence`, which of several items with that key it is, and `standing`, by
trial, why an answer of another time counts. `input` and `expected` stand there themselves where
they are not fields of the row.

The file is written whole when a session begins, and only if it would say something else. Its size
and checksum are noted in `index/items.json`, which may be deleted.
"""

import json
import os
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from typing import Any, BinaryIO, NamedTuple, cast

import orjson

from limpet.datasets.packed import PackedItems
from limpet.errors import JournalError
from limpet.fingerprints.keys import output_key
from limpet.journal.checksum import crc32
from limpet.journal.files import make_directory, open_to_read, read_whole, replace_file
from limpet.journal.index import KEY_BYTES
from limpet.journal.layout import Layout
from limpet.json_values import NotPlainError, decode, encode, encode_canonical
from limpet.types import Item

EARLIER_FILES = "with files that say something else now"
"""The version of an answer that is kept, though a file changed that it was made of."""
_KEY = slice(len(b'{"key":"'), len(b'{"key":"') + 2 * KEY_BYTES)
_ID = b'","id":'
_GROUP_BYTES = 2**20


class Standing(NamedTuple):
    """Why an answer of another time counts for an item in one trial.

    Attributes:
        version: The fingerprint of the earlier workflow that gave it; it counts until there is an
            answer by the present one. Empty: the present one gave it.
        below: Of an answer by the present workflow: a person chose to keep it though a file that
            it was made of has changed, as long as its generation is below this. 0: not so.
    """

    version: str = ""
    below: int = 0


class Content(NamedTuple):
    """What the key of an item's cell is made of: see `output_key`."""

    seen: str
    occurrence: int = 0


class Contents:
    """What the keys of all items are made of, in little memory.

    Attributes:
        seen: The digests of what the workflow sees, 16 bytes each.
        repeated: By place, which occurrence of its digest an item is: most are the first.
    """

    def __init__(self, seen: bytes, repeated: Mapping[int, int]) -> None:
        self.seen = seen
        self.repeated = repeated

    def __getitem__(self, place: int) -> Content:
        begin = place * KEY_BYTES
        return Content(self.seen[begin : begin + KEY_BYTES].hex(), self.repeated.get(place, 0))

    def key(self, place: int, fingerprint: str, trial: int) -> bytes:
        """Return the key of the workflow's cell, if the workflow has this fingerprint."""
        seen, occurrence = self[place]
        return bytes.fromhex(output_key(seen, fingerprint, trial, occurrence))


Standings = Mapping[int, Mapping[int, Standing]]
"""By an item's place in the dataset, and by trial."""


# ---- writing ------------------------------------------------------------------------------------


def write_items(
    layout: Layout, items: Sequence[Item], contents: Contents, standings: Standings
) -> None:
    """Bring `items.jsonl` up to date.

    Args:
        layout: Where.
        items: Every item of the dataset.
        contents: What the key of each is made of.
        standings: Why answers of another time count, for those where some do.

    Raises:
        OSError: It cannot be written.
    """
    made_of = _made_of(items, contents, standings)
    known = _note(layout)
    if known.get("made_of") == made_of and is_whole(layout):
        return
    note: dict[str, Any] = {"bytes": 0, "crc": 0}

    def counted() -> Iterator[bytes]:
        for piece in _pieces(_lines(items, contents, standings)):
            note["bytes"] += len(piece)
            note["crc"] = crc32(piece, note["crc"])
            yield piece

    replace_file(layout.items, counted())
    note |= {"made_of": made_of, "standing": len(standings)}
    make_directory(layout.items_note.parent)
    replace_file(layout.items_note, [json.dumps(note).encode()])


def items_digest(items: Sequence[Item]) -> str:
    """Return a hash that is another wherever an item is another."""
    if isinstance(items, PackedItems):
        return items.digest()
    together = blake2b(digest_size=16)
    for item in items:  # each by itself: a million rows at once take a gigabyte
        together.update(encode_canonical([item.id, item.input, item.expected, dict(item.row)]))
    return together.hexdigest()


def _made_of(items: Sequence[Item], contents: Contents, standings: Standings) -> str:
    together = blake2b(items_digest(items).encode() + contents.seen, digest_size=16)
    more = [contents.repeated, {place: dict(one) for place, one in standings.items()}]
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
    for place, (name, row) in enumerate(zip(items.names, items.rows, strict=True)):
        begin = _begin(contents[place], standings.get(place))
        if isinstance(row, bytes):  # it is JSON already
            yield b"".join((begin, _json(name), between, row, b"}\n"))
        else:
            yield _with_fields(begin, name, fields, row)


def _begin(content: Content, standing: Mapping[int, Standing] | None) -> bytes:
    if not content.occurrence and standing is None:
        return b'{"key":"%b","id":' % content.seen.encode()
    more: dict[str, Any] = {"occurrence": content.occurrence} if content.occurrence else {}
    if standing is not None:
        more["standing"] = {str(trial): list(one) for trial, one in sorted(standing.items())}
    return b'{"key":"%b",%b,"id":' % (content.seen.encode(), orjson.dumps(more)[1:-1])


def _with_fields(begin: bytes, name: str, fields: dict[str, Any], row: dict[str, Any]) -> bytes:
    """Return the line of an item whose row needs care."""
    try:
        text, is_marked = encode({**fields, "row": row})
    except NotPlainError:  # nor can an answer be kept beside it: its cells fail, and say so
        row = {field: value for field, value in row.items() if _can_be_kept(value)}
        kept = {field: value for field, value in fields.items() if _can_be_kept(value)}
        text, is_marked = encode({**kept, "row": row})
    mark = b',"marked":true' if is_marked else b""
    return b"".join((begin, _json(name), mark, b",", text[1:], b"\n"))


def _given(item: Item) -> dict[str, Any]:
    return {"input": item.input, "expected": item.expected}


def _can_be_kept(value: Any) -> bool:
    try:
        encode(value)
    except NotPlainError:
        return False
    return True


def _json(text: str) -> bytes:
    try:
        return orjson.dumps(text)
    except TypeError:  # a lone surrogate
        return json.dumps(text).encode()


def _pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines together, a megabyte at a time."""
    group: list[bytes] = []
    size = 0
    for line in lines:
        group.append(line)
        size += len(line)
        if size >= _GROUP_BYTES:
            yield b"".join(group)
            group, size = [], 0
    yield b"".join(group)


# ---- reading ------------------------------------------------------------------------------------


def is_whole(layout: Layout) -> bool:
    """Tell whether `items.jsonl` is what was written."""
    known = _note(layout)
    crc = 0
    try:
        with open_to_read(layout.items, buffering=0) as file:
            if os.fstat(file.fileno()).st_size != known.get("bytes"):
                return False
            while piece := file.read(_GROUP_BYTES):
                crc = crc32(piece, crc)
    except (OSError, JournalError):
        return False
    return crc == known.get("crc")


def has_standing(layout: Layout) -> bool:
    """Tell whether for some item an answer of another time counts, as far as is known."""
    return _note(layout).get("standing") != 0


def identity_of(layout: Layout) -> tuple[int, int, bytes] | None:
    """Return what is another whenever the file was replaced; None if there is none."""
    with suppress(OSError, JournalError):
        found = layout.items.stat()
        note = b""
        with suppress(FileNotFoundError):
            note = read_whole(layout.items_note)
        return found.st_ino, found.st_size, note
    return None


def _note(layout: Layout) -> dict[str, Any]:
    with suppress(OSError, ValueError, JournalError):
        known = json.loads(read_whole(layout.items_note))
        return known if isinstance(known, dict) else {}
    return {}


class ItemsFile:
    """`items.jsonl`, of which the keys are in memory and a row is read when it is wanted.

    Args:
        layout: Where it is.

    Raises:
        FileNotFoundError: There is none.
        JournalError: It is damaged.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.identity = identity_of(layout)
        self._offsets = array("Q")
        self._more: dict[int, dict[str, Any]] = {}
        self._file: BinaryIO | None = None
        self._at = 0
        with open_to_read(layout.items) as file:
            self._seen = self._load(file)

    def close(self) -> None:
        """Let go of the file; it is opened again when it is needed."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __len__(self) -> int:
        return len(self._offsets)

    def _load(self, file: BinaryIO) -> bytes:
        known, crc, at, keys = _note(self._layout), 0, 0, []
        while lines := file.readlines(_GROUP_BYTES):
            crc = crc32(b"".join(lines), crc)
            for line in lines:
                self._offsets.append(at)
                at += len(line)
                if line[_KEY.stop : _KEY.stop + len(_ID)] != _ID:
                    self._more[len(self._offsets) - 1] = self._decoded(line)
            keys += [line[_KEY] for line in lines]
        if known and (known.get("bytes"), known.get("crc")) != (at, crc):
            raise self._damaged("its checksum is another")
        try:
            seen = bytes.fromhex(b"".join(keys).decode("ascii"))
        except ValueError as error:
            raise self._damaged("a key is no key") from error
        if len(seen) != KEY_BYTES * len(self._offsets):
            raise self._damaged("a line ends too early")
        return seen

    def _opened(self) -> BinaryIO:
        if self._file is None:
            if identity_of(self._layout) != self.identity:
                raise JournalError(
                    f"{self._layout.items}: the run is gone, or was asked something else since",
                    hint="look at result.items before its directory is changed, moved or deleted",
                )
            self._file, self._at = open_to_read(self._layout.items), 0
        return self._file

    def _damaged(self, why: str) -> JournalError:
        return JournalError(
            f"{self._layout.items}: this is not what was written: {why}",
            hint="run the same again: it is written anew, and what is done is kept",
        )

    def _decoded(self, line: bytes) -> dict[str, Any]:
        try:
            try:
                fields = orjson.loads(line)
            except orjson.JSONDecodeError:  # perhaps only a lone surrogate
                fields = json.loads(line)
            if "marked" in fields:
                fields |= {**decode(line, marked=True), "id": fields["id"]}
        except (ValueError, AttributeError, TypeError, KeyError) as error:
            raise self._damaged(str(error)) from error
        return cast("dict[str, Any]", fields)

    @cached_property
    def contents(self) -> Contents:
        """What the keys of the items' cells are made of."""
        occurrences = {at: more.get("occurrence", 0) for at, more in self._more.items()}
        return Contents(self._seen, {at: number for at, number in occurrences.items() if number})

    def standing(self, place: int, trial: int) -> Standing | None:
        """Return why an answer of another time may count for an item; None: none does."""
        more = self._more.get(place)
        told = None if more is None else more.get("standing", {}).get(str(trial))
        return None if told is None else Standing(*told)

    @property
    def has_standing(self) -> bool:
        """Whether for some item an answer of another time may count."""
        return any("standing" in more for more in self._more.values())

    def item(self, place: int) -> Item:
        """Return the item at a place.

        Raises:
            JournalError: The line is damaged.
        """
        file = self._file or self._opened()
        if self._at != self._offsets[place]:  # most are read in order
            file.seek(self._offsets[place])
        line = file.readline()
        self._at = self._offsets[place] + len(line)
        fields = self._decoded(line)
        try:
            row, given, expected = fields["row"], fields.get("input"), fields.get("expected")
            if "input_field" in fields:
                given = row.get(fields["input_field"])
            if "expected_field" in fields:
                expected = row.get(fields["expected_field"])
            return Item(fields["id"], given, expected, row)
        except (KeyError, AttributeError, TypeError) as error:
            raise self._damaged(f"a line lacks {error}") from error

    def find(self, id_: str) -> int | None:
        """Return the place of the item with an id; None: there is none."""
        needle, at = b'"id":' + _json(id_) + b",", 0
        text = read_whole(self._layout.items)
        while (at := text.find(needle, at)) >= 0:
            place = bisect_right(self._offsets, at) - 1
            if self.item(place).id == id_:  # and not a field of a row
                return place
            at += 1
        return None

    def ids(self) -> Iterator[str]:
        """Yield the ids, in order."""
        return (self.item(place).id for place in range(len(self)))
