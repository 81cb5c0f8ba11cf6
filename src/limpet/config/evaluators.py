"""Which evaluators does the file name, and are their arguments valid?

Built-in evaluators are created here, so that a wrong argument is reported with its line.
`preparing` imports the ones in Python.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from limpet.config.checking import checked, only_one, report_argument, unknown_key
from limpet.config.dataset_checks import located
from limpet.config.environment import shown, typed
from limpet.config.errors import Findings, KeyPath
from limpet.config.model import PythonEvaluator, ScaleSection
from limpet.config.models import Models, named_model, with_prompt
from limpet.config.overrides import long_evaluator
from limpet.errors import LimpetError
from limpet.evaluators import as_evaluator, embedding_similarity, judge, rating, rubric
from limpet.evaluators.coerce import BUILT_INS
from limpet.evaluators.protocol import Evaluator, flaw_of_name, scale_of
from limpet.run.against import answers_of, pairwise
from limpet.text import hint_near, nearest, one_line, quoted, text_of

# ---- What does the file say about an evaluator's scores? ----------------------------------------
#
# These keys work with every kind of evaluator. They override what the evaluator says itself.

SCALE_KEYS = tuple(ScaleSection.model_fields)
# ---- Which evaluators of the file ask a model, and are their arguments valid? -------------------
#
# `{judge: NAME, …}` is `limpet.judge` with the model of this name; the other keys are its
# arguments.

JUDGES: Mapping[str, Callable[..., Evaluator]] = {
    create.__name__: create for create in (judge, rating, rubric, pairwise, embedding_similarity)
}
"""The evaluators that ask a model, by their key."""
_KINDS = (*JUDGES, "type", "python")
_PROMPT_FILE = "prompt_file"
_NOT_IN_FILES = ("model", "name")


def _said(given: Any) -> dict[str, Any]:
    """Return the keys of an evaluator's mapping that describe its scores."""
    of_scores = SCALE_KEYS if isinstance(given, dict) else ()
    return {key: given[key] for key in of_scores if key in given}


def with_scale(evaluator: Evaluator, given: Any) -> Evaluator:
    """Return an evaluator with the scale in its (valid) mapping."""
    said = ScaleSection.model_validate(_said(given)).given()
    if not said:
        return evaluator
    return as_evaluator(evaluator, scale=replace(scale_of(evaluator), **said))


def keys_of(create: Callable[..., Any]) -> list[str]:
    """Return the keys of an evaluator in a file, without the one of its kind."""
    keys = [name for name in inspect.signature(create).parameters if name not in _NOT_IN_FILES]
    return [key for name in keys for key in ((name, _PROMPT_FILE) if name == "prompt" else (name,))]


@dataclass(frozen=True)
class JudgeSection:
    """An evaluator that asks a model.

    Attributes:
        kind: The key of its constructor.
        given: Its mapping in the file, with the content of its prompt's file.
        path: Its path in the file.
        prompt_key: The key of its prompt.
    """

    kind: str
    given: Mapping[str, Any]
    path: KeyPath
    prompt_key: str

    def created(self, models: Models, findings: Findings) -> Evaluator | None:
        """Return the evaluator; if it cannot be created, report why and return None."""
        chosen = self._models(models, findings)
        if chosen is None:
            return None
        given = {key: value for key, value in self.given.items() if key != self.kind}
        name = str(self.path[-1])
        try:
            return JUDGES[self.kind](
                chosen, **typed(given), name=self.kind if flaw_of_name(name) else name
            )
        except Exception as error:  # noqa: BLE001 - its message is for the user
            names = {"prompt": self.prompt_key, "model": self.kind}
            written = {self.prompt_key: self.given.get("prompt"), **self.given}
            report_argument(self.kind, error, written, self.path, findings, names)
            return None

    def _models(self, models: Models, findings: Findings) -> Any:
        names, at = self.given[self.kind], (*self.path, self.kind)
        listed = names if isinstance(names, list) else [names]
        if not listed or not all(isinstance(name, str) for name in listed):
            hint = f"for example {self.kind}: grader"
            return findings.add(at, f"must name a model, not {shown(names)}", hint)
        found = [named_model(str(name), at, models, findings) for name in listed]
        if None in found:
            return None
        return found if isinstance(names, list) else found[0]


# ---- Which evaluators does the file name, and are their arguments valid? ------------------------


