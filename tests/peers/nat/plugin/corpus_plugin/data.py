"""The functions that a configuration names by their dotted path."""

import csv
from pathlib import Path
from typing import Any

from nat.data_models.evaluator import EvalInput, EvalInputItem


def read_table(file_path: Path, limit: int | None = None, prefix: str = "") -> EvalInput:
    """Read a table with semicolons: a dataset of the type `custom`."""
    with Path(file_path).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    return EvalInput(
        eval_input_items=[
            EvalInputItem(
                id=f"{prefix}{row['key']}",
                input_obj=row["ask"],
                expected_output_obj=row["expect"],
                full_dataset_entry=row,
            )
            for row in rows[:limit]
        ]
    )


def tidy(item: EvalInputItem) -> EvalInputItem:
    """Strip the words around a number: a `custom_pre_eval_process_function`."""
    words = str(item.output_obj).split()
    numbers = [word for word in words if word.lstrip("-").isdigit()]
    return item.copy_with_updates(output_obj=numbers[-1] if numbers else item.output_obj)


def forget(item: EvalInputItem) -> Any:
    """Return what such a function must not."""
    return {"id": item.id}


def same_length(inputs: str, outputs: str, reference_outputs: str) -> dict[str, Any]:
    """Judge in the manner of openevals."""
    close = len(str(outputs)) == len(str(reference_outputs))
    return {"key": "same_length", "score": close, "comment": f"{len(inputs)} letters asked"}


async def with_level(
    inputs: str, outputs: str, reference_outputs: str, level: str
) -> list[dict[str, Any]]:
    """Return several results, and use another column of the dataset."""
    return [
        {"key": "right", "score": float(outputs == str(reference_outputs)), "comment": None},
        {"key": "easy", "score": float(level == "easy"), "comment": inputs[:4]},
    ]


def run_and_example(run: Any, example: Any) -> dict[str, Any]:
    """Judge in the older manner of LangSmith."""
    if "judge-500" in run.inputs["input"]:
        raise RuntimeError("no verdict")
    right = run.outputs["output"] == str(example.outputs["output"])
    return {"key": "right", "score": int(right), "metadata": {"run": run.name}}
