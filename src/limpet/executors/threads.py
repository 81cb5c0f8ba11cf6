"""How does a plain function run beside others without holding the event loop?

In threads of our own and not in asyncio's pool: that one has a few threads for the whole process,
and at its end Python waits for each of them, so that one call that hangs would hold it for ever.
Ours are as many as there are calls at a time, and die with the process.
"""

import asyncio
import contextvars
import functools
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from queue import SimpleQueue
from types import GeneratorType
from typing import Any, TypeVar

from limpet.executors.forks import end_if_forked
from limpet.text import one_line

ResultT = TypeVar("ResultT")
Work = SimpleQueue[Callable[[], None] | None]
"""What one thread has to do; None: it may go."""


def is_async(function: Any) -> bool:
    """Tell whether calling it gives something to await."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        return False
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def is_awaitable(value: Any) -> bool:
    """Tell whether a value can be awaited, by its type alone: the value itself is not looked at."""
    if type(value) is GeneratorType:
        return inspect.isawaitable(value)
    return issubclass(type(value), Awaitable)


class Threads:
    """Threads that wait for work, and as many more as there is work for."""

    def __init__(self) -> None:
        self._idle: list[Work] = []
        self._closed = False

    def as_async(self, function: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:
        """Return an async function that does the same: in these threads, if it is a plain one."""
        if is_async(function):
            return function

        async def in_thread(payload: Any) -> Any:
            value = await self.run(function, payload)
            # A plain function may hand out a coroutine: a lambda around an async one.
            return await value if is_awaitable(value) else value

        return in_thread

    async def run(self, function: Callable[[Any], Any], payload: Any) -> Any:
        """Call the function in a thread, in a copy of this context.

        If this is cancelled, the thread goes on until the function returns: nothing can stop it.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        context, home = contextvars.copy_context(), os.getpid()
        work = self._idle.pop() if self._idle else _new_thread()

        def job() -> None:
            value: Any = None
            error: BaseException | None = None
            try:
                value = context.run(function, payload)
            except BaseException as raised:  # noqa: BLE001 - handed to the one who waits
                error = raised
            end_if_forked(home, error)
            try:
                loop.call_soon_threadsafe(self._settle, work, done, value, error)
            except RuntimeError:  # the loop is closed: nobody waits, and there is no more work
                work.put(None)

        work.put(job)
        return await done

    def _settle(
        self, work: Work, done: asyncio.Future[Any], value: Any, error: BaseException | None
    ) -> None:
        if self._closed:
            work.put(None)
        else:
            self._idle.append(work)
        if done.cancelled():
            return
        if error is None:
            done.set_result(value)
        elif issubclass(type(error), StopIteration):  # a future refuses to carry it
            done.set_exception(RuntimeError(f"the function raised {one_line(error)}"))
        else:
            done.set_exception(error)

    def close(self) -> None:
        """Let the threads go, each when its function has returned."""
        self._closed = True
        while self._idle:
            self._idle.pop().put(None)


def _new_thread() -> Work:
    work: Work = SimpleQueue()

    def serve() -> None:
        while (job := work.get()) is not None:
            job()

    threading.Thread(target=serve, name="limpet-call", daemon=True).start()
    return work


async def to_its_end(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Await work that cannot be stopped: a cancellation waits until it has ended."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.cancelled():
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # seen; the cancellation is what is raised
        raise
