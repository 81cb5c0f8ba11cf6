"""How is each call of a judge kept, so that no vote is paid for twice?

A judge may ask several times for one score: three votes, two orders, several models. Each reply is
a ballot, a record of its own, on disk before it counts. So a score that failed half-way asks only
for what is missing, five votes instead of three cost two calls, and another value for a label costs
none.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Protocol

Ask = Callable[[], Awaitable[Mapping[str, Any]]]
"""Asks a model, and returns its reply as plain data."""


class Ballots(Protocol):
    """The ballots of one score. The run gives them to the evaluator."""

    async def cast(self, identity: Any, ask: Ask) -> Mapping[str, Any]:
        """Return the ballot of this identity from disk; else ask, record it, and return it."""
        ...


_current: ContextVar[Ballots | None] = ContextVar("limpet_ballots", default=None)


async def ballot(identity: Any, ask: Ask) -> Mapping[str, Any]:
    """Return what a model said, asked at most once in a run.

    Args:
        identity: What the reply depends on, as plain data: the model, what it is shown, and which
            vote it is. If the run has no such ballot, `ask` is called, and its result recorded.
        ask: Asks the model. What it raises is raised, and nothing is recorded.
    """
    ballots = _current.get()
    return await ask() if ballots is None else await ballots.cast(identity, ask)


class casting_into:  # noqa: N801 - used like a function; a generator would take three times as long
    """Record the ballots that are cast within the block."""

    __slots__ = ("_ballots", "_token")

    def __init__(self, ballots: Ballots) -> None:
        self._ballots = ballots

    def __enter__(self) -> None:
        self._token = _current.set(self._ballots)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
