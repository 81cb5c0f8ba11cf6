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
from pathlib import Path
from queue import SimpleQueue
from types import GeneratorType
from typing import Any, TypeVar

from limpet.executors.loops import end_if_forked
from limpet.text import one_line

# ---- Is this process busy computing? ------------------------------------------------------------
#
# Python lets one thread compute at a time. A process is full if some thread computed for most of
# the time, or was ready to: on a busy machine, other processes have the processors meanwhile. A
# process that uses several processors at once is not full: its functions let other threads run.

THREADS = Path("/proc/self/task")
"""Where the system reports what each thread does, if it does."""
_FULL, _SEVERAL = 0.8, 1.2  # processors
_LEAST = 0.3  # below this, threads that only wait seem to compute on a busy machine


class ProcessorUse:
    """This process's use of the processors between two looks.

    Args:
        but: The native id of a thread to ignore.
    """

    def __init__(self, but: int | None = None) -> None:
        self._but = but
        self._looked_at, self._cpu_s = time.monotonic(), self._computed_s()
        self._waited_s: dict[str, float] = {}

    def is_full(self, *, exactly: bool = True) -> bool:
        """Return whether it was full since the last look.

        Args:
            exactly: Whether to read each thread's times. If not, time spent ready to run is ignored
                now and in the next look.
        """
        now, cpu_s = time.monotonic(), self._computed_s()
        waited_s = _waited_s() if exactly else {}
        passed_s = max(now - self._looked_at, 1e-9)
        used = (cpu_s - self._cpu_s) / passed_s
        waited = sum(
            waited - self._waited_s[thread]
            for thread, waited in waited_s.items()
            if thread in self._waited_s and thread != str(self._but)
        )
        self._looked_at, self._cpu_s, self._waited_s = now, cpu_s, waited_s
        return _LEAST <= used <= _SEVERAL and used + waited / passed_s >= _FULL

    def _computed_s(self) -> float:
        return time.process_time() - (0 if self._but is None else _times_s(self._but)[0])


def waited_for_processor_s(thread: int | str) -> float:
    """Return how long a thread was ready to run while others had the processors.

    Args:
        thread: Its native id.

    Returns:
        0 where the system does not report it.
    """
    return _times_s(thread)[1]


def _times_s(thread: int | str) -> tuple[float, float]:
    """Return how long a thread computed, and how long it was ready to."""
    try:
        numbers = (THREADS / str(thread) / "schedstat").read_bytes().split()
        return int(numbers[0]) / 1e9, int(numbers[1]) / 1e9
    except (OSError, ValueError, IndexError):  # it ended, or this is another system
        return 0.0, 0.0


def _waited_s() -> dict[str, float]:
    try:
        threads = [path.name for path in THREADS.iterdir()]
    except OSError:
        return {}
    return {thread: waited_for_processor_s(thread) for thread in threads}


# ---- How do sync functions run concurrently without blocking the event loop? --------------------

ResultT = TypeVar("ResultT")
Work = SimpleQueue[Callable[[], None] | None]
"""The functions that one thread will run; None ends it."""
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
    """Return how many threads still run a function cancelled at least this long ago."""
    now = time.monotonic()
    return sum(now - at >= since_s for at in list(_abandoned.values()))


def begun_at() -> list[float]:
    """Return the start time of each function running in a thread, by `time.monotonic`."""
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

        def invoke() -> None:
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
        work.put(invoke)
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
        while (invoke := work.get()) is not None:
            invoke()

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
