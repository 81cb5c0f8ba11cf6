"""Which score belongs to which answer?

A score says in its facts of which output it is (`of`) and by which evaluator (`by`). It belongs to
an answer of the same item, with that output, under the evaluator as it is now; of several, because
the row was edited, the one that saw of the row what is there now, or else the last.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from limpet.evaluators.reads import seen_digest
from limpet.fingerprints.keys import digest
from limpet.journal.lines import Entry
from limpet.json_values import NotPlainError
from limpet.run.executing.cells import SAW, output_digest
from limpet.run.reading.column import FactsReader
from limpet.run.reading.failures import Failed, FailuresReader
from limpet.run.reading.rows import Naming
from limpet.run.results.evaluation_result import values_of
from limpet.types import Item

_Place = tuple[str, str | None, str | None]


class Scored(NamedTuple):
    """An answer that was scored, its item and its trial."""

    item: Item
    public_id: str
    trial: int
    answer: Entry


def output_of(entry: Entry, reads: Collection[str]) -> str | None:
    """Return the digest of an answer, as its scores name it; None if it has none."""
    try:
        return output_digest(entry, reads)
    except (KeyError, TypeError, NotPlainError):
        return None


class ScoresReader:
    """The scores of one evaluator.

    Args:
        name: Its name.
        column: Its column.
        failures: Of all steps.
        fingerprint: What it is now; None: nobody wrote it down, and every score counts.
        reads: What it looks at.
        naming: How ids are written.
    """

    def __init__(
        self,
        name: str,
        column: FactsReader,
        failures: FailuresReader,
        fingerprint: Mapping[str, Any] | None,
        reads: Collection[str],
        naming: Naming,
    ) -> None:
        self._reads = frozenset(reads)
        self.name = name
        self.column = column
        self._by = None if fingerprint is None else digest(dict(fingerprint))
        self._naming = naming
        self._scores: defaultdict[_Place, list[bytes]] = defaultdict(list)
        self._failures: dict[_Place, tuple[bytes, Failed]] = {}
        for key in column.keys():  # noqa: SIM118 - it is no dict
            facts = column.facts(key)
            if facts is not None:
                self._scores[self._place(facts)].append(key)
        for text, failed in failures.of(name):
            self._failures[self._place(failed.facts)] = bytes.fromhex(text), failed

    def _place(self, facts: Mapping[str, Any]) -> _Place:
        id_ = self._naming.public(facts.get("id", ""), facts.get("trial", 0))
        by = None if self._by is None else facts.get("by")
        return id_, facts.get("of"), by

    def parts(self) -> list[str | None]:
        """Return the names of the values its scores have; None: one without a name."""
        found: dict[str | None, None] = {}
        for (_, _, by), keys in self._scores.items():
            if by == self._by:
                for entry in filter(None, map(self.column.entry, keys)):
                    found.update(dict.fromkeys(part for part, _ in values_of(entry.record)))
        return list(found) or [None]

    def keys_of(self, scored: Scored) -> list[bytes]:
        """Return the keys of the scores that fit an answer, the one that counts last."""
        output = output_of(scored.answer, self._reads)
        exact = self._scores.get((scored.public_id, output, self._by), [])
        if len(exact) > 1:
            seen = seen_digest(scored.item, self._reads)
            fitting = [one for one in exact if (self.column.facts(one) or {}).get(SAW) == seen]
            key = (fitting or exact)[-1]
            return [*(one for one in exact if one != key), key]
        # An older run's scores say nothing of what they score.
        return exact or self._scores.get((scored.public_id, None, None), [])

    def score(self, scored: Scored) -> Entry | None:
        """Return the score of an answer; None if it has none."""
        keys = self.keys_of(scored)
        return self.column.entry(keys[-1]) if keys else None

    def any_score(self, public_id: str, answer: Entry) -> Entry | None:
        """Return the last score of an answer to an item, by whichever evaluator of this name."""
        output = output_of(answer, self._reads)
        fitting = [
            keys[-1] for place, keys in self._scores.items() if place[:2] == (public_id, output)
        ]
        return self.column.entry(fitting[-1]) if fitting else None

    def failure(self, scored: Scored) -> Failed | None:
        """Return why an answer without a score has none; None if it was not tried."""
        output = output_of(scored.answer, self._reads)
        places = [(scored.public_id, output, self._by), (scored.public_id, None, None)]
        for place in places:
            if place in self._failures and not self.column.has(self._failures[place][0]):
                return self._failures[place][
                    1
                ]  # of one that is run again, the earlier score stands
        return None
