"""What became of each item: which answer counts, and which scores belong to it?

An item's key, the workflow's fingerprint and the trial give the key of its answer; the digest of
the answer, what an evaluator reads of the item and the evaluator's fingerprint give the key of its
score. So everything is found by exact keys. Only where `items.jsonl` or `run.json` is gone, the
latest answer of each item counts, and the latest score of that answer.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from orjson import loads

from limpet.evaluators.reads import seen_digest
from limpet.fingerprints.keys import score_key
from limpet.journal.lines import Entry, decode_line
from limpet.json_values import NotPlainError
from limpet.run.executing.cells import ANSWER, METADATA, OUTPUT, TRACE, output_digest
from limpet.run.planning.items_file import EARLIER_FILES
from limpet.run.planning.redo import Redos
from limpet.run.reading.column import FactsReader, Failed, FailuresReader, facts_in
from limpet.run.reading.items_asked import ItemsFile
from limpet.run.results.evaluation_result import ItemResult
from limpet.run.run_file import StepIdentity
from limpet.types import CellStatus, Item

_CHUNK = 1_000
_OURS = (ANSWER, TRACE, METADATA)


class AskedCell(NamedTuple):
    """An item in a trial, and which answer counts for it.

    Attributes:
        place: Where in the dataset the item is; None: that is not known.
        id: Its id; empty where its place is known.
        trial: Which repetition.
        key: The key of the answer of the present workflow.
        counting: The key of the answer that counts.
        version: Which earlier version gave that; empty: the present one.
    """

    place: int | None
    id: str
    trial: int
    key: bytes
    counting: bytes
    version: str = ""


class ScoresReader:
    """The scores of one evaluator.

    Args:
        name: Its name.
        column: Its column.
        by: What it is now; None: nobody wrote it down, and the latest score of an answer counts.
    """

    def __init__(self, name: str, column: FactsReader, by: StepIdentity | None) -> None:
        self.name = name
        self.column = column
        self._by = by
        self._reads = frozenset[str]() if by is None else frozenset(by.reads)
        self._latest: dict[tuple[Any, ...], bytes] | None = None

    def key(self, item: ItemResult, known: dict[Any, str]) -> bytes:
        """Return the key of the score of an item's answer; empty: it has none.

        Args:
            item: With its answer.
            known: What evaluators see of this item, by what they read; what is new is added.
        """
        assert item.entry is not None
        if self._by is None:
            return self._latest_key(item)
        output = _output_of(item.entry, self._reads)
        if output is None:
            return b""
        if self._reads not in known:
            known[self._reads] = seen_digest(as_item(item), self._reads)
        seen, by = known[self._reads], self._by.fingerprint
        return bytes.fromhex(score_key(output, seen, by, item.trial, item.identity))

    def _latest_key(self, item: ItemResult) -> bytes:
        assert item.entry is not None
        if self._latest is None:
            facts = ((key, self.column.facts(key) or {}) for key in self.column.keys())  # noqa: SIM118
            self._latest = {(f.get("id"), f.get("trial"), f.get("of")): key for key, f in facts}
        for output in _outputs_of(item.entry):
            if (key := self._latest.get((item.id, item.trial, output))) is not None:
                return key
        return b""

    def latest(self, id_: str, trial: int, answer: Entry) -> Entry | None:
        """Return the last score of an answer to an item, by whichever evaluator of this name."""
        outputs = _outputs_of(answer)
        for key in reversed(self.column.keys_of(id_)):
            facts = self.column.facts(key) or {}
            if facts.get("trial", 0) == trial and facts.get("of") in outputs:
                return self.column.entry(key)
        return None


@dataclass(slots=True)
class ItemsReader:
    """Reads what became of items, a thousand at a time.

    Attributes:
        step: The step that answers: the workflow, or a map.
        column: Its column.
        failures: Of all steps.
        evaluators: What scores.
        file: `items.jsonl`; None: it is not there, or damaged.
        fingerprint: The workflow's; empty: nobody wrote it down.
        places: The places of the items that the run reports of.
        trials: How often each is asked.
        redos: What is to be run again whatever is there, and is not done.
    """

    step: str
    column: FactsReader
    failures: FailuresReader
    evaluators: Sequence[ScoresReader]
    file: ItemsFile | None
    fingerprint: str
    places: Sequence[int]
    trials: int
    redos: Redos
    _latest: list[AskedCell] | None = field(default=None)

    # ---- which answers count --------------------------------------------------------------------

    def __len__(self) -> int:
        if self._has_keys:
            return len(self.places) * self.trials
        return len(self._latest_of_each())

    @property
    def _has_keys(self) -> bool:
        return self.file is not None and bool(self.fingerprint)

    def cells(self, only: Container[int] | None = None) -> Iterator[AskedCell]:
        """Yield each item in each trial, in the order of the dataset, trial by trial.

        Args:
            only: The places of the items that are wanted; None: all.
        """
        if self.file is None or not self.fingerprint:
            yield from (
                cell for cell in self._latest_of_each() if only is None or cell.place in only
            )
            return
        contents, standing = self.file.contents, self.file.has_standing
        for trial in range(self.trials):
            for place in self.places:
                if only is None or place in only:
                    key = contents.key(place, self.fingerprint, trial)
                    cell = AskedCell(place, "", trial, key, key)
                    yield self._settled(cell) if standing else cell

    def _settled(self, cell: AskedCell) -> AskedCell:
        """Find which answer counts: where the present version has none, another's may stand."""
        assert self.file is not None
        assert cell.place is not None
        standing = self.file.standing(cell.place, cell.trial)
        if standing is None:
            return cell
        if self.column.has(cell.key):
            is_kept = self.column.generation(cell.key) < standing.below
            return cell._replace(version=EARLIER_FILES) if is_kept else cell
        if not standing.version:
            return cell
        before = self.file.contents.key(cell.place, standing.version, cell.trial)
        return cell._replace(counting=before, version=standing.version)

    def _latest_of_each(self) -> list[AskedCell]:
        """Return the latest record of each item and trial; what failed counts if there is none."""
        if self._latest is None:
            found: dict[tuple[str, int], bytes] = {}
            for key in self.column.keys():  # noqa: SIM118 - it is no dict
                found[_named(self.column.facts(key) or {})] = key
            for text, failed in self.failures.of(self.step):
                found.setdefault(_named(failed.facts), bytes.fromhex(text))
            self._latest = list(self._in_order(found))
        return self._latest

    def _in_order(self, found: Mapping[tuple[str, int], bytes]) -> Iterator[AskedCell]:
        """Yield what is asked, as far as that is known; else what there is."""
        if self.file is None:
            for (id_, trial), key in found.items():
                yield AskedCell(None, id_, trial, key, key)
            return
        ids = list(self.file.ids())
        for trial in range(max((trial for _, trial in found), default=0) + 1):
            for place in self.places:
                key = found.get((ids[place], trial), b"")
                yield AskedCell(place, "", trial, key, key)

    # ---- what became of them --------------------------------------------------------------------

    def read(self, cells: Iterable[AskedCell], *, whole: bool = True) -> Iterator[ItemResult]:
        """Yield what became of each.

        Args:
            cells: Of which.
            whole: With what was asked and answered; else only what a summary needs.
        """
        rest = iter(cells)
        while chunk := list(islice(rest, _CHUNK)):
            asked = [self._item(cell) for cell in chunk]
            items = [
                ItemResult(
                    one.id,
                    cell.trial,
                    one.input,
                    one.expected,
                    row=one.row,
                    key=cell.counting.hex(),
                    version=cell.version,
                    identity=self._identity(cell),
                )
                for cell, one in zip(chunk, asked, strict=True)
            ]
            self._answer(chunk, items, whole=whole)
            seen: list[dict[Any, str]] = [{} for _ in items]
            for evaluator in self.evaluators:
                self._score(items, evaluator, seen)
            yield from items

    def _item(self, cell: AskedCell) -> Item:
        if self.file is None or cell.place is None:
            return Item(cell.id, None)
        return self.file.item(cell.place)

    def _identity(self, cell: AskedCell) -> str:
        if self.file is None or cell.place is None:
            return ""
        return self.file.contents[cell.place].identity

    def _answer(
        self, cells: Sequence[AskedCell], items: Sequence[ItemResult], *, whole: bool
    ) -> None:
        left = {cell.counting: (cell, item) for cell, item in zip(cells, items, strict=True)}
        for key, line in self.column.lines(left):
            _, item = left.pop(key)
            facts = None if whole else facts_in(line)
            entry = Entry(facts, {}) if facts and OUTPUT in facts else decode_line(line)
            self._answered(item, entry)
        for cell, item in left.values():
            failed = self.failures.latest.get((self.step, cell.key.hex()))
            if failed is not None:
                self._failed(item, failed)
        if self.redos:
            for cell, item in zip(cells, items, strict=True):
                self._note_redo(item, self.step, self.column, cell.counting, cell.key)

    def _answered(self, item: ItemResult, entry: Entry) -> None:
        facts, record = entry.facts, entry.record
        retried = facts.get("status") == CellStatus.COMPLETED_WITH_RETRIES
        item.status = CellStatus.COMPLETED_WITH_RETRIES if retried else CellStatus.COMPLETED
        item.entry = entry
        item.note(self.step, facts)
        if not isinstance(record, Mapping):  # of a map
            item.output = record
        elif ANSWER in record:
            item.output, item.trace = record[ANSWER], record.get(TRACE) or ()
            item.metadata = record.get(METADATA)
            item.row = item.row or {n: one for n, one in record.items() if n not in _OURS}
        else:
            item.output, item.input = record.get("output"), record.get("input", item.input)

    def _failed(self, item: ItemResult, failed: Failed) -> None:
        record = self.failures.record(failed)
        item.status, item.error = CellStatus.FAILED, record.get("error") or {}
        item.note(self.step, failed.facts)
        if self.step == "map":
            item.input = record.get("input")

    def _score(
        self,
        items: Sequence[ItemResult],
        evaluator: ScoresReader,
        seen: Sequence[dict[Any, str]],
    ) -> None:
        name, left = evaluator.name, {}
        for item, known in zip(items, seen, strict=True):
            if item.entry is not None:
                key = evaluator.key(item, known)
                left[key] = item
                if self.redos:
                    self._note_redo(item, name, evaluator.column, key, key)
        for key, line in evaluator.column.lines(left):
            item = left.pop(key)
            item.note_score(name, *_decoded(line))
        for key, item in left.items():
            failed = self.failures.latest.get((name, key.hex()))
            if failed is not None:
                item.score_errors[name] = self.failures.record(failed).get("error") or {}
                item.note_masked(name, failed.facts)

    def _note_redo(
        self, item: ItemResult, step: str, column: FactsReader, key: bytes, present: bytes
    ) -> None:
        """Say of an item that a step is still to be run again, and why that failed if it did."""
        needed = self.redos.needed(step, item.id, key.hex())
        if needed and column.generation(key) < needed:
            failed = self.failures.latest.get((step, present.hex()))
            is_of_it = failed is not None and failed.generation >= needed
            record = self.failures.record(failed) if failed and is_of_it else {}
            item.redo[step] = record.get("error")


def as_item(item: ItemResult) -> Item:
    """Return the item that was asked."""
    return Item(item.id, item.input, item.expected, item.row)


def _decoded(line: bytes) -> tuple[Mapping[str, Any], Any]:
    """Return the facts and the record of a whole line, in half the time where it is plain."""
    if b'"marked":true' in line or b'"wrapped":true' in line:
        entry = decode_line(line)
        return entry.facts, entry.record
    fields = loads(line)
    del fields["_crc"]
    return fields.pop("_limpet"), fields


def _output_of(entry: Entry, reads: Collection[str]) -> str | None:
    try:
        return output_digest(entry, reads)
    except (KeyError, TypeError, NotPlainError):
        return None


def _outputs_of(entry: Entry) -> list[str]:
    """Return the digests by which the scores of an answer may name it."""
    found = (_output_of(entry, reads) for reads in ((), ("trace",)))
    return [output for output in found if output is not None]


def _named(facts: Mapping[str, Any]) -> tuple[str, int]:
    return str(facts.get("id", "")), int(facts.get("trial", 0))
