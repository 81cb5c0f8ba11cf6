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
from limpet.config import Config, is_nat_file, load_config
from limpet.integrations.nat import Flags, NatConfig, load_nat_config

_PLAIN = ("endpoint", "endpoint_path", "input_key", "result_json_path", "skip_workflow", "reps")
NO_NAT_FLAGS: dict[str, Any] = {
    **dict.fromkeys(_PLAIN),
    "skip_workflow": False,
    "skip_completed_entries": False,
    "endpoint_header": (),
    "override": (),
    "dataset": None,
    "endpoint_timeout": None,
    "max_retries": None,
}
_IN_EVAL_YML = {
    "endpoint": "write workflow: {nat: URL} in the file",
    "endpoint_path": "write workflow: {nat: {endpoint: URL, path: …}}",
    "input_key": "write workflow: {nat: {endpoint: URL, input_key: …}}",
    "endpoint_header": "write workflow: {nat: {endpoint: URL, headers: …}}",
    "endpoint_timeout": "write timeout: 300 in the file",
    "max_retries": "write retry: 3 in the file",
    "dataset": "use --set dataset=FILE",
    "reps": "use --trials N",
    "override": "use --set PATH=VALUE",
    "result_json_path": "write workflow: {http: {url: …, answer: $.…}}",
    "skip_workflow": "leave it out: outputs on disk are scored without calling the workflow",
    "skip_completed_entries": "run limpet import FILE first",
}
"""What replaces each flag of `nat eval` in an eval.yml."""


class MadeBy(NamedTuple):
    """What a run is made from.

    Attributes:
        file: An eval.yml or a configuration of the toolkit.
        given: The flags of `nat eval`.
        trials: How many times each item runs; None if the file says so.
        settings: The values of `--set`.
    """

    file: Path
    given: Mapping[str, Any] = NO_NAT_FLAGS
    trials: int | None = None
    settings: tuple[str, ...] = ()

    def read(self, *, goes_on: bool = False) -> Config | NatConfig:
        """Read the file.

        Args:
            goes_on: Whether to continue the existing run, even if it is finished.

        Raises:
            ConfigError: The file is invalid.
            click.UsageError: A flag does not work with this file.
        """
        if is_nat_file(self.file):
            return load_nat_config(self.file, self._flags(goes_on=goes_on))
        for name, instead in _IN_EVAL_YML.items():
            if self.given.get(name):
                raise click.UsageError(
                    f"{_flag(name)} works only with a NeMo Agent Toolkit configuration; this file "
                    f"is an eval.yml: {instead}"
                )
        trials = () if self.trials is None else (f"trials={self.trials}",)
        return load_config(self.file, (*self.settings, *trials))

    def _flags(self, *, goes_on: bool) -> Flags:
        given = self.given
        if self.trials is not None and given["reps"] not in (None, self.trials):
            raise click.UsageError("--reps and --trials differ: use only one of them")
        for name in ("endpoint", "result_json_path"):
            if given["skip_workflow"] and given[name]:
                raise click.UsageError(
                    f"--skip-workflow calls no workflow: leave out {_flag(name)}"
                )
        for name in ("endpoint_header", "endpoint_path", "input_key"):
            if given[name] and given["endpoint"] is None:
                raise click.UsageError(f"{_flag(name)} needs --endpoint URL")
        return Flags(
            endpoint=given["endpoint"],
            endpoint_timeout_s=given["endpoint_timeout"],
            endpoint_path=given["endpoint_path"],
            input_key=given["input_key"],
            headers=given["endpoint_header"],
            dataset=given["dataset"],
            reps=given["reps"] or self.trials,
            overrides=given["override"],
            result_json_path=given["result_json_path"] or "$",
            skip_workflow=given["skip_workflow"],
            skip_completed=given["skip_completed_entries"],
            keep=goes_on,
            max_retries=given["max_retries"],
            settings=self.settings,
        )

    def record(self, run: Path) -> dict[str, Any]:
        """Return the record for `run.json`.

        Paths are relative to the run: both may move together.
        """
        given = self.given
        record: dict[str, Any] = {"file": os.path.relpath(self.file, run)}
        record |= {name: _masked(given[name])[0] for name in _PLAIN if given.get(name)}
        if given.get("dataset") is not None:
            record["dataset"] = os.path.relpath(given["dataset"], run)
        if given.get("override"):
            record["override"] = [_masked("--override", *pair)[1:] for pair in given["override"]]
        if self.trials is not None:
            record["trials"] = self.trials
        if self.settings:
            record["set"] = [_masked("--set", setting)[1] for setting in self.settings]
        return record


def recorded(record: Mapping[str, Any] | None, run: Path) -> MadeBy | None:
    """Return what a run was made from; None if a script made it, or if it is unknown.

    Args:
        record: The record in `run.json`.
        run: The run's directory.
    """
    if record is None or not isinstance(record.get("file"), str):
        return None
    given = NO_NAT_FLAGS | {name: record[name] for name in _PLAIN if name in record}
    given["override"] = tuple(tuple(map(str, pair)) for pair in _listed(record, "override"))
    if isinstance(record.get("dataset"), str):
        given["dataset"] = run / record["dataset"]
    trials = record.get("trials")
    return MadeBy(
        Path(os.path.normpath(run / record["file"])),
        given,
        trials if isinstance(trials, int) else None,
        tuple(map(str, _listed(record, "set"))),
    )


def _listed(record: Mapping[str, Any], name: str) -> list[Any]:
    return record[name] if isinstance(record.get(name), list) else []


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _masked(*arguments: Any) -> list[Any]:
    if not isinstance(arguments[0], str):
        return list(arguments)
    return list(without_secrets(arguments))
