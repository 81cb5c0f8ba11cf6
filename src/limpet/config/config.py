"""How does an eval.yml become a configuration?

Read the YAML, apply the command line, substitute the environment, expand the short forms, check.
Each step works on the result of the one before, and nothing is imported.
"""

import functools
import operator
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from limpet.config.checking import check_keys
from limpet.config.configuration import Configuration
from limpet.config.dataset_checks import (
    check_dataset,
    check_directory,
    check_filter,
    located,
)
from limpet.config.environment import Substituted, substitute
from limpet.config.errors import Findings, KeyPath, Tree, refuse
from limpet.config.evaluators import JudgeSection, check_evaluators, with_scale
from limpet.config.file_text import check_eval_yml, load_env_file, read_text
from limpet.config.matrix import MATRIX, Matrix, Variant, matrix_of
from limpet.config.model import PROVIDERS, EvalFile, PromptSection
from limpet.config.models import Models, check_models, check_workflow, prompt_workflow
from limpet.config.overrides import SHORT_KINDS, expanded, override, set_variant
from limpet.config.preparing import (
    columns_of,
    options_of,
    prepared_dataset,
    prepared_declaration,
    prepared_evaluators,
    prepared_judges,
    prepared_models,
    prepared_workflow,
)
from limpet.config.yaml_file import read_tree
from limpet.executors.async_executor import DEFAULT_TIMEOUT_S
from limpet.models import Model
from limpet.run.api import Arguments
from limpet.run.options import Run
from limpet.secrets.in_configs import Literals, each_word, hidden, without_query
from limpet.secrets.known import maskable
from limpet.text import one_line

_WITH_SECRETS = {"models", "workflow", "evaluators"}


class UsedModel(NamedTuple):
    """A model of a file.

    Attributes:
        name: Its name in the file; of the workflow's own, the model's.
        model: The model; a placeholder for one in Python.
        used_by: The steps that use it.
        embeds: Whether it is used for vectors only.
    """

    name: str
    model: Model
    used_by: Sequence[str]
    embeds: bool


@dataclass(repr=False, eq=False)
class Config(Configuration):
    """An eval.yml.

    Attributes:
        trials: How many times each item runs.
        public: The configuration as written, with `--set` applied but without values from the
            environment: safe to store.
    """

    path: Path
    _content: EvalFile
    _tree: Tree
    _keep: Mapping[str, Any] | None
    _models: Models
    _evaluators: Mapping[str, Any]
    _secrets: Sequence[str]

    def __post_init__(self) -> None:
        self.name = self._content.name or _name_of(self.path)
        self.run = located(self._content.run.path or f"runs/{self.name}", self.path.parent)
        self.trials = self._content.trials
        self.public: dict[str, Any] = _without_secrets(self._tree.data)
        self.is_named = "run" not in self.public

    def prepare(self) -> Arguments:
        findings = Findings(self._tree, self.path.parent)
        models = prepared_models(self._models, findings)
        with_judges = prepared_judges(self._evaluators, models, findings)
        columns = columns_of(self._content, self._evaluators, with_judges)
        dataset = prepared_dataset(self._content, self._keep, columns, findings)
        workflow = prepared_workflow(self._content, models, findings)
        evaluators = prepared_evaluators(with_judges, findings)
        declared = prepared_declaration(self._content.workflow, ("workflow",), findings)
        findings.raise_any()
        said = self._content.evaluators or {}
        evaluators = {name: with_scale(each, said.get(name)) for name, each in evaluators.items()}
        options = options_of(self._content)
        if declared is not None:
            options["depends_on"] = declared
        nat = self._content.output.nat
        if secrets := [*(self._content.secrets or ()), *maskable(self._secrets)]:
            options["secrets"] = secrets
        return Arguments(
            dataset,
            workflow,
            evaluators,
            Run(self.run, self._content.run.durability or "sync"),
            self.trials,
            options,
            known_secrets=self._secrets,
            nat_files=nat is not None,
            written_events=None if nat is None else nat.trace_filter,
            bare_outputs=nat is not None and bool(nat.bare),
            configuration=self.public,
            step_engines=self._engines(),
        )

    def models(self) -> list[UsedModel]:
        """Return the models of the file, and which steps use them. Nothing is imported."""
        used: dict[str, list[str]] = {name: [] for name in self._models}
        models = {name: model for name, model in self._models.items() if model is not None}
        if isinstance(section := self._content.workflow, PromptSection):
            data, findings = self._tree.data["workflow"], Findings(self._tree, self.path.parent)
            given = substitute(data, lambda path, *_: _as_written(data, path))
            flow: Any = prompt_workflow(section, given, models, self._content.dataset, findings)
            known = [name for name, model in models.items() if model is flow.model]
            name = known[0] if known else flow.model.name
            used.setdefault(name, []).append("workflow")
            models[name] = flow.model
        embeds = dict.fromkeys(models, False)
        for step, judge in self._evaluators.items():
            if isinstance(judge, JudgeSection):
                named = judge.given[judge.kind]
                for name in [named] if isinstance(named, str) else named:
                    embeds[name] = not used[name] and judge.kind == "embedding_similarity"
                    used[name].append(step)
        return [UsedModel(name, each, used[name], embeds[name]) for name, each in models.items()]

    def imported(self, model: Model) -> Model:
        """Return a model; one in Python is imported.

        Raises:
            ConfigError: It cannot be imported.
        """
        findings = Findings(self._tree, self.path.parent)
        found = prepared_models({model.name: model}, findings)[model.name]
        findings.raise_any()
        assert found is not None
        return found

    @property
    def timeout_s(self) -> float:
        """How long a call may take."""
        return self._content.timeout or DEFAULT_TIMEOUT_S

    def _engines(self) -> dict[str, Any]:
        """Return the engines of single steps, by the step's name."""
        sections: dict[str, Any] = {"workflow": self._content.workflow, **self._evaluators}
        engines = {name: getattr(section, "engine", None) for name, section in sections.items()}
        return {name: engine for name, engine in engines.items() if engine is not None}


