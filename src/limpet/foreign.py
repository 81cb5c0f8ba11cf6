"""How do we inspect a user's object that may raise anything?

A value, an exception or a score may raise from its `__repr__`, `__class__` or `__bool__`, even
SystemExit, which would silently end the process, or KeyboardInterrupt, which looks like Ctrl-C. So
code that inspects such objects catches everything, and asks `is_interrupt` whether it was Ctrl-C.
"""

import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from limpet.errors import PermanentError

AtomT = TypeVar("AtomT", str, int, float)
_BASE_VALUE: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
}


def base_value(kind: type[AtomT], value: Any) -> AtomT:
    """Return the string or number a value holds, bypassing methods its subclass overrides.

    `float(value)` would call an overridden `__float__`, which may return NaN for 1.0. Objects that
    only imitate the type, like proxies, are converted.
    """
    return _BASE_VALUE[kind](value) if issubclass(type(value), kind) else kind(value)


def is_interrupt(error: BaseException) -> bool:
    """Return whether an exception may be a real Ctrl-C, which must not be swallowed.

    Python raises KeyboardInterrupt for a signal on the main thread only, and only with its default
    handler. A run installs its own handler, which raises nothing: until the third Ctrl-C, a
    KeyboardInterrupt in a run comes from user code.
    """
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def readable(error: BaseException) -> BaseException:
    """Return the exception, or a replacement if inspecting it raises."""
    try:
        _ = error.__class__, error.__cause__, error.__context__, error.__traceback__, bool(error)
        getattr(error, "__notes__", None)
    except BaseException as odd:
        if is_interrupt(odd):
            raise
        name, why = type(error).__name__, type(odd).__name__
        replacement = PermanentError(f"<{name}, which cannot be inspected: that raised {why}>")
        # Bypasses a class that overrides `__traceback__`.
        return replacement.with_traceback(vars(BaseException)["__traceback__"].__get__(error))
    return error
