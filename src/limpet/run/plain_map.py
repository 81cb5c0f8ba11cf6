"""One map, from its inputs to its result, without a journal."""

from collections.abc import Awaitable
from typing import Any

from limpet.copies import own_containers
from limpet.executors.async_executor import AsyncExecutor
from limpet.executors.details import ExecutionDetails, Finished
from limpet.executors.options import ExecutorOptions
from limpet.executors.threads import Threads, is_async
from limpet.run.executing.failure_kinds import mistakes_once
from limpet.run.results.map_result import MapResult


def on_its_own(function: Any) -> Any:
    """Return a function whose every call gets containers of its own, also on a second attempt.

    Objects of other classes are handed over as they are: a client or an array is not copied.
    """
    if is_async(function):

        async def call_async(one: Any) -> Any:
            return await function(own_containers(one))

        return call_async

    def call(one: Any) -> Any:
        return function(own_containers(one))

    return call


class Mapping:
    """One map, without a journal.

    Attributes:
        inputs: What has to run.
        executor: What runs it; there from `open` on.
    """

    executor: AsyncExecutor[Any, Any]

    def __init__(self, fn: Any, inputs: Any, options: ExecutorOptions) -> None:
        self.inputs = inputs
        self._fn = fn
        self._options: ExecutorOptions = {**options}
        self._options["classify"] = mistakes_once(options.get("classify"))
        self._threads = Threads()
        self._failures: dict[int, Finished[Any, Any]] = {}

    def open(self) -> None:
        """Get ready. May read and write files."""
        own = self._options.get("on_complete")

        def note(finished: Finished[Any, Any]) -> Awaitable[None] | None:
            if finished.error is not None:
                self._failures[finished.index] = finished
            return None if own is None else own(finished)

        options: ExecutorOptions = {**self._options, "on_complete": note}
        self.executor = AsyncExecutor(self._threads.as_async(on_its_own(self._fn)), **options)

    def finish(self, outputs: list[Any], details: list[ExecutionDetails]) -> MapResult[Any, Any]:
        """Make the result of what the executor gave."""
        failures = [self._failures[index] for index in sorted(self._failures)]
        return MapResult(outputs, details, failures, stop_reason=self.executor.stop_reason)

    def close(self) -> None:
        """Let go of everything. May write files."""
        self._threads.close()
