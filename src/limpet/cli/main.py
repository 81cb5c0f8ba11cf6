"""Which commands exist, and how do they end?

A command's module is imported when it is called: `--help` needs only the list below, and is fast. A
command returns its exit code:

0 all cells are done; 1 finished with failures, or below `--fail-under`; 2 bad usage or
configuration; 3 stopped early, and can be resumed; 130 and 143 on a signal.
"""

import contextlib
import io
import os
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from limpet.cli.endings import ReaderGoneError, end_of
from limpet.text import did_you_mean

COMMANDS = {
    "init": "Create a small working example.",
    "run": "Run an evaluation, or resume it.",
    "import": "Import answers from a workflow_output.json.",
    "status": "Show how far a run is.",
    "show": "Show the items of a run.",
    "why": "Explain what a run's steps depend on, and what changed.",
    "list": "List the runs in a directory.",
    "export": "Export the results of a run as a table.",
    "verify": "Check the files of a run.",
    "repair": "Repair the files of a run, keeping a backup.",
    "schema": "Print the JSON schema of eval.yml, for editors.",
}
_MODULES = {"import": "importing", "run": "run_flags"}

# Commands that people try, and what does it instead.
_INSTEAD = {
    "plan": "limpet run --plan",
    "redo": "limpet run --redo",
    "keep": "limpet run --keep",
    "resume": "limpet run",
    "diff": "limpet why",
}

_THREADS_S = 2.0
"""How long the process waits for threads that user code left running."""


class _Commands(click.Group):
    """Imports a command when it is called."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            meant = _INSTEAD.get(cmd_name)
            near = f"; did you mean: {meant}" if meant else did_you_mean(cmd_name, COMMANDS)
            ctx.fail(f"unknown command {cmd_name!r}{near}")
        module = import_module(f"limpet.cli.{_MODULES.get(cmd_name, cmd_name)}")
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
@click.version_option(package_name="limpet")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Run evaluations of LLM workflows, and never lose a finished result.

    Start with: limpet init first && cd first && limpet run eval.yml
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> NoReturn:
    """Run the `limpet` command."""
    _ready_streams()
    try:
        code: Any = cli(standalone_mode=False, prog_name="limpet")
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - `end_of` knows each kind
        code = end_of(error)
    _leave(code if isinstance(code, int) else 0)


def _ready_streams() -> None:
    """Make sure that stdout and stderr can be written to."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed with `>&-`
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot print × shows its code: better than a traceback.
            stream.reconfigure(errors="backslashreplace")


def _leave(code: int) -> NoReturn:
    """End the process, even if user code left threads running."""
    with contextlib.suppress(OSError, ValueError):  # the reader is gone
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    deadline = time.monotonic() + _THREADS_S
    for thread in [thread for thread in threading.enumerate() if not thread.daemon]:
        if thread is not threading.main_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                os._exit(code)
    sys.exit(code)
