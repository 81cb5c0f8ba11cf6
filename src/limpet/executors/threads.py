"""How do sync functions run concurrently without blocking the event loop?

In our own threads, not in asyncio's pool: that pool has a few threads for the whole process, and
Python waits for each of them at exit, so one hanging call would hang the process. We use as many
threads as there are concurrent calls, and they end with the process.
"""

import asyncio
import contextvars
import functools
import inspect
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from queue import SimpleQueue
from types import GeneratorType
from typing import Any, TypeVar

from limpet.executors.forks import end_if_forked
from limpet.text import one_line

ResultT = TypeVar("ResultT")
Work = SimpleQueue[Callable[[], None] | None]
"""The jobs of one thread; None ends it."""
_begun: dict[Work, float] = {}  # threads that run a function, and since when
_abandoned: dict[Work, float] = {}  # those whose callers were cancelled, and when


def is_async(function: Any) -> bool:
    """Return whether calling the function returns an awaitable."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        return False
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def is_awaitable(value: Any) -> bool:
    """Return whether a value can be awaited, judging by its type without touching the value."""
    if type(value) is GeneratorType:
        return inspect.isawaitable(value)
    return issubclass(type(value), Awaitable)


def abandoned(since_s: float) -> int:
    """Return how many threads still run a function whose call was cancelled so long ago."""
    now = time.monotonic()
    return sum(now - at >= since_s for at in list(_abandoned.values()))


def begun_at() -> list[float]:
    """Return when each function began that runs in a thread, by `time.monotonic`."""
    return list(_begun.values())


class Threads:
    """Reusable threads; a new one starts whenever all are busy."""

    def __init__(self) -> None:
        self._idle: list[Work] = []
        self._closed = False

    def as_async(self, function: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:
        """Return an async version of the function, which runs in these threads if it is sync."""
        if is_async(function):
            return function

        async def in_thread(payload: Any) -> Any:
            value = await self.run(function, payload)
            # A sync function may return a coroutine: a lambda around an async function.
            return await value if is_awaitable(value) else value

        return in_thread

    async def run(self, function: Callable[[Any], Any], payload: Any) -> Any:
        """Call the function in a thread, in a copy of this context.

        If this is cancelled, the thread keeps running until the function returns.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        context, parent = contextvars.copy_context(), os.getpid()
        work = self._idle.pop() if self._idle else _new_thread()

        def job() -> None:
            value: Any = None
            error: BaseException | None = None
            try:
                value = context.run(function, payload)
            except BaseException as raised:  # noqa: BLE001 - passed to the caller
                error = raised
            end_if_forked(parent, error)
            try:
                loop.call_soon_threadsafe(self._settle, work, done, value, error)
            except RuntimeError:  # the loop is closed: there is no caller and no more work
                _forget(work)
                work.put(None)

        _begun[work] = time.monotonic()
        work.put(job)
        try:
            return await done
        finally:
            if done.cancelled() and work in _begun:  # it may have ended meanwhile
                _abandoned[work] = time.monotonic()

    def _settle(
        self, work: Work, done: asyncio.Future[Any], value: Any, error: BaseException | None
    ) -> None:
        _forget(work)
        if self._closed:
            work.put(None)
        else:
            self._idle.append(work)
        if done.cancelled():
            return
        if error is None:
            done.set_result(value)
        elif issubclass(type(error), StopIteration):  # a future rejects it
            done.set_exception(RuntimeError(f"the function raised {one_line(error)}"))
        else:
            done.set_exception(error)

    def close(self) -> None:
        """End the threads, each when its function has returned."""
        self._closed = True
        while self._idle:
            self._idle.pop().put(None)


def _forget(work: Work) -> None:
    _begun.pop(work, None)
    _abandoned.pop(work, None)


def _new_thread() -> Work:
    work: Work = SimpleQueue()

    def serve() -> None:
        while (job := work.get()) is not None:
            job()

    threading.Thread(target=serve, name="limpet-call", daemon=True).start()
    return work


async def uninterrupted(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Await work to its end; a cancellation takes effect afterwards."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.cancelled():
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # retrieved; the cancellation is raised instead
        raise
