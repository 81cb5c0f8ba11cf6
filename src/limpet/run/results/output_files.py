"""Writes the toolkit's output files, where they are requested.

The final file and the live one have the same rows.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from limpet.journal.files import replace_file
from limpet.journal.layout import Layout
from limpet.json_values import dumps, encode, encode_fast, is_deep_text
from limpet.nat_trace import nat_steps
from limpet.run.record_fields import ANSWER, TRACE, ToolkitNames, answer_record
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_words import scores_of
from limpet.trace import kept_events

_PIECE_BYTES = 2**20
_TOOLKITS_DIGITS = 2


@dataclass(frozen=True, slots=True)
class AnswerRows:
    """How answers become rows of `workflow_output.json`, and lines of a live file.

    Attributes:
        names: The names of their fields.
        trials: The number of trials: if there are several, ids become `<id>_rep<N>`.
        trace_filter: The types or kinds of events to write; None: all.
        bare: A row is only the output.
        as_toolkit: Write exactly what the toolkit does: averages have two digits, and a bare output
            that is JSON in a string is decoded.
    """

    names: ToolkitNames
    trials: int = 1
    trace_filter: Sequence[str] | None = None
    bare: bool = False
    as_toolkit: bool = False

    def id_of(self, written: Any, id_: str, trial: int) -> Any:
        """Return the id of a row; `written` is the id in the dataset, which may be a number."""
        return written if self.trials == 1 else f"{id_}_rep{trial}"

    def of_answer(self, record: Mapping[str, Any], id_: str, trial: int) -> Any:
        """Return the row of an answer, given its record."""
        names = self.names
        if self.bare:
            output = record[ANSWER]
            return _parsed(output) if self.as_toolkit else output
        steps = nat_steps(kept_events(record[TRACE], self.trace_filter))
        return self._whole(names.row({**record, TRACE: steps}), id_, trial)

    def of_item(self, item: ItemRecord) -> Any:
        """Return the row of an item."""
        if item.is_completed:
            record = answer_record(item.id, item.row, item.output, list(item.trace), item.metadata)
            return self.of_answer(record, item.id, item.trial)
        if self.bare:
            return item.output
        row = self.names.row(answer_record(item.id, item.row, None, []))
        return self._whole({**row, "_limpet": _failure(item)}, item.id, item.trial)

    def _whole(self, row: dict[str, Any], id_: str, trial: int) -> dict[str, Any]:
        row[self.names.id] = self.id_of(row[self.names.id], id_, trial)
        if self.names.expected_trace is not None:
            row.setdefault(self.names.expected_trace, [])
        return row


def _parsed(output: Any) -> Any:
    if not isinstance(output, str) or is_deep_text(output):
        return output
    try:
        return json.loads(output)
    except ValueError:
        return output


def write_outputs(
    layout: Layout,
    results: Iterable[ItemRecord],
    evaluators: Sequence[str],
    rows: AnswerRows,
    summary: Mapping[str, Any],
) -> None:
    """Write `workflow_output.json`, `<evaluator>_output.json` and `summary.json`.

    The results are read once and not kept in memory: there may be a million.

    Args:
        layout: The run's layout.
        results: The results of the items.
        evaluators: The names of the evaluators.
        rows: How answers become rows.
        summary: The content of `summary.json`.
    """
    with ExitStack() as stack:
        # The results are read once: scores wait in an unnamed file until their file's turn.
        scores = {name: stack.enter_context(TemporaryFile(dir=layout.home)) for name in evaluators}

        def answers() -> Iterator[Any]:
            for number, item in enumerate(results):
                id_ = rows.id_of(item.row.get(rows.names.id, item.id), item.id, item.trial)
                for name, file in scores.items():
                    file.write((b",\n" if number else b"\n") + as_json(_score(id_, name, item)))
                yield rows.of_item(item)

        replace_file(layout.home / "workflow_output.json", _array(answers()))
        for name, file in scores.items():
            mean = summary["scores"].get(name, {}).get("mean")
            if rows.as_toolkit and isinstance(mean, float):
                mean = round(mean, _TOOLKITS_DIGITS)
            head = {"average_score": mean}
            head["_limpet"] = {**summary["evaluators"][name], "scores": scores_of(summary, name)}
            replace_file(layout.home / f"{name}_output.json", _score_file(head, file))
    write_summary(layout, summary)


def write_summary(layout: Layout, summary: Mapping[str, Any]) -> None:
    """Write `summary.json`."""
    pretty = dumps(summary, indent=2).encode() + b"\n"
    replace_file(layout.home / "summary.json", [pretty])


def _failure(item: ItemRecord) -> dict[str, Any]:
    ours: dict[str, Any] = {"status": item.status.value}
    if item.error is not None:  # the traceback is in failures.jsonl
        ours["error"] = {name: part for name, part in item.error.items() if name != "traceback"}
    return ours


def _score(id_: Any, name: str, item: ItemRecord) -> dict[str, Any]:
    if name in item.scores:
        return {"id": id_, **_toolkit_score(item.scores[name]), "error": None}
    error = item.score_errors.get(name)
    why = "the run was stopped first" if item.is_completed else f"the workflow {item.status.words}"
    reason = error["message"] if error else f"not run: {why}"
    return {"id": id_, "score": None, "reasoning": {}, "error": reason}


def _toolkit_score(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a score's record in the toolkit's names, with numbers for booleans."""
    value = record.get("value")
    # The toolkit expects every score to have a reasoning.
    row = {"score": float(value) if isinstance(value, bool) else value,
           "reasoning": record.get("explanation") or {}}  # fmt: skip
    row |= {name: record[name] for name in ("label", "metadata") if name in record}
    if "scores" in record:
        row["scores"] = {part: _toolkit_score(one) for part, one in record["scores"].items()}
    return row


def as_json(value: Any) -> bytes:
    """Return a value as the toolkit writes it: by Python's `json`, with `str` for other types.

    So NaN is `NaN`, and bytes are a string like `b'raw'`.
    """
    encoded = encode_fast(value)
    if encoded is not None:
        return encoded
    try:
        return dumps(value, default=str).encode()
    except ValueError:  # an integer of more than 4,300 digits
        return encode(value)[0]


def _score_file(head: dict[str, Any], items: BinaryIO) -> Iterator[bytes]:
    yield as_json(head)[:-1] + b',"eval_output_items":['
    items.seek(0)
    while piece := items.read(_PIECE_BYTES):
        yield piece
    yield b"\n]}\n"


def _array(records: Iterator[Any]) -> Iterator[bytes]:
    yield b"["
    for number, record in enumerate(records):
        yield (b",\n" if number else b"\n") + as_json(record)
    yield b"\n]"
