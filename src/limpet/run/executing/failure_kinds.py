"""Is a failure a mistake of the code, and which failures have the same cause?

Python's own exceptions of that kind, in a workflow, an evaluator or a function that is mapped, are
tried once more and no further: a `KeyError: 'choices'` may be due to one odd response, but not ten
times. What a provider's client raised is judged as ever, and so is a mistake that came about while
such a failure was handled: with the failure it passes.

A `ValueError` is none of them. It is what parsers raise, and the next answer of a model may well
be one that can be parsed.

Two failures are alike when they are of one class and one type, and say the same once the numbers
and the quoted parts are left out: ids, amounts and answers differ from item to item where the
mistake does not.
"""

import functools
import re
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
_MOST_READ = 2_000  # what failures.jsonl keeps of a message
_MOST_KEPT = 300
_LEFT_OUT = "…"
# A quote opens where no word goes on before it and closes where none goes on after it, so that
# "can't" and "users' data" are no quotes. One that is cut off before its end reaches to the end.
_QUOTED = re.compile(
    r"""(?<!\w)[bBfFrRuU]{0,2}(['"`])(?:\\.|(?!\1(?!\w)).)*(?:\1|\Z)"""
    r"|“[^”]*(?:”|\Z)|„[^“”]*(?:[“”]|\Z)|‘(?:[^’]|’(?=\w))*(?:’|\Z)|«[^»]*(?:»|\Z)",
    re.DOTALL,
)
_WORD = re.compile(r"[\w+-]+(?:[.,]\d+)*%?")
_SEVERAL = re.compile(r"…(?:[ ,:;/=]+…)+")
_IN_BRACKETS = re.compile(r"[\[({<]\s*…\s*[\])}>]")
_DEPTH = 8


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


def alike(kind: str, type_name: str, message: str) -> str:
    """Return the same text for failures that are alike.

    Args:
        kind: The class of the failure.
        type_name: The name of its exception.
        message: What it said; as it was recorded, or longer.
    """
    return f"{kind} {type_name}: {without_particulars(message)}"


def without_particulars(message: str) -> str:
    """Return a message without its numbers and its quoted parts, on one line of bounded length."""
    text = _QUOTED.sub(_LEFT_OUT, message[:_MOST_READ])
    text = _WORD.sub(_without_number, " ".join(text.split()))
    for _ in range(_DEPTH):  # a list is a list, whether it has two elements or three
        before = text
        text = _IN_BRACKETS.sub(_LEFT_OUT, _SEVERAL.sub(_LEFT_OUT, text))
        if text == before:
            break
    return text[:_MOST_KEPT]


def _without_number(word: re.Match[str]) -> str:
    """Leave out a word that holds a digit: a number, an id, an address."""
    return _LEFT_OUT if any(map(str.isdigit, word[0])) else word[0]
