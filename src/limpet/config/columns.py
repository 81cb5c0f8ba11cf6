"""Does the dataset have the columns that the file names?

That is known when the dataset has been read, after the file was checked. A missing column is still
reported with the line that names it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from limpet.config.errors import Findings
from limpet.config.model import PromptSection, PythonEvaluator, WorkflowSection
from limpet.config.yaml_file import KeyPath, Tree
from limpet.datasets import Dataset, LoadedDataset
from limpet.datasets.columns import MissingColumnError, no_column
from limpet.templates import OF_ITEM, names_in
from limpet.text import hint_near, quoted

Columns = tuple[tuple[KeyPath, str], ...]
"""Columns that the file names, each with its path."""
OF_SCORED = (*OF_ITEM, "output", "trace")
"""Placeholders of everything that is scored."""


@dataclass(frozen=True)
class ConfiguredDataset(Dataset):
    """The dataset of a configuration.

    Attributes:
        tree: The file.
        columns: Other columns that it names, each with its path.
        expecting: The paths of prompts that show the expected answer.
    """

    tree: Tree = field(kw_only=True, repr=False)  # it may hold secrets
    columns: Columns = field(default=(), kw_only=True)
    expecting: tuple[KeyPath, ...] = field(default=(), kw_only=True)

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
                if hint is None and path[0] == "evaluators" and path[-1] == "of":
                    hint = f'say what fills it: inputs: {{{column}: "{{{{COLUMN}}}}"}}'
                findings.add(path, no_column(quoted(column), loaded.columns), hint)
        for path in self.expecting if loaded.roles.expected is None else ():
            text = f"shows {{{{expected}}}}, but {no_column('for it', loaded.columns)}"
            findings.add(path, text, "name the column of expected answers: dataset.expected")
        findings.raise_any()
        return loaded


def columns_of_evaluators(evaluators: Mapping[str, Any]) -> Columns:
    """Return the columns that evaluators name, each with its path."""
    named = [
        (("evaluators", name, key), evaluator.get(key))
        for name, evaluator in evaluators.items()
        if isinstance(evaluator, dict)
        for key in ("expected_column", "group")
    ]
    return tuple((path, str(column)) for path, column in named if column is not None)


def columns_of_placeholders(section: WorkflowSection | PromptSection) -> Columns:
    """Return the columns that the placeholders of a workflow name, each with its path."""
    at: KeyPath = ("workflow",)
    templates: list[tuple[str, Any]]
    if isinstance(section, PromptSection):
        key = "prompt" if section.prompt_file is None else "prompt_file"
        templates = [(key, section.prompt)]
        templates += [(key, getattr(section, key)) for key in ("messages", "images", "files")]
    elif section.http is not None:
        at, templates = (*at, "http"), [("url", section.http.url), ("body", section.http.body)]
    elif section.command is not None:
        at, templates = (*at, "command"), [("argv", section.command.argv)]
    else:
        return ()
    return _columns_in(templates, at, OF_ITEM)


def columns_of_inputs(evaluators: Mapping[str, Any]) -> Columns:
    """Return the columns that the `inputs` of evaluators name, each with its path."""
    columns: Columns = ()
    for name, section in evaluators.items():
        if isinstance(section, PythonEvaluator):
            columns += _columns_in([("inputs", section.inputs)], ("evaluators", name), OF_SCORED)
    return columns


def _columns_in(
    templates: Iterable[tuple[str, Any]], at: KeyPath, others: Collection[str]
) -> Columns:
    named = [
        ((*at, key, *path), name)
        for key, template in templates
        for path, name in names_in(template)
    ]
    return tuple((path, name) for path, name in named if name not in others)
