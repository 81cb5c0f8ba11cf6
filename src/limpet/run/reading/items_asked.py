"""Reads `items.jsonl`: the format is in `run/planning/items_file.py`."""

import json
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, BinaryIO, cast

import orjson

from limpet.errors import JournalError
from limpet.fingerprints.keys import seen_digest
from limpet.journal.files import open_to_read
from limpet.journal.layout import Layout
from limpet.journal.lines import KEY_BYTES, crc32
from limpet.json_values import decode
from limpet.run.planning.items_file import (
    GROUP_BYTES,
    KEY,
    Contents,
    EarlierAnswer,
    identity_of,
    json_text,
    noted_of,
)
from limpet.run.planning.items_seen import read_seen, sees_items
from limpet.types import Item

_ID = b'","id":'
_AFTER_KEY = slice(KEY.stop, KEY.stop + len(_ID))


class ItemsFile:
    """`items.jsonl`. Its keys are kept in memory; a row is read when it is needed.

    The file is kept open: if a session replaces it, what was opened can still be read.

    Args:
        layout: Where it is.

    Raises:
        FileNotFoundError: It does not exist.
        JournalError: It is damaged.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.identity = identity_of(layout)
        self._offsets = array("Q")
        self._more: dict[int, dict[str, Any]] = {}
        self._file: BinaryIO | None = None
        self._at = -1
        self._seen_by: dict[frozenset[str], bytes] = {}
        self._seen_nothing: dict[frozenset[str], bytes] = {}
        self._roles: dict[tuple[str, ...], dict[str, str]] = {}
        self._file = open_to_read(layout.items)
        try:
            self._seen = self._load(self._file)
        except JournalError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; it is opened again when it is needed."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __len__(self) -> int:
        return len(self._offsets)

    def _load(self, file: BinaryIO) -> bytes:
        known, crc, at, seen = noted_of(self._layout), 0, 0, bytearray()
        while lines := file.readlines(GROUP_BYTES):
            crc = crc32(b"".join(lines), crc)
            begin, ends = len(self._offsets), list(accumulate(map(len, lines), initial=at))
            at = ends.pop()
            self._offsets.extend(ends)
            odd = [place for place, line in enumerate(lines) if line[_AFTER_KEY] != _ID]
            self._more.update({begin + at: self._decoded(lines[at], begin + at) for at in odd})
            for place, line in enumerate(() if known else lines, begin):
                self._item_in(line, place)  # without a checksum, each line is checked
            try:
                seen += bytes.fromhex(b"".join([line[KEY] for line in lines]).decode("ascii"))
            except ValueError as error:
                raise self._damaged("a key is not a key") from error
        if known and (known.get("bytes"), known.get("crc")) != (at, crc):
            raise self._damaged("its checksum is wrong")
        if len(seen) != KEY_BYTES * len(self._offsets):
            raise self._damaged("a line ends too early")
        self._seen_by = read_seen(self._layout, (at, crc))
        return bytes(seen)

    def seen_by(self, reads: frozenset[str]) -> Callable[[int], bytes]:
        """Return a function that returns the digest of what is read of the item at a place."""
        if not sees_items(reads):
            always = self._seen_nothing.get(reads)
            if always is None:  # asked for each score: made once
                always = bytes.fromhex(seen_digest(Item("", None), reads))
                self._seen_nothing[reads] = always
            return lambda _: always
        known = self._seen_by.get(reads, b"")

        def seen(place: int) -> bytes:
            digest = known[KEY_BYTES * place : KEY_BYTES * (place + 1)]
            return digest or bytes.fromhex(seen_digest(self.item(place), reads))

        return seen

    def all_seen_by(self, reads: frozenset[str], places: Sequence[int]) -> list[bytes]:
        """Return the digests of what is read of the items at these places."""
        known = self._seen_by.get(reads, b"")
        if len(known) < KEY_BYTES * len(self):
            return list(map(self.seen_by(reads), places))
        return [known[KEY_BYTES * place : KEY_BYTES * (place + 1)] for place in places]

    def _opened(self) -> BinaryIO:
        if self._file is None:
            if identity_of(self._layout) != self.identity:
                raise JournalError(
                    f"{self._layout.items}: the run is gone, or was started with other items since",
                    hint="look at result.items before its directory is changed, moved or deleted",
                )
            self._file, self._at = open_to_read(self._layout.items), -1
        return self._file

    def _damaged(self, why: str) -> JournalError:
        return JournalError(
            f"{self._layout.items}: damaged: {why}",
            hint="run the same command again: the file is rewritten, and results are kept",
        )

    def _decoded(self, line: bytes, place: int) -> dict[str, Any]:
        try:
            try:
                fields = orjson.loads(line)
            except orjson.JSONDecodeError:  # perhaps because of a lone surrogate
                fields = json.loads(line)
            if "marked" in fields:
                fields |= {**decode(line, marked=True), "id": fields["id"]}
        except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
            raise self._damaged(f"line {place + 1} is not an item") from error
        return cast("dict[str, Any]", fields)

    @cached_property
    def contents(self) -> Contents:
        """What the keys of the cells are made of."""
        occurrences = {at: more.get("occurrence", 0) for at, more in self._more.items()}
        return Contents(self._seen, {at: number for at, number in occurrences.items() if number})

    def standing(self, place: int, trial: int) -> EarlierAnswer | None:
        """Return why an earlier answer may count for an item; None: none does."""
        more = self._more.get(place)
        standing = {} if more is None else more.get("standing", {})
        return EarlierAnswer(*standing[str(trial)]) if str(trial) in standing else None

    @cached_property
    def has_standing(self) -> bool:
        """Whether an earlier answer may count for some item."""
        return any("standing" in more for more in self._more.values())

    def item(self, place: int) -> Item:
        """Return the item at a place.

        Raises:
            JournalError: The line is damaged.
        """
        return self.item_and_roles(place)[0]

    def item_and_roles(self, place: int) -> tuple[Item, Mapping[str, str]]:
        """Return the item at a place, and which fields of its row are `input` and `expected`.

        Raises:
            JournalError: The line is damaged.
        """
        return self._item_in(self._line(place), place)

    def _line(self, place: int) -> bytes:
        file = self._file or self._opened()
        if self._at != self._offsets[place]:  # most are read in order
            file.seek(self._offsets[place])
        line = file.readline()
        self._at = self._offsets[place] + len(line)
        return line

    def _item_in(self, line: bytes, place: int) -> tuple[Item, Mapping[str, str]]:
        fields = self._decoded(line, place)
        try:
            row, given, expected = fields["row"], fields.get("input"), fields.get("expected")
            if "input_field" in fields:
                given = row.get(fields["input_field"])
            if "expected_field" in fields:
                expected = row.get(fields["expected_field"])
            return Item(fields["id"], given, expected, row), self._roles_in(fields)
        except (KeyError, AttributeError, TypeError) as error:
            raise self._damaged(f"line {place + 1} is not an item") from error

    def _roles_in(self, fields: Mapping[str, Any]) -> Mapping[str, str]:
        known = (str(fields.get("input_field", "")), str(fields.get("expected_field", "")))
        if known not in self._roles:  # one for all lines that agree
            roles = zip(("input", "expected"), known, strict=True)
            self._roles[known] = {role: name for role, name in roles if name}
        return self._roles[known]

    def find(self, id_: str) -> int | None:
        """Return the place of the item with an id; None: no item has it."""
        needle, at = b'"id":' + json_text(id_) + b",", 0
        file = self._file or self._opened()
        file.seek(0)
        text, self._at = file.read(), -1
        while (at := text.find(needle, at)) >= 0:
            place = bisect_right(self._offsets, at) - 1
            if self.item(place).id == id_:  # else it is a field of a row
                return place
            at += 1
        return None

    def ids(self) -> Iterator[str]:
        """Yield the ids, in order."""
        place = at = 0
        while place < len(self):
            file, self._at = self._file or self._opened(), -1
            file.seek(at)
            lines = file.readlines(GROUP_BYTES)
            yield from [self._id_in(line, n) for n, line in enumerate(lines, place)]
            place, at = place + len(lines), at + sum(map(len, lines))

    def _id_in(self, line: bytes, place: int) -> str:
        begin = line.find(b',"id":"', KEY.stop) + len(b',"id":"')
        text = line[begin : line.find(b'"', begin)]
        # Most ids need no decoding, and decoding a row takes ten times as long.
        return str(self._decoded(line, place)["id"]) if b"\\" in text else text.decode()

    def content(self, place: int) -> bytes:
        """Return an item as bytes, with its row; equal bytes are equal items."""
        line = self._line(place)
        return line[line.index(b'"id":', KEY.stop) :]
