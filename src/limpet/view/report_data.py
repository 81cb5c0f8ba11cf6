"""Which data of a run are in a report, and in which order?

The numbers of all items, as columns, and the texts of as many as fit: failures, changes and the
worst first. The texts are in chunks, so that a page opens an item without decoding all others.
"""

import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limpet.run.comparing.changes import DIRECTIONS, Changes
from limpet.run.comparing.pairs import Rows
from limpet.run.reading.items import WholeItem
from limpet.run.reading.run_table import Positions, failed_rows
from limpet.run.reading.score_table import ScoreTable
from limpet.run.results.score_words import parts_of, votes_disagree
from limpet.view.field_answers import all_by_field
from limpet.view.images import images_in
from limpet.view.item_answers import about_items, row_answer, whole_answer
from limpet.view.label_answers import score_of
from limpet.view.run_answers import run_answer
from limpet.view.server import encoded
from limpet.view.setup_answers import setup_answer
from limpet.view.shown_values import PART, Shortener, score_claims
from limpet.view.viewed_runs import ViewedRun

_CHUNK_ITEMS, _CHUNK_BYTES = 200, 2**20
"""The most items and bytes of a chunk: a page decodes it when one of its items opens."""
_BATCH = 20_000
"""The items looked up together: the event log is read once per batch."""
_OF_NUMBERS = 0.7
"""The share of the room for the numbers of all items."""
_TAGS = 64
"""The element around a chunk."""
_DIGITS = 6
_MOST_TRIED = 5
"""Stop after so many items that were too large for the remaining room."""


