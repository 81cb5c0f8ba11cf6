"""Can what the file names be imported, and is it what it should be?"""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from limpet.config.environment import written_as
from limpet.config.findings import Findings
from limpet.config.imports import NotImportedError, imported, put_first
from limpet.config.places import located
from limpet.config.remote import remote_workflow
from limpet.config.scorers import PythonScorer
from limpet.config.shape import DatasetShape, WorkflowShape
from limpet.config.tree import Path as KeyPath
from limpet.errors import DatasetError
from limpet.evaluators import as_evaluator
from limpet.text import one_line, text_of
from limpet.workflows import Workflow, as_workflow


def prepared_dataset(asked: DatasetShape, folder: Path, findings: Findings) -> Any:
    """Return the dataset's file, or the function that returns its rows."""
    if asked.path is not None:
        return located(asked.path, folder)
    assert asked.python is not None
    found = _found(asked.python, ("dataset", "python"), folder, findings)
    return found if found is None else _guarded(found, _shown(asked.python))


def _guarded(function: Any, shown: str) -> Callable[[], Any]:
    """Have a failure of the user's function said as one of the dataset."""

    @functools.wraps(function)
    def rows() -> Any:
        try:
            return function()
        except Exception as error:
            text = f"{type(error).__name__}: {one_line(text_of(error))}"
            raise DatasetError(
                f"{shown} raised {text}", hint="it has to return the rows"
            ) from error

    return rows


def prepared_workflow(asked: WorkflowShape, folder: Path, findings: Findings) -> Workflow | None:
    """Return the workflow."""
    if asked.python is None:
        return remote_workflow(asked, findings)
    path = ("workflow", "python")
    found = _found(asked.python, path, folder, findings)
    if found is None:
        return None
    version = None if asked.version is None else str(asked.version)
    if version is not None and isinstance(found, Workflow) and not isinstance(found, type):
        text = f"{_shown(asked.python)} is a Workflow, which says itself what it is"
        findings.add(("workflow", "version"), text, "leave version out")
    try:
        return as_workflow(found, version=version)
    except Exception as error:  # noqa: BLE001 - an object of the user may raise anything
        hint = getattr(error, "hint", None)
        text = f"{_shown(asked.python)}: {one_line(text_of(error))}"
        findings.add(path, text, hint, cause=error)
        return None


def prepared_evaluators(
    scorers: Mapping[str, Any], folder: Path, findings: Findings
) -> Mapping[str, Any]:
    """Return the evaluators by their names."""
    return {
        name: _scorer(name, one, folder, findings) if isinstance(one, PythonScorer) else one
        for name, one in scorers.items()
    }


def _scorer(name: str, asked: PythonScorer, folder: Path, findings: Findings) -> Any:
    path = ("evaluators", name, "python")
    found = _found(asked.python, path, folder, findings)
    if found is None:
        return None
    version, endpoint = (
        None if one is None else str(one) for one in (asked.version, asked.endpoint)
    )
    try:
        made = as_evaluator(found, name, version, endpoint=endpoint)
    except Exception as error:  # noqa: BLE001 - an object of the user may raise anything
        text = f"{_shown(asked.python)}: {one_line(text_of(error))}"
        return findings.add(path, text, cause=error)
    # A function goes on as it is, so that it runs in the threads of the run.
    return found if version is None and endpoint is None else made


def _found(reference: str, path: KeyPath, folder: Path, findings: Findings) -> Any:
    put_first(folder)
    try:
        found = imported(reference, folder)
    except NotImportedError as error:
        return findings.add(path, text_of(error), error.hint, cause=error)
    is_evaluator = hasattr(found, "call")  # judged by whoever takes it
    if callable(found) or is_evaluator:
        return found
    kind = type(found).__name__
    return findings.add(path, f"{_shown(reference)} is of type {kind}, and cannot be called")


def _shown(reference: str) -> str:
    return one_line(written_as(reference))
