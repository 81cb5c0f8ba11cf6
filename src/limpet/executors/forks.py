"""What if user code forks, and its child comes back to us?

The child has a copy of everything: of the run, of the calls in flight, of the event loop. Going on,
it would make each call a second time, share the loop's files with its parent, and wait for threads
that it does not have. So a child that comes back to us ends then and there, with the exit status
that its own code gave it. Nothing of the run is closed or removed: that is the parent's to do.
"""

import asyncio
import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

_loops: list[asyncio.AbstractEventLoop] = []


@contextmanager
def at_home(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """End the children that are forked meanwhile and come back to this loop."""
    _loops.append(loop)
    home = os.getpid()
    try:
        yield
    except BaseException as error:
        end_if_forked(home, error)
        raise
    finally:
        _loops.remove(loop)


def end_if_forked(home: int, error: BaseException | None = None) -> None:
    """End this process if it is a child of the one that `home` was; else do nothing.

    Args:
        home: The process that the work belongs to.
        error: How the child's own code ended, if not well.
    """
    if os.getpid() != home:
        _end(error)


def _end(error: BaseException | None) -> None:
    status = 0
    try:
        status = _status_of(error)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:  # whatever comes: it must not come back to the run
        os._exit(status)


def _status_of(error: BaseException | None) -> int:
    """Return the exit status as Python itself would, and say what Python would say."""
    if error is None:
        return 0
    if isinstance(error.__cause__, (SystemExit, KeyboardInterrupt)):
        error = error.__cause__  # a step made a failure of it
    if isinstance(error, KeyboardInterrupt):
        return 128 + signal.SIGINT
    if not isinstance(error, SystemExit):
        traceback.print_exception(error)
        return 1
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    sys.stderr.write(f"{error.code}\n")
    return 1


def _forget_the_loops() -> None:
    """In a child: whatever was to run next on a loop of ours is the parent's."""
    for loop in _loops:
        with contextlib.suppress(Exception):  # a loop of another make: it has the second line only
            loop._ready.clear()  # type: ignore[attr-defined]  # noqa: SLF001 - no public way
        with contextlib.suppress(Exception):
            loop.call_soon(_end, RuntimeError("a forked child came back to the run's event loop"))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_the_loops)
