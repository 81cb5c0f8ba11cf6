"""What is in the record of an answer or a score, and by which digests do they find each other?"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from limpet.fingerprints.keys import digest
from limpet.journal.lines import Entry

ANSWER, TRACE, METADATA = "generated_answer", "intermediate_steps", "output_metadata"
"""The fields of the workflow's public record: two names of the toolkit's, and one of ours."""
_USUAL = (ANSWER, TRACE)
FIELDS = "fields"
"""Fact about an answer: the names of its answer and trace, if they are not the usual ones."""


@dataclass(frozen=True, slots=True)
class RecordNames:
    """Which fields of an answer's public record hold what.

    Attributes:
        id: The dataset's column of ids; if it has none, `id` is added.
        answer: The answer.
        trace: The trace.
        expected_trace: Added to the rows of `workflow_output.json` that lack it; None: it is not.
    """

    id: str = "id"
    answer: str = ANSWER
    trace: str = TRACE
    expected_trace: str | None = None

    @property
    def facts(self) -> dict[str, list[str]]:
        """The fact about a line that names its answer and its trace; empty: the usual names.

        Each line has its own: the names may change from one session to the next.
        """
        return {} if (self.answer, self.trace) == _USUAL else {FIELDS: [self.answer, self.trace]}


USUAL_NAMES = RecordNames()

SCORED = ("score", "scores", "reasoning", "label", "metadata")
"""The fields of a score's record that come from the evaluator."""
OF, BY, SAW = "of", "by", "saw"
"""Facts about a score: the digests of the output, of the evaluator, and of what it read of the
item. Readers find the score of an answer by them."""
BALLOTS = ".ballots"
"""How the name of the column of an evaluator's ballots ends. No evaluator's name has a dot."""
MADE_OF = "made_of"
"""Fact about a score: the keys of its ballots, if there are several."""
SAW_MASKED = "saw_masked"
"""Fact about a score: the evaluator saw the answer with its secrets masked."""
CUT_OFF = "cut_off"
"""Fact about an answer: the model stopped because it reached its limit of tokens."""
MASKED = "masked"
"""Fact about a line: how many secrets were masked in it."""
OUTPUT = "output"
"""Fact about an answer: its digests before masking, alone and with its trace. Readers find its
scores by them without reading the answer."""


def output_digest(entry: Entry, reads: Collection[str]) -> str:
    """Return the digest of an answer as the workflow returned it, even if it is masked on disk.

    Args:
        entry: The answer's line.
        reads: What the evaluator reads: the trace counts only if it is among them.
    """
    known = entry.facts.get(OUTPUT) or digests_of(*answer_and_trace(entry))[OUTPUT]
    return str(known["trace" in reads])


def fields_of(entry: Entry) -> tuple[str, str]:
    """Return the names of the answer and of the trace in a record."""
    answer, trace = entry.facts.get(FIELDS, _USUAL)
    return answer, trace


def answer_and_trace(entry: Entry) -> tuple[Any, Any]:
    """Return an answer and its trace."""
    answer, trace = fields_of(entry)
    return entry.record[answer], entry.record[trace]


def digests_of(answer: Any, trace: Any) -> dict[str, list[str]]:
    """Return the digests of an answer as facts for its line."""
    return {OUTPUT: [digest(answer), digest(answer, trace)]}


def answer_record(
    names: RecordNames,
    id_: str,
    row: Mapping[str, Any],
    value: Any,
    trace: list[Any],
    metadata: Any = None,
) -> dict[str, Any]:
    """Return the public record of an answer: the row, the answer, its trace and its metadata."""
    record = {**row} if names.id in row else {names.id: id_, **row}
    record |= {names.answer: value, names.trace: trace}
    # A field of that name in the dataset must not be read as the answer's metadata.
    if metadata is not None or METADATA in record:
        record[METADATA] = metadata
    return record
