"""Which scores belong to an answer?

The digest of the answer, what an evaluator reads of the item and the evaluator's fingerprint give
the key of its score. Only where the items or the evaluator's fingerprint are not known, the latest
score or failure of the answer counts.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from orjson import loads

from limpet.fingerprints.keys import ScoreKeys
from limpet.journal.lines import KEY, TAIL_BYTES, Entry, decode_line
from limpet.json_values import NotPlainError
from limpet.run.reading.asked_cells import AskedCell, AskedCells, ItemsFile
from limpet.run.reading.facts_reader import FactsReader, FailuresReader
from limpet.run.reading.noted import ArrayName, PackedArrays
from limpet.run.record_fields import SAW, output_digest
from limpet.run.results.score_words import ScoreName
from limpet.run.run_file import StepIdentity

_SAW = f'"{SAW}":"'.encode()


class ScoresReader:
    """The scores of one evaluator.

    Args:
        name: Its name.
        column: Its column.
        by: What it is now; None: not known.
        file: `items.jsonl`; None: it is missing or damaged.
        failures: The failures of all steps.
        outdated: By key, the generation of a score made from the files as they are now. Scores of
            earlier files do not count: they are of another version of the evaluator.
    """

    def __init__(
        self,
        name: str,
        column: FactsReader,
        by: StepIdentity | None,
        file: ItemsFile | None,
        failures: FailuresReader,
        outdated: Mapping[str, int],
    ) -> None:
        self.name = name
        self.column = column
        self._file = file
        self._failures = failures
        self._by = by
        self.outdated = outdated
        self._reads = frozenset[str]() if by is None else frozenset(by.reads)
        self._latest: dict[tuple[Any, ...], bytes] | None = None

    @property
    def has_keys(self) -> bool:
        """Whether scores are found by their keys."""
        return self._by is not None and self._file is not None

    @property
    def reads_trace(self) -> bool:
        """Whether it reads traces: the digest of an answer then includes its trace."""
        return self._by is not None and "trace" in self._by.reads

    def counts(self, key: bytes, generation: int | None = None) -> bool:
        """Return whether a score, or a failure of this generation, is of the current version."""
        needed = self.outdated.get(key.hex()) if self.outdated else None
        if needed is None:
            return True
        return (self.column.generation(key) if generation is None else generation) >= needed

    def key(self, cell: AskedCell, id_: str, answer: Entry) -> bytes:
        """Return the key of the score of an answer; empty: it has none."""
        outputs = outputs_of(answer)
        if self._by is None or self._file is None:
            return self._latest_key(id_, cell.trial, outputs)
        if not outputs or cell.place is None:
            return b""
        seen = self._file.seen_by(self._reads)(cell.place)
        keys = ScoreKeys(self._by.fingerprint, cell.trial)
        return keys.key(cell.identity, seen, outputs[self.reads_trace])

    def keys(self, trial: int, places: Iterable[int], outputs: Iterable[str]) -> list[bytes]:
        """Return the keys of the scores of many answers.

        Args:
            trial: The trial.
            places: The places of the items.
            outputs: The digests of the answers, with their traces if it reads those.
        """
        assert self._by is not None
        assert self._file is not None
        places = list(places)
        items = self._file.contents.identities(places)
        seen = self._file.all_seen_by(self._reads, places)
        return ScoreKeys(self._by.fingerprint, trial).keys(items, seen, outputs)

    def _latest_key(self, id_: str, trial: int, outputs: Sequence[str]) -> bytes:
        if self._latest is None:
            self._latest = self._latest_keys()
        keys = (self._latest.get((id_, trial, output)) for output in outputs)
        return next((key for key in keys if key is not None), b"")

    def _latest_keys(self) -> dict[tuple[Any, ...], bytes]:
        """Return the key of the last score of each answer, or of its failure if that is later."""
        known: dict[bytes, Mapping[str, Any]] = {
            bytes.fromhex(key): failed.facts for key, failed in self._failures.of(self.name)
        }
        for key in self.column.keys():  # noqa: SIM118 - not a dict
            known[key] = self.column.facts(key) or {}
        in_time = sorted(known.items(), key=lambda each: str(each[1].get("at", "")))
        return {(f.get("id"), f.get("trial"), f.get("of")): key for key, f in in_time}

    def latest(self, id_: str, trial: int, answer: Entry) -> Entry | None:
        """Return the last score of an answer, by any evaluator of this name."""
        outputs = outputs_of(answer)
        for key in reversed(self.column.keys_of(id_)):
            facts = self.column.facts(key) or {}
            if facts.get("trial", 0) == trial and facts.get("of") in outputs:
                return self.column.entry(key)
        return None


def outputs_of(answer: Entry) -> Sequence[str]:
    """Return the digests of an answer, alone and with its trace; empty: it has none."""
    try:
        return [output_digest(answer, reads) for reads in ((), ("trace",))]
    except (KeyError, TypeError, NotPlainError):
        return ()


def facts_and_record(line: bytes) -> tuple[Mapping[str, Any], Any]:
    """Return the facts and the record of a whole line, in half the time where it is plain."""
    if b'"marked":true' in line or b'"wrapped":true' in line:
        entry = decode_line(line)
        return entry.facts, entry.record
    fields = loads(line)
    del fields["_crc"]
    return fields.pop("_limpet"), fields


def plain_scores(
    cells: Iterable[int], lines: Iterable[bytes]
) -> tuple[list[tuple[Mapping[str, Any], list[int]]], list[tuple[int, bytes]]]:
    """Return the records of whole lines, without their ids, and the numbers of the cells of each.

    Most evaluators give few different scores. The lines with facts that a summary counts are
    returned as they are.
    """
    same: defaultdict[bytes, list[int]] = defaultdict(list)
    others: list[tuple[int, bytes]] = []
    for cell, line in zip(cells, lines, strict=True):
        end = line.find(b'"},"id":', KEY.stop)
        at = line.find(b'":', end + 8)  # in an id it is escaped, and then the next test fails
        if line[end - 39 : end - 32] == _SAW and line[at - 7 : at] == b',"score':
            same[line[at - 6 : -TAIL_BYTES]].append(cell)
        else:
            others.append((cell, line))
    return [(loads(b"{" + text + b"}"), some) for text, some in same.items()], others


Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of one score.

    Attributes:
        names: The labels.
        numbers: By item and trial, the label's place among them; -1: none.
    """

    names: list[str]
    numbers: NDArray[np.int32]

    def set(self, label: str, at: tuple[Any, Any]) -> None:
        """Give a label to cells."""
        if label not in self.names:
            self.names.append(label)
        self.numbers[at] = self.names.index(label)


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """What came out of each cell. Each array has an item a row and a trial a column.

    Attributes:
        ids: The ids of the items, in order.
        places: The items' places in `items.jsonl`; empty: it is missing or damaged.
        trials: The number of trials.
        answered: Whether the workflow answered.
        failed: Whether the workflow failed.
        seconds: How long an answer took; NaN: there is none.
        costs: What it cost; NaN: not known.
        scores: The values by name; NaN: there is none.
        labels: The labels by name.
        failed_scores: By evaluator, whether it failed to score an answer.
    """

    ids: Sequence[str]
    places: Sequence[int]
    trials: int
    answered: Flags
    failed: Flags
    seconds: Floats
    costs: Floats
    scores: dict[ScoreName, Floats] = field(default_factory=dict)
    labels: dict[ScoreName, Labels] = field(default_factory=dict)
    failed_scores: dict[str, Flags] = field(default_factory=dict)

    @property
    def evaluators(self) -> list[str]:
        """The evaluators, in order."""
        return list(self.failed_scores)


