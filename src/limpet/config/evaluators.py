"""Which evaluators does the file name, and are their arguments valid?

Built-in evaluators are created here, so that a wrong argument is reported with its line.
`preparing` imports the ones in Python.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from limpet.config.checking import checked, report_argument, unknown_key
from limpet.config.dataset_checks import located
from limpet.config.environment import shown, typed
from limpet.config.errors import Findings
from limpet.config.model import PythonEvaluator, ScaleSection, long_evaluator
from limpet.config.models import Models, named_model, with_prompt
from limpet.config.yaml_file import KeyPath
from limpet.errors import LimpetError
from limpet.evaluators import as_evaluator, embedding_similarity, judge, rating, rubric
from limpet.evaluators.coerce import BUILT_INS
from limpet.evaluators.protocol import Evaluator, flaw_of_name, scale_of
from limpet.models import Model
from limpet.run.against import answers_of, pairwise
from limpet.text import hint_near, nearest, one_line, quoted, text_of

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


JUDGES: Mapping[str, Callable[..., Evaluator]] = {
    create.__name__: create for create in (judge, rating, rubric, pairwise, embedding_similarity)
}
"""The evaluators that ask a model, by their key."""
_PROMPT_FILE = "prompt_file"
_ROW = "row."
_NOT_IN_FILES = ("model", "name")


def keys_of(kind: str) -> list[str]:
    """Return the keys of a judge in a file, besides its own."""
    parameters = inspect.signature(JUDGES[kind]).parameters
    keys = [name for name in parameters if name not in _NOT_IN_FILES]
    return [key for name in keys for key in ((name, _PROMPT_FILE) if name == "prompt" else (name,))]


def required_keys(kind: str) -> list[str]:
    """Return the keys that a judge must have in a file, besides its own."""
    parameters = inspect.signature(JUDGES[kind]).parameters.items()
    return [
        name
        for name, parameter in parameters
        if parameter.default is parameter.empty and name not in _NOT_IN_FILES
    ]


def _has(given: Mapping[str, Any], key: str) -> bool:
    return key in given or (key == "prompt" and _PROMPT_FILE in given)


@dataclass(frozen=True)
class JudgeSection:
    """An evaluator that asks a model.

    Attributes:
        kind: The key of its constructor.
        given: Its mapping, as in the file, with the content of its prompt's file.
        path: Its path in the file.
        prompt_key: The key of its prompt.
    """

    kind: str
    given: Mapping[str, Any]
    path: KeyPath
    prompt_key: str

    def created(self, models: Models, findings: Findings) -> Evaluator | None:
        """Return the evaluator; report what is wrong and return None if it cannot be created."""
        asked = self._models(models, findings)
        if asked is None:
            return None
        given = {key: value for key, value in self.given.items() if key != self.kind}
        name = str(self.path[-1])
        try:
            return JUDGES[self.kind](
                asked, **typed(given), name=self.kind if flaw_of_name(name) else name
            )
        except Exception as error:  # noqa: BLE001 - its message is for the user
            names = {"prompt": self.prompt_key, "model": self.kind}
            written = {self.prompt_key: self.given.get("prompt"), **self.given}
            report_argument(self.kind, error, written, self.path, findings, names)
            return None

    def _models(self, models: Models, findings: Findings) -> Model | list[Model] | None:
        names, at = self.given[self.kind], (*self.path, self.kind)
        listed = names if isinstance(names, list) else [names]
        if not listed or not all(isinstance(name, str) for name in listed):
            hint = f"for example {self.kind}: grader"
            findings.add(at, f"must name a model, not {shown(names)}", hint)
            return None
        found = [named_model(str(name), at, models, findings) for name in listed]
        if None in found:
            return None
        jury = [model for model in found if model is not None]
        return jury if isinstance(names, list) else jury[0]

    @property
    def at_prompt(self) -> KeyPath:
        """The path of its prompt in the file."""
        return (*self.path, self.prompt_key)

    def columns(self, evaluator: Evaluator) -> Iterator[tuple[KeyPath, str]]:
        """Yield the columns that its prompt names, each with its path."""
        for part in sorted(evaluator.reads):
            if part.startswith(_ROW):
                yield self.at_prompt, part.removeprefix(_ROW)


def check_judge(
    kind: str,
    given: Mapping[str, Any],
    path: KeyPath,
    models: Models,
    folder: Path,
    findings: Findings,
) -> JudgeSection | None:
    """Return an evaluator that asks a model, checked; None if something is wrong with it."""
    known = [kind, *keys_of(kind)]
    wrong = [key for key in given if key not in known]
    for key in wrong:
        here = [*known, *SCALE_KEYS]
        findings.add_key((*path, key), *unknown_key((*path, key), here))
    prompts = [key for key in ("prompt", _PROMPT_FILE, "of") if key in given]
    for key in prompts[1:]:
        findings.add((*path, key), f"cannot be used with {prompts[0]}: keep one of them")
    missing = [] if wrong else [key for key in required_keys(kind) if not _has(given, key)]
    for key in missing:
        findings.add(path, f"needs {'prompt or prompt_file' if key == 'prompt' else key}")
    if wrong or missing or prompts[1:]:
        return None
    told = with_prompt(given, path, folder, findings)
    if "against" in told:
        told["against"] = _answers(told["against"], (*path, "against"), folder, findings)
    if None in (told.get("prompt", ""), told.get("against", "")):
        return None
    section = JudgeSection(kind, told, path, prompts[0] if prompts else kind)
    return section if section.created(models, findings) is not None else None


def _answers(run: Any, path: KeyPath, folder: Path, findings: Findings) -> Any:
    """Return the answers of another run; report it if there is none."""
    if not isinstance(run, str):
        return findings.add(path, f"must be the directory of a run, not {shown(run)}")
    try:
        return answers_of(located(run, folder))
    except LimpetError as error:
        return findings.add(path, one_line(str(error)).removeprefix("against: "), error.hint)


def check_evaluators(
    section: Any, models: Models, folder: Path, findings: Findings
) -> dict[str, Any]:
    """Return each evaluator by name: created, a `PythonEvaluator` to import, or a `JudgeSection`.

    Args:
        section: The evaluators, as in the file.
        models: The models of the file.
        folder: The folder of the file.
        findings: Collects the problems.
    """
    checked_evaluators: dict[str, Any] = {}
    folded: dict[str, str] = {}
    for name, value in section.items() if isinstance(section, dict) else ():
        path = ("evaluators", name)
        check_name(name, path, folded, findings)
        given = long_evaluator(value)
        if isinstance(given, dict):
            if "python" not in given:
                check_scale(given, path, findings)
                given = without_scale(given)
            kinds = [kind for kind in JUDGES if kind in given]
            checked_evaluators[name] = (
                _judge(kinds, given, path, models, folder, findings)
                if kinds
                else _evaluator(given, path, findings)
            )
        else:
            must = "must be a built-in, module:name, or a mapping with type, python or judge"
            findings.add(path, f"{must}, not {shown(value)}", f"built in: {', '.join(BUILT_INS)}")
    return checked_evaluators


def arguments_of(built_in: str) -> list[str]:
    """Return the arguments of a built-in evaluator in a file."""
    return [name for name in inspect.signature(BUILT_INS[built_in]).parameters if name != "name"]


def check_name(name: str, path: KeyPath, folded: dict[str, str], findings: Findings) -> None:
    """Report a name that an evaluator cannot have.

    Args:
        name: The name.
        path: Its path in the file.
        folded: The earlier names by their lowercase form; this one is added.
        findings: Collects the problems.
    """
    if flaw := flaw_of_name(name):
        findings.add_key(path, f"evaluators: the name {shown(name)}: {flaw}")
    other = folded.setdefault(name.lower(), name)
    if other != name:
        text = f"evaluators: {shown(other)} and {shown(name)} would use the same file"
        findings.add_key(path, text, "rename one of them")


def _judge(
    kinds: list[str],
    given: dict[str, Any],
    path: KeyPath,
    models: Models,
    folder: Path,
    findings: Findings,
) -> Any:
    others = [*kinds[1:], *(key for key in ("type", "python") if key in given)]
    if others:
        both = f"{kinds[0]} and {others[0]}"
        text = f"cannot be used with {kinds[0]}: keep one of {both}"
        return findings.add((*path, others[0]), text)
    return check_judge(kinds[0], given, path, models, folder, findings)


def _evaluator(given: dict[str, Any], path: KeyPath, findings: Findings) -> Any:
    if "type" in given and "python" in given:
        return findings.add(
            (*path, "python"), "cannot be used with type: keep one of type and python"
        )
    if "python" in given:
        return checked(PythonEvaluator, given, path, findings)
    if "type" in given:
        return _built_in_of(given, path, findings)
    hint = f"type is one of {', '.join(BUILT_INS)}; python is module:name; judge names a model"
    kinds = ("type", "python", *JUDGES)
    if near := next(filter(None, (nearest(key, kinds) for key in given)), None):
        hint = f"did you mean {quoted(near)}?  ({hint})"
    if len(given) == 1 and (kind := next(iter(given))) in BUILT_INS:
        hint = f"write {path[-1]}: {{type: {kind}, …}}"
    return findings.add(path, "needs type, python or judge", hint)


def _built_in_of(given: dict[str, Any], path: KeyPath, findings: Findings) -> Any:
    kind = given["type"]
    if not isinstance(kind, str) or kind not in BUILT_INS:
        near = hint_near(kind, BUILT_INS) if isinstance(kind, str) else None
        listed = f"(built in: {', '.join(BUILT_INS)}; your own: module:name)"
        hint = f"{near}  {listed}" if near else listed.strip("()")
        return findings.add((*path, "type"), f"unknown built-in evaluator {shown(kind)}", hint)
    return built_in(kind, given, path, findings)


def built_in(
    kind: str,
    given: Mapping[str, Any],
    path: KeyPath,
    findings: Findings,
    key_of_kind: str = "type",
) -> Any:
    """Return a built-in evaluator; None if its arguments are wrong.

    Args:
        kind: Its name.
        given: Its arguments, including the key of the kind.
        path: Its path in the file.
        findings: Collects the problems.
        key_of_kind: The key that holds the kind.
    """
    arguments = {key: value for key, value in given.items() if key != key_of_kind}
    known = arguments_of(kind)
    wrong = [key for key in arguments if key not in known]
    for key in wrong:
        here = [key_of_kind, *known, *(SCALE_KEYS if key_of_kind == "type" else ())]
        findings.add_key((*path, key), *unknown_key((*path, key), here))
    return None if wrong else _created(kind, arguments, path, findings)


def _created(kind: str, arguments: dict[str, Any], path: KeyPath, findings: Findings) -> Any:
    try:
        return BUILT_INS[kind](**typed(arguments))
    except LimpetError as error:  # an extra that is not installed
        return findings.add(path, one_line(text_of(error)), error.hint)
    except Exception as error:  # noqa: BLE001 - its message is for the user
        return report_argument(kind, error, arguments, path, findings)
