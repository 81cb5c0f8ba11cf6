"""How does a step of any form stand in a file that `nat eval` reads?

Its readers take steps of one form only, and refuse the whole file for one that is not. So a
workflow's own steps, whatever they are, are put into that form there; the columns keep them as they
are.
"""

from collections.abc import Mapping
from typing import Any

_KEYS = {"parent_id", "function_ancestry", "payload"}


def as_nat_step(step: Any, number: int) -> Any:
    """Return a step in the toolkit's form: as it is, if it has that already."""
    if (
        isinstance(step, Mapping)
        and step.keys() <= _KEYS
        and isinstance(step.get("payload"), Mapping)
    ):
        return step
    named = step.get("name") if isinstance(step, Mapping) else None
    name = named if isinstance(named, str) else "step"
    id_ = f"step-{number}"
    return {
        "parent_id": "root",
        "function_ancestry": {
            "function_id": id_,
            "function_name": name,
            "parent_id": "root",
            "parent_name": "root",
        },
        "payload": {
            "event_type": "CUSTOM_END",
            "event_timestamp": 0.0,
            "name": name,
            "data": {"input": None, "output": step, "chunk": None, "payload": None},
            "UUID": id_,
        },
    }
