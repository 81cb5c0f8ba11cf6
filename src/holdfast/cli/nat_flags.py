"""Which flags of `nat eval` does `holdfast run` take, and what are they called in an eval.yml?"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from holdfast.config import Config, is_nat_file, load_config
from holdfast.integrations.nat import Flags, NatConfig, load_nat_config

F = TypeVar("F", bound=Callable[..., Any])

SPELLINGS = {"token_normalize_func": lambda name: name.replace("_", "-")}
"""The toolkit writes --skip_workflow: both spellings are taken."""
_OURS = {
    "endpoint": ("--endpoint", "write workflow: {nat: URL} in the file"),
    "endpoint_timeout": ("--endpoint-timeout", "write timeout: 300 in the file"),
    "dataset": ("--dataset", "say --set dataset=FILE"),
    "reps": ("--reps", "say --trials N"),
    "override": ("--override", "say --set PATH=VALUE"),
    "result_json_path": ("--result-json-path", "write workflow: {http: {url: …, answer: $.…}}"),
    "skip_workflow": ("--skip-workflow", "what is on disk is scored again without it"),
    "skip_completed_entries": ("--skip-completed-entries", "say holdfast import FILE first"),
}


def nat_flags(command: F) -> F:
    """Add the flags of `nat eval` to a command."""
    options = (
        click.option("--endpoint", metavar="URL", help="NAT: where the workflow is served."),
        click.option("--endpoint-timeout", type=click.FloatRange(min=0, min_open=True),
                     metavar="SECONDS", help="NAT: how long a call there may take; 300."),
        click.option("--dataset", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                     metavar="FILE", help="NAT: rows of another file."),
        click.option("--reps", type=click.IntRange(min=1), help="NAT: as --trials."),
        click.option("--override", type=(str, str), multiple=True, metavar="PATH VALUE",
                     help="NAT: as --set PATH=VALUE; may be repeated."),
        click.option("--result-json-path", metavar="PATH",
                     help="NAT: where in the workflow's output the answer is; $."),
        click.option("--skip-workflow", is_flag=True,
                     help="NAT: call no workflow; score the outputs that are there."),
        click.option("--skip-completed-entries", is_flag=True,
                     help="NAT: take over an earlier workflow_output.json."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def read_config(
    file: Path,
    given: dict[str, Any],
    trials: int | None,
    limit: int | None,
    settings: tuple[str, ...],
) -> Config | NatConfig:
    """Read a file by whose configuration it is.

    Args:
        file: The file.
        given: The flags of `nat eval`.
        trials: How often each item is asked.
        limit: Only the first so many rows.
        settings: What `--set` says.

    Raises:
        ConfigError: The file cannot be used as it is.
        click.UsageError: A flag does not go with it.
    """
    if is_nat_file(file):
        return load_nat_config(file, _flags_of(given, trials, limit, settings))
    _refuse_flags(given)
    if trials is not None:
        settings = (*settings, f"trials={trials}")
    return load_config(file, settings)


def _flags_of(
    given: dict[str, Any], trials: int | None, limit: int | None, settings: tuple[str, ...]
) -> Flags:
    if trials is not None and given["reps"] not in (None, trials):
        raise click.UsageError("--reps and --trials say different things: keep one of them")
    if given["skip_workflow"] and given["endpoint"]:
        raise click.UsageError("--skip-workflow calls no workflow: leave out --endpoint")
    return Flags(
        endpoint=given["endpoint"],
        endpoint_timeout_s=given["endpoint_timeout"],
        dataset=given["dataset"],
        reps=given["reps"] or trials,
        overrides=given["override"],
        result_json_path=given["result_json_path"] or "$",
        skip_workflow=given["skip_workflow"],
        skip_completed=given["skip_completed_entries"],
        limit=limit,
        settings=settings,
    )


def _refuse_flags(given: dict[str, Any]) -> None:
    """Say what to write in place of a flag that only goes with a configuration of the toolkit."""
    for name, (flag, instead) in _OURS.items():
        if given.get(name):
            raise click.UsageError(
                f"{flag} goes with a configuration of the NeMo Agent Toolkit, and this file is an "
                f"eval.yml: {instead}"
            )
