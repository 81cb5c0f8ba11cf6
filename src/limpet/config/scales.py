"""What does the file say of an evaluator's scores: their range, their groups, which way is better?

These keys go with every kind of evaluator. What the file does not say, the evaluator says itself.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from limpet.config.checking import checked
from limpet.config.errors import Findings
from limpet.config.model import ScaleSection
from limpet.config.yaml_file import KeyPath
from limpet.evaluators import as_evaluator
from limpet.evaluators.protocol import Evaluator, scale_of

SCALE_KEYS = tuple(ScaleSection.model_fields)


def without_scale(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an evaluator's mapping without what it says of the scores."""
    return {key: value for key, value in given.items() if key not in SCALE_KEYS}


def check_scale(given: Mapping[str, Any], path: KeyPath, findings: Findings) -> None:
    """Report what is wrong with what an evaluator's mapping says of the scores."""
    checked(ScaleSection, _said(given), path, findings)


def _said(given: Any) -> dict[str, Any]:
    return (
        {key: given[key] for key in SCALE_KEYS if key in given} if isinstance(given, dict) else {}
    )


def with_scale(evaluator: Evaluator, given: Any) -> Evaluator:
    """Return an evaluator with what its mapping, which is valid, says of the scores."""
    section = ScaleSection.model_validate(_said(given))
    said = {name: getattr(section, name) for name in section.model_fields_set}
    said = {name: value for name, value in said.items() if value is not None}
    return (
        as_evaluator(evaluator, scale=replace(scale_of(evaluator), **said)) if said else evaluator
    )
