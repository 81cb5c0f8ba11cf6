"""When has a call timed out, if the event loop was suspended meanwhile?

When a process resumes after Ctrl-Z, SIGSTOP or a debugger, or its loop after blocking code, all its
timers are due at once, and they fire before the first socket is read. Answers that arrived long ago
would be discarded as late, and paid for again.

A timer that fires late shows that the loop was suspended. So a deadline is checked shortly before
it and when it is reached; if the loop was suspended at that moment, the deadline is postponed and
answers already received are read first. It is not postponed twice in a row, or a loop that is
always late would have no deadlines at all.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

FutureT = TypeVar("FutureT", bound=asyncio.Future[Any])

LATE_S = 0.05
"""A timer later than this was delayed."""
GRACE_S = 1.0
"""How long answers already received may take to be read after a suspension."""


class Countdown:
    """Calls `then` after some seconds, but not right after the loop was suspended."""

    def __init__(self, seconds: float, then: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._then = then
        self._postponed = False
        self._due = self._loop.time() + seconds
        self._check_at(self._due - min(GRACE_S, seconds / 2))

    def cancel(self) -> None:
        self._timer.cancel()

    def _check_at(self, moment: float) -> None:
        self._timer = self._loop.call_at(moment, self._check, moment)

    def _check(self, moment: float) -> None:
        now = self._loop.time()
        self._postponed = now - moment > LATE_S and not self._postponed
        if self._postponed:
            self._check_at(max(self._due, now + GRACE_S))
        elif moment < self._due:
            self._check_at(self._due)
        else:
            self._then()


async def wait(tasks: Iterable[FutureT], seconds: float) -> set[FutureT]:
    """Wait for tasks or futures for at most `seconds`. Returns those that have not ended."""
    loop = asyncio.get_running_loop()
    due = loop.time() + seconds
    _, late = await asyncio.wait(set(tasks), timeout=seconds)
    if late and loop.time() - due > LATE_S:
        _, late = await asyncio.wait(late, timeout=GRACE_S)
    return late