def load_config(
    path: str | Path,
    overrides: Sequence[str] = (),
    variant: Variant | None = None,
    *,
    needs_keys: bool = True,
) -> Config:
    """Read an `eval.yml` and check it. Nothing that it names is imported yet.

    Args:
        path: The file.
        overrides: Values that replace those of the file, each as "path=value".
        variant: The variant to read, if the file has a matrix.
        needs_keys: Whether a model's key that is not set in the environment is a problem.

    Raises:
        ConfigError: The file is invalid. The message lists each problem with its line.
    """
    file, tree = Path(path), _read(path, overrides)
    if variant is not None:
        set_variant(tree, variant.values)
    elif tree.data.get(MATRIX) is not None:
        hint = "name the run of one variant, or drop the matrix: --set matrix=null"
        refuse(tree.key_location((MATRIX,)), "the file has a matrix; this needs one run", hint)
    tree.data.pop(MATRIX, None)
    # Resolve the folder, which may be `..`, but not a link to the file.
    file = file.parent.resolve() / file.name
    if isinstance(env_file := tree.data.get("env_file"), str) and env_file.strip():
        load_env_file(located(env_file, file.parent), one_line(env_file))
    findings = Findings(tree, file.parent)

    def say(path: KeyPath, text: str, hint: str) -> Any:
        if not needs_keys and {"key", "keys"} & set(path[1:]) and path[0] in _WITH_SECRETS:
            return _as_written(tree.data, path)
        return findings.add(path, text, hint, final=True)

    data = expanded(substitute(tree.data, say))
    content = check_keys(data, findings)
    models = check_models(data.get("models"), findings)
    content = check_workflow(content, data.get("workflow"), models, findings)
    keep = check_filter(data.get("dataset"), findings)
    evaluators = check_evaluators(data.get("evaluators"), models, findings)
    check_dataset(data.get("dataset"), findings)
    run = data.get("run", {}).get("path")
    check_directory(run, ("run", "path"), file.parent, findings)
    findings.raise_any()
    assert content is not None
    # Not in the dataset: one of its columns may be called `token`.
    secrets = Literals(*map(data.get, _WITH_SECRETS)).keys
    config = Config(file, content, tree, keep, models, evaluators, secrets)
    if variant is not None:
        config.run /= variant.name
    return config


def _as_written(data: Any, path: KeyPath) -> Substituted:
    """Return a value whose variable is not set: its text in the file."""
    written = str(functools.reduce(operator.getitem, path, data))
    return Substituted(written, written, written)


def load_matrix(path: str | Path, overrides: Sequence[str] = ()) -> Matrix | None:
    """Return the variants that an `eval.yml` describes; None if it has no matrix.

    Raises:
        ConfigError: The file cannot be read, or its matrix is invalid.
    """
    return matrix_of(_read(path, overrides), [text.partition("=")[0] for text in overrides])


def _read(path: str | Path, overrides: Sequence[str]) -> Tree:
    tree = read_tree(read_text(Path(path), one_line(str(path))), one_line(str(path)))
    check_eval_yml(tree)
    for text in overrides:
        override(tree, text)
    return tree


def _name_of(path: Path) -> str:
    return (path.parent.name if path.stem == "eval" else path.stem) or "eval"


def _without_secrets(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with its literal secrets masked."""
    literals = Literals(*map(data.get, _WITH_SECRETS))
    public = deepcopy(dict(data))
    if isinstance(public.get("secrets"), list):
        public["secrets"] = [hidden(str(secret)) for secret in public["secrets"]]
    for section in _WITH_SECRETS & data.keys():
        public[section] = each_word(data[section], literals.masked)
    workflow: Any = public.get("workflow")
    for kind, address in SHORT_KINDS.items() if isinstance(workflow, dict) else ():
        if kind == "command":
            continue  # no address
        if isinstance(workflow.get(kind), str):
            workflow[kind] = without_query(workflow[kind])
        elif kind in workflow:
            workflow[kind][address] = without_query(workflow[kind][address])
    models = public.get("models")
    clients = [workflow, *(models.values() if isinstance(models, dict) else ())]
    for client in clients:
        if isinstance(client, dict):
            _mask_client(client)
    return public


def _mask_client(client: dict[str, Any]) -> None:
    """Mask what a section with a provider may hold: a user in the address, a key's default."""
    for name in [name for name in PROVIDERS if name in client]:
        if isinstance(client[name], str):
            client[name] = without_query(client[name])
        if isinstance(client.get("key"), str):
            client["key"] = hidden(client["key"])
        if isinstance(client.get("keys"), list):
            client["keys"] = [hidden(str(key)) for key in client["keys"]]
