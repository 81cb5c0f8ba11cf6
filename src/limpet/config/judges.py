"""Which evaluators of the file ask a model, and are their arguments valid?

`{judge: NAME, …}` is `limpet.judge` with the model of this name; the other keys are its arguments.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limpet.config.checking import report_argument, unknown_key
from limpet.config.dataset_checks import located
from limpet.config.environment import shown, typed
from limpet.config.errors import Findings
from limpet.config.models import Models, named_model
from limpet.config.prompts import with_prompt
from limpet.config.scales import SCALE_KEYS
from limpet.config.yaml_file import KeyPath
from limpet.errors import LimpetError
from limpet.evaluators import embedding_similarity, judge, rating, rubric
from limpet.evaluators.protocol import Evaluator, flaw_of_name
from limpet.models import Model
from limpet.run.reading.loaded_run import answers_of, pairwise
from limpet.text import one_line

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