class RunData:
    """One run of a report.

    Args:
        opened: The run.
        name: Its name on the page.

    Attributes:
        about: What the page shows about it.
        table: The numbers of its items, packed.
        chunks: The texts of its items, packed.
        images: The images that fields of these items name: none is in the report.
    """

    def __init__(self, opened: ViewedRun, name: str) -> None:
        self.about = run_answer(opened, name, can_label=False)
        self._by, self._setup = all_by_field(opened), setup_answer(opened)
        self.about["few_valued"] = list(self._by)
        self._opened = opened
        self._table = opened.run_table.table
        self._items = np.arange(len(self._table.ids))
        self._rows: list[dict[str, Any]] = []
        self._sizes: list[int] = []
        self.table = b""
        self.chunks: list[bytes] = []
        self.images: dict[str, None] = {}

    @property
    def total(self) -> int:
        """How many items the run has, counting each trial."""
        return len(self._opened.run_table)

    @property
    def left_out(self) -> int:
        """How many of them are not in the report at all."""
        return self.total - len(self._items) * self._table.trials

    @property
    def without_texts(self) -> int:
        """How many are in the report without their texts."""
        return self.total - self.left_out - len(self._rows)

    def data(self) -> dict[str, Any]:
        """Return everything about the run but its table and chunks."""
        return {
            "about": self.about,
            "items": about_items(self._opened),
            "by": self._by,
            "setup": self._setup,
            "left_out": self.left_out,
            "rows": self._rows,
            "sizes": self._sizes,
        }

    def importance(self, first: Sequence[tuple[str, int]] = ()) -> Positions:
        """Return all positions: `first` (ids and trials), failures, the worst of each score."""
        table, run_table = self._table, self._opened.run_table
        rank = np.full(len(run_table), np.inf)
        better = {one["name"]: one["higher_is_better"] for one in score_claims(run_table.summary())}
        for name, scores in table.scores.items():
            values = scores.reshape(-1) * (1 if better.get(str(name), True) else -1)
            order = np.argsort(values, kind="stable")
            order = order[: np.count_nonzero(~np.isnan(values))]
            rank[order] = np.minimum(rank[order], np.arange(len(order)))
        rank[failed_rows(table)] = -1
        positions = [
            position
            for id_, trial in first
            if (position := run_table.position(id_, trial)) is not None
        ]
        rank[positions] = np.arange(-1 - len(positions), -1)
        return np.argsort(rank, kind="stable")

    def fit_numbers(self, order: Positions, room: int) -> int:
        """Leave out the last items of an order if the numbers exceed their share.

        Returns:
            How many bytes of the room are left.
        """
        trials = self._table.trials
        ranked = np.array(list(dict.fromkeys((order // trials).tolist())), np.intp)
        while True:
            self.table = packed(encoded(_columns(self._table, self._items)))
            share = _OF_NUMBERS * room / len(self.table)
            if share >= 1 or not len(self._items):
                return room - len(self.table) - len(packed(encoded(self.data())))
            self._items = np.sort(ranked[: max(0, int(0.95 * share * len(self._items)))])

    def placed(self, rows: Rows) -> Rows:
        """Return where rows of the run's table are in the report's table; -1: they are not."""
        new_rows = np.full(len(self._table.ids) + 1, -1)  # the last is that of no row
        new_rows[self._items] = np.arange(len(self._items))
        return new_rows[rows]

    def add_texts(self, order: Iterable[int], room: int) -> int:
        """Add the texts of items, in order, until the room is used up.

        Returns:
            How many bytes of it are left.
        """
        trials = self._table.trials
        new_position = self.placed(np.arange(len(self._table.ids)))
        wanted = [position for position in order if new_position[position // trials] >= 0]
        too_large = 0
        for wholes in _chunks(self._opened, self._wholes(wanted)):
            rows = []
            for (position, whole), _ in wholes:
                row, trial = divmod(position, trials)
                rows.append(_row(self._opened, int(new_position[row]) * trials + trial, whole))
            bodies = [body for _, body in wholes]
            named = [images_in(whole.item.row) for (_, whole), _ in wholes]
            while bodies:
                some, chunk, size = _fitting(bodies, rows, room)
                if some:
                    self.chunks.append(chunk)
                    self._rows += rows[:some]
                    self._sizes.append(some)
                    room -= size
                    self.images |= dict.fromkeys(chain.from_iterable(named[:some]))
                else:  # shorter ones may fit
                    too_large += 1
                    if too_large == _MOST_TRIED:
                        return 0
                past = max(some, 1)
                bodies, rows, named = bodies[past:], rows[past:], named[past:]
        return room

    def _wholes(self, positions: Sequence[int]) -> Iterator[tuple[int, WholeItem]]:
        """Yield everything about the items at positions that have one, with the position."""
        run_table, wholes = self._opened.run_table, self._opened.reader.wholes()
        for at in range(0, len(positions), _BATCH):
            cells = dict(run_table.cells(positions[at : at + _BATCH]))
            ids = {run_table.where(position)[0] for position in cells}
            yield from zip(cells, wholes.at([*cells.values()], ids), strict=True)


def changes_data(changes: Changes, base: RunData, new: RunData) -> dict[str, Any]:
    """Return what happened to each score of the items whose numbers are in both tables."""
    rows = [base.placed(changes.base_rows), new.placed(changes.new_rows)]
    there = (rows[0] >= 0) & (rows[1] >= 0)
    cells = np.repeat(there, changes.trials)
    return {
        "trials": changes.trials,
        # Steps from one to the next: nearly all are 1, and take no room.
        "base": np.diff(rows[0][there], prepend=0).tolist(),
        "new": np.diff(rows[1][there], prepend=0).tolist(),
        "directions": DIRECTIONS,
        # A digit for each answer.
        "scores": [
            [str(one.name), "".join(map(str, one.directions[cells].tolist()))]
            for one in changes.scores
        ],
        "total": len(changes.ids) * changes.trials,
        "changed": changes.changed(),
        "totals": [[str(one.name), one.totals()] for one in changes.scores],
    }


def packed(data: bytes) -> bytes:
    """Return bytes as gzip in base64, which contains no HTML."""
    made = zlib.compressobj(6, wbits=31)
    return b64encode(made.compress(data) + made.flush())


_Found = tuple[int, WholeItem]


def _chunks(opened: ViewedRun, found: Iterable[_Found]) -> Iterator[list[tuple[_Found, bytes]]]:
    chunk: list[tuple[_Found, bytes]] = []
    size = 0
    for one in found:
        body = _body(opened, one[1])
        if chunk and (len(chunk) == _CHUNK_ITEMS or size + len(body) > _CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append((one, body))
        size += len(body)
    if chunk:
        yield chunk


def _fitting(bodies: Sequence[bytes], rows: Sequence[Any], room: int) -> tuple[int, bytes, int]:
    """Return how many of the first fit, their chunk, and its size."""
    some = len(bodies)
    while some:
        chunk = packed(b"[" + b",".join(bodies[:some]) + b"]")
        size = len(chunk) + len(packed(encoded(rows[:some]))) + _TAGS
        if size <= room:
            return some, chunk, size
        some = 0 if some == 1 else max(1, int(some * min(0.95 * room / size, 0.95)))
    return 0, b"", 0


def _body(opened: ViewedRun, whole: WholeItem) -> bytes:
    """Return everything about an item, with shorter texts if it has very many."""
    body = b""
    for limit in (PART, PART // 16, PART // 256):
        answer = whole_answer(opened, whole, opened.run_table.table.trials, Shortener(limit))
        if not (answer["label"] or answer["labels"]):
            del answer["labelling"]  # a form that nobody can fill in
        names = images_in(whole.item.row)
        answer["images"] = [{"file": name, "why": "not in this report"} for name in names]
        body = encoded(answer)
        if len(body) <= _CHUNK_BYTES:
            break
    return body


def _row(opened: ViewedRun, position: int, whole: WholeItem) -> dict[str, Any]:
    item = whole.item
    records = (record for score in item.scores.values() for _, record in parts_of(score))
    row = row_answer(opened.run_table, position, item, score_of(opened.run_table, None))
    return {**row, "disagree": True} if any(map(votes_disagree, records)) else row


def _columns(table: ScoreTable, items: NDArray[np.intp]) -> dict[str, Any]:
    """Return the columns to filter and sort items by, as lists: a name may be anything."""

    def numbers(of: NDArray[Any]) -> list[Any]:
        values = of[items].reshape(-1)
        return [None if value != value else value for value in values.tolist()]  # noqa: PLR0124

    def positions(of: NDArray[np.bool_]) -> list[int]:
        return np.flatnonzero(of[items]).tolist()

    def rounded(of: NDArray[Any]) -> list[Any]:
        return numbers(np.round(of, _DIGITS))

    return {
        "ids": [table.ids[row] for row in items.tolist()],
        "trials": table.trials,
        "not_answered": positions(~table.answered),
        "failed": positions(table.failed),
        "failed_scores": [[name, positions(of)] for name, of in table.failed_scores.items()],
        "seconds": rounded(table.seconds),
        "costs": None if np.isnan(table.costs).all() else numbers(table.costs),
        "scores": [[str(name), numbers(of)] for name, of in table.scores.items()],
        "labels": [
            [str(name), {"names": of.names, "numbers": of.numbers[items].reshape(-1).tolist()}]
            for name, of in table.labels.items()
        ],
    }
