"""Which file and flags is a run made from?

`limpet run` records them in `run.json`, so that `limpet why` can load the same configuration again.
Headers and other secrets do not affect identity and are left out.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from limpet.cli.shown_command import without_secrets
from limpet.config import Config, is_nat_file, load_config, load_matrix
from limpet.config.file_text import load_env_file
from limpet.config.matrix import Matrix, Variant
from limpet.integrations.nat import Flags, NatConfig, load_nat_config
from limpet.secrets.in_configs import masked
from limpet.text import one_line

_IN_EVAL_YML = {
    "endpoint": ("--endpoint", "write workflow: {nat: URL} in the file"),
    "endpoint_path": ("--endpoint-path", "write workflow: {nat: {endpoint: URL, path: …}}"),
    "input_key": ("--input-key", "write workflow: {nat: {endpoint: URL, input_key: …}}"),
    "headers": ("--endpoint-header", "write workflow: {nat: {endpoint: URL, headers: …}}"),
    "endpoint_timeout_s": ("--endpoint-timeout", "write timeout: 300 in the file"),
    "max_retries": ("--max-retries", "write retry: 3 in the file"),
    "dataset": ("--dataset", "use --set dataset=FILE"),
    "reps": ("--reps", "use --trials N"),
    "overrides": ("--override", "use --set PATH=VALUE"),
    "result_json_path": ("--result-json-path", "write workflow: {http: {url: …, answer: $.…}}"),
    "skip_workflow": (
        "--skip-workflow",
        "leave it out: outputs on disk are scored without calling the workflow",
    ),
    "user_id": ("--user-id", "pass the user in your own workflow"),
    "skip_completed": ("--skip-completed-entries", "run limpet import FILE first"),
}
"""What replaces each flag of `nat eval` in an eval.yml."""
_RECORDED = (
    "endpoint",
    "endpoint_path",
    "input_key",
    "result_json_path",
    "skip_workflow",
    "no_evaluators",
    "reps",
)


class MadeBy(NamedTuple):
    """What a run is made from.

    Attributes:
        file: An eval.yml or a configuration of the toolkit.
        given: The flags of `nat eval`, named like the fields of `Flags`; None is not given.
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
        return None if is_nat_file(self.file) else load_matrix(self.file, self._overrides())

    def _overrides(self) -> tuple[str, ...]:
        settings = list(self.settings)
        if self.trials is not None:
            settings.append(f"trials={self.trials}")
        if self.given.get("no_evaluators"):
            settings += ["evaluators={}", "stop_when=null"]
        return tuple(settings)

    def read(self, *, continue_run: bool = False) -> Config | NatConfig:
        """Read the file.

        Args:
            continue_run: Whether to continue the existing run, even if it is finished.

        Raises:
            ConfigError: The file is invalid.
            click.UsageError: A flag does not work with this file.
        """
        if self.env_file is not None:
            load_env_file(self.env_file, one_line(str(self.env_file)))
        if is_nat_file(self.file):
            return load_nat_config(self.file, self._flags(continue_run=continue_run))
        for name, (flag, instead) in _IN_EVAL_YML.items():
            if self.given.get(name):
                raise click.UsageError(
                    f"{flag} works only with a NeMo Agent Toolkit configuration; this file is an "
                    f"eval.yml: {instead}"
                )
        return load_config(self.file, self._overrides(), self.variant)

    def _flags(self, *, continue_run: bool) -> Flags:
        given = {name: value for name, value in self.given.items() if value is not None}
        if self.trials is not None:
            if given.get("reps", self.trials) != self.trials:
                raise click.UsageError("--reps and --trials differ: use only one of them")
            given["reps"] = self.trials
        flags = Flags(**given, keep=continue_run, settings=self.settings)
        for name in ("endpoint", "result_json_path"):
            if flags.skip_workflow and name in given:
                flag, _ = _IN_EVAL_YML[name]
                raise click.UsageError(f"--skip-workflow calls no workflow: leave out {flag}")
        if flags.skip_workflow and (flags.reps or 1) > 1:
            raise click.UsageError(
                "--skip-workflow calls no workflow: leave out --reps; a run has the repetitions "
                "that it was made with"
            )
        if flags.skip_workflow and flags.no_evaluators:
            raise click.UsageError("--skip-workflow and --no-evaluators leave nothing to do")
        for name in ("headers", "endpoint_path", "input_key"):
            if flags.endpoint is None and given.get(name):
                flag, _ = _IN_EVAL_YML[name]
                raise click.UsageError(f"{flag} needs --endpoint URL")
        return flags

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
    """Return what `run.json` says a run was made from; None if a script made it."""
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
