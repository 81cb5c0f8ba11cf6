"""Which commands are there, and how do they end?

A command's module is imported when it is called, so that `--help` is there at once: the list below
is all that it needs. A command returns its exit code:

0 all cells are done; 1 finished with failures, or under `--fail-under`; 2 bad usage or
configuration; 3 stopped early, and can be resumed; 130 and 143 on a signal.
"""

import os
import sys
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

import click

from holdfast.cli.endings import ReaderGoneError, end_of

COMMANDS = {
    "init": "Make a small working example.",
    "run": "Run an evaluation, or go on with it.",
    "status": "Say how far a run is, from its files alone.",
    "show": "Show the items of a run.",
    "list": "List the runs in a directory.",
    "export": "Write the results of a run as a table.",
    "verify": "Check the files of a run; change nothing.",
    "repair": "Mend the files of a run, with a backup.",
    "schema": "Print the JSON schema of eval.yml, for editors.",
}


class _Commands(click.Group):
    """Commands that are imported when they are called."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            near = get_close_matches(cmd_name, COMMANDS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"there is no command {cmd_name!r}{hint}")
        module = import_module(f"holdfast.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGoneError from error

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="holdfast")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Run evaluations of LLM workflows, and never lose a finished result.

    Start with: holdfast init first && cd first && holdfast run eval.yml
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> NoReturn:
    """Be the command `holdfast`."""
    try:
        code: Any = cli(standalone_mode=False, prog_name="holdfast")
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - each kind has its ending
        code = end_of(error)
    _leave(code if isinstance(code, int) else 0)


def _leave(code: int) -> NoReturn:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # whoever read it is gone
        os._exit(code)
    sys.exit(code)
