"""How does a checked file become the arguments of `evaluate`?

The objects it names are imported. Only keys that the file sets are passed on; `evaluate` has the
defaults.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial, wraps
from typing import Any, TypeVar, cast

from limpet import models, workflows
from limpet.config.checking import report_argument
from limpet.config.dataset_checks import Columns, ConfiguredDataset, located
from limpet.config.environment import substitute, typed, written_as
from limpet.config.errors import Findings, KeyPath
from limpet.config.evaluators import JudgeSection
from limpet.config.imports import BadReferenceError, imported, put_first
from limpet.config.model import (
    CommandSection,
    EvalFile,
    PromptSection,
    PythonEvaluator,
    WorkflowSection,
)
from limpet.config.models import Models, NotImported, prompt_workflow
from limpet.config.overrides import long_kind
from limpet.datasets import Dataset
from limpet.errors import DatasetError, LimpetError
from limpet.evaluators import as_evaluator
from limpet.evaluators.libraries.recognised import recognised
from limpet.evaluators.protocol import Evaluator
from limpet.executors.retry import Backoff
from limpet.fingerprints.steps import DependsOn
from limpet.models import Model
from limpet.placeholders import OF_ITEM, names_in
from limpet.run.options import Pace, Retry, RunOptions
from limpet.text import one_line, text_of
from limpet.workflows import Workflow, as_workflow
from limpet.workflows.parameters import flaws_of_arguments
from limpet.workflows.python import is_workflow

T = TypeVar("T")
_ROW = "row."
_OF_SCORED = (*OF_ITEM, "output", "trace")
"""Placeholders available to every evaluator."""
_NOT_OPTIONS = ("path", "python", "filter")


def prepared_dataset(
    content: EvalFile,
    keep: Mapping[str, Any] | None,
    columns: Columns,
    findings: Findings,
) -> Dataset | None:
    """Return the dataset.

    Args:
        content: The file.
        keep: Its filter in long form.
        columns: The other columns that the file names.
        findings: Collects the problems.
    """
    section = content.dataset
    if section.path is not None:
        source: Any = located(section.path, findings.folder)
    else:
        assert section.python is not None
        source = imported_object(section.python, ("dataset", "python"), findings)
        if source is None:
            return None
        source = _guarded(source, _shown(section.python))
    options = {name: each for name, each in section.given().items() if name not in _NOT_OPTIONS}
    return ConfiguredDataset(source, filter=keep, tree=findings.tree, columns=columns, **options)


def columns_of(
    content: EvalFile, sections: Mapping[str, Any], created: Mapping[str, Any]
) -> Columns:
    """Return the columns that workflow and evaluators name, each with its path.

    Args:
        content: The file.
        sections: The evaluators as checked.
        created: The same, with the evaluators that ask a model created.
    """
    columns = list(_columns_of_workflow(content.workflow))
    for name, section in sections.items():
        at = ("evaluators", name)
        if isinstance(section, PythonEvaluator):
            columns += _columns_in({"inputs": section.inputs}, at, _OF_SCORED)
        elif isinstance(section, JudgeSection) and created[name] is not None:
            reads, path = sorted(created[name].reads), (*at, section.prompt_key)
            columns += [(path, part[len(_ROW) :]) for part in reads if part.startswith(_ROW)]
            columns += [(path, "")] if "expected" in reads else []
    for name, given in (content.evaluators or {}).items():
        for key in ("expected_column", "group") if isinstance(given, dict) else ():
            if given.get(key) is not None:
                columns.append((("evaluators", name, key), str(given[key])))
    return tuple(columns)


def _columns_of_workflow(section: WorkflowSection | PromptSection) -> Columns:
    if isinstance(section, PromptSection):
        templates = {name: getattr(section, name) for name in ("messages", "images", "files")}
        templates["prompt" if section.prompt_file is None else "prompt_file"] = section.prompt
        return _columns_in(templates, ("workflow",), OF_ITEM)
    if section.http is not None:
        templates = {"url": section.http.url, "body": section.http.body}
        return _columns_in(templates, ("workflow", "http"), OF_ITEM)
    if section.command is not None:
        return _columns_in({"argv": section.command.argv}, ("workflow", "command"), OF_ITEM)
    return ()


def _columns_in(templates: Mapping[str, Any], at: KeyPath, others: Collection[str]) -> Columns:
    return [
        ((*at, key, *path), name)
        for key, template in templates.items()
        for path, name in names_in(template)
        if name not in others
    ]


def _guarded(function: Any, shown: str) -> Callable[[], Any]:
    """Turn a failure of the user's function into a `DatasetError`."""

    @wraps(function)
    def rows() -> Any:
        try:
            return function()
        except Exception as error:
            text = f"{type(error).__name__}: {one_line(text_of(error))}"
            raise DatasetError(f"{shown} raised {text}", hint="it must return the rows") from error

    return rows


def prepared_workflow(content: EvalFile, named: Models, findings: Findings) -> Workflow | None:
    """Return the workflow."""
    section = content.workflow
    if isinstance(section, PromptSection):
        written = substitute(findings.tree.data["workflow"])
        return prompt_workflow(section, written, named, content.dataset, findings)
    if section.python is None:
        return _created(section, findings)
    version, args, shown = section.version, typed(section.args or {}), _shown(section.python)

    def made(found: Any) -> Workflow | None:
        path = ("workflow", "args")
        if version is not None and is_workflow(found):
            text = f"{shown} is a Workflow, which has its own version"
            findings.add(("workflow", "version"), text, "leave version out")
        if args and is_workflow(found):
            hint = "name a function or a class, or leave args out"
            return findings.add(path, f"{shown} is a Workflow, which takes no arguments", hint)
        flaws = list(flaws_of_arguments(found, args)) if args else []
        for name, text, hint_of_name in flaws:
            findings.add((*path, name) if name else path, text, hint_of_name)
        return None if flaws else as_workflow(found, version=version, args=args)

    return _made(made, section.python, ("workflow", "python"), findings)


