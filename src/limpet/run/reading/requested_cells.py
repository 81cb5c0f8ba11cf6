"""Which answer counts for each item in each trial?

An item's identity, the workflow's fingerprint and the trial give the key of its answer. If the user
keeps an earlier answer, `items.jsonl` records it. If `items.jsonl` or `run.json` is missing, the
latest answer to each item counts.
"""

import json
from array import array
from bisect import bisect_right
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from typing import Any, BinaryIO, NamedTuple, cast
from zlib import crc32

import orjson

from limpet.errors import JournalError
from limpet.fingerprints.keys import OutputKeys, seen_bytes
from limpet.journal.files import open_to_read
from limpet.journal.layout import Layout
from limpet.journal.lines import KEY_BYTES
from limpet.json_values import decode, spellings
from limpet.run.planning.counting import Counting, earlier_version
from limpet.run.planning.items_file import (
    GROUP_BYTES,
    KEY,
    Contents,
    EarlierAnswer,
    identity_of,
    json_text,
)
from limpet.run.reading.facts_reader import FactsReader, FailuresReader
from limpet.shapes import Item

# ---- `items.jsonl`: `run/planning/items_file.py` describes the format. --------------------------

_ID = b'","id":'
_NOT_OF_ITEMS = frozenset({"output", "trace"})
_NOT_KNOWN = bytes(KEY_BYTES)
_AFTER_KEY = slice(KEY.stop, KEY.stop + len(_ID))


class ItemsFile:
    """`items.jsonl`. Its keys are kept in memory; rows are read when needed.

    The file stays open: if a session replaces it, the old one can still be read.

    Args:
        layout: Where it is.
        known: Its size and checksum; empty: not known.

    Raises:
        FileNotFoundError: It does not exist.
        JournalError: It is damaged.
    """

    def __init__(self, layout: Layout, known: Sequence[int] = ()) -> None:
        self._layout = layout
        self.identity = identity_of(layout)
        self._offsets = array("Q")
        self._more: dict[int, dict[str, Any]] = {}
        self._file: BinaryIO | None = None
        self._at = -1
        self._seen_by: dict[frozenset[str], bytearray] = {}
        self._roles: dict[tuple[str, ...], dict[str, str]] = {}
        self._file = open_to_read(layout.items)
        try:
            self._seen = self._load(self._file, known)
        except JournalError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; it is reopened when needed."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __len__(self) -> int:
        return len(self._offsets)

    def _load(self, file: BinaryIO, known: Sequence[int]) -> bytes:
        crc, at, seen = 0, 0, bytearray()
        while lines := file.readlines(GROUP_BYTES):
            crc = crc32(b"".join(lines), crc)
            begin, ends = len(self._offsets), list(accumulate(map(len, lines), initial=at))
            at = ends.pop()
            self._offsets.extend(ends)
            odd = [position for position, line in enumerate(lines) if line[_AFTER_KEY] != _ID]
            self._more.update({begin + at: self._decoded(lines[at], begin + at) for at in odd})
            for position, line in enumerate(() if known else lines, begin):
                self._item(
                    self._decoded(line, position), position
                )  # without a checksum, check each
            try:
                seen += bytes.fromhex(b"".join([line[KEY] for line in lines]).decode("ascii"))
            except ValueError as error:
                raise self._damaged("a key is invalid") from error
        if known and known != [at, crc]:
            raise self._damaged("it does not match run.json")
        if len(seen) != KEY_BYTES * len(self._offsets):
            raise self._damaged("a line ends too early")
        return bytes(seen)

    def seen_by(self, reads: frozenset[str], positions: Sequence[int]) -> list[bytes]:
        """Return the digests of what an evaluator reads of the items at these positions."""
        if _NOT_OF_ITEMS.issuperset(reads):
            return [_seen_of_nothing(reads)] * len(positions)
        parts = sorted(reads)
        if reads not in self._seen_by:
            self._seen_by[reads] = bytearray(KEY_BYTES * len(self))
        known, found = self._seen_by[reads], list[bytes]()
        for position in positions:
            begin = KEY_BYTES * position
            digest = bytes(known[begin : begin + KEY_BYTES])
            if digest == _NOT_KNOWN:
                digest = seen_bytes(self.item(position), parts)
                known[begin : begin + KEY_BYTES] = digest
            found.append(digest)
        return found

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

    def _decoded(self, line: bytes, position: int) -> dict[str, Any]:
        try:
            try:
                fields = orjson.loads(line)
            except orjson.JSONDecodeError:  # perhaps because of a lone surrogate
                fields = json.loads(line)
            if "marked" in fields:
                fields |= {**decode(line, marked=True), "id": fields["id"]}
        except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
            raise self._damaged(f"line {position + 1} is not an item") from error
        return cast("dict[str, Any]", fields)

    @cached_property
    def contents(self) -> Contents:
        """The content behind the keys of the cells."""
        occurrences = {at: more.get("occurrence", 0) for at, more in self._more.items()}
        return Contents(self._seen, {at: number for at, number in occurrences.items() if number})

    def earlier_answer(self, position: int, trial: int) -> EarlierAnswer:
        """Return the earlier answer that the user keeps for an item."""
        return EarlierAnswer(
            *self._more.get(position, {}).get("earlier_answers", {}).get(str(trial), ())
        )

    @cached_property
    def has_earlier_answers(self) -> bool:
        """Whether an earlier answer may count for some item."""
        return any("earlier_answers" in more for more in self._more.values())

    def item(self, position: int) -> Item:
        """Return the item at a position.

        Raises:
            JournalError: The line is damaged.
        """
        return self._item(self._decoded(self._line(position), position), position)

    def item_and_roles(self, position: int) -> tuple[Item, Mapping[str, str]]:
        """Return the item at a position, and which fields of its row are `input` and `expected`.

        Raises:
            JournalError: The line is damaged.
        """
        fields = self._decoded(self._line(position), position)
        return self._item(fields, position), self._roles_in(fields)

    def _line(self, position: int) -> bytes:
        file = self._file or self._opened()
        if self._at != self._offsets[position]:  # most are read in order
            file.seek(self._offsets[position])
        line = file.readline()
        self._at = self._offsets[position] + len(line)
        return line

    def _item(self, fields: Mapping[str, Any], position: int) -> Item:
        try:
            row, given, expected = fields["row"], fields.get("input"), fields.get("expected")
            if "input_field" in fields:
                given = row.get(fields["input_field"])
            if "expected_field" in fields:
                expected = row.get(fields["expected_field"])
            return Item(fields["id"], given, expected, row)
        except (KeyError, AttributeError, TypeError) as error:
            raise self._damaged(f"line {position + 1} is not an item") from error

    def _roles_in(self, fields: Mapping[str, Any]) -> Mapping[str, str]:
        known = (str(fields.get("input_field", "")), str(fields.get("expected_field", "")))
        if known not in self._roles:  # one for all lines that agree
            roles = zip(("input", "expected"), known, strict=True)
            self._roles[known] = {role: name for role, name in roles if name}
        return self._roles[known]

    def find(self, id_: str) -> int | None:
        """Return the position of the item with an id; None: no item has it."""
        file = self._file or self._opened()
        file.seek(0)
        text, self._at = file.read(), -1
        # Two surrogate halves are written as such, and read as the character that they make.
        for needle in {json_text(id_)} | spellings(id_):
            at = 0
            while (at := text.find(b'"id":' + needle + b",", at)) >= 0:
                position = bisect_right(self._offsets, at) - 1
                if self.item(position).id == id_:  # else it is a field of a row
                    return position
                at += 1
        return None

    def ids(self) -> Iterator[str]:
        """Yield the ids, in order."""
        position = at = 0
        while position < len(self):
            file, self._at = self._file or self._opened(), -1
            file.seek(at)
            lines = file.readlines(GROUP_BYTES)
            yield from [self._id_in(line, n) for n, line in enumerate(lines, position)]
            position, at = position + len(lines), at + sum(map(len, lines))

    def _id_in(self, line: bytes, position: int) -> str:
        begin = line.find(b',"id":"', KEY.stop) + len(b',"id":"')
        text = line[begin : line.find(b'"', begin)]
        # Most ids need no decoding, and decoding a row takes ten times as long.
        return str(self._decoded(line, position)["id"]) if b"\\" in text else text.decode()

    def content(self, position: int) -> bytes:
        """Return an item as bytes, with its row: equal items have equal bytes."""
        line = self._line(position)
        return line[line.index(b'"id":', KEY.stop) :]


