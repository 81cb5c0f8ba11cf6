"""What if user code forks, and the child returns into the run?

The child has a copy of everything: the run, the calls in flight, the event loop. If it continued,
it would make each call a second time, share the loop's files with its parent, and wait for threads
it does not have. So a child that returns into the run exits right there, with the exit status its
own code gave it. It closes and removes nothing: that is up to the parent.
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
def ending_forked_children(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """End children that are forked within the block and return to this loop."""
    _loops.append(loop)
    parent = os.getpid()
    try:
        yield
    except BaseException as error:
        end_if_forked(parent, error)
        raise
    finally:
        _loops.remove(loop)


def end_if_forked(parent: int, error: BaseException | None = None) -> None:
    """End this process if it is a forked child; otherwise do nothing.

    Args:
        parent: The id of the process the work belongs to.
        error: What the child's own code raised, if anything.
    """
    if os.getpid() != parent:
        _end(error)


def _end(error: BaseException | None) -> None:
    status = 0
    try:
        status = _status_of(error)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:  # whatever happens, it must not return into the run
        os._exit(status)


def _status_of(error: BaseException | None) -> int:
    """Return the exit status Python would use, and print what Python would print."""
    if error is None:
        return 0
    if isinstance(error.__cause__, (SystemExit, KeyboardInterrupt)):
        error = error.__cause__  # a step turned it into a failure
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
    """In a child: callbacks scheduled on our loops belong to the parent."""
    for loop in _loops:
        with contextlib.suppress(Exception):  # not an asyncio loop: only the second part applies
            loop._ready.clear()  # type: ignore[attr-defined]  # noqa: SLF001 - no public way
        with contextlib.suppress(Exception):
            loop.call_soon(_end, RuntimeError("a forked child returned to the run's event loop"))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_the_loops)
