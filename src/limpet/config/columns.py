"""Does the dataset have the columns that the file names?

That is known when the dataset has been read, after the file was checked. A missing column is still
reported with the line that names it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from limpet.config.errors import Findings
from limpet.config.model import WorkflowSection
from limpet.config.yaml_file import KeyPath, Tree
from limpet.datasets import Dataset, LoadedDataset
from limpet.datasets.columns import MissingColumnError, no_column
from limpet.templates import OF_ITEM, names_in
from limpet.text import hint_near, quoted


@dataclass(frozen=True)
class ConfiguredDataset(Dataset):
    """The dataset of a configuration.

    Attributes:
        tree: The file.
        columns: Other columns that it names, each with its path.
    """

    tree: Tree = field(kw_only=True, repr=False)  # it may hold secrets
    columns: tuple[tuple[KeyPath, str], ...] = field(default=(), kw_only=True)

    def load(self) -> LoadedDataset:
        """Read the dataset.

        Raises:
            ConfigError: It does not have a column that the file names.
            DatasetError: The source or a row cannot be used, or no row is left.
        """
        findings = Findings(self.tree)
        try:
            loaded = super().load()
        except MissingColumnError as error:
            findings.add(("dataset", *error.argument), error.flaw, error.hint)
            findings.raise_any()
            raise
        for path, column in self.columns:
            if column not in loaded.columns:
                hint = hint_near(column, loaded.columns)
                findings.add(path, no_column(quoted(column), loaded.columns), hint)
        findings.raise_any()
        return loaded


def columns_of_evaluators(evaluators: Mapping[str, Any]) -> tuple[tuple[KeyPath, str], ...]:
    """Return the columns that evaluators name, each with its path."""
    named = [
        (("evaluators", name, "expected_column"), evaluator.get("expected_column"))
        for name, evaluator in evaluators.items()
        if isinstance(evaluator, dict)
    ]
    return tuple((path, str(column)) for path, column in named if column is not None)


def columns_of_placeholders(section: WorkflowSection) -> tuple[tuple[KeyPath, str], ...]:
    """Return the columns that the placeholders of a workflow name, each with its path."""
    templates: dict[KeyPath, Any] = {}
    if section.http is not None:
        at = ("workflow", "http")
        templates = {(*at, "url"): section.http.url, (*at, "body"): section.http.body}
    elif section.command is not None:
        templates = {("workflow", "command", "argv"): section.command.argv}
    named = [
        ((*at, *path), column)
        for at, template in templates.items()
        for path, column in names_in(template)
    ]
    return tuple((path, column) for path, column in named if column not in OF_ITEM)
