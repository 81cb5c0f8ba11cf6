"""Can what the configuration names be imported, and is it what it should be?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limpet.config.errors import Findings
from limpet.config.imports import BadReferenceError, imported, put_first
from limpet.config.model import PythonScorer
from limpet.config.yaml_file import KeyPath
from limpet.evaluators import as_evaluator
from limpet.executors.details import UNSET
from limpet.integrations.nat.pre_processing import PreProcessed
from limpet.integrations.nat.wanted import Wanted
from limpet.text import one_line, text_of

_GENERAL = ("eval", "general")


def prepared_function(
    reference: str | None, at: KeyPath, file: Path, findings: Findings
) -> Any | None:
    """Return a function that the configuration names.

    Args:
        reference: As module:name; None: none is named.
        at: Where that stands, below `eval.general`.
        file: The configuration.
        findings: Where to say what is wrong.
    """
    return None if reference is None else _found(reference, (*_GENERAL, *at), file, findings)


def prepared_evaluators(wanted: Wanted, file: Path, findings: Findings) -> Mapping[str, Any]:
    """Return the evaluators by their names, each after the function that comes before it.

    Args:
        wanted: What the configuration asks for.
        file: The configuration.
        findings: Where to say what is wrong.
    """
    made = {
        name: _scorer(name, one, file, findings) if isinstance(one, PythonScorer) else one
        for name, one in wanted.evaluators.items()
    }
    at = ("output", "custom_pre_eval_process_function")
    first = prepared_function(wanted.output.pre_process, at, file, findings)
    if first is None:
        return made
    steps = wanted.dataset.structure.expected_trajectory
    return {
        name: PreProcessed(as_evaluator(one, name), first, steps)
        for name, one in made.items()
        if one is not None  # else it is said already
    }


def _scorer(name: str, asked: PythonScorer, file: Path, findings: Findings) -> Any:
    path = ("eval", "evaluators", name, "function")
    found = _found(asked.python, path, file, findings)
    if found is None:
        return None
    try:
        paced = UNSET if asked.endpoint is None else asked.endpoint
        return as_evaluator(found, name, asked.version, endpoint=paced)
    except Exception as error:  # noqa: BLE001 - an object of the user may raise anything
        return findings.add(path, f"{one_line(asked.python)}: {one_line(text_of(error))}")


def _found(reference: str, path: KeyPath, file: Path, findings: Findings) -> Any:
    put_first(Path.cwd())
    put_first(file.parent)
    try:
        found = imported(reference, file.parent)
    except BadReferenceError as error:
        return findings.add(path, text_of(error), error.hint)
    if callable(found) or hasattr(found, "call"):
        return found
    kind = type(found).__name__
    return findings.add(path, f"{one_line(reference)} is of type {kind}, which is not callable")
