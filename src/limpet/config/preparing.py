"""Can the objects that a file names be imported, and are they of the right kind?"""

import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from limpet import workflows
from limpet.config.dataset_checks import located
from limpet.config.environment import settled, written_as
from limpet.config.errors import Findings
from limpet.config.imports import BadReferenceError, imported, put_first
from limpet.config.model import DatasetShape, DependsOnShape, PythonScorer, WorkflowShape
from limpet.config.yaml_file import KeyPath
from limpet.errors import DatasetError, LimpetError
from limpet.evaluators import as_evaluator
from limpet.executors.details import UNSET
from limpet.fingerprints.declared import DependsOn
from limpet.text import one_line, text_of
from limpet.workflows import Workflow, as_workflow
from limpet.workflows.python import is_workflow

_ARGUMENT = re.compile(r"(\w+)(=[^:]*)?: ")


def prepared_dataset(asked: DatasetShape, folder: Path, findings: Findings) -> Any:
    """Return the dataset's file, or the function that returns its rows."""
    if asked.path is not None:
        return located(asked.path, folder)
    assert asked.python is not None
    found = _found(asked.python, ("dataset", "python"), folder, findings)
    return found if found is None else _guarded(found, _shown(asked.python))


def _guarded(function: Any, shown: str) -> Callable[[], Any]:
    """Turn a failure of the user's function into a `DatasetError`."""

    @functools.wraps(function)
    def rows() -> Any:
        try:
            return function()
        except Exception as error:
            text = f"{type(error).__name__}: {one_line(text_of(error))}"
            raise DatasetError(f"{shown} raised {text}", hint="it must return the rows") from error

    return rows


def prepared_workflow(asked: WorkflowShape, folder: Path, findings: Findings) -> Workflow | None:
    """Return the workflow."""
    if asked.python is None:
        return _remote_workflow(asked, findings)
    path = ("workflow", "python")
    found = _found(asked.python, path, folder, findings)
    if found is None:
        return None
    version = asked.version
    if version is not None and is_workflow(found):
        text = f"{_shown(asked.python)} is a Workflow, which has its own version"
        findings.add(("workflow", "version"), text, "leave version out")
    try:
        return as_workflow(found, version=version)
    except Exception as error:  # noqa: BLE001 - an object of the user may raise anything
        hint = getattr(error, "hint", None)
        text = f"{_shown(asked.python)}: {one_line(text_of(error))}"
        findings.add(path, text, hint, cause=error)
        return None


def _remote_workflow(asked: WorkflowShape, findings: Findings) -> Workflow | None:
    """Return the workflow behind a server."""
    kind = "nat" if asked.nat is not None else "http"
    shape = asked.nat or asked.http
    assert shape is not None
    given = {name: getattr(shape, name) for name in shape.model_fields_set}
    arguments: dict[str, Any] = {
        name: str(value) if isinstance(value, str) else settled(value)
        for name, value in given.items()
        if value is not None
    }
    if asked.version is not None:
        arguments["version"] = asked.version
    try:
        made: Workflow = getattr(workflows, kind)(**arguments)
    except (LimpetError, TypeError, ValueError) as error:
        _report_argument(kind, arguments, error, findings)
        return None
    return made


def _report_argument(
    kind: str, arguments: Mapping[str, Any], error: Exception, findings: Findings
) -> None:
    """Report an error on the line of the argument that its message names first."""
    text, hint = one_line(text_of(error)), getattr(error, "hint", None)
    path: tuple[str, ...] = ("workflow", kind)
    found = _ARGUMENT.match(text)
    if found is not None and found[1] in arguments:
        path, text = (*path, found[1]), text[found.end() :]
    if "${" in str(findings.tree.data["workflow"]):
        text = f"{kind} rejects a value from the environment"
    findings.add(path, text, hint)


def prepared_declaration(
    asked: WorkflowShape, folder: Path, findings: Findings
) -> DependsOn | None:
    """Return the declared dependencies of the workflow; none if it has a version."""
    if asked.version is not None:
        return None
    return _declared(asked.depends_on, ("workflow", "depends_on"), folder, findings)


def _declared(
    asked: DependsOnShape | None, path: KeyPath, folder: Path, findings: Findings
) -> DependsOn | None:
    if asked is None:
        return None
    files, env, packages = (
        tuple(names or ()) for names in (asked.files, asked.env, asked.packages)
    )
    declared = DependsOn(files, env, packages, folder)
    try:
        declared.identity()
    except LimpetError as error:
        findings.add(path, str(error.args[0]).removeprefix("depends_on: "), error.hint)
        return None
    return declared


def prepared_evaluators(
    scorers: Mapping[str, Any], folder: Path, findings: Findings
) -> Mapping[str, Any]:
    """Return the evaluators by their names."""
    return {
        name: _scorer(name, scorer, folder, findings)
        if isinstance(scorer, PythonScorer)
        else scorer
        for name, scorer in scorers.items()
    }


def _scorer(name: str, asked: PythonScorer, folder: Path, findings: Findings) -> Any:
    path = ("evaluators", name, "python")
    found = _found(asked.python, path, folder, findings)
    if found is None:
        return None
    version, endpoint, declared = asked.version, asked.endpoint, None
    if version is None:
        declared = _declared(asked.depends_on, ("evaluators", name, "depends_on"), folder, findings)
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
    except BadReferenceError as error:
        return findings.add(path, text_of(error), error.hint, cause=error)
    is_evaluator = hasattr(found, "call")  # checked by `as_evaluator`
    if callable(found) or is_evaluator:
        return found
    kind = type(found).__name__
    return findings.add(path, f"{_shown(reference)} is of type {kind}, which is not callable")


def _shown(reference: str) -> str:
    return one_line(written_as(reference))
