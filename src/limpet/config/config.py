"""What was asked for, once the file has been read and checked?"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limpet.config.file_checks import located
from limpet.config.findings import Findings
from limpet.config.model import Shape
from limpet.config.options import options_of
from limpet.config.preparing import (
    prepared_dataset,
    prepared_declaration,
    prepared_evaluators,
    prepared_workflow,
)
from limpet.config.short_forms import SHORT_KINDS
from limpet.config.tree import Tree
from limpet.run.api import EvaluationOptions
from limpet.secrets.in_configs import Literals, each_word, without_query


@dataclass(frozen=True)
class Prepared:
    """What `limpet.evaluate` takes."""

    dataset: Any
    workflow: Any
    evaluators: Mapping[str, Any]
    options: EvaluationOptions


class Config:
    """A configuration that was checked, and of which nothing has been imported yet.

    Attributes:
        path: The file, absolute.
        name: What the evaluation is called.
        run: The run's directory, absolute.
        trials: How often each item is asked.
        public: The configuration as it is written, with what `--set` said, and without the values
            of the environment: fit to be kept on disk.
    """

    def __init__(
        self,
        path: Path,
        shape: Shape,
        tree: Tree,
        keep: Mapping[str, Any] | None,
        scorers: Mapping[str, Any],
        secrets: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.name = str(shape.name) if shape.name is not None else _name_of(path)
        directory = Path("runs", self.name) if shape.output.dir is None else shape.output.dir
        self.run = located(str(directory), path.parent)
        self.trials = shape.trials
        self.public: dict[str, Any] = _without_secrets(tree.data)
        self._shape = shape
        self._tree = tree
        self._keep = keep
        self._scorers = scorers
        self._secrets = list(secrets)

    def __repr__(self) -> str:
        return f"<Config {self.name}: {self.path}>"

    def prepare(self) -> Prepared:
        """Import what the file names, and check it.

        Raises:
            ConfigError: Something cannot be imported, or is not what it should be.
        """
        findings, folder = Findings(self._tree), self.path.parent
        dataset = prepared_dataset(self._shape.dataset, folder, findings)
        workflow = prepared_workflow(self._shape.workflow, folder, findings)
        evaluators = prepared_evaluators(self._scorers, folder, findings)
        declared = prepared_declaration(self._shape.workflow, folder, findings)
        findings.raise_any()
        options = options_of(self._shape, self._keep)
        if declared is not None:
            options["depends_on"] = declared
        if self._secrets:
            options["secrets"] = self._secrets
        return Prepared(dataset, workflow, evaluators, options)


def _name_of(path: Path) -> str:
    return (path.parent.name if path.stem == "eval" else path.stem) or "eval"


def _without_secrets(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the file says, with the literal secrets of its workflow and evaluators masked."""
    literals = Literals(data.get("workflow"), data.get("evaluators"))
    public = deepcopy(dict(data))
    for section in {"workflow", "evaluators"} & data.keys():
        public[section] = each_word(data[section], literals.masked)
    workflow: Any = public.get("workflow")
    for kind, address in SHORT_KINDS.items() if isinstance(workflow, dict) else ():
        if isinstance(workflow.get(kind), str):
            workflow[kind] = without_query(workflow[kind])
        elif kind in workflow:
            workflow[kind][address] = without_query(workflow[kind][address])
    return public