def _made(make: Callable[[Any], T], reference: str, path: KeyPath, findings: Findings) -> T | None:
    """Import an object and return what `make` returns for it; report a failure."""
    found = imported_object(reference, path, findings)
    try:
        return None if found is None else make(found)
    except Exception as error:  # noqa: BLE001 - an object of the user may raise anything
        text = f"{_shown(reference)}: {one_line(text_of(error))}"
        return findings.add(path, text, getattr(error, "hint", None), cause=error)


def _created(section: WorkflowSection, findings: Findings) -> Workflow | None:
    """Return a workflow on a server or a program; report an argument that it rejects."""
    kinds = {"nat": section.nat, "http": section.http, "command": section.command}
    kind, settings = next((kind, each) for kind, each in kinds.items() if each is not None)
    arguments = settings.given()
    if isinstance(settings, CommandSection):
        # Strings, even if a variable holds a number.
        if not isinstance(settings.argv, str):
            arguments["argv"] = [str(argument) for argument in settings.argv]
        arguments["env"] = {name: str(value) for name, value in (settings.env or {}).items()}
        arguments["cwd"] = located(settings.cwd or ".", findings.folder)
    if section.version is not None:
        arguments["version"] = section.version
    try:
        created: Workflow = getattr(workflows, kind)(**arguments)
    except (LimpetError, TypeError, ValueError) as error:
        # As in the file: the section no longer tells which values came from the environment.
        written = substitute(long_kind(kind, findings.tree.data["workflow"][kind]))
        return report_argument(kind, error, written, ("workflow", kind), findings)
    return created


def prepared_declaration(
    section: WorkflowSection | PromptSection | PythonEvaluator,
    path: KeyPath,
    findings: Findings,
) -> DependsOn | None:
    """Return the declared dependencies of a step; none if it has a version."""
    given = section.depends_on
    if given is None or section.version is not None:
        return None
    files, env, packages = (
        tuple(names or ()) for names in (given.files, given.env, given.packages)
    )
    declared = DependsOn(files, env, packages, findings.folder)
    try:
        declared.identity()
    except LimpetError as error:
        text = str(error.args[0]).removeprefix("depends_on: ")
        return findings.add((*path, "depends_on"), text, error.hint)
    return declared


def prepared_evaluators(
    evaluators: Mapping[str, Any],
    findings: Findings,
    at: KeyPath = ("evaluators",),
    key: str = "python",
) -> Mapping[str, Any]:
    """Return the evaluators by name, with the user's own imported.

    Args:
        evaluators: Each evaluator, or a `PythonEvaluator` to import.
        findings: Collects the problems.
        at: The path of the evaluators in the file.
        key: The key that holds a reference.
    """

    def prepared(name: str, section: PythonEvaluator) -> Any:
        def made(found: Any) -> Evaluator:
            settings = section.given("version", "endpoint", "inputs")
            declared = prepared_declaration(section, (*at, name), findings)
            return as_evaluator(found, name, depends_on=declared, **settings)

        return _made(made, section.python, (*at, name, key), findings)

    return {
        name: prepared(name, evaluator) if isinstance(evaluator, PythonEvaluator) else evaluator
        for name, evaluator in evaluators.items()
    }


def prepared_models(named: Models, findings: Findings) -> Models:
    """Return the models with those in Python imported."""

    def prepared(model: Model | None) -> Model | None:
        if not isinstance(model, NotImported):
            return model
        as_model, at = partial(models.as_model, name=model.name), ("models", model.name, "python")
        return _made(as_model, model.python, at, findings)

    return {name: prepared(model) for name, model in named.items()}


def prepared_judges(
    evaluators: Mapping[str, Any], named: Models, findings: Findings
) -> dict[str, Any]:
    """Return the evaluators, with those that ask a model created."""
    return {
        name: each.created(named, findings) if isinstance(each, JudgeSection) else each
        for name, each in evaluators.items()
    }


def imported_object(reference: str, path: KeyPath, findings: Findings) -> Any:
    """Return the function or object that a reference names; report a missing one."""
    put_first(findings.folder)
    try:
        found = imported(reference, findings.folder)
    except BadReferenceError as error:
        return findings.add(path, text_of(error), error.hint, cause=error)
    # Ours, which `as_evaluator` checks, or another library's.
    is_evaluator = hasattr(found, "call") or recognised(found) is not None
    if callable(found) or is_evaluator:
        return found
    kind = type(found).__name__
    return findings.add(path, f"{_shown(reference)} is of type {kind}, which is not callable")


def _shown(reference: str) -> str:
    return one_line(written_as(reference))


def options_of(content: EvalFile) -> RunOptions:
    """Return the options, by their names in `evaluate`."""
    options = content.given(
        "timeout", "on_change", "retry_failed", "mask", "fail_fast", "stop_when", "budget", "engine"
    )
    if content.prices is not None:
        options["prices"] = {
            model: price.model_dump(exclude_none=True) for model, price in content.prices.items()
        }
    if stall := content.stall.given():
        options["stall"] = stall
    if pace := content.pace.given():
        options["pace"] = Pace(**pace)
    retry = content.retry.given("max_retries", "max_timeouts")
    if content.retry.backoff is not None:
        waits = content.retry.backoff.given()
        retry["backoff"] = Backoff(**{f"{name}_s": value for name, value in waits.items()})
    if retry:
        options["retry"] = Retry(**retry)
    return cast("RunOptions", options)
