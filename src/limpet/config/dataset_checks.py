"""Do the files of a configuration exist, and is its filter valid?

Relative paths start at the folder of the configuration, not at the current directory.

The short form of a filter is `{lang: en}` or `{lang: [en, fr]}`; the long form is
`{allow: {…}, deny: {…}}`, as in `limpet.Dataset`. Values are compared as strings, so a number must
be written as in the dataset: `1.10`, which YAML reads as 1.1, is rejected: it would never match.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limpet.config.environment import Substituted, shown, written_as
from limpet.config.errors import Findings, KeyPath, Tree
from limpet.datasets import Dataset, LoadedDataset
from limpet.datasets.columns import MissingColumnError, no_column
from limpet.datasets.sources import FILE_HINT, NOT_A_FILE, SUFFIXES, expanded
from limpet.text import hint_near, nearest_file, one_line, quoted

# ---- Does the dataset have the columns that the file names? -------------------------------------
#
# This is known only when the dataset is read, after the file was checked. A missing column is still
# reported with the line that names it.

Columns = Sequence[tuple[KeyPath, str]]
"""Columns that the file names, each with its path."""


@dataclass(frozen=True)
class ConfiguredDataset(Dataset):
    """The dataset of a configuration.

    Attributes:
        tree: The file.
        columns: Other columns that it names, each with its path; an empty name means the column
            of the expected answer.
    """

    tree: Tree = field(kw_only=True, repr=False)  # it may hold secrets
    columns: Columns = field(default=(), kw_only=True)

    def load(self) -> LoadedDataset:
        """Read the dataset.

        Raises:
            ConfigError: It lacks a column that the file names.
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
            if not column and loaded.roles.expected is None:
                text = f"shows {{{{expected}}}}, but {no_column('for it', loaded.columns)}"
                findings.add(path, text, "name the column of expected answers: dataset.expected")
            elif column and column not in loaded.columns:
                hint = hint_near(column, loaded.columns)
                if hint is None and path[0] == "evaluators" and path[-1] == "of":
                    hint = f'map it to a column: inputs: {{{column}: "{{{{COLUMN}}}}"}}'
                findings.add(path, no_column(quoted(column), loaded.columns), hint)
        findings.raise_any()
        return loaded


# ---- Do the files of a configuration exist, and is its filter valid? ----------------------------

_SIDES = ("allow", "deny")


def located(text: str, folder: Path) -> Path:
    """Return an absolute path for a path in the file."""
    return Path(folder, expanded(Path(str(text))))


def check_dataset(dataset: Any, findings: Findings) -> None:
    """Report a dataset file that does not exist or cannot be read."""
    text = dataset.get("path") if isinstance(dataset, dict) else None
    if text is None and isinstance(dataset, dict) and dataset.get("sheet") is not None:
        findings.add(("dataset", "sheet"), "only an .xlsx file has sheets")
    if not isinstance(text, str) or not text.strip():
        return  # none, or not a path: reported elsewhere
    at = ("dataset", "path")
    path, name = located(text, findings.folder), one_line(written_as(text))
    suffix = path.suffix.lower()
    if not path.exists():
        findings.add(at, f"{name} does not exist", hint_of_missing(text, path))
    elif path.is_dir():
        findings.add(at, f"{name} is a directory", "name one of the files in it")
    elif not path.is_file():
        findings.add(at, f"{name} {NOT_A_FILE}", FILE_HINT)
    elif suffix not in SUFFIXES:
        text = f"{name} has an unsupported file type; supported: {', '.join(SUFFIXES)}"
        hint = "rename the file if it is one of these, or load the rows with a function: python:"
        findings.add(at, text, hint)
    elif dataset.get("sheet") is not None and suffix != ".xlsx":
        findings.add(("dataset", "sheet"), "only an .xlsx file has sheets")
    for name in ("delimiter", "encoding") if suffix in SUFFIXES else ():
        if dataset.get(name) is not None and suffix not in (".csv", ".tsv"):
            findings.add(("dataset", name), "only a .csv or .tsv file has one")


def hint_of_missing(text: str, path: Path) -> str:
    """Return a hint for a file that does not exist: the likely one next to it."""
    try:
        near = nearest_file(path)
    except (OSError, ValueError):
        return "paths are relative to this file; that folder does not exist either"
    if near:
        folder = "" if isinstance(text, Substituted) else text.rpartition("/")[0]
        return f"did you mean {one_line(f'{folder}/{near}' if folder else near)}?"
    if ":" in text and not isinstance(text, Substituted):
        return f"for a function that returns the rows: dataset: {{python: '{one_line(text)}'}}"
    return "paths are relative to this file"


def check_directory(text: Any, path: KeyPath, folder: Path, findings: Findings) -> None:
    """Report a path that must be a directory but is a file."""
    if isinstance(text, str) and located(text, folder).is_file():
        findings.add(path, f"{one_line(written_as(text))} is a file, not a directory")


def check_filter(dataset: Any, findings: Findings) -> dict[str, Any] | None:
    """Return the long form of a dataset's filter, and report its problems."""
    spec, at = dataset.get("filter") if isinstance(dataset, dict) else None, ("dataset", "filter")
    if not isinstance(spec, dict):
        return None  # empty, or not a mapping: reported elsewhere
    if not set(spec) & set(_SIDES):
        return {"allow": checked_side(spec, at, findings)}
    for key in spec:
        if key not in _SIDES:
            hint = f"put {quoted(key)} under allow or deny"
            findings.add((*at, key), "cannot be used with allow or deny", hint)
    sides = [side for side in _SIDES if spec.get(side) is not None]
    return {side: checked_side(spec[side], (*at, side), findings) for side in sides}


def checked_side(columns: Any, path: KeyPath, findings: Findings) -> dict[str, list[Any]]:
    """Return the values of each column, and report their problems."""
    if not isinstance(columns, dict):
        findings.add(path, f"must be a mapping of columns to values, not {shown(columns)}")
        return {}
    by_column = {}
    for column, wanted in columns.items():
        several = wanted if isinstance(wanted, list) else [wanted]
        if not several:
            findings.add((*path, column), "must not be an empty list: no value would match")
        for number, value in enumerate(several):
            at = (*path, column, number) if isinstance(wanted, list) else (*path, column)
            _check_value(value, at, findings)
        by_column[column] = [
            str(value) if isinstance(value, Substituted) else value for value in several
        ]
    return by_column


def _check_value(value: Any, path: KeyPath, findings: Findings) -> None:
    written = findings.tree.written.get(path, "")
    if isinstance(value, (dict, list)):
        text = f"must be a value or a list of values, not {shown(value)}"
        findings.add(path, text, "in full: filter: {allow: {column: [values]}, deny: {…}}")
    elif _is_number(value) and (not math.isfinite(value) or json.dumps(value) != written):
        hint = f"put it in quotes, '{written}', or write it as the dataset has it"
        findings.add(path, f"YAML reads {written} as {shown(value)}", hint)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
