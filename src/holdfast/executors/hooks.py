"""Who wants to know, and what if they fail?

A hook may be sync or async. Its failure is its own: it is logged with its traceback and touches
neither the call it was told of nor any other.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from holdfast.executors.attempts import Attempt, Finished

logger = logging.getLogger("holdfast.executors")

OnComplete = Callable[[Finished[Any, Any]], Awaitable[None] | None]
OnAttempt = Callable[[Attempt], Awaitable[None] | None]


class Hooks:
    """The user's callbacks, and the async ones still under way."""

    def __init__(
        self,
        on_complete: OnComplete | None,
        on_attempt_start: OnAttempt | None,
        on_attempt_end: OnAttempt | None,
    ) -> None:
        self.on_complete = on_complete
        self.on_attempt_start = on_attempt_start
        self.on_attempt_end = on_attempt_end


class Telling:
    """Tells the hooks of one run, and knows which of them have not finished listening."""

    def __init__(self, hooks: Hooks, on_heard: Callable[[], None]) -> None:
        self._hooks = hooks
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
        """An input is done."""
        if self._hooks.on_complete is not None:
            self._tell(self._hooks.on_complete, finished)

    async def finish(self, timeout_s: float) -> None:
        """Wait a while for the async hooks under way: what they carry is finished work."""
        if self._under_way:
            await asyncio.wait(set(self._under_way), timeout=timeout_s)

    def _tell(self, hook: Callable[[Any], Awaitable[None] | None], news: Any) -> None:
        try:
            answer = hook(news)
        except Exception:
            logger.exception("the hook %r failed on %s", hook, type(news).__name__)
            return
        if isawaitable(answer):
            loop = asyncio.get_running_loop()
            self._under_way.add(loop.create_task(self._listen(hook, answer)))

    async def _listen(self, hook: Any, answer: Awaitable[None]) -> None:
        try:
            await answer
        except Exception:
            logger.exception("the hook %r failed", hook)
        finally:
            self._under_way.discard(asyncio.current_task())
            self._on_heard()
