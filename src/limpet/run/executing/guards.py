"""Should the run continue, now that this outcome is on disk?

A guard sees each outcome once it is durable, on the run's event loop, and may stop the run by
returning a reason. All steps then stop in good order: calls in flight may finish, and results are
kept.
"""

import functools
import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from limpet.errors import FailFastError, LimpetError
from limpet.executors.retry import Classify
from limpet.journal.journal import Journal
from limpet.pacing.signals import FailureKind, Signal, recognised
from limpet.run.executing.outcomes import SKIPPED
from limpet.shapes import Cell, Failure, Outcome
from limpet.text import harmless, money, one_line

# ---- Is a failure a mistake in the code, and which failures have the same cause? ----------------
#
# Python's own exceptions for mistakes, like `KeyError`, are retried once: an odd response may cause
# one `KeyError: 'choices'`, but not ten. Exceptions of a provider's client keep their usual kind.
# So does a mistake raised while handling one: it goes away with its cause.
#
# `ValueError` is not a mistake. Parsers raise it, and the model's next answer may well parse.
#
# Two failures are alike if they have the same class and type, and the same message without numbers
# and quoted parts: ids, amounts and answers differ between items that fail for the same reason.

MISTAKES = (
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    AssertionError,
    NotImplementedError,
    RecursionError,
    # A missing or unreadable file is still so a second later.
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
"""Besides the permanent ones: NameError, SyntaxError, ImportError."""
_PASSING = (FailureKind.TRANSIENT, FailureKind.RATE_LIMIT)
_MOST_CONTEXTS, _DEEPEST = 20, 20  # deeper chains are not genuine
_MOST_READ = 2_000  # the length of a message in failures.jsonl
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


def mistakes_once(classify: Classify | None) -> Classify:
    """Return a `classify` that retries mistakes at most once; the user's own goes first.

    Args:
        classify: The user's own `classify`; where it returns None, ours decides.
    """
    if classify is None:
        return _kind_of

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
    """Return a text that failures have in common if they are alike.

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


# ---- Should the run continue, now that this outcome is on disk? ---------------------------------

FIRST_FAILURES = 5
"""This many alike failures without a success stop the run."""
FIRST_CALLS, FIRST_CALLS_S = 16, 10.0
"""A step starts with this many cells, until one succeeds, or until this many seconds have passed
with fewer failures than `FIRST_FAILURES`."""
FINISHED_KEPT = "finished results are kept"
FIX_AND_RERUN = f"fix it and run again: {FINISHED_KEPT}"
FAILURES_IN_A_ROW = 50
"""This many alike failures in a row are logged."""

logger = logging.getLogger("limpet.run")


class Guard(Protocol):
    """Sees each outcome and may stop the run, for example for a budget."""

    def see(self, outcome: Outcome) -> LimpetError | None:
        """Return why the run must stop; None: it continues.

        Args:
            outcome: The outcome on disk. Its facts include the `usage` with its `cost`, where
                known.
        """


class Spent:
    """What a session has spent so far.

    Attributes:
        calls: How many attempts were started, of all steps that may cost money.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._usage: Counter[str] = Counter()

    def see(self, outcome: Outcome) -> None:
        if outcome.facts and "usage" in outcome.facts:
            self._usage.update(outcome.facts["usage"])

    def __str__(self) -> str:
        parts = [f"{self.calls:,} {'call' if self.calls == 1 else 'calls'}"]
        if tokens := self._usage["total_tokens"]:
            parts.append(f"{tokens:,} tokens")
        if cost := self._usage["cost"]:
            parts.append(f"${money(cost)}")
        return ", ".join(parts)


class Guards:
    """All guards of a session, and what it spends.

    Args:
        guards: The guards, in the order in which they see an outcome.
        spent: What the session spends; updated with each outcome.
        stop: Called with each reason to stop that a guard returns.
    """

    def __init__(
        self, guards: Sequence[Guard], spent: Spent, stop: Callable[[LimpetError], None]
    ) -> None:
        self._guards = guards
        self._spent = spent
        self._stop = stop

    def started(self) -> None:
        """Count a call that may cost money."""
        self._spent.calls += 1

    def see(self, outcome: Outcome) -> None:
        self._spent.see(outcome)
        for guard in self._guards:
            reason = guard.see(outcome)
            if reason is not None:
                self._stop(reason)


class FailFast:
    """Stops the run when the first cells of a step fail alike and none succeeds.

    Args:
        cells: The number of cells of each step to watch.
        spent: What the session has spent, for the message.
    """

    def __init__(self, cells: Mapping[str, int], spent: Spent) -> None:
        self._cells = cells
        self._spent = spent
        self._through: set[str] = set()
        self._failures: dict[str, dict[str, list[tuple[Cell, Failure]]]] = {}

    def see(self, outcome: Outcome) -> FailFastError | None:
        step, failure = outcome.cell.step, outcome.failure
        if step not in self._cells or step in self._through or _is_skipped(failure):
            return None
        if failure is None:
            self._through.add(step)
            self._failures.pop(step, None)
            return None
        by_kind = self._failures.setdefault(step, {})
        # Invalid replies have one cause, the model or the prompt, however they are invalid.
        is_invalid = failure.kind == FailureKind.INVALID_REPLY
        same = by_kind.setdefault("" if is_invalid else _alike(failure), [])
        same.append((outcome.cell, failure))
        if len(same) != FIRST_FAILURES or sum(map(len, by_kind.values())) >= self._cells[step]:
            return None  # too few so far, or none left to save
        return self._reason(*same[0])

    def _reason(self, cell: Cell, failure: Failure) -> FailFastError:
        step = cell.step
        where = "the workflow" if step == "workflow" else f"the evaluator {one_line(step)}"
        reason = one_line(f"{failure.type}: {failure.message}" if failure.message else failure.type)
        how, hint = f"failed {FIRST_FAILURES} times for the same reason", FIX_AND_RERUN
        if failure.kind == FailureKind.INVALID_REPLY:
            how = f"got no valid reply for its first {FIRST_FAILURES} items"
            hint = f"try another model, or a simpler prompt: {FINISHED_KEPT}"
        error = FailFastError(
            f"{where} {how}: {reason} ({self._spent} so far)",
            hint=f"{hint}; fail_fast=False continues anyway",
        )
        error.step, error.id, error.traceback = step, cell.id, failure.traceback
        if failure.traceback:
            traceback = harmless(failure.traceback)
            logger.error("the first failure, for %s:\n%s", one_line(cell.id), traceback)
        return error


class Repetition:
    """Warns once per series of like failures in a row."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._rows: dict[str, tuple[str, int]] = {}

    def see(self, outcome: Outcome) -> None:
        step, failure = outcome.cell.step, outcome.failure
        if failure is None:
            self._rows.pop(step, None)
        if failure is None or _is_skipped(failure):
            return
        kind = _alike(failure)
        before, many = self._rows.get(step, (kind, 0))
        many = many + 1 if before == kind else 1
        self._rows[step] = kind, many
        if many == FAILURES_IN_A_ROW:
            reason = one_line(f"{failure.type}: {failure.message}")
            self._journal.log_event("repeating", step=step, failures=many, alike=kind)
            message = "%s: %s cells in a row failed the same way: %s"
            logger.warning(message, one_line(step), many, reason)


def _is_skipped(failure: Failure | None) -> bool:
    return failure is not None and failure.kind == SKIPPED


def _alike(failure: Failure) -> str:
    return alike(failure.kind, failure.type, failure.message)
