"""Writes the output files, in the shapes of `nat eval`, at the end of every run."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from limpet.journal.files import replace_file
from limpet.journal.layout import Layout
from limpet.json_values import encode, encode_fast
from limpet.nat_trace import nat_steps
from limpet.run.record_fields import RecordNames, answer_record
from limpet.run.results.evaluation_result import ItemResult
from limpet.trace import kept_events

_PIECE_BYTES = 2**20


def write_outputs(
    layout: Layout,
    results: Iterable[ItemResult],
    evaluators: Sequence[str],
    trials: int,
    summarise: Callable[[], dict[str, Any]],
    *,
    names: RecordNames,
    bare: bool = False,
    trace_filter: Sequence[str] | None = None,
) -> None:
    """Write `workflow_output.json`, `<evaluator>_output.json` and `summary.json`.

    The results are read once, and none is kept in memory: there may be a million.

    Args:
        layout: The run's layout.
        results: The results of the items.
        evaluators: The names of the evaluators.
        trials: The number of trials: if there are several, ids become `<id>_rep<N>`.
        summarise: Returns the summary, once all results were read.
        names: The names of the fields of `workflow_output.json`.
        bare: Write only the outputs to `workflow_output.json`.
        trace_filter: The types or kinds of events to write; None: all.
    """
    with ExitStack() as stack:
        # A score's file begins with the mean: until then, its items wait in a file without a name.
        scores = {name: stack.enter_context(TemporaryFile(dir=layout.home)) for name in evaluators}

        def answers() -> Iterator[Any]:
            for number, item in enumerate(results):
                id_ = item.row.get(names.id, item.id)  # as it is: it may be a number
                id_ = id_ if trials == 1 else f"{item.id}_rep{item.trial}"
                for name, file in scores.items():
                    file.write((b",\n" if number else b"\n") + _json(_score(id_, name, item)))
                yield item.output if bare else _answer(id_, item, trace_filter, names)

        replace_file(layout.home / "workflow_output.json", _array(answers()))
        summary = summarise()
        for name, file in scores.items():
            head = {"average_score": summary["evaluators"][name]["mean"]}
            head["_limpet"] = summary["evaluators"][name]
            replace_file(layout.home / f"{name}_output.json", _score_file(head, file))
    pretty = json.dumps(summary, indent=2).encode() + b"\n"
    replace_file(layout.home / "summary.json", [pretty])


def _answer(
    id_: Any, item: ItemResult, trace_filter: Sequence[str] | None, names: RecordNames
) -> dict[str, Any]:
    if item.is_completed:
        steps = nat_steps(kept_events(item.trace, trace_filter))
        record = answer_record(names, item.id, item.row, item.output, steps, item.metadata)
    else:
        record = answer_record(names, item.id, item.row, None, [])
        record["_limpet"] = _failure(item)
    record[names.id] = id_
    if names.expected_trace is not None:
        record.setdefault(names.expected_trace, [])
    return record


def _failure(item: ItemResult) -> dict[str, Any]:
    ours: dict[str, Any] = {"status": item.status.value}
    if item.error is not None:  # the traceback is in failures.jsonl
        ours["error"] = {name: part for name, part in item.error.items() if name != "traceback"}
    return ours


def _score(id_: Any, name: str, item: ItemResult) -> dict[str, Any]:
    if name in item.scores:
        # The toolkit expects every score to have a reasoning.
        return {"reasoning": {}, **_numeric(item.scores[name]), "id": id_}
    error = item.score_errors.get(name)
    why = "it was stopped before" if item.is_completed else f"the workflow {item.status.words}"
    reason = error["message"] if error else f"not run: {why}"
    return {"id": id_, "score": None, "reasoning": {}, "error": reason}


def _numeric(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a score's record with numbers for booleans, as the toolkit's evaluators write them."""
    numeric = dict(record)
    if isinstance(record.get("score"), bool):
        numeric["score"] = float(record["score"])
    if "scores" in record:
        numeric["scores"] = {part: _numeric(score) for part, score in record["scores"].items()}
    return numeric


def _json(value: Any) -> bytes:
    """Return a value as the toolkit writes it: by Python's `json`, with `str` for the unknown.

    So NaN is `NaN`, and bytes are a string like `b'raw'`.
    """
    encoded = encode_fast(value)
    if encoded is not None:
        return encoded
    try:
        return json.dumps(value, default=str).encode()
    except ValueError:  # an integer of more than 4,300 digits
        return encode(value)[0]


def _score_file(head: dict[str, Any], items: BinaryIO) -> Iterator[bytes]:
    yield _json(head)[:-1] + b',"eval_output_items":['
    items.seek(0)
    while piece := items.read(_PIECE_BYTES):
        yield piece
    yield b"\n]}\n"


def _array(records: Iterator[Any]) -> Iterator[bytes]:
    yield b"["
    for number, record in enumerate(records):
        yield (b",\n" if number else b"\n") + _json(record)
    yield b"\n]"
