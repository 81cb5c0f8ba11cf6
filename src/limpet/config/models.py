"""Which models does the file name, and are their arguments valid?

A model on a server is created here, so that a wrong argument is reported with its line. A model in
Python is imported by `preparing`; until then, a placeholder replaces it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from limpet import models as clients
from limpet import workflows
from limpet.config.checking import checked, only_one, report_argument
from limpet.config.dataset_checks import hint_of_missing, located
from limpet.config.environment import Substituted, shown, written_as
from limpet.config.errors import Findings, KeyPath
from limpet.config.model import (
    CONVERSATIONS,
    PROVIDERS,
    DatasetSection,
    EvalFile,
    ModelSection,
    PromptSection,
    workflow_section,
)
from limpet.config.overrides import long_model
from limpet.errors import LimpetError
from limpet.models import Message, Model, Reply
from limpet.text import hint_near, nearest, one_line, quoted
from limpet.workflows import Workflow

Models = Mapping[str, Model | None]
"""Models by name; None: invalid, and reported."""
EXAMPLE = "{openai: http://localhost:11434/v1, model: llama3.3}"
_VARIABLE = re.compile(r"\$\{\w+\}")
SETTINGS = [
    name for name in ModelSection.model_fields if name not in (*PROVIDERS, "model", "python")
]
"""The keys of calls to a model on a server."""
_NEEDS_NO_KEY = ("openai", "ollama")
_OTHERS = (
    "for any other provider, use openai with its compatible address, LiteLLM's proxy, or "
    "python: module:name with a function of yours"
)
_ELSEWHERE = {"azure", "cohere", "groq", "huggingface", "mistral", "together", "vertex", "xai"}
"""Providers that people look for here, and that speak the OpenAI API somewhere."""


class NotImported(Model):
    """A placeholder for a model in Python while the file is checked."""

    def __init__(self, name: str, python: str) -> None:
        self.name = self.endpoint = name
        self.fingerprint = {"python": name}
        self.python = python

    async def ask(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, **params: Any
    ) -> Reply:
        raise NotImplementedError

    async def embed(self, texts: Sequence[str]) -> Any:
        raise NotImplementedError


def check_models(section: Any, findings: Findings) -> dict[str, Model | None]:
    """Return each model by its name."""
    return {
        name: _model(value, ("models", name), findings)
        for name, value in (section.items() if isinstance(section, dict) else ())
        if value is not None
    }


def _model(value: Any, path: KeyPath, findings: Findings) -> Model | None:
    given = long_model(value)
    if not isinstance(given, dict):
        must = f"must be a mapping with a provider and model, or module:name, not {shown(value)}"
        return findings.add(path, must, f"for example {EXAMPLE}")
    for other in _ELSEWHERE & given.keys():
        return findings.add((*path, other), f"there is no provider {other!r}", _OTHERS)
    section = checked(ModelSection, given, path, findings)
    if section is None:
        return None
    if section.python is None:
        return created_client(section, given, path, findings)
    if others := [key for key in given if key != "python"]:
        text = "cannot be used with python: a model of your own has its own settings"
        return findings.add((*path, others[0]), text)
    return NotImported(str(path[-1]), section.python)


def created_client(
    section: ModelSection | PromptSection,
    given: Mapping[str, Any],
    path: KeyPath,
    findings: Findings,
) -> Model | None:
    """Return the model of a server; None if it is invalid.

    Args:
        section: Its section.
        given: The same, as written in the file.
        path: Its path in the file.
        findings: Collects the problems.
    """
    kind = _provider_in(section, given, path, findings)
    if kind is None:
        return None
    address: Any = getattr(section, kind)
    arguments = section.given(*SETTINGS)
    if kind in _NEEDS_NO_KEY and "keys" not in arguments:
        arguments.setdefault("key", None)
    if kind != "openai" and arguments.pop("api", None) is not None:
        return findings.add((*path, "api"), "works only with openai")
    for name in ("key", "keys"):  # as written, so that errors name the variables
        if name in given:
            arguments[name] = _as_written(given[name])
            given = {**given, name: arguments[name]}
    if path[0] == "models":
        arguments["name"] = str(path[-1])
    api = "openai" if arguments.pop("api", "chat") == "chat" else "responses"
    try:
        return clients.provider_api(
            api if kind == "openai" else kind,
            None if address is True else str(address),
            model=str(section.model),
            **arguments,
        )
    except (LimpetError, TypeError, ValueError) as error:
        return report_argument(kind, error, given, path, findings, {"base_url": kind})


def _provider_in(
    section: ModelSection | PromptSection,
    given: Mapping[str, Any],
    path: KeyPath,
    findings: Findings,
) -> str | None:
    """Return the one provider of a section that has all it needs; else report what is wrong."""
    named = {name: getattr(section, name) for name in PROVIDERS}
    kinds = only_one(PROVIDERS, {name: 1 for name, value in named.items() if value}, path, findings)
    if not kinds and "openai" in given:
        must = "needs the address of a server"
        return findings.add((*path, "openai"), must, f"for example {EXAMPLE}")
    if not kinds:
        one_of = f"needs {', '.join(PROVIDERS[:-1])} or {PROVIDERS[-1]}"
        return findings.add(path, one_of, f"for example {EXAMPLE}; {_OTHERS}")
    if section.model is None:
        return findings.add(path, "needs model", f"for example {EXAMPLE}")
    return kinds[0] if len(kinds) == 1 else None


def _as_written(value: Any) -> Any:
    """Return a key, or keys, as variables where they are nothing else."""
    if isinstance(value, list):
        return [_as_written(one) for one in value]
    if isinstance(value, Substituted):
        return value.written if _VARIABLE.fullmatch(value.written) else str(value)
    return value


def named_model(name: str, path: KeyPath, models: Models, findings: Findings) -> Model | None:
    """Return a model by its name; report an unknown name."""
    if name in models:
        return models[name]
    listed = f"models has {', '.join(models)}" if models else f"add models: {{{name}: {EXAMPLE}}}"
    near = hint_near(name, models)
    hint = f"{near}  ({listed})" if near else listed
    return findings.add(path, f"no model {quoted(name)}", hint)


# ---- Which prompt is evaluated, and by which model is it answered? ------------------------------

PROMPT_KEYS = [field.alias or name for name, field in PromptSection.model_fields.items()]
_AT = ("workflow",)
_EXAMPLE = 'workflow: {openai: http://localhost:11434/v1, model: llama3.3, prompt: "{{question}}"}'
_OWN = ("prompt", "messages", "images", "files", "version")


def _read_prompt(text: Any, path: KeyPath, findings: Findings) -> str | None:
    """Return the content of a prompt's file; if it cannot be read, report why."""
    if not isinstance(text, str) or not text.strip():
        return findings.add(path, f"must be a path, not {shown(text)}")
    file, name = located(text, findings.folder), one_line(written_as(text))
    if file.exists() and not file.is_file():  # reading a device or a pipe may never end
        return findings.add(path, f"{name} is not a file")
    try:
        content = file.read_text(encoding="utf-8-sig").removesuffix("\n")  # the editor's
    except FileNotFoundError:
        return findings.add(path, f"{name} does not exist", hint_of_missing(text, file))
    except (OSError, ValueError) as error:
        why = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else "cannot be read"
        return findings.add(path, f"{name} {why}", cause=error)
    return content if content.strip() else findings.add(path, f"{name} is empty")


