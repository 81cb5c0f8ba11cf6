"""What do the records of answers and scores contain, and which digests link them?"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from limpet.errors import OtherFormatError
from limpet.fingerprints.keys import digest
from limpet.journal.lines import Entry
from limpet.shapes import Score
from limpet.text import one_line

ROW, ANSWER, TRACE, METADATA = "row", "output", "trace", "metadata"
"""The fields of an answer's record, beside its `id`."""
RETURNED = (ANSWER, TRACE, METADATA)
"""The fields that the workflow returned."""
SCORED = ("value", "label", "explanation", "metadata", "scores")
"""The fields of a score's record that come from the evaluator."""
ONLY = "score"
"""The name in `Scores` of an evaluator's only score."""
OF, FINGERPRINT, SAW = "of", "fingerprint", "saw"
"""Facts about a score: the output's digest, the evaluator's fingerprint, and the digest of what it
read of the item. Readers find an answer's score by them."""
BALLOTS = ".ballots"
"""The suffix of an evaluator's column of ballots. No evaluator's name has a dot."""
MADE_OF = "made_of"
"""Fact about a score: the keys of its ballots, if there are several."""
SAW_MASKED = "saw_masked"
"""Fact about a score: the evaluator saw the answer with its secrets masked."""
TRUNCATED = "truncated"
"""Fact about an answer: the model reached its token limit."""
MASKED = "masked"
"""Fact about a line: how many secrets were masked in it."""
OUTPUT = "output"
"""Fact about an answer: its digests before masking, alone and with its trace. Readers find its
scores by them, without reading the answer."""


def output_digest(entry: Entry, reads: Collection[str]) -> str:
    """Return the digest of an answer as the workflow returned it, even if it is masked on disk.

    Args:
        entry: The answer's line.
        reads: What the evaluator reads. The digest covers the trace only if it is among them.
    """
    known = entry.facts.get(OUTPUT) or digests_of(*answer_and_trace(entry))[OUTPUT]
    return str(known["trace" in reads])


def answer_and_trace(entry: Entry) -> tuple[Any, Any]:
    """Return an answer and its trace; that of a map is empty.

    Raises:
        OtherFormatError: The line has no answer: without `run.json`, only this shows its format.
    """
    if ANSWER not in entry.record:
        id_ = one_line(entry.facts.get("id", ""))
        raise OtherFormatError(
            f"the answer to {id_} was written by another version of Limpet",
            hint="nothing was changed: use that version of Limpet, or another directory",
        )
    return entry.record[ANSWER], entry.record.get(TRACE, [])


def digests_of(answer: Any, trace: Any) -> dict[str, list[str]]:
    """Return the digests of an answer as facts for its line."""
    return {OUTPUT: [digest(answer), digest(answer, trace)]}


def answer_record(
    id_: str, row: Mapping[str, Any], value: Any, trace: list[Any], metadata: Any = None
) -> dict[str, Any]:
    """Return the record of an answer: the row, the answer, its trace and its metadata."""
    record = {"id": id_, ROW: row, ANSWER: value, TRACE: trace}
    return record if metadata is None else {**record, METADATA: metadata}


def score_record(id_: str, scores: Mapping[str, Score] | None) -> dict[str, Any]:
    """Return the record of an evaluator's scores; None: it failed."""
    record: dict[str, Any] = {"id": id_}
    if scores is None:
        return record
    if list(scores) == [ONLY]:
        return record | _plain_score(scores[ONLY])
    return {**record, "scores": {name: _plain_score(score) for name, score in scores.items()}}


def _plain_score(score: Score) -> dict[str, Any]:
    plain: dict[str, Any] = {"value": score.value}
    more = {name: getattr(score, name) for name in ("label", "explanation", "metadata")}
    return plain | {name: part for name, part in more.items() if part is not None}


def score_of(record: Mapping[str, Any]) -> Score:
    """Return one score as its evaluator gave it."""
    return Score(*(record.get(name) for name in ("value", "label", "explanation", "metadata")))


# ---- The same fields under the names of the NeMo Agent Toolkit. ---------------------------------

TOOLKIT_ANSWER, TOOLKIT_TRACE = "generated_answer", "intermediate_steps"
TOOLKIT_METADATA = "output_metadata"
"""Where the metadata of an answer are in a row: the toolkit itself has no field for them."""


@dataclass(frozen=True, slots=True)
class ToolkitNames:
    """The names of the fields in the toolkit's files.

    Attributes:
        id: The dataset's field of ids; if it has none, `id` is added.
        answer: The answer.
        trace: The trace.
        expected_trace: Added to rows of `workflow_output.json` that lack it; None: not added.
    """

    id: str = "id"
    answer: str = TOOLKIT_ANSWER
    trace: str = TOOLKIT_TRACE
    expected_trace: str | None = None

    def row(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record of an answer as a row of the toolkit's files."""
        given = record[ROW]
        row = {**given} if self.id in given else {self.id: record["id"], **given}
        row |= {self.answer: record[ANSWER], self.trace: record[TRACE]}
        # A field of that name in the dataset must not be read as the answer's metadata.
        if METADATA in record or TOOLKIT_METADATA in row:
            row[TOOLKIT_METADATA] = record.get(METADATA)
        return row
