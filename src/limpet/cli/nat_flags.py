"""Which flags of `nat eval` do our commands accept?

Their values are named like the fields of `limpet.integrations.nat.Flags`.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def at_least(least: int) -> Callable[[Any], int]:
    """Return the type of an integer option. `click.IntRange` would add `[x>=1]` to the help."""

    def convert(value: Any) -> int:
        number = int(click.INT.convert(value, None, None))
        if number < least:
            raise click.BadParameter(f"{number} must be {least} or more")
        return number

    return convert


class _NatFlag(click.Option):
    """An option that works only with a configuration of the toolkit."""


class WithNatFlags(click.Command):
    """A command whose help lists the flags of `nat eval` apart."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        # The toolkit writes --skip_workflow: both spellings work.
        self.context_settings["token_normalize_func"] = lambda name: name.replace("_", "-")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        titles = {False: "Options", True: "Options for a NeMo Agent Toolkit configuration"}
        for is_nat, title in titles.items():
            rows = [
                row
                for option in self.get_params(ctx)
                if isinstance(option, click.Option) and isinstance(option, _NatFlag) is is_nat
                if (row := option.get_help_record(ctx)) is not None
            ]
            with formatter.section(title):
                formatter.write_dl(rows)


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

        def refuse(_: object, text: str, hint: str, name: str = name) -> None:
            raise click.UsageError(f"--endpoint-header {name.strip()}: {text}; {hint}")

        pairs.append((name.strip(), str(substitute(value.strip(), refuse))))
    names = [name.lower() for name, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise click.UsageError(f"--endpoint-header {twice}: appears twice")
    return tuple(pairs)


def _flags(*options: Callable[[F], F]) -> Callable[[F], F]:
    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


_flag = partial(click.option, cls=_NatFlag)

endpoint_flags = _flags(
    _flag("--endpoint", metavar="URL", help="The URL of the served workflow."),
    _flag("--endpoint-path", metavar="PATH", help="The path to call.  [default: /generate/full]"),
    _flag("--input-key", metavar="NAME",
          help="The agent's input parameter.  [default: input_message]"),
    _flag("--endpoint-header", "headers", multiple=True, metavar="'NAME: VALUE'", callback=_headers,
          help="A header to send; may hold ${VARIABLE}; may be repeated."),
)  # fmt: skip
"""Select a served workflow."""

identity_flags = _flags(
    _flag("--dataset", type=click.Path(exists=True, dir_okay=False, path_type=Path),
          metavar="FILE", help="Read the rows from this file instead."),
    _flag("--override", "overrides", type=(str, str), multiple=True, metavar="PATH VALUE",
          help="Set a value, of the type that it replaces; may be repeated."),
    _flag("--result-json-path", metavar="PATH",
          help="JSONPath of the answer in the output.  [default: $]"),
)  # fmt: skip
"""The others that affect the identity of answers."""

other_nat_flags = _flags(
    _flag("--endpoint-timeout", "endpoint_timeout_s", metavar="SECONDS",
          type=click.FloatRange(min=0, min_open=True),
          help="Time limit of a call.  [default: 300; in process: 600]"),
    _flag("--max-retries", type=at_least(0), metavar="N",
          help="Retries of a failed call.  [default: 3; after a timeout: 1]"),
    _flag("--user-id", metavar="ID",
          help="The user of the workflow's sessions, in process.  [default: one per item]"),
    _flag("--reps", type=at_least(1), metavar="N", help="Same as --trials."),
    _flag("--skip-workflow", is_flag=True,
          help="Do not call the workflow; score the existing outputs."),
    _flag("--skip-completed-entries", "skip_completed", is_flag=True,
          help="Reuse the answers of an earlier workflow_output.json."),
)  # fmt: skip
"""Those that only `limpet run` takes."""
