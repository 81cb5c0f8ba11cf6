"""How does a command end when something went wrong?"""

import errno
import os
import signal
import sys
import traceback
from importlib import import_module

import click

from limpet.cli.shown_command import this_command
from limpet.errors import DiskFullError, LimpetError
from limpet.secrets.masking import by_environment
from limpet.text import harmless, text_of

DONE, FAILED, USAGE, STOPPED, BUG = 0, 1, 2, 3, 70
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)


class ReaderGoneError(Exception):
    """The reader of our output is gone. Not an OSError: click would exit with 1 at once."""


def report_error(error: BaseException) -> int:
    """Print what happened to stderr and return the exit code."""
    match error:
        case SystemExit(code=code):  # from click: commands catch the exits of user code
            return code if isinstance(code, int) else FAILED
        case click.exceptions.Exit():
            return error.exit_code
        case click.Abort() | KeyboardInterrupt():
            say_error("interrupted", f"finished results are on disk; resume with: {this_command()}")
            return 128 + signal.SIGINT
        case click.UsageError():
            command = "limpet" if error.ctx is None else error.ctx.command_path
            say_error(error.format_message(), f"see {command} --help")
            return USAGE
        case click.ClickException():
            error.show()
            return error.exit_code
        case BrokenPipeError() | ReaderGoneError():
            # The reader has closed the pipe, as `head` does. Nothing is wrong.
            _drop_stdout()
            return 128 + signal.SIGPIPE
        case LimpetError():
            _say_users_traceback(error)
            message = str(error)
            say_error(message if error.__cause__ is None else _masked(message), error.hint)
            return STOPPED if isinstance(error, DiskFullError) else USAGE
        case OSError() if error.filename is None and error.errno in _UNWRITABLE:
            _drop_stdout()
            say_error(f"cannot write the output: {error.strerror}", None)
            return USAGE
        case _:
            _say_bug(error)
            return BUG


def _say_bug(error: BaseException) -> None:
    """Print an unexpected error with its traceback, for a bug report."""
    lines = traceback.format_exception(error)
    click.echo(harmless(_masked("".join(lines))), err=True)
    say_error(
        _masked(f"internal error: {type(error).__name__}: {text_of(error)}"),
        "finished results are on disk; please report the lines above",
    )


def _say_users_traceback(error: BaseException) -> None:
    """Print the frames of the user's own code, if the error came from there."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    if root is error or isinstance(root, LimpetError):
        return
    ownership = import_module("limpet.fingerprints.walk.ownership")  # heavy, seldom needed
    frames = traceback.walk_tb(root.__traceback__)
    if any(ownership.is_users_file(frame.f_code.co_filename) for frame, _ in frames):
        trace: str = import_module("limpet.run.executing.tracebacks").user_traceback(root)
    elif isinstance(root, SyntaxError):
        trace = "".join(traceback.format_exception_only(root))
    else:
        return
    click.echo(harmless(_masked(trace)) + "\n", err=True)


def _masked(text: str) -> str:
    return by_environment().ours.text(text)


def _drop_stdout() -> None:
    """Discard what is still buffered: writing it would only fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_error(message: str, hint: str | None) -> None:
    """Print an error and its hint to stderr, without secrets."""
    safe = by_environment().certain.text
    message, hint = safe(message), None if hint is None else safe(hint)
    click.echo(f"{click.style('error:', fg='red', bold=True)} {harmless(message)}", err=True)
    if hint:
        click.echo(f"\n{click.style('hint:', fg='cyan', bold=True)} {harmless(hint)}", err=True)
