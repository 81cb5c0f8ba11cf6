"""Which rows does `filter` keep?

In short, `{lang: en}` or `{lang: [en, fr]}`; in full, `{allow: {…}, deny: {…}}`, as
`Dataset` takes it. Values are compared as texts, so a number must be written as the
dataset has it: `1.10`, which YAML reads as 1.1, is refused rather than never found.
"""

import json
import math
from typing import Any

from limpet.config.environment import Substituted
from limpet.config.findings import Findings, shown
from limpet.config.problems import quoted
from limpet.config.tree import Path

_SIDES = ("allow", "deny")


def check_filter(dataset: Any, findings: Findings) -> dict[str, Any] | None:
    """Return the filter in full, and say what is wrong with it.

    Args:
        dataset: What stands under `dataset`.
        findings: Where to say what is wrong.
    """
    asked, at = dataset.get("filter") if isinstance(dataset, dict) else None, ("dataset", "filter")
    if not isinstance(asked, dict):
        return None  # empty; or no mapping, which is said elsewhere
    if not set(asked) & set(_SIDES):
        return {"allow": checked_side(asked, at, findings)}
    for key in asked:
        if key not in _SIDES:
            hint = f"put {quoted(key)} under allow or deny"
            findings.add((*at, key), "stands beside allow or deny", hint)
    sides = [side for side in _SIDES if asked.get(side) is not None]
    return {side: checked_side(asked[side], (*at, side), findings) for side in sides}


def checked_side(columns: Any, path: Path, findings: Findings) -> dict[str, list[Any]]:
    """Return what each column may be, and say what is wrong with that.

    Args:
        columns: Values by column.
        path: Where that stands.
        findings: Where to say what is wrong.
    """
    if not isinstance(columns, dict):
        findings.add(path, f"must be a mapping of columns to values, not {shown(columns)}")
        return {}
    made = {}
    for column, wanted in columns.items():
        several = wanted if isinstance(wanted, list) else [wanted]
        for number, value in enumerate(several):
            at = (*path, column, number) if isinstance(wanted, list) else (*path, column)
            _check_value(value, at, findings)
        made[column] = [str(one) if isinstance(one, Substituted) else one for one in several]
    return made


def _check_value(value: Any, path: Path, findings: Findings) -> None:
    written = findings.tree.written.get(path, "")
    if isinstance(value, (dict, list)):
        text = f"must be a value or a list of values, not {shown(value)}"
        findings.add(path, text, "in full: filter: {allow: {column: [values]}, deny: {…}}")
    elif _is_number(value) and (not math.isfinite(value) or json.dumps(value) != written):
        hint = f"put it in quotes, '{written}', or write it as the dataset has it"
        findings.add(path, f"YAML reads {written} as {shown(value)}", hint)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
