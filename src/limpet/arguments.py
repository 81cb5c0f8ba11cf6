"""Is this argument valid? If not, the error names it, its value and what is allowed.

Each check takes one keyword, whose name is the argument's: `whole_number_from(1, concurrency=0)`
raises `ValueError: concurrency=0: must be a whole number, 1 or more`.
"""

import inspect
import math
import re
import signal
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

from limpet.errors import wrong_type, wrong_value

# The operating system does not let these two be handled.
_UNHANDLED = {getattr(signal, name, None) for name in ("SIGKILL", "SIGSTOP")}


def whole_number_from(least: int, /, **argument: Any) -> int:
    """Return the argument if it is an int of at least `least`."""
    name, value = _only(argument)
    allowed = f"must be a whole number, {least} or more"
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type(name, allowed, value)
    if value < least:
        raise wrong_value(name, allowed, value)
    return value


def number_from(least: float, /, **argument: Any) -> float:
    """Return the argument if it is a finite number of at least `least`."""
    allowed = f"must be a finite number, {least} or more"
    return _number(argument, lambda value: value >= least, allowed)


def positive_number(**argument: Any) -> float:
    """Return the argument if it is a finite number above 0."""
    return _number(argument, lambda value: value > 0, "must be a finite number above 0")


_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kMG]?)")
_TIMES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
TIME_PATTERN = _TIME.pattern


def as_seconds(value: Any) -> Any:
    """Return the seconds of a time like `90s`, `2m` or `1h`; anything else as it is."""
    time = _TIME.fullmatch(value) if isinstance(value, str) else None
    return value if time is None else float(time[1]) * _SECONDS[time[2]]


def as_amount(value: Any) -> Any:
    """Return the number that is written as `20`, `5k`, `5M` or `5G`; anything else as it is."""
    amount = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    return value if amount is None else float(amount[1]) * _TIMES[amount[2]]


def share(**argument: Any) -> float:
    """Return the argument if it is a number from 0 to 1."""
    return _number(argument, lambda value: 0 <= value <= 1, "must be a number from 0 to 1")


def true_or_false(**argument: Any) -> bool:
    """Return the argument if it is True or False."""
    name, value = _only(argument)
    if not isinstance(value, bool):
        raise wrong_type(name, "must be True or False", value)
    return value


def string(**argument: Any) -> str:
    """Return the argument if it is a string that is not empty."""
    name, value = _only(argument)
    if not isinstance(value, str):
        raise wrong_type(name, "must be a string", value)
    if not value.strip():
        raise wrong_value(name, "must not be empty", value)
    return value


def function(**argument: Any) -> Any:
    """Return the argument if it can be called."""
    name, value = _only(argument)
    if not callable(value):
        raise wrong_type(name, "must be a function", value)
    return value


def signal_or_none(**argument: Any) -> signal.Signals | None:
    """Return the argument if it is a signal, by its number or as `signal.Signals`, or None."""
    name, value = _only(argument)
    allowed = "must be a signal like signal.SIGINT, or None"
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type(name, allowed, value)
    if value not in signal.valid_signals() or value in _UNHANDLED:
        raise wrong_value(name, allowed, value)
    return signal.Signals(value)


def _number(argument: dict[str, Any], fits: Callable[[float], bool], allowed: str) -> float:
    name, value = _only(argument)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong_type(name, allowed, value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not fits(number):
        raise wrong_value(name, allowed, value)
    return number


def _only(argument: dict[str, Any]) -> tuple[str, Any]:
    ((name, value),) = argument.items()
    return name, value


_NOTHING = object()


def members_missing(thing: object, members: Mapping[str, str]) -> dict[str, str]:
    """Return the members an object lacks, each with its purpose.

    Members are not read: a property may run code, and a mock has every attribute.
    """
    return {
        name: purpose
        for name, purpose in members.items()
        if inspect.getattr_static(thing, name, _NOTHING) is _NOTHING
    }


def members_text(missing: Mapping[str, str]) -> str:
    """Return a message about missing members."""
    return "it has no " + " and no ".join(f"{name} ({why})" for name, why in missing.items())
