"""How does a command end when something went wrong?"""

import os
import signal
import sys
import traceback

import click

from holdfast.errors import HoldfastError, JournalError, RunIsLocked
from holdfast.text import harmless

DONE, FAILED, USAGE, STOPPED, BUG = 0, 1, 2, 3, 70


class ReaderGoneError(Exception):
    """Nobody reads our output any more. Not an OSError: click would end with 1 at once."""


def end_of(error: BaseException) -> int:
    """Say what happened, on stderr, and return the exit code."""
    match error:
        case SystemExit(code=int(code)):
            return code
        case click.exceptions.Exit():
            return error.exit_code
        case click.Abort() | KeyboardInterrupt():
            say_error("interrupted", None)
            return 128 + signal.SIGINT
        case click.UsageError():
            command = "holdfast" if error.ctx is None else error.ctx.command_path
            say_error(error.format_message(), f"{command} --help says what there is")
            return USAGE
        case click.ClickException():
            error.show()
            return error.exit_code
        case BrokenPipeError() | ReaderGoneError():
            # Whoever read our output has gone, as `head` does. Nothing is wrong.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 128 + signal.SIGPIPE
        case HoldfastError():
            say_error(str(error), error.hint)
            late = isinstance(error, JournalError) and not isinstance(error, RunIsLocked)
            return STOPPED if late else USAGE
        case _:
            traceback.print_exception(error)
            say_error(
                f"this should not happen: {type(error).__name__}: {error}",
                "what was finished is on disk; please report the lines above",
            )
            return BUG


def say_error(message: str, hint: str | None) -> None:
    """Print an error as every command does."""
    click.echo(f"{click.style('error:', fg='red', bold=True)} {harmless(message)}", err=True)
    if hint:
        click.echo(f"\n{click.style('hint:', fg='cyan', bold=True)} {harmless(hint)}", err=True)
