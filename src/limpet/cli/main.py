"""Which commands are there, and how do they end?

A command's module is imported when it is called, so that `--help` is there at once: the list below
is all that it needs. A command returns its exit code:

0 all cells are done; 1 finished with failures, or under `--fail-under`; 2 bad usage or
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
    "init": "Make a small working example.",
    "run": "Run an evaluation, or go on with it.",
    "import": "Take over the answers of a workflow_output.json.",
    "status": "Say how far a run is, from its files alone.",
    "show": "Show the items of a run.",
    "why": "Say what a run's steps are made of, and what changed.",
    "list": "List the runs in a directory.",
    "export": "Write the results of a run as a table.",
    "verify": "Check the files of a run; change nothing.",
    "repair": "Mend the files of a run, with a backup.",
    "schema": "Print the JSON schema of eval.yml, for editors.",
}
_MODULES = {"import": "importing", "run": "run_flags"}

# What is asked for as a command, and is none.
_ELSEWHERE = {
    "plan": "limpet run --plan",
    "redo": "limpet run --redo",
    "keep": "limpet run --keep",
    "resume": "limpet run",
    "diff": "limpet why",
}

_THREADS_S = 2.0
"""How long threads that user code left behind may hold the terminal."""


class _Commands(click.Group):
    """Commands that are imported when they are called."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            meant = _ELSEWHERE.get(cmd_name)
            near = f"; did you mean: {meant}" if meant else did_you_mean(cmd_name, COMMANDS)
            ctx.fail(f"there is no command {cmd_name!r}{near}")
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
    """Be the command `limpet`."""
    _ready_streams()
    try:
        code: Any = cli(standalone_mode=False, prog_name="limpet")
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - each kind has its ending
        code = end_of(error)
    _leave(code if isinstance(code, int) else 0)


def _ready_streams() -> None:
    """Have streams that can be written to, whatever they were started with."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed, as by `>&-`
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            # A terminal that knows no × shows its number: better than a traceback.
            stream.reconfigure(errors="backslashreplace")


def _leave(code: int) -> NoReturn:
    """End the process, also if user code left threads behind that never end."""
    with contextlib.suppress(OSError, ValueError):  # whoever read it is gone
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    deadline = time.monotonic() + _THREADS_S
    left = [one for one in threading.enumerate() if not one.daemon]
    for thread in left:
        if thread is not threading.main_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                os._exit(code)
    sys.exit(code)
