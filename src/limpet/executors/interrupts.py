"""Which runs does a signal reach?

Runs may overlap on one loop, and each wants the signal. If each installed its own handler and
restored the one before, runs that end in a different order than they began would leave a dead run's
handler behind. So all runs share one handler per signal: the first installs it, it calls all of
them, and the last restores the previous one.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# Only the main thread uses this: other threads cannot install handlers.
_handlers: dict[int, "_Handler"] = {}

_HANGUP = getattr(signal, "SIGHUP", None)
_MOST_HANDLED = 2  # the first signal stops a run, the second stops it at once


class _Handler:
    def __init__(self, signum: int) -> None:
        self.signum = signum
        self.listeners: list[Callable[[], None]] = []
        self.received = 0
        self.previous: Any = signal.signal(signum, self._handle)

    def _handle(self, signum: int, _frame: FrameType | None) -> None:
        self.received += 1
        if self.received > _MOST_HANDLED:
            # Something blocks the loop or ignores its cancellation: the user insists.
            self.restore()
            signal.raise_signal(signum)
            return
        for listener in list(self.listeners):
            listener()

    def restore(self) -> None:
        # A handler that was not installed from Python reads as None and cannot be restored.
        signal.signal(self.signum, signal.SIG_DFL if self.previous is None else self.previous)


@contextmanager
def on_signal(signum: int | None, listener: Callable[[], None]) -> Iterator[None]:
    """Call `listener` for the first and second signal that arrive within the block.

    A third goes to the previous handler. Off the main thread, or with `signum=None`, no handler
    is installed; nor for SIGHUP if the process ignores it, as `nohup` wants.
    """
    if (
        signum is None
        or threading.current_thread() is not threading.main_thread()
        or (signum == _HANGUP and signal.getsignal(signum) is signal.SIG_IGN)
    ):
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


# ---- children that user code forks --------------------------------------------------------------
#
# In a child, a signal that stops the run must act as it did before the run. Otherwise
# `multiprocessing.Pool.terminate()` in a workflow waits forever for children that SIGTERM does not
# end. We keep Ctrl-C: a terminal also sends it to the children, and the first one should let calls
# in flight end. Python forgets signals that reach a child before it is set up, so they are held
# back until then.


_mask = threading.local()  # signals that the forking thread had blocked itself


def _theirs() -> list[_Handler]:
    return [handler for handler in _handlers.values() if handler.signum != signal.SIGINT]


def _hold_back() -> None:
    signums = [handler.signum for handler in _theirs()]
    _mask.before = signal.pthread_sigmask(signal.SIG_BLOCK, signums)


def _let_through() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _mask.before)


def _give_back() -> None:
    for handler in _theirs():
        if signal.getsignal(handler.signum) == handler._handle:  # noqa: SLF001 - our own class
            handler.restore()
    _let_through()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_back, after_in_parent=_let_through, after_in_child=_give_back)
