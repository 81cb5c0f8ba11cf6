"""Can what the file names be imported, and is it what it should be?"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from limpet.config.environment import written_as
from limpet.config.evaluators import PythonScorer
from limpet.config.file_checks import located
from limpet.config.findings import Findings
from limpet.config.imports import NotImportedError, imported, put_first
from limpet.config.model import DatasetShape, WorkflowShape
from limpet.config.remote import remote_workflow
from limpet.config.tree import Path as KeyPath
from limpet.errors import DatasetError, LimpetError
from limpet.evaluators import as_evaluator
from limpet.executors.details import UNSET
from limpet.fingerprints.declared import DependsOn, as_declared
from limpet.text import one_line, text_of
from limpet.workflows import Workflow, as_workflow
from limpet.workflows.python import is_workflow


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
    if version is not None and is_workflow(found):
        text = f"{_shown(asked.python)} is a Workflow, which says itself what it is"
        findings.add(("workflow", "version"), text, "leave version out")
    try:
        return as_workflow(found, version=version)
    except Exception as error:  # noqa: BLE001 - an object of the user may raise anything
        hint = getattr(error, "hint", None)
        text = f"{_shown(asked.python)}: {one_line(text_of(error))}"
        findings.add(path, text, hint, cause=error)
        return None


def prepared_declaration(
    asked: WorkflowShape, folder: Path, findings: Findings
) -> DependsOn | None:
    """Return what the workflow is declared to depend on; a version stands for all of it."""
    told = asked.depends_on
    if told is None or asked.version is not None:
        return None
    files, env, packages = (
        tuple(map(str, names or ())) for names in (told.files, told.env, told.packages)
    )
    declared = DependsOn(files, env, packages, folder)
    return _checked(declared, ("workflow", "depends_on"), findings)


def _checked(declared: DependsOn, path: KeyPath, findings: Findings) -> DependsOn | None:
    try:
        declared.look()
    except LimpetError as error:
        findings.add(path, str(error.args[0]).removeprefix("depends_on: "), error.hint)
        return None
    return declared


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
    declared = as_declared(asked.depends_on)
    if declared is not None and version is None:
        at = ("evaluators", name, "depends_on")
        declared = _checked(replace(declared, folder=folder), at, findings)
    try:
        paced = UNSET if endpoint is None else endpoint
        made = as_evaluator(found, name, version, endpoint=paced, depends_on=declared)
    except Exception as error:  # noqa: BLE001 - an object of the user may raise anything
        text = f"{_shown(asked.python)}: {one_line(text_of(error))}"
        return findings.add(path, text, cause=error)
    return made


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
