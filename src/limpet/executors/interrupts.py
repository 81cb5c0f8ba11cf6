"""Who hears a signal while runs are under way?

Runs may overlap on one loop, and each wants the signal. If each installed a handler over the last
one's and put back what it found, runs that end in another order than they began would leave a
dead run's handler behind. So there is one handler per signal for all of them: installed by the
first, heard by all, and the previous one restored by the last.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# Only the main thread touches this: nobody else may install handlers.
_handlers: dict[int, "_Handler"] = {}

_HEEDED = 2  # the first signal stops a run, the second stops it at once


class _Handler:
    def __init__(self, signum: int) -> None:
        self.signum = signum
        self.listeners: list[Callable[[], None]] = []
        self.heard = 0
        self.previous: Any = signal.signal(signum, self._handle)

    def _handle(self, signum: int, _frame: FrameType | None) -> None:
        self.heard += 1
        if self.heard > _HEEDED:
            # Somebody's code blocks the loop, or ignores us: the person is past asking.
            self.restore()
            signal.raise_signal(signum)
            return
        for listener in list(self.listeners):
            listener()

    def restore(self) -> None:
        # A handler that was not installed from Python reads as None and cannot be put back.
        signal.signal(self.signum, signal.SIG_DFL if self.previous is None else self.previous)


@contextmanager
def hearing(signum: int | None, listener: Callable[[], None]) -> Iterator[None]:
    """Call `listener` for the first and the second signal that arrive meanwhile.

    A third goes to the handler that was there before. Off the main thread, or with no signal
    named, nothing is touched.
    """
    if signum is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = _handlers.get(signum)
    if handler is None:
        handler = _handlers[signum] = _Handler(signum)
    handler.listeners.append(listener)
    try:
        yield
    finally:
        handler.listeners.remove(listener)
        if not handler.listeners:
            del _handlers[signum]
            handler.restore()
