"""What do several votes say together, and how far do they agree?"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Hashable, Iterable, Sequence
from typing import TypeVar

from limpet.errors import (
    EndpointDownError,
    PermanentError,
    QuotaExhaustedError,
    SetupError,
)

TIE = "tie"
"""The label of a tie."""
_STOP = (SetupError, QuotaExhaustedError, EndpointDownError)
T = TypeVar("T")


async def all_of(votes: Sequence[Awaitable[T]]) -> list[T]:
    """Await the votes at the same time, each to its end: those that succeed are recorded.

    Raises:
        Exception: One failed. Of several errors, one that stops the run is raised, else one that
            is permanent: after any other the cell is tried again, and would ask again for a vote
            that had its last chance.
    """
    if len(votes) == 1:
        return [await votes[0]]
    results = await asyncio.gather(*votes, return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    for kinds in (_STOP, (PermanentError,), (BaseException,)):
        for error in errors:
            if isinstance(error, kinds):
                raise error
    return [result for result in results if not isinstance(result, BaseException)]


def winners(labels: Iterable[str]) -> list[str]:
    """Return the labels with the most votes: several if there is a tie."""
    votes = Counter(labels)
    most = max(votes.values())
    return [label for label, number in votes.items() if number == most]


def agreement(answers: Sequence[Hashable]) -> float:
    """Return the share of pairs of votes that agree, from 0 to 1. There are at least two votes."""
    pairs = len(answers) * (len(answers) - 1)
    agreeing = sum(number * (number - 1) for number in Counter(answers).values())
    return agreeing / pairs
