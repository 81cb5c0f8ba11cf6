"""An event loop whose clock jumps to the next timer: an hour passes in milliseconds.

Unmodified asyncio code runs on it. Nothing is slept: when no callback is ready, the clock is set
to the moment of the next timer. Signals and other threads still reach the loop, so a test can
send one; the clock stands still only while something is ready to run.
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")

REAL_PATIENCE_S = 5.0


class DeadlockError(RuntimeError):
    """Nothing is scheduled and nothing came from outside: the code under test hangs."""


class _JumpingSelector:
    """Polls for real, and moves the loop's clock instead of waiting."""

    def __init__(self, real: selectors.BaseSelector, loop: "VirtualTimeLoop") -> None:
        self._real = real
        self._loop = loop

    def select(self, timeout: float | None) -> Any:
        events = self._real.select(0)
        if events or timeout == 0:
            return events
        if timeout is None:
            events = self._real.select(REAL_PATIENCE_S)
            if not events:
                raise DeadlockError("virtual time: nothing is scheduled, nothing can happen")
            return events
        self._loop.jump()
        return events

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A selector event loop on virtual time, starting at 0."""

    _scheduled: list[asyncio.TimerHandle]
    _selector: Any

    def __init__(self) -> None:
        self._now = 0.0
        self.jumps = 0
        super().__init__()
        self._clock_resolution = 1e-9
        self._selector = _JumpingSelector(self._selector, self)

    def time(self) -> float:
        return self._now

    def jump(self) -> None:
        """Set the clock to the next timer."""
        self.jumps += 1
        self._now = max(self._now, self._scheduled[0].when())


def run(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine to its end on virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a plain test of an async one, run on virtual time."""

    @functools.wraps(test)
    def plain(*fixtures: Any, **named: Any) -> None:
        run(test(*fixtures, **named))

    return plain
