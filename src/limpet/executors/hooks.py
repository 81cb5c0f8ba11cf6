"""How are hooks called, and what if they fail?

A hook may be sync or async. If it fails, the error is logged with its traceback and affects no
call.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from limpet.arguments import function
from limpet.executors import countdown
from limpet.executors.details import Attempt, Finished
from limpet.executors.progress import Progress

OnComplete = Callable[[Finished[Any, Any]], Awaitable[None] | None]
OnAttempt = Callable[[Attempt], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Hooks:
    """The user's hooks."""

    on_complete: OnComplete | None
    on_attempt_start: OnAttempt | None
    on_attempt_end: OnAttempt | None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) is not None:
                function(**{name: getattr(self, name)})


class HookRunner:
    """Calls the hooks of one run and keeps track of the async ones still running."""

    def __init__(self, hooks: Hooks, progress: Progress, on_done: Callable[[], None]) -> None:
        self._hooks = hooks
        self._progress = progress
        self._on_done = on_done
        self._running: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def started(self, attempt: Attempt) -> None:
        if self._hooks.on_attempt_start is not None:
            self._call(self._hooks.on_attempt_start, attempt)

    def ended(self, attempt: Attempt) -> None:
        if self._hooks.on_attempt_end is not None:
            self._call(self._hooks.on_attempt_end, attempt)

    def completed(self, finished: Finished[Any, Any], then: Callable[[], None]) -> None:
        """An input is done. When its hook has returned, the bar advances and `then` is called."""

        def end() -> None:
            self._progress.advance()
            then()

        hook = self._hooks.on_complete
        if hook is None or not self._call(hook, finished, end):
            end()

    async def finish(self, timeout_s: float) -> None:
        """Wait for running async hooks, then cancel and log those that are late."""
        if not self._running:
            return
        late = await countdown.wait(self._running, timeout_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=timeout_s)

    def _call(
        self,
        hook: Callable[[Any], Awaitable[None] | None],
        event: Any,
        then: Callable[[], None] | None = None,
    ) -> bool:
        """Call a hook. Returns whether it is still running; `then` is called when it ends."""
        try:
            result = hook(event)
            if isinstance(result, asyncio.Future):
                running = result  # it needs no task of its own
            elif result is None or not isawaitable(result):
                return False
            else:
                running = asyncio.ensure_future(result, loop=asyncio.get_running_loop())
        except Exception as fault:  # noqa: BLE001 - logged with its traceback
            self._progress.log_fault(fault, "the hook %s failed on %s", hook, type(event).__name__)
            return False
        self._running.add(running)
        # Not in the task itself: an eager task ends before it is added.
        running.add_done_callback(functools.partial(self._done, hook, then))
        return True

    def _done(
        self, hook: Any, then: Callable[[], None] | None, ended: asyncio.Future[None]
    ) -> None:
        self._running.discard(ended)
        if ended.cancelled():
            late = asyncio.CancelledError()
            self._progress.log_fault(late, "the hook %s was cancelled before it ended", hook)
        elif (fault := ended.exception()) is not None:
            self._progress.log_fault(fault, "the hook %s failed", hook)
        if then is not None:
            then()
        self._on_done()
