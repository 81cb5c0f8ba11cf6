"""On which event loop does a blocking `run()` do its work?

If no loop is running, on a new one. If the running loop is patched by nest_asyncio, on that one. If
it is not patched, as in a notebook, on a loop in a separate thread while this thread waits.
"""

import asyncio
import contextlib
import contextvars
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from limpet.errors import LimpetError

# ---- What if user code forks, and the child returns into the run? -------------------------------
#
# The child has a copy of everything: the run, the calls in flight, the event loop. If it
# continued, it would make each call a second time, share the loop's files with its parent, and
# wait for threads it does not have. So a child that returns into the run exits right there, with
# the exit status its own code gave it. It closes and removes nothing: that is up to the parent.

_loops: list[asyncio.AbstractEventLoop] = []
_pid = os.getpid()  # cached: every call compares it, and a system call takes longer


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
    if _pid != parent:
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


def _begin_after_fork() -> None:
    """In a child: callbacks scheduled on our loops belong to the parent."""
    global _pid  # noqa: PLW0603 - of this process
    _pid = os.getpid()
    for loop in _loops:
        with contextlib.suppress(Exception):  # not an asyncio loop: only the second part applies
            loop._ready.clear()  # type: ignore[attr-defined]  # noqa: SLF001 - no public way
        with contextlib.suppress(Exception):
            loop.call_soon(_end, RuntimeError("a forked child returned to the run's event loop"))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_after_fork)


# ---- On which event loop does a blocking `run()` do its work? -----------------------------------

ResultT = TypeVar("ResultT")

CLEANUP_GRACE_S = 1.0
_TICK_S = 1.0
INTERRUPT_GRACE_S = 5.0


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop running in this thread, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def is_nest_patched(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether nest_asyncio made this loop re-entrant."""
    return bool(getattr(loop, "_nest_patched", False))


def run_here(
    main: Coroutine[Any, Any, ResultT], given_up: Callable[[], Collection[asyncio.Task[Any]]]
) -> ResultT:
    """Run on a new loop in this thread and close it, even if tasks are left on it.

    `asyncio.run` is not enough: it waits forever for tasks that ignore their cancellation and for
    threads that still work, so one stuck call would hang a finished run.

    Args:
        main: The coroutine to run.
        given_up: Returns tasks that are not waited for again.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(main)
    with ending_forked_children(loop):
        _tick(loop)
        try:
            return loop.run_until_complete(task)
        except OSError as error:
            if task.done():
                raise
            raise _broken(loop) from error
        finally:
            if task.done():
                try:
                    loop.run_until_complete(_cancel_remaining(given_up()))
                    loop.run_until_complete(loop.shutdown_asyncgens())
                finally:
                    loop.close()


def _tick(loop: asyncio.AbstractEventLoop) -> None:
    """Wake the loop regularly: nothing else wakes one whose files were closed in a thread."""
    loop.call_later(_TICK_S, _tick, loop)


def _broken(loop: asyncio.AbstractEventLoop) -> LimpetError:
    """Leave the loop open: its file descriptors may belong to other files by now."""
    for task in asyncio.all_tasks(loop):
        silence(task)
    return LimpetError(
        "the event loop's own files were closed by other code in this process",
        hint="find the code that closes file descriptors it did not open (os.closerange, "
        "os.close); finished results are on disk",
    )


async def _cancel_remaining(given_up: Collection[asyncio.Task[Any]]) -> None:
    remaining = asyncio.all_tasks() - {asyncio.current_task()}
    for task in remaining:
        task.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # a cancellation takes two turns to pass through an awaited future
    waited_for = [task for task in remaining if task not in given_up]
    if waited_for:
        await asyncio.wait(waited_for, timeout=CLEANUP_GRACE_S)
    for task in remaining:
        if not task.done():
            silence(task)


def silence(task: asyncio.Task[Any]) -> None:
    """Keep asyncio from warning about a task that was abandoned and reported."""
    # Private, but asyncio uses the same switch for tasks that `gather` and `shield` own.
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
    task.add_done_callback(_retrieve_exception)


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def run_in_thread(work: Callable[[], ResultT], on_interrupt: Callable[[], None]) -> ResultT:
    """Run `work` in a new thread, in a copy of this context, and wait for it.

    Args:
        work: The function to run.
        on_interrupt: Called if this thread is interrupted while it waits (KeyboardInterrupt);
            it must make `work` end soon.
    """
    outcome: list[ResultT] = []
    failure: list[BaseException] = []
    # Not join(): interrupted by an exception, it reports a running thread as ended.
    ended = threading.Event()

    def target() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - carried over to the waiting thread
            failure.append(error)
        finally:
            ended.set()

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(target,), name="limpet-run", daemon=True)
    try:
        thread.start()
        while not ended.wait(_TICK_S):  # a signal just before an endless wait would go unnoticed
            pass
    except BaseException:
        on_interrupt()
        # Bounded: code that blocks the thread's loop must not hang this thread too.
        if ended.wait(INTERRUPT_GRACE_S):
            thread.join()
        raise
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
