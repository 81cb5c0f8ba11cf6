"""The files for others: the shapes of `nat eval`, written whole at the end of every run."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from limpet.journal.encoding import encode
from limpet.journal.files import replace_file
from limpet.journal.layout import Layout
from limpet.run.asked import Asked
from limpet.run.nat_steps import as_nat_step
from limpet.run.records import answer_record, kept_steps
from limpet.run.results import ItemResult


def write_outputs(
    layout: Layout,
    asked: Sequence[Asked],
    items: Sequence[ItemResult],
    summary: dict[str, Any],
    *,
    bare: bool = False,
    step_filter: Sequence[str] | None = None,
) -> None:
    """Write `workflow_output.json`, `<evaluator>_output.json` and `summary.json`.

    Args:
        layout: Where.
        asked: What was asked.
        items: What came out.
        summary: The numbers.
        step_filter: Which types of steps are kept; None: all.
        bare: In `workflow_output.json`, only the outputs themselves.
    """
    answers: Iterator[Any]
    if bare:
        answers = (item.output for item in items)
    else:
        pairs = zip(asked, items, strict=True)
        answers = (_answer(one, item, step_filter) for one, item in pairs)
    replace_file(layout.home / "workflow_output.json", _array(answers))
    for name in summary["evaluators"]:
        replace_file(layout.home / f"{name}_output.json", _scores(name, items, summary))
    pretty = json.dumps(summary, indent=2).encode() + b"\n"
    replace_file(layout.home / "summary.json", [pretty])


def _answer(asked: Asked, item: ItemResult, step_filter: Sequence[str] | None) -> dict[str, Any]:
    if item.status == "completed":
        steps = enumerate(kept_steps(item.steps, step_filter))
        return answer_record(asked, item.output, [as_nat_step(one, n) for n, one in steps])
    ours: dict[str, Any] = {"status": item.status}
    if item.error is not None:  # the traceback stands in failures.jsonl
        ours["error"] = {name: one for name, one in item.error.items() if name != "traceback"}
    return answer_record(asked, None, []) | {"_limpet": ours}


def _scores(name: str, items: Sequence[ItemResult], summary: dict[str, Any]) -> Iterator[bytes]:
    numbers = summary["evaluators"][name]
    head = {"average_score": numbers["mean"], "_limpet": numbers}
    yield encode(head)[0][:-1] + b',"eval_output_items":'
    yield from _array(_score(name, item) for item in items)
    yield b"}\n"


def _score(name: str, item: ItemResult) -> dict[str, Any]:
    if name in item.scores:
        # With more trials, ids have grown; and the toolkit asks every score for its reasoning.
        return {"reasoning": {}, **item.scores[name], "id": item.id}
    error = item.score_errors.get(name)
    why = "it was stopped before" if item.status == "completed" else f"the workflow {item.status}"
    reason = error["message"] if error else f"not run: {why}"
    return {"id": item.id, "score": None, "reasoning": {}, "error": reason}


def _array(records: Iterator[Any]) -> Iterator[bytes]:
    yield b"["
    for number, record in enumerate(records):
        yield (b",\n" if number else b"\n") + encode(record)[0]
    yield b"\n]"
