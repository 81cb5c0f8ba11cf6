"""What was asked for, once the file has been read and checked?"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from limpet.config.credentials import hidden, without_credentials
from limpet.config.file_checks import located
from limpet.config.findings import Findings
from limpet.config.model import Shape
from limpet.config.options import dataset_of, options_of
from limpet.config.preparing import (
    prepared_dataset,
    prepared_declaration,
    prepared_evaluators,
    prepared_workflow,
)
from limpet.config.tree import Tree
from limpet.run.api import Prepared
from limpet.run.options import Run


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
        directory = Path("runs", self.name) if shape.run.path is None else shape.run.path
        self.run = located(str(directory), path.parent)
        self.trials = shape.trials
        self.public: dict[str, Any] = without_credentials(deepcopy(tree.data))
        if isinstance(self.public.get("secrets"), list):
            self.public["secrets"] = [hidden(str(secret)) for secret in self.public["secrets"]]
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
        options = options_of(self._shape)
        if declared is not None:
            options["depends_on"] = declared
        secrets, output = self._shape.secrets, self._shape.output
        if secrets is False:
            options["secrets"] = False
        elif secrets or self._secrets:
            options["secrets"] = [*map(str, secrets or ()), *self._secrets]
        return Prepared(
            dataset_of(dataset, self._shape, self._keep),
            workflow,
            evaluators,
            Run(self.run, self._shape.run.durability or "sync"),
            self.trials,
            options,
            known_secrets=self._secrets,
            step_filter=output.step_filter,
            bare_outputs=bool(output.bare),
            configuration=self.public,
        )


def _name_of(path: Path) -> str:
    return (path.parent.name if path.stem == "eval" else path.stem) or "eval"
