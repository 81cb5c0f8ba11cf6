"""How does a command end when something went wrong?"""

import errno
import os
import signal
import sys
import traceback
from importlib import import_module

import click

from limpet.cli.again import this_command
from limpet.errors import DiskFullError, LimpetError
from limpet.secrets.masking import by_environment
from limpet.text import harmless, text_of

DONE, FAILED, USAGE, STOPPED, BUG = 0, 1, 2, 3, 70
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)


class ReaderGoneError(Exception):
    """Nobody reads our output any more. Not an OSError: click would end with 1 at once."""


def end_of(error: BaseException) -> int:
    """Say what happened, on stderr, and return the exit code."""
    match error:
        case SystemExit(code=code):  # click's own: commands that run user code keep that in
            return code if isinstance(code, int) else FAILED
        case click.exceptions.Exit():
            return error.exit_code
        case click.Abort() | KeyboardInterrupt():
            say_error("interrupted", f"what is finished is on disk; go on with: {this_command()}")
            return 128 + signal.SIGINT
        case click.UsageError():
            command = "limpet" if error.ctx is None else error.ctx.command_path
            say_error(error.format_message(), f"{command} --help says what there is")
            return USAGE
        case click.ClickException():
            error.show()
            return error.exit_code
        case BrokenPipeError() | ReaderGoneError():
            # Whoever read our output has gone, as `head` does. Nothing is wrong.
            drop_stdout()
            return 128 + signal.SIGPIPE
        case LimpetError():
            say_users_traceback(error)
            said = str(error)
            say_error(said if error.__cause__ is None else _masked(said), error.hint)
            return STOPPED if isinstance(error, DiskFullError) else USAGE
        case OSError() if error.filename is None and error.errno in _UNWRITABLE:
            drop_stdout()
            say_error(f"the output cannot be written: {error.strerror}", None)
            return USAGE
        case _:
            say_bug(error)
            return BUG


def say_bug(error: BaseException) -> None:
    """Print what should not have happened, for a report."""
    lines = traceback.format_exception(error)
    click.echo(harmless(_masked("".join(lines))), err=True)
    say_error(
        _masked(f"this should not happen: {type(error).__name__}: {text_of(error)}"),
        "what was finished is on disk; please report the lines above",
    )


def say_users_traceback(error: BaseException) -> None:
    """Print where in the user's own code it happened, if it did there: their frames alone."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    if root is error or isinstance(root, LimpetError):
        return
    ownership = import_module("limpet.fingerprints.walk.ownership")  # heavy, seldom needed
    frames = traceback.walk_tb(root.__traceback__)
    if any(ownership.is_users_file(frame.f_code.co_filename) for frame, _ in frames):
        told: str = import_module("limpet.run.executing.tracebacks").user_traceback(root)
    elif isinstance(root, SyntaxError):
        told = "".join(traceback.format_exception_only(root))
    else:
        return
    click.echo(harmless(_masked(told)) + "\n", err=True)


def _masked(text: str) -> str:
    return by_environment().ours.text(text)


def drop_stdout() -> None:
    """Send what is still to be written nowhere: it would only fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_error(message: str, hint: str | None) -> None:
    """Print an error as every command does, without secrets."""
    safe = by_environment().certain.text
    message, hint = safe(message), None if hint is None else safe(hint)
    click.echo(f"{click.style('error:', fg='red', bold=True)} {harmless(message)}", err=True)
    if hint:
        click.echo(f"\n{click.style('hint:', fg='cyan', bold=True)} {harmless(hint)}", err=True)
