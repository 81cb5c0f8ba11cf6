"""Is a failure a mistake in the code, and which failures have the same cause?

Python's own exceptions for mistakes, like `KeyError`, are retried once: a `KeyError: 'choices'`
may come from an odd response once, but not ten times. Exceptions of a provider's client keep their
usual kind, and so does a mistake raised while handling one: it goes away with its cause.

`ValueError` is not a mistake. Parsers raise it, and the model's next answer may well parse.

Two failures are alike when they have the same class and type, and the same message without numbers
and quoted parts: ids, amounts and answers differ between items that fail for the same reason.
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
    # A file that is missing or not readable is still so a second later.
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
"""In addition to those that are permanent: NameError, SyntaxError, ImportError."""
_PASSING = (FailureKind.TRANSIENT, FailureKind.RATE_LIMIT)
_MOST_CONTEXTS, _DEEPEST = 20, 20  # deeper chains are not genuine
_MOST_READ = 2_000  # what failures.jsonl keeps of a message
_MOST_KEPT = 300
_LEFT_OUT = "…"
# A quote opens after a non-word character and closes before one, so that "can't" and "users' data"
# are not quotes. An unclosed quote reaches to the end.
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
    """Return a `classify` that retries mistakes at most once; the user's own goes first.

    Args:
        classify: The user's own `classify`; where it returns None, ours decides.
    """
    if classify is None:
        return _kind_of
    if not callable(classify):
        refused: Classify = classify  # the executor rejects it
        return refused

    @functools.wraps(classify)
    def either(error: BaseException) -> Signal | FailureKind | str | None:
        kind: Signal | FailureKind | str | None = classify(error)
        return _kind_of(error) if kind is None else kind

    return either


def _kind_of(error: BaseException) -> FailureKind | None:
    return FailureKind.MISTAKE if is_mistake(error) else None


def is_mistake(error: BaseException) -> bool:
    """Return whether an exception is a mistake in the code."""
    if not _is_of_code(error, _DEEPEST) or recognised(error) is not None:
        return False
    signals = map(recognised, _contexts(error))
    return not any(signal is not None and signal.kind in _PASSING for signal in signals)


def _is_of_code(error: BaseException, levels: int) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return levels > 0 and all(_is_of_code(inner, levels - 1) for inner in error.exceptions)
    return isinstance(error, MISTAKES)


def _contexts(error: BaseException) -> list[BaseException]:
    """Return the exceptions that were being handled when this was raised, latest first."""
    contexts: list[BaseException] = []
    while len(contexts) < _MOST_CONTEXTS and not error.__suppress_context__:
        if error.__context__ is None:
            break
        error = error.__context__
        contexts.append(error)
    return contexts


def alike(kind: str, type_name: str, message: str) -> str:
    """Return a text that is the same for failures that are alike.

    Args:
        kind: The class of the failure.
        type_name: The name of its exception.
        message: Its message, as recorded or longer.
    """
    return f"{kind} {type_name}: {without_particulars(message)}"


def without_particulars(message: str) -> str:
    """Return a message without its numbers and its quoted parts, on one line of bounded length."""
    text = _QUOTED.sub(_LEFT_OUT, message[:_MOST_READ])
    text = _WORD.sub(_without_number, " ".join(text.split()))
    for _ in range(_DEPTH):  # lists of different lengths are alike
        before = text
        text = _IN_BRACKETS.sub(_LEFT_OUT, _SEVERAL.sub(_LEFT_OUT, text))
        if text == before:
            break
    return text[:_MOST_KEPT]


def _without_number(word: re.Match[str]) -> str:
    """Replace a word that contains a digit: a number, an id, an address."""
    return _LEFT_OUT if any(map(str.isdigit, word[0])) else word[0]
