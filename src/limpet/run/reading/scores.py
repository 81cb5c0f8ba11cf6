"""Which scores belong to an answer?

The digest of the answer, what an evaluator reads of the item and the evaluator's fingerprint give
the key of its score. Only where the items or the evaluator's fingerprint are not known, the latest
score of the answer counts.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orjson import loads

from limpet.fingerprints.keys import ScoreKeys
from limpet.journal.lines import Entry, decode_line
from limpet.json_values import NotPlainError
from limpet.run.executing.cells import SAW, output_digest
from limpet.run.reading.asked_cells import AskedCell
from limpet.run.reading.column import FactsReader
from limpet.run.reading.items_asked import ItemsFile
from limpet.run.run_file import StepIdentity

_SAW = f'"{SAW}":"'.encode()
_SAW_BYTES = len(_SAW) + 32


class ScoresReader:
    """The scores of one evaluator.

    Args:
        name: Its name.
        column: Its column.
        by: What it is now; None: not known.
        file: `items.jsonl`; None: it is missing or damaged.
    """

    def __init__(
        self, name: str, column: FactsReader, by: StepIdentity | None, file: ItemsFile | None
    ) -> None:
        self.name = name
        self.column = column
        self._file = file
        self._by = by
        self._latest: dict[tuple[Any, ...], bytes] | None = None

    @property
    def has_keys(self) -> bool:
        """Whether scores are found by their keys."""
        return self._by is not None and self._file is not None

    def keys(self, answers: Iterable[tuple[AskedCell, str, Sequence[str]]]) -> list[bytes]:
        """Return the keys of the scores of answers; empty where an answer has no score.

        Args:
            answers: Each with its cell, the item's id, and its digests as `outputs_of` gives them.
        """
        if self._by is None or self._file is None:
            return [self._latest_key(id_, cell.trial, digests) for cell, id_, digests in answers]
        reads = frozenset(self._by.reads)
        seen_of = self._file.seen_by(reads)
        which = int("trace" in reads)
        keys_of = functools.cache(functools.partial(ScoreKeys, self._by.fingerprint))
        return [
            keys_of(cell.trial).key(cell.identity, seen_of(cell.place), digests[which])
            if digests and cell.place is not None
            else b""
            for cell, _, digests in answers
        ]

    def _latest_key(self, id_: str, trial: int, outputs: Sequence[str]) -> bytes:
        if self._latest is None:
            facts = ((key, self.column.facts(key) or {}) for key in self.column.keys())  # noqa: SIM118
            self._latest = {(f.get("id"), f.get("trial"), f.get("of")): key for key, f in facts}
        keys = (self._latest.get((id_, trial, output)) for output in outputs)
        return next((key for key in keys if key is not None), b"")

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


def score_only(line: bytes) -> tuple[Mapping[str, Any], Any]:
    """Return what a summary needs of a score's line: most have no facts that it counts."""
    end = line.find(_SAW) + _SAW_BYTES
    if line[end : end + 3] == b'"},':  # the last fact
        return {}, loads(b"{" + line[end + 3 :])
    return facts_and_record(line)
