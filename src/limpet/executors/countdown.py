"""When is it too late for an answer, if the event loop was not there to take it?

A process that was stopped (Ctrl-Z, SIGSTOP, a debugger), or whose loop was blocked, finds all its
timers due at once when it goes on, and they fire before the first socket is read: answers that had
long arrived would be thrown away as late, and paid for again.

A timer that fires late tells that the loop was away. So a limit is looked at shortly before its
end and at its end; if the loop was away at that moment, it is put off, and what has arrived
meanwhile is taken first. Not twice in a row: else a loop that is late again and again would have
no limits at all.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

LATE_S = 0.05
"""A timer that fires later than this was held up."""
GRACE_S = 1.0
"""How long what has arrived may take to get through, after an absence."""


class Countdown:
    """Calls `then` after so many seconds, but not right after the loop was away."""

    def __init__(self, seconds: float, then: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._then = then
        self._put_off = False
        self._due = self._loop.time() + seconds
        self._look_at(self._due - min(GRACE_S, seconds / 2))

    def cancel(self) -> None:
        """Do not call."""
        self._timer.cancel()

    def _look_at(self, moment: float) -> None:
        self._timer = self._loop.call_at(moment, self._look, moment)

    def _look(self, moment: float) -> None:
        now = self._loop.time()
        self._put_off = now - moment > LATE_S and not self._put_off
        if self._put_off:
            self._look_at(max(self._due, now + GRACE_S))
        elif moment < self._due:
            self._look_at(self._due)
        else:
            self._then()


async def wait(tasks: Iterable[asyncio.Task[Any]], seconds: float) -> set[asyncio.Task[Any]]:
    """Wait until they have ended, but not for longer; returns those that have not."""
    loop = asyncio.get_running_loop()
    due = loop.time() + seconds
    _, late = await asyncio.wait(set(tasks), timeout=seconds)
    if late and loop.time() - due > LATE_S:
        _, late = await asyncio.wait(late, timeout=GRACE_S)
    return late
