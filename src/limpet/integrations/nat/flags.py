"""Which flags of `nat eval` do our commands accept, and what do they mean?

`limpet --help` imports this.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any

import click

WHAT = "a NeMo Agent Toolkit configuration"
TOOL = "nat eval"
FORM = "nat"


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of `nat eval`, explained by their help, and a few of ours.

    Attributes:
        endpoint: The address of the served workflow; None runs it in this process.
        headers: Headers to send: names and values.
        overrides: Paths and the values that replace those of the file.
        user_id: The user of the workflow's sessions; None: the toolkit's.
        no_evaluators: Do not score: skip the file's evaluators.
        keep: Continue the existing run, even if it is finished.
        settings: The values of `--set`, each as "path=value".
    """

    endpoint: str | None = None
    endpoint_timeout_s: float | None = None
    endpoint_path: str | None = None
    input_key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    dataset: Path | None = None
    reps: int | None = None
    overrides: tuple[tuple[str, str], ...] = ()
    result_json_path: str = "$"
    skip_workflow: bool = False
    skip_completed: bool = False
    no_evaluators: bool = False
    keep: bool = False
    max_retries: int | None = None
    user_id: str | None = None
    settings: tuple[str, ...] = ()

    @property
    def continues(self) -> bool:
        """Whether to use the existing run, even if it is finished."""
        return self.skip_workflow or self.skip_completed or self.keep


class Flag(click.Option):
    """A flag whose value is the field of the same name in `Flags`.

    Attributes:
        instead: What replaces it in an eval.yml.
        commands: The commands that take it.
        is_recorded: Whether results depend on it.
    """

    def __init__(
        self, *names: str, instead: str, imports: bool = True, records: bool = False, **how: Any
    ) -> None:
        super().__init__(names, **how)
        self.instead = instead
        self.commands = ("run", "import") if imports else ("run",)
        self.is_recorded = records


def _headers(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Parse headers, never showing a value."""
    if not values:
        return ()
    substitute = import_module("limpet.config.environment").substitute
    pairs = []
    for header in values:
        name, sign, value = header.partition(":")
        if not sign or not name.strip():
            raise click.UsageError("--endpoint-header: must be 'NAME: VALUE'")

        def wrong(_: object, text: str, hint: str, name: str = name) -> None:
            raise click.UsageError(f"--endpoint-header {name.strip()}: {text}; {hint}")

        pairs.append((name.strip(), str(substitute(value.strip(), wrong))))
    names = [name.lower() for name, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise click.UsageError(f"--endpoint-header {twice}: appears twice")
    return tuple(pairs)


def _at_least(least: int) -> Callable[[Any, Any, int | None], int | None]:
    """Return the check of an integer. `click.IntRange` would add `[x>=1]` to the help."""

    def check(_: click.Context, __: click.Parameter, number: int | None) -> int | None:
        if number is not None and number < least:
            raise click.BadParameter(f"{number} must be {least} or more")
        return number

    return check


_FLAGS = (
    Flag("--endpoint", metavar="URL", help="The URL of the served workflow.", records=True,
         instead="write workflow: {nat: URL} in the file"),
    Flag("--endpoint-path", metavar="PATH", records=True,
         help="The path to call.  [default: /generate/full]",
         instead="write workflow: {nat: {endpoint: URL, path: …}}"),
    Flag("--input-key", metavar="NAME", records=True,
         help="The agent's input parameter.  [default: input_message]",
         instead="write workflow: {nat: {endpoint: URL, input_key: …}}"),
    Flag("--endpoint-header", "headers", multiple=True, metavar="'NAME: VALUE'", callback=_headers,
         help="A header to send; may hold ${VARIABLE}; may be repeated.",
         instead="write workflow: {nat: {endpoint: URL, headers: …}}"),
    Flag("--dataset", type=click.Path(exists=True, dir_okay=False, path_type=Path),
         metavar="FILE", help="Read the rows from this file instead.",
         instead="use --set dataset=FILE"),
    Flag("--override", "overrides", type=(str, str), multiple=True, metavar="PATH VALUE",
         help="Set a value, of the same type as before; may be repeated.",
         instead="use --set PATH=VALUE"),
    Flag("--result-json-path", metavar="PATH", records=True,
         help="JSONPath to the answer in the output.  [default: $]",
         instead="write workflow: {http: {url: …, answer: $.…}}"),
    Flag("--endpoint-timeout", "endpoint_timeout_s", metavar="SECONDS", imports=False,
         type=click.FloatRange(min=0, min_open=True),
         help="Time limit for a call.  [default: 300; in process: 600]",
         instead="write timeout: 300 in the file"),
    Flag("--max-retries", type=int, callback=_at_least(0), metavar="N", imports=False,
         help="Retries of a failed call.  [default: 3; after a timeout: 1]",
         instead="write retry: 3 in the file"),
    Flag("--user-id", metavar="ID", imports=False,
         help="The user of the workflow's sessions, in process.  [default: one per item]",
         instead="pass the user in your own workflow"),
    Flag("--reps", type=int, callback=_at_least(1), metavar="N", imports=False, records=True,
         help="Same as --trials.", instead="use --trials N"),
    Flag("--skip-workflow", is_flag=True, imports=False, records=True,
         help="Do not call the workflow; score the existing outputs.",
         instead="leave it out: outputs on disk are scored without calling the workflow"),
    Flag("--skip-completed-entries", "skip_completed", is_flag=True, imports=False,
         help="Reuse the answers from an earlier workflow_output.json.",
         instead="run limpet import FILE first"),
)  # fmt: skip
_NAMES = {str(flag.name): flag.opts[0] for flag in _FLAGS}
RECORDED = [str(flag.name) for flag in _FLAGS if flag.is_recorded]


def options(command: str) -> list[click.Option]:
    """Return the flags that a command takes."""
    return [flag for flag in _FLAGS if command in flag.commands]


def refuse(given: Mapping[str, Any]) -> None:
    """Raise a `click.UsageError` if a flag is given: the file is an eval.yml."""
    for flag in _FLAGS:
        if given.get(str(flag.name)):
            raise click.UsageError(
                f"{flag.opts[0]} works only with {WHAT}; this file is an eval.yml: {flag.instead}"
            )


def flags_of(values: Mapping[str, Any]) -> Flags:
    """Return the given flags; None: not given. `trials` is another name for `reps`.

    Raises:
        click.UsageError: Two of them exclude each other.
    """
    known = {field.name for field in fields(Flags)}  # the others are of other kinds
    given = {name: value for name, value in values.items() if name in known and value is not None}
    trials = values.get("trials")
    if trials is not None and given.setdefault("reps", trials) != trials:
        raise click.UsageError("--reps and --trials differ: use only one of them")
    flags = Flags(**given)
    for name in ("endpoint", "result_json_path"):
        if flags.skip_workflow and name in given:
            raise click.UsageError(f"--skip-workflow calls no workflow: leave out {_NAMES[name]}")
    if flags.skip_workflow and (flags.reps or 1) > 1:
        raise click.UsageError(
            "--skip-workflow calls no workflow: leave out --reps; a run keeps the repetitions "
            "it was made with"
        )
    if flags.skip_workflow and flags.no_evaluators:
        raise click.UsageError("--skip-workflow and --no-evaluators leave nothing to do")
    for name in ("headers", "endpoint_path", "input_key"):
        if flags.endpoint is None and given.get(name):
            raise click.UsageError(f"{_NAMES[name]} needs --endpoint URL")
    return flags
