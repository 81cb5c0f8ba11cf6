"""What if an object of the user's does harm when it is looked at?

A value, an exception or a score may raise anything from its `__repr__`, `__class__` or `__bool__`:
also SystemExit, which would end the process in silence, and KeyboardInterrupt, which looks like
Ctrl-C. Whoever looks at such an object catches everything, and asks here whether it was the
object's own.
"""

import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from limpet.errors import PermanentError

AtomT = TypeVar("AtomT", str, int, float)
_AS_IT_IS: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
}


def itself(kind: type[AtomT], value: Any) -> AtomT:
    """Return the text or the number that a value is, whatever its class makes of it.

    `float(value)` would ask a method that a subclass may have changed: it may say NaN of 1.0, or
    1.0 of a NaN. What only passes itself off for one (a proxy) has to be asked.
    """
    return _AS_IT_IS[kind](value) if issubclass(type(value), kind) else kind(value)


def is_interrupt(error: BaseException) -> bool:
    """Tell whether an exception may be a real Ctrl-C: then it has to be heard.

    Python raises KeyboardInterrupt for a signal on the main thread only, and only while its own
    handler is in place. A run puts its own there, which raises nothing: in a run, before the third
    Ctrl-C, a KeyboardInterrupt belongs to whatever raised it.
    """
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def _frames(error: BaseException) -> TracebackType | None:
    # As Python keeps it, whatever its class makes of the name.
    frames = vars(BaseException)["__traceback__"].__get__(error)
    return frames if isinstance(frames, TracebackType) else None


def readable(error: BaseException) -> BaseException:
    """Return an exception as it is, or one in its place if it cannot be looked at."""
    try:
        _ = error.__class__, error.__cause__, error.__context__, error.__traceback__, bool(error)
        getattr(error, "__notes__", None)
    except BaseException as odd:
        if is_interrupt(odd):
            raise
        name, why = type(error).__name__, type(odd).__name__
        stand_in = PermanentError(f"<{name}, which cannot be looked at: that raised {why}>")
        return stand_in.with_traceback(_frames(error))
    return error