@cache
def _seen_of_nothing(reads: frozenset[str]) -> bytes:
    return seen_bytes(Item("", None), sorted(reads))


# ---- Which answer counts for each item in each trial? -------------------------------------------


class RequestedCell(NamedTuple):
    """An item in a trial, and the answer that counts for it.

    Attributes:
        position: The item's position in the dataset; None: not known.
        trial: The trial, from 0.
        key: The key of an answer by the current workflow.
        counting: The key of the answer that counts.
        version: The earlier version that gave it; empty: the current one.
        identity: The item's identity, for the keys of its scores; empty: not known.
        id: The item's id, if its position is not known.
    """

    position: int | None
    trial: int
    key: bytes
    counting: bytes
    version: str = ""
    identity: bytes = b""
    id: str = ""


@dataclass(slots=True)
class RequestedCells:
    """The cells of the step that answers.

    Attributes:
        step: The step that answers: the workflow, or a map.
        column: Its column.
        failures: The failures of all steps.
        file: `items.jsonl`; None: it is missing or damaged.
        fingerprint: The workflow's fingerprint; empty: not known.
        positions: The positions of the items that the run reports on.
        trials: The number of trials.
        counting: Decides whether a record counts.
    """

    step: str
    column: FactsReader
    failures: FailuresReader
    file: ItemsFile | None
    fingerprint: str
    positions: Sequence[int]
    trials: int
    counting: Counting
    _latest: list[RequestedCell] | None = None

    @property
    def have_keys(self) -> bool:
        """Whether answers are found by their keys."""
        return self.file is not None and bool(self.fingerprint)

    @property
    def are_fixed(self) -> bool:
        """Whether the answers that count depend only on the request."""
        is_plain = self.file is not None and not self.file.has_earlier_answers
        return self.have_keys and is_plain and self.step not in self.counting.outdated

    def __len__(self) -> int:
        return len(self.positions) * self.trials if self.have_keys else len(self._latest_of_each())

    def cells(self, only: Container[int] | None = None) -> Iterator[RequestedCell]:
        """Yield each item in each trial, in the order of the dataset, trial by trial.

        Args:
            only: The positions of the items to yield; None: all.
        """
        if self.file is None or not self.fingerprint:
            found = self._latest_of_each()
            yield from (cell for cell in found if only is None or cell.position in only)
            return
        for trial in range(self.trials):
            for position in self.positions:
                if only is None or position in only:
                    yield self._cell(self.file, position, trial)

    def counting_keys(self) -> list[bytes]:
        """Return the key of the answer that counts for each cell."""
        if self.file is None or not self.are_fixed:
            return [cell.counting for cell in self.cells()]
        keys: list[bytes] = []
        for trial in range(self.trials):
            keys += self.file.contents.keys(self.fingerprint, trial, self.positions)
        return keys

    def offsets(self) -> list[int]:
        """Return where the answer of each cell begins in its column; -1 if there is none."""
        return [self.column.offset(key) for key in self.counting_keys()]

    def items_of_cells(self) -> list[int]:
        """Return the number of each cell's item, from 0."""
        if self.file is not None:
            return [number % len(self.positions) for number in range(len(self))]
        known: dict[str, int] = {}
        return [known.setdefault(cell.id, len(known)) for cell in self._latest_of_each()]

    def numbers(self, wanted: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the number of the cell of each id and trial, where it exists."""
        found: dict[tuple[str, int], int] = {}
        if self.file is None:
            cells = enumerate(self._latest_of_each())
            found = {(cell.id, cell.trial): number for number, cell in cells}
        else:
            ids, length = {id_ for id_, _ in wanted}, len(self.positions)
            for at, position in enumerate(self.positions):
                if (id_ := self.file.item(position).id) in ids:
                    cells_of_id = range(at, len(self), length)
                    found |= {(id_, trial): number for trial, number in enumerate(cells_of_id)}
        return {cell: found[cell] for cell in wanted if cell in found}

    def __getitem__(self, number: int) -> RequestedCell:
        if self.file is None or not self.fingerprint:
            return self._latest_of_each()[number]
        trial, at = divmod(number, len(self.positions))
        return self._cell(self.file, self.positions[at], trial)

    def _cell(self, file: ItemsFile, position: int, trial: int) -> RequestedCell:
        identity = file.contents.identity(position)
        key = OutputKeys(self.fingerprint, trial).key(identity)
        if self.are_fixed:
            return RequestedCell(position, trial, key, key, "", identity)
        kept, generation = file.earlier_answer(position, trial), self.column.generation
        by = earlier_version(kept.fingerprint, generation(key))
        counting = OutputKeys(by, trial).key(identity) if by else key
        record = (self.step, counting.hex(), generation(counting))
        version = self.counting.verdict(*record, earlier=by, below=kept.below).version
        return RequestedCell(position, trial, key, counting, version, identity)

    def earlier_on_disk(self, fingerprints: Collection[str]) -> int:
        """Return how many cells have no answer that counts, but one by these versions."""
        if not self.have_keys:
            return 0
        lacking = [cell for cell in self.cells() if not self.column.has(cell.counting)]
        return sum(
            any(
                self.column.has(OutputKeys(one, cell.trial).key(cell.identity))
                for one in fingerprints
            )
            for cell in lacking
        )

    def _latest_of_each(self) -> list[RequestedCell]:
        """Return the latest record of each item and trial, or its failure if there is none."""
        if self._latest is None:
            found: dict[tuple[str, int], bytes] = {}
            for key in self.column.keys():  # noqa: SIM118 - not a dict
                found[_id_and_trial(self.column.facts(key) or {})] = key
            for text, failed in self.failures.of(self.step):
                found.setdefault(_id_and_trial(failed.facts), bytes.fromhex(text))
            self._latest = list(self._in_order(found))
        return self._latest

    def _in_order(self, found: Mapping[tuple[str, int], bytes]) -> Iterator[RequestedCell]:
        """Yield a cell for each requested item, or for each record if the items are not known."""
        if self.file is None:
            for (id_, trial), key in found.items():
                yield RequestedCell(None, trial, key, key, id=id_)
            return
        ids = list(self.file.ids())
        for trial in range(max((trial for _, trial in found), default=0) + 1):
            for position in self.positions:
                key = found.get((ids[position], trial), b"")
                identity = self.file.contents.identity(position)
                yield RequestedCell(position, trial, key, key, identity=identity)


def _id_and_trial(facts: Mapping[str, Any]) -> tuple[str, int]:
    return str(facts.get("id", "")), int(facts.get("trial", 0))
