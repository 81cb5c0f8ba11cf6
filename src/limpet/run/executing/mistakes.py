"""Which failures are mistakes of the code, which another try would only repeat?

Python's own exceptions of that kind, in a workflow, an evaluator or a function that is mapped, are
tried once more and no further: a `KeyError: 'choices'` may be due to one odd response, but not ten
times. What a provider's client raised is judged as ever, and so is a mistake that came about while
such a failure was handled: with the failure it passes.

A `ValueError` is none of them. It is what parsers raise, and the next answer of a model may well
be one that can be parsed.
"""

import functools
from typing import Any

from limpet.executors.retry import Classify
from limpet.pacing.signals import FailureKind, Signal, recognised

MISTAKES = (
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    AssertionError,
    NotImplementedError,
    RecursionError,
    # A file that is not there, or not ours to read, is not there a second later either.
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
"""Beside those that are permanent anyway: NameError, SyntaxError, ImportError."""
_PASSING = (FailureKind.TRANSIENT, FailureKind.RATE_LIMIT)
_MOST_CONTEXTS, _DEEPEST = 20, 20  # beyond, somebody means harm


def mistakes_once(classify: Any) -> Classify | None:
    """Return a `classify` that has mistakes tried once more at most; the user's own goes first.

    Args:
        classify: The user's own say; what it leaves to us is judged here.
    """
    if classify is None:
        return _kind_of
    if not callable(classify):
        refused: Classify = classify  # by the executor
        return refused

    @functools.wraps(classify)
    def either(error: BaseException) -> Signal | FailureKind | str | None:
        said: Signal | FailureKind | str | None = classify(error)
        return _kind_of(error) if said is None else said

    return either


def _kind_of(error: BaseException) -> FailureKind | None:
    return FailureKind.MISTAKE if is_mistake(error) else None


def is_mistake(error: BaseException) -> bool:
    """Tell whether an exception is a mistake of the code, and of nobody else."""
    if not _is_of_code(error, _DEEPEST) or recognised(error) is not None:
        return False
    signals = map(recognised, _contexts(error))
    return not any(one is not None and one.kind in _PASSING for one in signals)


def _is_of_code(error: BaseException, levels: int) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return levels > 0 and all(_is_of_code(one, levels - 1) for one in error.exceptions)
    return isinstance(error, MISTAKES)


def _contexts(error: BaseException) -> list[BaseException]:
    """Return the exceptions that were being handled when it was raised, the latest first."""
    found: list[BaseException] = []
    one: BaseException = error
    while len(found) < _MOST_CONTEXTS and not one.__suppress_context__:
        if one.__context__ is None:
            break
        one = one.__context__
        found.append(one)
    return found
