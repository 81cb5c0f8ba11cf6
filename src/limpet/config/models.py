"""Which models does the file name, and can they be asked?

A model of a server is created here, so that a wrong argument is reported with its line. A model in
Python is imported by `preparing`; until then, another stands in for it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from limpet import models as clients
from limpet.config.checking import checked, report_argument
from limpet.config.environment import Substituted, shown, typed
from limpet.config.errors import Findings
from limpet.config.model import ModelSection, PromptSection
from limpet.config.short_forms import long_model
from limpet.config.yaml_file import KeyPath
from limpet.errors import LimpetError
from limpet.models import Message, Model, Reply
from limpet.text import hint_near, quoted

Models = Mapping[str, Model | None]
"""Models by name; None: it is wrong, which has been reported."""
EXAMPLE = "{openai: http://localhost:11434/v1, model: llama3.3}"
_VARIABLE = re.compile(r"\$\{\w+\}")
SETTINGS = [name for name in ModelSection.model_fields if name not in ("openai", "model", "python")]
"""How the model of a server is called."""


class NotImported(Model):
    """Stands in for a model in Python while the file is checked."""

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
        must = f"must be a mapping with openai and model, or module:name, not {shown(value)}"
        findings.add(path, must, f"for example {EXAMPLE}")
        return None
    section = checked(ModelSection, given, path, findings)
    if section is None:
        return None
    if section.python is None:
        return created_client(section, given, path, findings)
    if others := [key for key in given if key != "python"]:
        text = "cannot be used with python: a model of your own has its own settings"
        findings.add((*path, others[0]), text)
        return None
    return NotImported(str(path[-1]), section.python)


def created_client(
    section: ModelSection | PromptSection,
    given: Mapping[str, Any],
    path: KeyPath,
    findings: Findings,
) -> Model | None:
    """Return the model of a server; None if something is wrong with it.

    Args:
        section: Its section.
        given: The same as in the file.
        path: Its path in the file.
        findings: Collects the problems.
    """
    for key in ("openai", "model"):
        if getattr(section, key) is None:
            findings.add(path, f"needs {key}", f"for example {EXAMPLE}")
            return None
    arguments = {"key": None, **set_values(section, SETTINGS)}
    if isinstance(given.get("key"), Substituted) and _VARIABLE.fullmatch(given["key"].written):
        arguments["key"] = given["key"].written  # so that errors name it
    if path[0] == "models":
        arguments["name"] = str(path[-1])
    try:
        return clients.openai_api(str(section.openai), model=str(section.model), **arguments)
    except (LimpetError, TypeError, ValueError) as error:
        report_argument("openai", error, given, path, findings, {"base_url": "openai"})
        return None


def set_values(section: ModelSection | PromptSection, names: Sequence[str]) -> dict[str, Any]:
    """Return the values that a section sets, without how they were written, by name."""
    values = {name: getattr(section, name) for name in names if name in section.model_fields_set}
    return {
        name: str(value) if isinstance(value, str) else typed(value)
        for name, value in values.items()
        if value is not None
    }


def named_model(name: str, path: KeyPath, models: Models, findings: Findings) -> Model | None:
    """Return a model by its name; report it if the file has none of this name."""
    if name in models:
        return models[name]
    listed = f"models has {', '.join(models)}" if models else f"add models: {{{name}: {EXAMPLE}}}"
    near = hint_near(name, models)
    findings.add(path, f"no model {quoted(name)}", f"{near}  ({listed})" if near else listed)
    return None
