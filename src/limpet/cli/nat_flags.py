"""Which flags of `nat eval` does `limpet run` take, and what are they called in an eval.yml?"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

# What these hand out is imported when it is used: `--help` needs none of it.
from limpet import config
from limpet.integrations import nat

if TYPE_CHECKING:
    from limpet.config import Config
    from limpet.integrations.nat import Flags, NatConfig

F = TypeVar("F", bound=Callable[..., Any])

SPELLINGS = {"token_normalize_func": lambda name: name.replace("_", "-")}
"""The toolkit writes --skip_workflow: both spellings are taken."""
_OURS = {
    "endpoint": ("--endpoint", "write workflow: {nat: URL} in the file"),
    "endpoint_path": ("--endpoint-path", "write workflow: {nat: {endpoint: URL, path: …}}"),
    "input_key": ("--input-key", "write workflow: {nat: {endpoint: URL, input_key: …}}"),
    "endpoint_header": ("--endpoint-header", "write workflow: {nat: {endpoint: URL, headers: …}}"),
    "endpoint_timeout": ("--endpoint-timeout", "write timeout: 300 in the file"),
    "max_retries": ("--max-retries", "write retry: 3 in the file"),
    "dataset": ("--dataset", "say --set dataset=FILE"),
    "reps": ("--reps", "say --trials N"),
    "override": ("--override", "say --set PATH=VALUE"),
    "result_json_path": ("--result-json-path", "write workflow: {http: {url: …, answer: $.…}}"),
    "skip_workflow": ("--skip-workflow", "what is on disk is scored again without it"),
    "skip_completed_entries": ("--skip-completed-entries", "say limpet import FILE first"),
}


def endpoint_flags(command: F) -> F:
    """Add the flags that say which served workflow is meant."""
    return _with(
        command,
        click.option("--endpoint", metavar="URL", help="NAT: where the workflow is served."),
        click.option("--endpoint-path", metavar="PATH",
                     help="NAT: what is called there; /generate/full."),
        click.option("--input-key", metavar="NAME",
                     help="NAT: the name of the agent's parameter; input_message."),
        click.option("--endpoint-header", multiple=True, metavar="'NAME: VALUE'",
                     callback=_headers,
                     help="NAT: sent there; ${VARIABLE} is read from the environment."),
    )  # fmt: skip


def _with(command: F, *options: Callable[[F], F]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def _headers(
    _: click.Context, __: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Read headers, without ever showing a value."""
    if not texts:
        return ()
    substitute = import_module("limpet.config.environment").substitute
    pairs = []
    for text in texts:
        name, sign, value = text.partition(":")
        if not sign or not name.strip():
            raise click.UsageError("--endpoint-header: must be 'NAME: VALUE'")

        def refuse(_: object, what: str, hint: str, name: str = name) -> None:
            raise click.UsageError(f"--endpoint-header {name.strip()}: {what}; {hint}")

        pairs.append((name.strip(), str(substitute(value.strip(), refuse))))
    names = [name.lower() for name, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise click.UsageError(f"--endpoint-header {twice}: is given twice")
    return tuple(pairs)


def identity_flags(command: F) -> F:
    """Add the flags that decide whose answers they are, beside where it is served."""
    return _with(
        command,
        click.option("--dataset", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                     metavar="FILE", help="NAT: rows of another file."),
        click.option("--override", type=(str, str), multiple=True, metavar="PATH VALUE",
                     help="NAT: as --set PATH=VALUE; may be repeated."),
        click.option("--result-json-path", metavar="PATH",
                     help="NAT: where in the workflow's output the answer is; $."),
    )  # fmt: skip


def nat_flags(command: F) -> F:
    """Add the flags of `nat eval` to a command."""
    return _with(
        endpoint_flags(identity_flags(command)),
        click.option("--endpoint-timeout", type=click.FloatRange(min=0, min_open=True),
                     metavar="SECONDS",
                     help="NAT: how long a call may take; 300, in process no limit."),
        click.option("--max-retries", type=click.IntRange(min=0), metavar="N",
                     help="NAT: how often a failed call is tried again; 3, after a time-out 1."),
        click.option("--reps", type=click.IntRange(min=1), help="NAT: as --trials."),
        click.option("--skip-workflow", is_flag=True,
                     help="NAT: call no workflow; score the outputs that are there."),
        click.option("--skip-completed-entries", is_flag=True,
                     help="NAT: take over an earlier workflow_output.json."),
    )  # fmt: skip


def read_config(
    file: Path,
    given: dict[str, Any],
    trials: int | None,
    settings: tuple[str, ...],
    *,
    goes_on: bool,
) -> "Config | NatConfig":
    """Read a file by whose configuration it is.

    Args:
        file: The file.
        given: The flags of `nat eval`.
        trials: How often each item is asked.
        settings: What `--set` says.
        goes_on: Whether the run that is there is meant, even if it is finished.

    Raises:
        ConfigError: The file cannot be used as it is.
        click.UsageError: A flag does not go with it.
    """
    if config.is_nat_file(file):
        return nat.load_nat_config(file, _flags_of(given, trials, settings, goes_on=goes_on))
    refuse_flags(given)
    if trials is not None:
        settings = (*settings, f"trials={trials}")
    return config.load_config(file, settings)


def _flags_of(
    given: dict[str, Any],
    trials: int | None,
    settings: tuple[str, ...],
    *,
    goes_on: bool,
) -> "Flags":
    if trials is not None and given["reps"] not in (None, trials):
        raise click.UsageError("--reps and --trials say different things: keep one of them")
    if given["skip_workflow"] and given["endpoint"]:
        raise click.UsageError("--skip-workflow calls no workflow: leave out --endpoint")
    if given["skip_workflow"] and given["result_json_path"]:
        raise click.UsageError("--skip-workflow calls no workflow: leave out --result-json-path")
    return nat.Flags(
        **endpoint_of(given),
        endpoint_timeout_s=given["endpoint_timeout"],
        dataset=given["dataset"],
        reps=given["reps"] or trials,
        overrides=given["override"],
        result_json_path=given["result_json_path"] or "$",
        skip_workflow=given["skip_workflow"],
        skip_completed=given["skip_completed_entries"],
        keep=goes_on,
        max_retries=given["max_retries"],
        settings=settings,
    )


def endpoint_of(given: dict[str, Any]) -> dict[str, Any]:
    """Return which served workflow is meant, as `Flags` takes it."""
    names = {"headers": "endpoint_header"} | {
        name: name for name in ("endpoint", "endpoint_path", "input_key")
    }
    found = {name: given[flag] for name, flag in names.items()}
    if found["endpoint"] is None:
        for name, flag in names.items():
            if found[name]:
                shown = flag.replace("_", "-")
                raise click.UsageError(f"--{shown} goes with --endpoint: say where the server is")
    return found


def refuse_flags(given: dict[str, Any]) -> None:
    """Say what to write in place of a flag that only goes with a configuration of the toolkit."""
    for name, (flag, instead) in _OURS.items():
        if given.get(name):
            raise click.UsageError(
                f"{flag} goes with a configuration of the NeMo Agent Toolkit, and this file is an "
                f"eval.yml: {instead}"
            )
