"""Who wants to know, and what if they fail?

A hook may be sync or async. Its failure is its own: it is logged with its traceback and touches
neither the call it was told of nor any other.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from limpet.executors import countdown
from limpet.executors.attempts import Attempt, Finished
from limpet.executors.progress import Progress

OnComplete = Callable[[Finished[Any, Any]], Awaitable[None] | None]
OnAttempt = Callable[[Attempt], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the user wants to be told of."""

    on_complete: OnComplete | None
    on_attempt_start: OnAttempt | None
    on_attempt_end: OnAttempt | None


class Telling:
    """Tells the hooks of one run, and knows which of them have not finished listening."""

    def __init__(self, hooks: Hooks, progress: Progress, on_heard: Callable[[], None]) -> None:
        self._hooks = hooks
        self._progress = progress
        self._on_heard = on_heard
        self._under_way: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._under_way)

    def started(self, attempt: Attempt) -> None:
        """An attempt has started."""
        if self._hooks.on_attempt_start is not None:
            self._tell(self._hooks.on_attempt_start, attempt)

    def ended(self, attempt: Attempt) -> None:
        """An attempt has ended, and what comes next is decided."""
        if self._hooks.on_attempt_end is not None:
            self._tell(self._hooks.on_attempt_end, attempt)

    def completed(self, finished: Finished[Any, Any]) -> None:
        """An input is done. It is counted on the bar when the hook has heard of it."""
        if self._hooks.on_complete is None or not self._tell(
            self._hooks.on_complete, finished, self._progress.advance
        ):
            self._progress.advance()

    async def finish(self, timeout_s: float) -> None:
        """Wait a while for the async hooks under way, then cancel them and say so."""
        if not self._under_way:
            return
        late = await countdown.wait(self._under_way, timeout_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=timeout_s)

    def _tell(
        self,
        hook: Callable[[Any], Awaitable[None] | None],
        news: Any,
        then: Callable[[], None] | None = None,
    ) -> bool:
        """Call a hook; tell whether it is still listening. `then` is called when it has heard."""
        try:
            answer = hook(news)
        except Exception as fault:  # noqa: BLE001 - logged with its traceback
            self._progress.log_fault(fault, "the hook %s failed on %s", hook, type(news).__name__)
            return False
        if not isawaitable(answer):
            return False
        task = asyncio.get_running_loop().create_task(self._listen(hook, answer))
        self._under_way.add(task)
        if then is not None:
            task.add_done_callback(lambda _: then())
        # Not in the task itself: an eager task has ended before it was added.
        task.add_done_callback(self._heard)
        return True

    async def _listen(self, hook: Any, answer: Awaitable[None]) -> None:
        try:
            await answer
        except asyncio.CancelledError as late:
            self._progress.log_fault(late, "the hook %s was cancelled before it had ended", hook)
        except Exception as fault:  # noqa: BLE001 - logged with its traceback
            self._progress.log_fault(fault, "the hook %s failed", hook)

    def _heard(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._on_heard()
