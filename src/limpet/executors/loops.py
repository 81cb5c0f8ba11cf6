"""On which event loop does a blocking `run()` do its work?

Three situations: no loop runs here, so we make one; a loop runs that nest_asyncio has patched, so
it can be re-entered; a loop runs that has not, as in a notebook, so the work goes to a loop in a
thread of its own while this thread waits.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

from limpet.errors import LimpetError
from limpet.executors.forks import at_home

ResultT = TypeVar("ResultT")

CLEANUP_GRACE_S = 1.0
_TICK_S = 1.0
INTERRUPT_GRACE_S = 5.0


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def is_nest_patched(loop: asyncio.AbstractEventLoop) -> bool:
    """Tell whether nest_asyncio made this loop re-enterable."""
    return bool(getattr(loop, "_nest_patched", False))


def run_here(
    main: Coroutine[Any, Any, ResultT], given_up: Callable[[], Collection[asyncio.Task[Any]]]
) -> ResultT:
    """Run on a new loop in this thread and close it, whatever is left on it.

    `asyncio.run` is not enough: at its end it waits without bound for tasks that ignore their
    cancellation and for threads that still work, so one stuck call would hold the finished run.

    Args:
        main: What to run.
        given_up: Tasks that had their time to end and are not waited for again.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(main)
    with at_home(loop):
        _tick(loop)
        try:
            return loop.run_until_complete(task)
        except OSError as error:
            if task.done():
                raise
            raise _broken(loop) from error
        finally:
            if task.done():
                _close(loop, given_up)


def _close(
    loop: asyncio.AbstractEventLoop, given_up: Callable[[], Collection[asyncio.Task[Any]]]
) -> None:
    try:
        loop.run_until_complete(_cancel_what_is_left(given_up))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _tick(loop: asyncio.AbstractEventLoop) -> None:
    """Wake the loop now and then: one whose files were closed in a thread is not woken else."""
    loop.call_later(_TICK_S, _tick, loop)


def _broken(loop: asyncio.AbstractEventLoop) -> LimpetError:
    """The loop is not closed: its numbers may be those of other files by now."""
    for task in asyncio.all_tasks(loop):
        silence(task)
    return LimpetError(
        "the event loop's own files were closed by other code in this process",
        hint="find what closes file descriptors that it did not open (os.closerange, os.close); "
        "what is finished is on disk",
    )


async def _cancel_what_is_left(given_up: Callable[[], Collection[asyncio.Task[Any]]]) -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # a cancellation takes two turns to pass through an awaited future
    waited_for = [task for task in left if task not in given_up()]
    if waited_for:
        await asyncio.wait(waited_for, timeout=CLEANUP_GRACE_S)
    for task in left:
        if not task.done():
            silence(task)


def silence(task: asyncio.Task[Any]) -> None:
    """Keep asyncio from shouting about a task that we have given up, and said so."""
    # Private, but the switch asyncio itself uses for tasks somebody else answers for.
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
    task.add_done_callback(_look_at_exception)


def _look_at_exception(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def run_in_thread(work: Callable[[], ResultT], on_interrupt: Callable[[], None]) -> ResultT:
    """Run `work` in a thread of its own, in a copy of this context, and wait for it.

    Args:
        work: What to run.
        on_interrupt: Called if this thread is interrupted while it waits (KeyboardInterrupt);
            it must make `work` end soon.
    """
    outcome: list[ResultT] = []
    failure: list[BaseException] = []
    # Not join(): interrupted by an exception, it takes a thread that still runs for ended.
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
        ended.wait()
    except BaseException:
        on_interrupt()
        # Bounded: code that blocks the thread's loop hears nothing, and must not hold this one.
        if ended.wait(INTERRUPT_GRACE_S):
            thread.join()
        raise
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
