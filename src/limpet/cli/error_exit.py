"""How does a command end when something went wrong?"""

import contextlib
import errno
import json
import math
import os
import shutil
import signal
import sys
import textwrap
import traceback
from collections.abc import Iterator
from importlib import import_module

import click

from limpet.cli.shown_command import this_command
from limpet.errors import BudgetReachedError, DiskFullError, LimpetError, RunPausedError
from limpet.secrets.masking import by_environment
from limpet.text import harmless, text_of

DONE, FAILED, USAGE, STOPPED, INCONCLUSIVE, BUG = 0, 1, 2, 3, 4, 70
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EBADF)


class ReaderGoneError(Exception):
    """The reader of our output is gone. Not an OSError, on which click exits with 1 at once."""


def report_error(error: BaseException) -> int:
    """Print what happened to stderr and return the exit code; with `--json`, also to stdout."""
    code, message, hint = _say_what_happened(error)
    # click may not have got as far as parsing the flag.
    if message is not None and "--json" in sys.argv[1:]:
        _put_event(error, code, message, hint)
    return code


def _say_what_happened(error: BaseException) -> tuple[int, str | None, str | None]:
    """Print what happened to stderr; return the exit code, and the message and hint if any."""
    message: str | None = None
    hint: str | None = None
    match error:
        case SystemExit(code=code):  # from click: commands catch the exits of user code
            return (code if isinstance(code, int) else FAILED), None, None
        case click.exceptions.Exit():
            return error.exit_code, None, None
        case click.Abort() | KeyboardInterrupt():
            code, message = 128 + signal.SIGINT, "interrupted"
            hint = f"finished results are on disk; resume with: {this_command()}"
        case click.UsageError():
            command = "limpet" if error.ctx is None else error.ctx.command_path
            code, message, hint = USAGE, error.format_message(), f"see {command} --help"
        case click.ClickException():
            code, message = error.exit_code, error.format_message()
        case BrokenPipeError() | ReaderGoneError():
            # The reader has closed the pipe, as `head` does: no error.
            _drop_stdout()
            return 128 + signal.SIGPIPE, None, None
        case LimpetError():
            _say_users_traceback(error)
            message = str(error) if error.__cause__ is None else _masked(str(error))
            hint = error.hint
            is_stop = isinstance(error, (BudgetReachedError, DiskFullError, RunPausedError))
            code = STOPPED if is_stop else USAGE
        case OSError() if error.errno == errno.EIO or (
            error.filename is None and error.errno in _UNWRITABLE
        ):
            code, (message, hint) = USAGE, _about_disk(error)
        case _:
            code, hint = BUG, "finished results are on disk; please report the lines above"
            click.echo(harmless(_masked("".join(traceback.format_exception(error)))), err=True)
            message = _masked(f"internal error: {type(error).__name__}: {text_of(error)}")
    say_error(message, hint)
    return code, message, hint


def _about_disk(error: OSError) -> tuple[str, str | None]:
    """Return the message and the hint for a failing disk or output."""
    if error.filename is None:  # perhaps of the output
        _drop_stdout()
    if error.errno != errno.EIO:
        return f"cannot write the output: {error.strerror}", None
    what = error.filename or "a file or the output"
    hint = "check the disk (dmesg, smartctl); finished results are on disk"
    return f"{what}: cannot be read or written: {error.strerror}", hint


def _put_event(error: BaseException, code: int, message: str, hint: str | None) -> None:
    """Write the error as the last event to stdout, for a program that reads it."""
    cause = error.__cause__
    kind = type(cause if isinstance(cause, LimpetError) else error).__name__
    safe = by_environment().certain.text
    event = {
        "event": "error",
        "exit_code": code,
        "error": kind,
        "message": harmless(safe(message)),
        "hint": None if hint is None else harmless(safe(hint)),
    }
    with contextlib.suppress(OSError, ValueError):  # the reader is gone; stderr has it
        click.echo(json.dumps(event))


def _say_users_traceback(error: BaseException) -> None:
    """Print the frames of the user's own code, if the error came from there."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    if root is error or isinstance(root, LimpetError):
        return
    ownership = import_module("limpet.fingerprints.walk.ownership")  # heavy, seldom needed
    tracebacks = import_module("limpet.engines.tracebacks")
    frames = traceback.walk_tb(root.__traceback__)
    if vars(root).get(tracebacks.CARRIED) or any(
        ownership.is_users_file(frame.f_code.co_filename) for frame, _ in frames
    ):
        trace: str = tracebacks.user_traceback(root)
    elif isinstance(root, SyntaxError):
        trace = "".join(traceback.format_exception_only(root))
    else:
        return
    click.echo(harmless(_masked(trace)) + "\n", err=True)


def named_number(text: str) -> tuple[str, float]:
    """Return the parts of NAME=NUMBER: an empty name or NaN for a missing part."""
    name, _, number = text.rpartition("=")
    try:
        return name, float(number)
    except ValueError:
        return name, math.nan


@contextlib.contextmanager
def no_exit() -> Iterator[None]:
    """Turn a `sys.exit` in user code into an error."""
    try:
        yield
    except SystemExit as error:
        raise LimpetError(
            f"user code called sys.exit({error.code!r})",
            hint="a workflow, an evaluator or a dataset must not exit: raise an exception",
        ) from error


def _masked(text: str) -> str:
    return by_environment().ours.text(text)


def _drop_stdout() -> None:
    """Discard the buffer: writing it would only fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_error(message: str, hint: str | None) -> None:
    """Print an error and its hint to stderr, without secrets."""
    safe = by_environment().certain.text
    message, hint = safe(message), None if hint is None else safe(hint)
    error = click.style("error:", fg="red", bold=True)
    click.echo(f"{error} {_wrapped(harmless(message), len('error: '))}", err=True)
    if hint:
        title = click.style("hint:", fg="cyan", bold=True)
        click.echo(f"\n{title} {_wrapped(harmless(hint), len('hint: '))}", err=True)


def _wrapped(text: str, begins_at: int) -> str:
    """Return a message wrapped for the terminal; a command stays on one line, to be copied."""
    if not sys.stderr.isatty() or "limpet run " in text:
        return text
    width = shutil.get_terminal_size().columns - 1
    lines = text.split("\n")
    begins = [" " * begins_at, *("" for _ in lines[1:])]
    return "\n".join(
        textwrap.fill(
            line,
            width,
            initial_indent=begin,
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
        )
        for begin, line in zip(begins, lines, strict=True)
    )[begins_at:]
