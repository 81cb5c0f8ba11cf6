"""Which flags of `nat eval` do our commands accept?

Their values are named like the fields of `limpet.integrations.nat.Flags`.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


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


def _with(command: F, *options: Callable[[F], F]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def endpoint_flags(command: F) -> F:
    """Add the flags that select a served workflow."""
    return _with(
        command,
        click.option("--endpoint", cls=_NatFlag, metavar="URL",
                     help="The URL of the served workflow."),
        click.option("--endpoint-path", cls=_NatFlag, metavar="PATH",
                     help="The path to call.  [default: /generate/full]"),
        click.option("--input-key", cls=_NatFlag, metavar="NAME",
                     help="The agent's input parameter.  [default: input_message]"),
        click.option("--endpoint-header", "headers", cls=_NatFlag, multiple=True,
                     metavar="'NAME: VALUE'", callback=_headers,
                     help="A header to send; may hold ${VARIABLE}; may be repeated."),
    )  # fmt: skip


def identity_flags(command: F) -> F:
    """Add the other flags that affect the identity of answers."""
    return _with(
        command,
        click.option("--dataset", cls=_NatFlag, metavar="FILE",
                     type=click.Path(exists=True, dir_okay=False, path_type=Path),
                     help="Read the rows from this file instead."),
        click.option("--override", "overrides", cls=_NatFlag, type=(str, str), multiple=True,
                     metavar="PATH VALUE", help="Same as --set PATH=VALUE; may be repeated."),
        click.option("--result-json-path", cls=_NatFlag, metavar="PATH",
                     help="JSONPath of the answer in the output.  [default: $]"),
    )  # fmt: skip


def other_nat_flags(command: F) -> F:
    """Add the flags that only `limpet run` takes."""
    return _with(
        command,
        click.option("--endpoint-timeout", "endpoint_timeout_s", cls=_NatFlag,
                     type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
                     help="Time limit of a call.  [default: 300; in process: none]"),
        click.option("--max-retries", cls=_NatFlag, type=click.IntRange(min=0), metavar="N",
                     help="Retries of a failed call.  [default: 3; after a timeout: 1]"),
        click.option("--reps", cls=_NatFlag, type=click.IntRange(min=1), metavar="N",
                     help="Same as --trials."),
        click.option("--skip-workflow", cls=_NatFlag, is_flag=True,
                     help="Do not call the workflow; score the existing outputs."),
        click.option("--skip-completed-entries", "skip_completed", cls=_NatFlag, is_flag=True,
                     help="Reuse the answers of an earlier workflow_output.json."),
    )  # fmt: skip


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
