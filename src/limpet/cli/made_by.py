"""Which file and flags made a run?

`limpet run` records them in `run.json`, so that `limpet why` can load the same configuration again.
Headers and other secrets do not affect identity and are left out.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from limpet.cli.shown_command import without_secrets
from limpet.config import load_config, load_matrix
from limpet.config.configuration import Configuration
from limpet.config.file_text import load_env_file, read_text
from limpet.config.matrix import Matrix, Variant
from limpet.config.yaml_file import read_tree
from limpet.integrations.kinds import KINDS, Kind
from limpet.secrets.in_configs import masked
from limpet.text import one_line

_RECORDED = ("no_evaluators", *(name for kind in KINDS for name in kind.RECORDED))


class MadeBy(NamedTuple):
    """The file and flags of a run.

    Attributes:
        file: An eval.yml, or a configuration of another kind.
        given: The flags of other kinds of configurations; None: not given.
        trials: How many times each item runs; None if the file says so.
        settings: The values of `--set`.
        variant: The variant, if the file has a matrix.
        env_file: A file of environment variables.
    """

    file: Path
    given: Mapping[str, Any]
    trials: int | None = None
    settings: tuple[str, ...] = ()
    variant: Variant | None = None
    env_file: Path | None = None

    def matrix(self) -> Matrix | None:
        """Return the variants that the file describes; None if it has no matrix.

        Raises:
            ConfigError: The file cannot be read, or its matrix is invalid.
        """
        return None if self._kind() else load_matrix(self.file, self._overrides())

    def _kind(self) -> Kind | None:
        """Return the kind of the file; None: an eval.yml."""
        shown = one_line(str(self.file))
        tree = read_tree(read_text(self.file, shown), shown)
        return next((kind for kind in KINDS if kind.owns(tree)), None)

    def _overrides(self) -> tuple[str, ...]:
        settings = list(self.settings)
        if self.trials is not None:
            settings.append(f"trials={self.trials}")
        if self.given.get("no_evaluators"):
            settings += ["evaluators={}", "stop_when=null"]
        return tuple(settings)

    def read(self, *, continue_run: bool = False, needs_keys: bool = True) -> Configuration:
        """Read the file.

        Args:
            continue_run: Whether to continue the existing run, even if it is finished.
            needs_keys: Whether a model's key that is not set in the environment is a problem.

        Raises:
            ConfigError: The file is invalid.
            click.UsageError: A flag does not work with this file.
        """
        if self.env_file is not None:
            load_env_file(self.env_file, one_line(str(self.env_file)))
        own = self._kind()
        for kind in KINDS:
            if kind is not own:
                kind.refuse(self.given)
        if own is not None:
            more = {"trials": self.trials, "settings": self.settings, "keep": continue_run}
            return own.load(self.file, {**self.given, **more})
        return load_config(self.file, self._overrides(), self.variant, needs_keys=needs_keys)

    def record(self, run: Path) -> dict[str, Any]:
        """Return the record for `run.json`, with paths relative to the run: both may move."""
        given = self.given
        record: dict[str, Any] = {"file": os.path.relpath(self.file, run)}
        record |= {name: _masked(given[name])[0] for name in _RECORDED if given.get(name)}
        if given.get("dataset") is not None:
            record["dataset"] = os.path.relpath(given["dataset"], run)
        if given.get("overrides"):
            record["overrides"] = [_masked("--override", *pair)[1:] for pair in given["overrides"]]
        if self.trials is not None:
            record["trials"] = self.trials
        if self.settings:
            record["set"] = [_masked("--set", setting)[1] for setting in self.settings]
        if self.variant is not None:
            record["variant"] = masked(dict(self.variant.values))
        if self.env_file is not None:
            record["env_file"] = os.path.relpath(self.env_file, run)
        return record


def recorded(record: Mapping[str, Any] | None, run: Path) -> MadeBy | None:
    """Return the file and flags recorded in `run.json`; None if a script made the run."""
    if record is None or not isinstance(record.get("file"), str):
        return None
    given = {name: record[name] for name in _RECORDED if name in record}
    given["overrides"] = tuple(tuple(map(str, pair)) for pair in _listed(record, "overrides"))
    if isinstance(record.get("dataset"), str):
        given["dataset"] = run / record["dataset"]
    trials, variant = record.get("trials"), record.get("variant")
    return MadeBy(
        Path(os.path.normpath(run / record["file"])),
        given,
        trials if isinstance(trials, int) else None,
        tuple(map(str, _listed(record, "set"))),
        Variant(run.name, variant) if isinstance(variant, dict) else None,
        run / record["env_file"] if isinstance(record.get("env_file"), str) else None,
    )


def _listed(record: Mapping[str, Any], name: str) -> list[Any]:
    return record[name] if isinstance(record.get(name), list) else []


def _masked(*arguments: Any) -> list[Any]:
    if not isinstance(arguments[0], str):
        return list(arguments)
    return list(without_secrets(arguments))