def with_prompt(given: Mapping[str, Any], path: KeyPath, findings: Findings) -> dict[str, Any]:
    """Return a mapping with the content of its `prompt_file` as `prompt`."""
    if given.get("prompt_file") is None:
        return dict(given)
    rest = {key: value for key, value in given.items() if key != "prompt_file"}
    prompt = _read_prompt(given["prompt_file"], (*path, "prompt_file"), findings)
    return {**rest, "prompt": prompt}


def _check_together(given: Mapping[str, Any], findings: Findings) -> None:
    """Report contradictions in a workflow that is a prompt."""
    if not any(nearest(key, (*PROVIDERS, "model")) for key in given):
        findings.add(_AT, "needs model, or a provider and model", f"write {_EXAMPLE}")
    told = only_one(CONVERSATIONS, given, _AT, findings)
    misspelt = any(nearest(key, CONVERSATIONS) for key in given if key not in PROMPT_KEYS)
    if not told and not misspelt:
        findings.add(_AT, "needs prompt, prompt_file or messages", f"write {_EXAMPLE}")
    for key in given if not given.keys() & set(PROVIDERS) else ():
        if key in SETTINGS and key != "params":
            hint = f"put it under models.{one_line(str(given.get('model')))}"
            findings.add((*_AT, key), "works only with a provider, like openai", hint)


def check_workflow(
    content: EvalFile | None, given: Any, models: Models, findings: Findings
) -> EvalFile | None:
    """Check a workflow that is a prompt; return the file with the content of `prompt_file`.

    Args:
        content: The file; None: its keys are invalid.
        given: The workflow as in the file.
        models: The models of the file.
        findings: Collects the problems.
    """
    if workflow_section(given) is not PromptSection:
        return content
    _check_together(given, findings)
    told = with_prompt(given, _AT, findings)
    if content is None or not isinstance(content.workflow, PromptSection):
        return content
    section = content.workflow
    if told.get("prompt") is not None:
        section = section.model_copy(update={"prompt": told["prompt"]})
    content = content.model_copy(update={"workflow": section})
    is_told_once = sum(key in given for key in CONVERSATIONS) == 1
    if is_told_once and (section.prompt is not None or section.messages is not None):
        prompt_workflow(section, given, models, content.dataset, findings)
    return content


def prompt_workflow(
    section: PromptSection,
    given: Mapping[str, Any],
    models: Models,
    dataset: DatasetSection,
    findings: Findings,
) -> Workflow | None:
    """Return the workflow of a prompt; None if it is invalid.

    Args:
        section: Its section, with the content of `prompt_file` as `prompt`.
        given: The same, as written in the file.
        models: The models of the file.
        dataset: The dataset: its rows name images and files relative to its file.
        findings: Collects the problems.
    """
    model = None
    has_provider = any(getattr(section, name) for name in PROVIDERS)
    if has_provider:
        model = created_client(section, given, _AT, findings)
    elif section.model is not None:
        model = named_model(str(section.model), (*_AT, "model"), models, findings)
    if model is None:
        return None
    arguments = section.given(*_OWN, *(() if has_provider else ("params",)))
    if section.schema_ is not None:
        arguments["schema"] = section.schema_
    folder = located(dataset.path or "", findings.folder)
    folder = folder.parent if dataset.path else folder
    try:
        return workflows.openai(model=model, folder=folder, **arguments)
    except (LimpetError, TypeError, ValueError) as error:
        names = {} if section.prompt_file is None else {"prompt": "prompt_file"}
        return report_argument("openai", error, given, _AT, findings, names)