def score_table(asked: AskedCells, cells: int, packed: PackedArrays) -> ScoreTable:
    """Return the table of a run.

    Args:
        asked: Which cells there are.
        cells: How many they are.
        packed: What each scored, by the number of the cell.
    """
    return GrowingTable(asked, cells).add(packed)


class GrowingTable:
    """The table of a run that grows: what is in it already is not written again.

    Args:
        asked: Which cells there are.
        cells: How many they are.

    Attributes:
        grid: Where in the table each cell is.
        table: The table.
    """

    def __init__(self, asked: AskedCells, cells: int) -> None:
        self.grid = grid = Grid(asked, cells)
        self._known: dict[ArrayName, int] = {}
        flags, floats = grid.filled(False, np.bool_), grid.filled(np.nan, np.float64)  # noqa: FBT003
        self.table = ScoreTable(
            grid.ids, grid.places, grid.trials, flags, flags.copy(), floats, floats.copy()
        )

    def add(self, packed: PackedArrays) -> ScoreTable:
        """Add what is new, and return the table.

        Args:
            packed: What each cell scored, the known ones first; of failures, those that count now.
        """
        table, grid = self.table, self.grid
        arrays = {name: np.frombuffer(one.content, one.typecode) for name, one in packed.items()}
        new = {name: array[self._known.get(name, 0) :] for name, array in arrays.items()}
        for name, array in arrays.items():
            match name:
                case ("answered",):
                    at = grid.at(new[name])
                    table.answered[at] = True
                    table.seconds[at], table.costs[at] = new["seconds",], new["costs",]
                case ("failed",):
                    _set_flags(table.failed, grid.at(array))
                case ("failed", str() as evaluator):
                    empty = grid.filled(False, np.bool_)  # noqa: FBT003 - the value to fill with
                    flags = table.failed_scores.setdefault(evaluator, empty)
                    _set_flags(flags, grid.at(array))
                case ("cells", str() as evaluator, part):
                    of_part = ScoreName(evaluator, part)
                    if of_part not in table.scores:
                        table.scores[of_part] = grid.filled(np.nan, np.float64)
                    values = new["values", evaluator, part]
                    table.scores[of_part][grid.at(new[name])] = values
                case ("label", str() as evaluator, part, str() as label):
                    of_part = ScoreName(evaluator, part)
                    if of_part not in table.labels:
                        table.labels[of_part] = Labels([], grid.filled(-1, np.int32))
                    table.labels[of_part].set(label, grid.at(new[name]))
        self._known = {name: len(array) for name, array in arrays.items()}
        return table


