"""Which flags of `nat eval` does `limpet run` accept, and what replaces them in an eval.yml?"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

# These import their contents on first use: `--help` needs none of it.
from limpet import config
from limpet.integrations import nat

if TYPE_CHECKING:
    from limpet.config import Config
    from limpet.integrations.nat import Flags, NatConfig

F = TypeVar("F", bound=Callable[..., Any])

SPELLINGS = {"token_normalize_func": lambda name: name.replace("_", "-")}
"""The toolkit writes --skip_workflow: both spellings work."""
_IN_EVAL_YML = {
    "endpoint": ("--endpoint", "write workflow: {nat: URL} in the file"),
    "endpoint_path": ("--endpoint-path", "write workflow: {nat: {endpoint: URL, path: …}}"),
    "input_key": ("--input-key", "write workflow: {nat: {endpoint: URL, input_key: …}}"),
    "endpoint_header": ("--endpoint-header", "write workflow: {nat: {endpoint: URL, headers: …}}"),
    "endpoint_timeout": ("--endpoint-timeout", "write timeout: 300 in the file"),
    "max_retries": ("--max-retries", "write retry: 3 in the file"),
    "dataset": ("--dataset", "use --set dataset=FILE"),
    "reps": ("--reps", "use --trials N"),
    "override": ("--override", "use --set PATH=VALUE"),
    "result_json_path": ("--result-json-path", "write workflow: {http: {url: …, answer: $.…}}"),
    "skip_workflow": (
        "--skip-workflow",
        "leave it out: outputs on disk are scored without calling the workflow",
    ),
    "skip_completed_entries": ("--skip-completed-entries", "run limpet import FILE first"),
}


def endpoint_flags(command: F) -> F:
    """Add the flags that select a served workflow."""
    return _with(
        command,
        click.option("--endpoint", metavar="URL", help="NAT: the URL of the served workflow."),
        click.option("--endpoint-path", metavar="PATH",
                     help="NAT: the path to call.  [default: /generate/full]"),
        click.option("--input-key", metavar="NAME",
                     help="NAT: the agent's input parameter.  [default: input_message]"),
        click.option("--endpoint-header", multiple=True, metavar="'NAME: VALUE'",
                     callback=_headers,
                     help="NAT: a header to send; may hold ${VARIABLE}; may be repeated."),
    )  # fmt: skip


def _with(command: F, *options: Callable[[F], F]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def _headers(
    _: click.Context, __: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Parse headers, never showing a value."""
    if not texts:
        return ()
    substitute = import_module("limpet.config.environment").substitute
    pairs = []
    for text in texts:
        name, sign, value = text.partition(":")
        if not sign or not name.strip():
            raise click.UsageError("--endpoint-header: must be 'NAME: VALUE'")

        def refuse(_: object, text: str, hint: str, name: str = name) -> None:
            raise click.UsageError(f"--endpoint-header {name.strip()}: {text}; {hint}")

        pairs.append((name.strip(), str(substitute(value.strip(), refuse))))
    names = [name.lower() for name, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise click.UsageError(f"--endpoint-header {twice}: appears twice")
    return tuple(pairs)


def identity_flags(command: F) -> F:
    """Add the other flags that affect the identity of answers."""
    return _with(
        command,
        click.option("--dataset", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                     metavar="FILE", help="NAT: read the rows from this file instead."),
        click.option("--override", type=(str, str), multiple=True, metavar="PATH VALUE",
                     help="NAT: same as --set PATH=VALUE; may be repeated."),
        click.option("--result-json-path", metavar="PATH",
                     help="NAT: JSONPath of the answer in the output.  [default: $]"),
    )  # fmt: skip


def nat_flags(command: F) -> F:
    """Add the flags of `nat eval` to a command."""
    return _with(
        endpoint_flags(identity_flags(command)),
        click.option("--endpoint-timeout", type=click.FloatRange(min=0, min_open=True),
                     metavar="SECONDS",
                     help="NAT: time limit of a call.  [default: 300; in process: none]"),
        click.option("--max-retries", type=click.IntRange(min=0), metavar="N",
                     help="NAT: retries of a failed call.  [default: 3; after a timeout: 1]"),
        click.option("--reps", type=click.IntRange(min=1), help="NAT: same as --trials."),
        click.option("--skip-workflow", is_flag=True,
                     help="NAT: do not call the workflow; score the existing outputs."),
        click.option("--skip-completed-entries", is_flag=True,
                     help="NAT: reuse the answers of an earlier workflow_output.json."),
    )  # fmt: skip


def read_config(
    file: Path,
    given: dict[str, Any],
    trials: int | None,
    settings: tuple[str, ...],
    *,
    goes_on: bool,
) -> "Config | NatConfig":
    """Read an eval.yml or a configuration of the toolkit.

    Args:
        file: The file.
        given: The flags of `nat eval`.
        trials: How many times each item runs.
        settings: The values of `--set`.
        goes_on: Whether to continue the existing run, even if it is finished.

    Raises:
        ConfigError: The file is invalid.
        click.UsageError: A flag does not work with this file.
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
        raise click.UsageError("--reps and --trials differ: use only one of them")
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
    """Return the flags that select a served workflow, as `Flags` takes them."""
    names = {"headers": "endpoint_header"} | {
        name: name for name in ("endpoint", "endpoint_path", "input_key")
    }
    values = {name: given[flag] for name, flag in names.items()}
    if values["endpoint"] is None:
        for name, flag in names.items():
            if values[name]:
                shown = flag.replace("_", "-")
                raise click.UsageError(f"--{shown} needs --endpoint URL")
    return values


def refuse_flags(given: dict[str, Any]) -> None:
    """Raise for a flag that works only with the toolkit, naming its replacement."""
    for name, (flag, instead) in _IN_EVAL_YML.items():
        if given.get(name):
            raise click.UsageError(
                f"{flag} works only with a NeMo Agent Toolkit configuration; this file is an "
                f"eval.yml: {instead}"
            )
