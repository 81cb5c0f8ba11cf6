"""A map, and how its function gets its inputs."""

import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from limpet.copies import own_containers
from limpet.errors import InterruptedRunError
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.details import ExecutionDetails, Finished
from limpet.executors.interrupts import on_signal
from limpet.executors.options import ExecutorOptions
from limpet.executors.threads import Threads, is_async
from limpet.json_values import exception_in
from limpet.run.executing.failure_kinds import mistakes_once
from limpet.run.executing.stopping import interrupted
from limpet.run.results.map_result import MapResult
from limpet.secrets.masking import Masking


def with_own_input(function: Any) -> Any:
    """Return a function that gets a copy of its input at every call, so that a retry sees no edits.

    Only containers are copied: other objects, for example a client or an array, are passed on.
    """
    if is_async(function):

        async def call_async(value: Any) -> Any:
            return await function(own_containers(value))

        return call_async

    def call(value: Any) -> Any:
        return function(own_containers(value))

    return call


class MapRun:
    """Runs a function over inputs, from `open` to `close`. Keeps nothing on disk.

    Attributes:
        inputs: The inputs to run.
        executor: Runs them; set by `open`.
    """

    executor: AsyncExecutor[Any, Any]

    def __init__(self, fn: Any, inputs: Any, options: ExecutorOptions, masking: Masking) -> None:
        self.inputs = inputs
        self._masking = masking
        self._fn = fn
        self._options: ExecutorOptions = {**options}
        self._options["classify"] = mistakes_once(options.get("classify"))
        self._threads = Threads()
        self._failures: dict[int, Finished[Any, Any]] = {}
        self._signum: int | None = None

    def open(self) -> None:
        """Prepare the executor. May read and write files."""
        own = self._options.get("on_complete")

        def note(finished: Finished[Any, Any]) -> Awaitable[None] | None:
            if finished.error is not None:
                self._failures[finished.index] = finished
            return None if own is None else own(finished)

        options: ExecutorOptions = {**self._options, "on_complete": note}
        self.executor = AsyncExecutor(self._as_cell(), **options)
        self.executor.mask = self._masking.ours

    def _as_cell(self) -> Callable[[Any], Awaitable[Any]]:
        """Return the function as an executor calls it: an exception that it returns is raised."""
        run = self._threads.as_async(with_own_input(self._fn))

        async def call(value: Any) -> Any:
            output = await run(value)
            if (failure := exception_in(output)) is not None:
                raise failure
            return output

        return call

    def finish(self, outputs: list[Any], details: list[ExecutionDetails]) -> MapResult[Any, Any]:
        """Return the result, from what the executor returned."""
        failures = [self._failures[index] for index in sorted(self._failures)]
        return MapResult(outputs, details, failures, stop_reason=self._stop_reason)

    @property
    def _stop_reason(self) -> Exception | None:
        reason = self.executor.stop_reason
        if self._signum is not None and (reason is None or isinstance(reason, InterruptedRunError)):
            reason = interrupted(self._signum)
        return reason

    @contextmanager
    def handling_signals(self) -> Iterator[None]:
        """Stop at SIGTERM and SIGHUP as at SIGINT, which the executor handles itself."""
        with ExitStack() as stack:
            for signum in (signal.SIGTERM, getattr(signal, "SIGHUP", None)):
                stack.enter_context(on_signal(signum, partial(self._stop, signum)))
            yield

    def _stop(self, signum: int | None) -> None:
        self._signum = self._signum or signum
        self.executor.interrupt()

    def close(self) -> None:
        """Release everything. May write files."""
        self._threads.close()
