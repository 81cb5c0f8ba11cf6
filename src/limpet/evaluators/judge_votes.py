"""How do several votes become one score, and how much do they agree?"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from limpet.errors import EndpointDownError, PermanentError, QuotaExhaustedError, SetupError
from limpet.pacing.permits import current_permits
from limpet.shapes import Score

# ---- How is each call of a judge kept, so that no vote is paid for twice? -----------------------
#
# A judge may ask several times for one score: three votes, two orders, several models. Each reply
# is a ballot, a separate record, on disk before it is used. So a score that failed half-way asks
# only for missing replies, five votes instead of three cost two calls, and another value for a
# label costs none.

Ask = Callable[[], Awaitable[Mapping[str, Any]]]
"""Asks a model, and returns its reply as plain data."""


class Ballots(Protocol):
    """The ballots of one score. The run gives them to the evaluator."""

    async def cast(self, identity: Any, ask: Ask) -> Mapping[str, Any]:
        """Return the ballot of this identity from disk; else ask, record it, and return it."""
        ...


_current: ContextVar[Ballots | None] = ContextVar("limpet_ballots", default=None)


async def ballot(identity: Any, ask: Ask) -> Mapping[str, Any]:
    """Return a model's reply; the model is asked at most once in a run.

    Args:
        identity: What the reply depends on, as plain data: the model, what it is shown, and which
            vote it is. If the run has no such ballot, `ask` is called, and its result recorded.
        ask: Asks the model. If it raises, nothing is recorded.
    """
    ballots = _current.get()
    return await ask() if ballots is None else await ballots.cast(identity, ask)


class casting_into:  # noqa: N801 - used like a function; a generator would take three times as long
    """Record the ballots cast within the block."""

    __slots__ = ("_ballots", "_token")

    def __init__(self, ballots: Ballots) -> None:
        self._ballots = ballots

    def __enter__(self) -> None:
        self._token = _current.set(self._ballots)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


# ---- How do several votes become one score, and how much do they agree? -------------------------

TIE = "tie"
"""The label of a tie."""
_STOP = (SetupError, QuotaExhaustedError, EndpointDownError)
T = TypeVar("T")
AnswerT = TypeVar("AnswerT", str, int)
Choices = Mapping[str, float | bool | None]
"""The value of each label; None: no value."""


class Vote(NamedTuple, Generic[AnswerT]):
    """One vote.

    Attributes:
        answer: A label, or a number.
        reason: Why; None if the model gives none.
    """

    answer: AnswerT
    reason: str | None


async def all_of(votes: Sequence[Awaitable[T]]) -> list[T]:
    """Await the votes concurrently, each to its end: those that succeed are recorded.

    After an error that is not permanent, votes that wait for the pacer are abandoned: they might
    wait for an hour, and delay the error until then.

    Raises:
        Exception: One failed. Of several errors, one that stops the run comes first, then a
            permanent one: any other retries the cell, which would ask again for a vote that has
            failed for good.
    """
    if len(votes) == 1:
        return [await votes[0]]
    results = await asyncio.gather(*map(_to_its_end, votes), return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    for kinds in (_STOP, (PermanentError,), (Exception,), (BaseException,)):
        for error in errors:
            if isinstance(error, kinds):
                raise error
    return [result for result in results if not isinstance(result, BaseException)]


async def _to_its_end(vote: Awaitable[T]) -> T:
    try:
        return await vote
    except PermanentError:
        raise
    except Exception:
        current_permits().give_up_waiting()
        raise


def majority(votes: Sequence[Vote[str]], choices: Choices, jurors: Sequence[str]) -> Score:
    """Return the score of the label with the most votes.

    Args:
        votes: The votes.
        choices: The value of each label.
        jurors: The model of each vote, if there are several.
    """
    if len(votes) == 1:
        (label, reason) = votes[0]
        return Score(choices[label], label, reason)
    labels = [vote.answer for vote in votes]
    won = winners(labels)
    reasons = {label: votes[labels.index(label)].reason for label in won}
    metadata = tally(labels, jurors)
    if len(won) == 1:
        return Score(choices[won[0]], won[0], reasons[won[0]], metadata)
    why = "\n".join(f"{label}: {reason}" for label, reason in reasons.items() if reason)
    return Score(_mean_value(won, choices), TIE, why or None, metadata | {"tie": True})


def mean(votes: Sequence[Vote[int]], jurors: Sequence[str]) -> Score:
    """Return the mean of numbers as a score, with the reason of the closest vote."""
    if len(votes) == 1:
        return Score(votes[0].answer, explanation=votes[0].reason)
    numbers = [vote.answer for vote in votes]
    value = sum(numbers) / len(numbers)
    closest = min(votes, key=lambda vote: abs(vote.answer - value))
    return Score(value, None, closest.reason, tally(numbers, jurors))


def winners(labels: Iterable[str]) -> list[str]:
    """Return the labels with the most votes: several if there is a tie."""
    votes = Counter(labels)
    most = max(votes.values())
    return [label for label, number in votes.items() if number == most]


def tally(answers: Sequence[AnswerT], jurors: Sequence[str]) -> dict[str, Any]:
    """Return the votes for each answer, by whom, and the agreement of at least two votes."""
    counts = Counter(answers)
    pairs = len(answers) * (len(answers) - 1)
    agreeing = sum(number * (number - 1) for number in counts.values())
    metadata: dict[str, Any] = {"votes": _by_text(counts), "agreement": agreeing / pairs}
    if len(set(jurors)) > 1:
        by_model: dict[str, Counter[AnswerT]] = {}
        for juror, answer in zip(jurors, answers, strict=True):
            by_model.setdefault(juror, Counter())[answer] += 1
        metadata["by_model"] = {juror: _by_text(given) for juror, given in by_model.items()}
    return metadata


def _by_text(counts: Mapping[AnswerT, int]) -> dict[str, int]:
    return {str(answer): number for answer, number in counts.items()}


def _mean_value(labels: Sequence[str], choices: Choices) -> float | None:
    values = [value for label in labels if (value := choices[label]) is not None]
    return sum(values) / len(values) if len(values) == len(labels) else None