def _set_flags(flags: Flags, at: tuple[Any, Any]) -> None:
    flags[...] = False
    flags[at] = True


class Grid:
    """Where in a table is the cell with a number?"""

    def __init__(self, asked: AskedCells, cells: int) -> None:
        self._shape: NDArray[np.int64] | None = None
        if asked.file is not None:  # items in order, trial by trial
            self.places = asked.places
            self.trials = max(1, cells // max(1, len(self.places)))
            ids = list(asked.file.ids())
            is_all = len(ids) == len(self.places)
            self.ids = ids if is_all else [ids[place] for place in self.places]
        else:
            found = [(cell.id, cell.trial) for cell in asked.cells()]
            rows = {id_: row for row, id_ in enumerate(dict.fromkeys(id_ for id_, _ in found))}
            self.places, self.ids = (), list(rows)
            self.trials = max((trial + 1 for _, trial in found), default=1)
            places = [(rows[id_], trial) for id_, trial in found]
            self._shape = np.array(places, np.int64).reshape(len(found), 2)

    def at(self, numbers: Any) -> tuple[Any, Any]:
        """Return the rows and columns of cells."""
        numbers = numbers.astype(np.int64)
        if self._shape is not None:
            return self._shape[numbers, 0], self._shape[numbers, 1]
        trials, rows = np.divmod(numbers, max(1, len(self.ids)))
        return rows, trials

    def filled(self, value: Any, dtype: Any) -> NDArray[Any]:
        return np.full((len(self.ids), self.trials), value, dtype)

    def number(self, row: int, trial: int) -> int | None:
        """Return the number of the cell of an item in a trial; None: there is none."""
        if self._shape is None:
            return trial * len(self.ids) + row
        at = np.flatnonzero((self._shape == (row, trial)).all(axis=1))
        return int(at[0]) if len(at) else None
