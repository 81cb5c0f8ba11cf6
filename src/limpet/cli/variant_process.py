"""How does each variant of a matrix run in a process of its own?

Variants must not share what the user's code keeps in memory: a prompt that the first variant reads
into a global would answer for the second one. So each runs in a fork of this process, in which the
code is imported and nothing has been called yet.

The child has the terminal: Ctrl-C reaches it directly. Signals sent to this process alone are
passed on. If this process is killed, the child stops as after SIGTERM.
"""

import os
import pickle
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TypeVar

T = TypeVar("T")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ChildKilledError(Exception):
    """The process ended before it could report; its exit code is the argument."""


def in_own_process(function: Callable[[], T]) -> T:
    """Return what a function returns in a forked child; it must be picklable.

    Raises:
        ChildKilledError: A signal ended the child.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    held, lifeline = os.pipe()
    try:
        with tempfile.TemporaryFile() as report:
            pid = _forked(function, report.fileno(), held, lifeline)
            code = os.waitstatus_to_exitcode(_waited_for(pid))
            report.seek(0)
            content = report.read()
    finally:
        os.close(lifeline)
        os.close(held)
    if code != 0 or not content:
        raise ChildKilledError(128 - code if code < 0 else code)
    value: T = pickle.loads(content)  # noqa: S301 - written by our own child
    return value


def _forked(function: Callable[[], object], report: int, held: int, lifeline: int) -> int:
    """Return the process id of a child that writes what a function returns to a file."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.close(lifeline)
        threading.Thread(target=_end_with_parent, args=(held,), daemon=True).start()
        content = pickle.dumps(function())
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # the reader is gone
                stream.flush()
        with os.fdopen(report, "wb", closefd=False) as file:
            file.write(content)
        status = 0
    except BaseException:  # noqa: BLE001 - it must not return into the parent's code
        traceback.print_exc()
    finally:
        os._exit(status)


def _end_with_parent(held: int) -> None:
    with suppress(OSError):
        os.read(held, 1)  # returns when the other end is closed
        os.kill(os.getpid(), signal.SIGTERM)


def _waited_for(pid: int) -> int:
    with _passing_signals_to(pid):
        return os.waitpid(pid, 0)[1]


@contextmanager
def _passing_signals_to(pid: int) -> Iterator[None]:
    def pass_on(signum: int, _: FrameType | None) -> None:
        # Ctrl-C on a terminal reaches the child as well: twice would mean "stop now".
        if signum == signal.SIGTERM or not _has_terminal():
            with suppress(ProcessLookupError):
                os.kill(pid, signum)

    before = {signum: signal.signal(signum, pass_on) for signum in _SIGNALS}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _has_terminal() -> bool:
    """Return whether a terminal would send this process and the child its signals."""
    for stream in (0, 1, 2):
        with suppress(OSError):
            return os.tcgetpgrp(stream) == os.getpgrp()
    return False
