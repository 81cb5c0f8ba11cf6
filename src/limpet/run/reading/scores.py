"""Which scores belong to an answer?

The digest of the answer, what the evaluator reads of the item, and the evaluator's fingerprint give
the key of its score. If the items or the fingerprint are not known, the latest score or failure of
the answer counts.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orjson import loads

from limpet.fingerprints.keys import ScoreKeys
from limpet.journal.lines import KEY, TAIL_BYTES, Entry, decode_line
from limpet.json_values import NotPlainError
from limpet.run.reading.facts_reader import FactsReader, FailuresReader
from limpet.run.reading.requested_cells import ItemsFile, RequestedCell
from limpet.run.record_fields import SAW, output_digest
from limpet.run.run_file import StepIdentity

_SAW = f'"{SAW}":"'.encode()
_FIRST_FIELDS = (b'"value', b'"scores')


class ScoresReader:
    """The scores of one evaluator.

    Args:
        name: Its name.
        column: Its column.
        by: Its current identity; None: not known.
        file: `items.jsonl`; None: it is missing or damaged.
        failures: The failures of all steps.
    """

    def __init__(
        self,
        name: str,
        column: FactsReader,
        by: StepIdentity | None,
        file: ItemsFile | None,
        failures: FailuresReader,
    ) -> None:
        self.name = name
        self.column = column
        self._file = file
        self._failures = failures
        self._by = by
        self._reads = frozenset[str]() if by is None else frozenset(by.reads)
        self._latest: dict[tuple[Any, ...], bytes] | None = None

    @property
    def has_keys(self) -> bool:
        """Whether scores are found by their keys."""
        return self._by is not None and self._file is not None

    @property
    def reads_trace(self) -> bool:
        """Whether it reads traces: then the digest of an answer includes its trace."""
        return self._by is not None and "trace" in self._by.reads

    def key(self, cell: RequestedCell, id_: str, answer: Entry) -> bytes:
        """Return the key of the score of an answer; empty: it has none."""
        outputs = outputs_of(answer)
        if self._by is None or self._file is None:
            return self._latest_key(id_, cell.trial, outputs)
        if not outputs or cell.position is None:
            return b""
        [seen] = self._file.seen_by(self._reads, [cell.position])
        keys = ScoreKeys(self._by.fingerprint, cell.trial)
        return keys.key(cell.identity, seen, outputs[self.reads_trace])

    def keys(self, trial: int, positions: Iterable[int], outputs: Iterable[str]) -> list[bytes]:
        """Return the keys of the scores of many answers.

        Args:
            trial: The trial.
            positions: The positions of the items.
            outputs: The digests of the answers, with their traces if it reads them.
        """
        assert self._by is not None
        assert self._file is not None
        positions = list(positions)
        items = self._file.contents.identities(positions)
        seen = self._file.seen_by(self._reads, positions)
        return ScoreKeys(self._by.fingerprint, trial).keys(items, seen, outputs)

    def _latest_key(self, id_: str, trial: int, outputs: Sequence[str]) -> bytes:
        if self._latest is None:
            self._latest = self._latest_keys()
        keys = (self._latest.get((id_, trial, output)) for output in outputs)
        return next((key for key in keys if key is not None), b"")

    def _latest_keys(self) -> dict[tuple[Any, ...], bytes]:
        """Return the key of the last score or failure of each answer."""
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
    """Return the facts and the record of a complete line; twice as fast if it is plain."""
    if b'"marked":true' in line or b'"wrapped":true' in line:
        entry = decode_line(line)
        return entry.facts, entry.record
    fields = loads(line)
    del fields["_crc"]
    return fields.pop("_limpet"), fields


def plain_scores(
    cells: Iterable[int], lines: Iterable[bytes]
) -> tuple[list[tuple[Mapping[str, Any], list[int]]], list[tuple[int, bytes]]]:
    """Return the distinct records of complete lines, without ids, each with its cells.

    Most evaluators give few different scores. Lines with facts that a summary counts are returned
    unchanged.
    """
    same: defaultdict[bytes, list[int]] = defaultdict(list)
    others: list[tuple[int, bytes]] = []
    for cell, line in zip(cells, lines, strict=True):
        end = line.find(b'"},"id":', KEY.stop)
        at = line.find(b'":', end + 8)  # escaped in an id; then the next test fails
        first = line.rfind(b',"', end, at) + 1
        if line[end - 39 : end - 32] == _SAW and line[first:at] in _FIRST_FIELDS:
            same[line[first:-TAIL_BYTES]].append(cell)
        else:
            others.append((cell, line))
    return [(loads(b"{" + text + b"}"), some) for text, some in same.items()], others
