"""Runs in the peer's environment: read a run's files as the toolkit does, and print what it sees.

Usage: read_outputs.py FOLDER EVALUATOR…
"""

import json
import math
import sys
from pathlib import Path

from nat.data_models.dataset_handler import EvalDatasetJsonConfig
from nat.plugins.eval.data_models.evaluator_io import EvalOutput
from nat.plugins.eval.dataset_handler.dataset_handler import DatasetHandler


def plain(value):
    """Return what JSON can say: pandas makes NaN of a null, the toolkit passes it on."""
    return None if isinstance(value, float) and math.isnan(value) else value


def step(one):
    usage = one.payload.usage_info
    return {
        "type": one.event_type.value,
        "name": one.name,
        "parent": one.parent_id,
        "function": one.function_ancestry.function_name,
        "output": one.data.output if one.data else None,
        "tokens": usage.token_usage.model_dump() if usage else None,
    }


folder = Path(sys.argv[1])
rows = EvalDatasetJsonConfig(file_path=folder / "workflow_output.json")
handler = DatasetHandler(rows, reps=1, concurrency=1)
read = handler.get_eval_input_from_dataset("")
items = [
    {
        "id": item.id,
        "input": item.input_obj,
        "expected": item.expected_output_obj,
        "output": plain(item.output_obj),
        "columns": sorted(item.full_dataset_entry),
        "steps": [step(one) for one in item.trajectory],
    }
    for item in read.eval_input_items
]
scores = {
    name: EvalOutput.model_validate_json((folder / f"{name}_output.json").read_bytes()).model_dump()
    for name in sys.argv[2:]
}
published = json.loads(handler.publish_eval_input(read))
sys.stdout.write(json.dumps({"items": items, "scores": scores, "published": published}))