def check_evaluators(section: Any, models: Models, findings: Findings) -> dict[str, Any]:
    """Return each evaluator by name: created, a `PythonEvaluator` to import, or a `JudgeSection`.

    Args:
        section: The evaluators, as in the file.
        models: The models of the file.
        findings: Collects the problems.
    """
    evaluators: dict[str, Any] = {}
    folded: dict[str, str] = {}
    for name, value in section.items() if isinstance(section, dict) else ():
        path = ("evaluators", name)
        check_name(name, path, folded, findings)
        given = long_evaluator(value)
        if isinstance(given, dict):
            evaluators[name] = _evaluator(given, path, models, findings)
        else:
            must = "must be a built-in, module:name, or a mapping with type, python or judge"
            findings.add(path, f"{must}, not {shown(value)}", f"built in: {', '.join(BUILT_INS)}")
    return evaluators


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


def _evaluator(given: dict[str, Any], path: KeyPath, models: Models, findings: Findings) -> Any:
    if "python" not in given:
        checked(ScaleSection, _said(given), path, findings)
        given = {key: value for key, value in given.items() if key not in SCALE_KEYS}
    kinds = only_one(_KINDS, given, path, findings)
    if not kinds:
        return findings.add(path, "needs type, python or judge", _hint_of_kind(given, path))
    if kinds[1:]:
        return None
    if "python" in given:
        return checked(PythonEvaluator, given, path, findings)
    if "type" not in given:
        return _judge(kinds[0], given, path, models, findings)
    kind = given["type"]
    if isinstance(kind, str) and kind in BUILT_INS:
        return built_in(kind, given, path, findings)
    near = hint_near(kind, BUILT_INS) if isinstance(kind, str) else None
    listed = f"(built in: {', '.join(BUILT_INS)}; your own: module:name)"
    hint = f"{near}  {listed}" if near else listed.strip("()")
    return findings.add((*path, "type"), f"unknown built-in evaluator {shown(kind)}", hint)


def _hint_of_kind(given: Mapping[str, Any], path: KeyPath) -> str:
    if len(given) == 1 and (kind := next(iter(given))) in BUILT_INS:
        return f"write {path[-1]}: {{type: {kind}, …}}"
    hint = f"type is one of {', '.join(BUILT_INS)}; python is module:name; judge names a model"
    near = next(filter(None, (nearest(key, ("type", "python", *JUDGES)) for key in given)), None)
    return f"did you mean {quoted(near)}?  ({hint})" if near else hint


def _judge(
    kind: str, given: Mapping[str, Any], path: KeyPath, models: Models, findings: Findings
) -> JudgeSection | None:
    """Return an evaluator that asks a model, checked; None if it is invalid."""
    if not _knows(given, [kind, *keys_of(JUDGES[kind])], SCALE_KEYS, path, findings):
        return None
    prompts = only_one(("prompt", _PROMPT_FILE, "of"), given, path, findings)
    if prompts[1:]:
        return None
    told = with_prompt(given, path, findings)
    parameters = inspect.signature(JUDGES[kind]).parameters.values()
    needed = [each.name for each in parameters if each.default is each.empty]
    missing = [name for name in needed if name not in (*told, *_NOT_IN_FILES)]
    for key in missing:
        findings.add(path, f"needs {'prompt or prompt_file' if key == 'prompt' else key}")
    if "against" in told:
        told["against"] = _answers(told["against"], (*path, "against"), findings)
    if missing or None in (told.get("prompt", ""), told.get("against", "")):
        return None
    section = JudgeSection(kind, told, path, prompts[0] if prompts else kind)
    return section if section.created(models, findings) is not None else None


def _answers(run: Any, path: KeyPath, findings: Findings) -> Any:
    """Return the answers of another run; report a missing run."""
    if not isinstance(run, str):
        return findings.add(path, f"must be the directory of a run, not {shown(run)}")
    try:
        return answers_of(located(run, findings.folder))
    except LimpetError as error:
        flaw = getattr(error, "flaw", text_of(error))
        return findings.add(path, one_line(flaw), error.hint)


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
    others = SCALE_KEYS if key_of_kind == "type" else ()
    if not _knows(given, [key_of_kind, *keys_of(BUILT_INS[kind])], others, path, findings):
        return None
    arguments = {key: value for key, value in given.items() if key != key_of_kind}
    try:
        return BUILT_INS[kind](**typed(arguments))
    except LimpetError as error:  # an extra that is not installed
        return findings.add(path, one_line(text_of(error)), error.hint)
    except Exception as error:  # noqa: BLE001 - its message is for the user
        return report_argument(kind, error, arguments, path, findings)


def _knows(
    given: Mapping[str, Any],
    known: list[str],
    others: Sequence[str],
    path: KeyPath,
    findings: Findings,
) -> bool:
    """Return whether all keys are known; report unknown ones."""
    wrong = [key for key in given if key not in known]
    for key in wrong:
        findings.add_key((*path, key), *unknown_key((*path, key), [*known, *others]))
    return not wrong
