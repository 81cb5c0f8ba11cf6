"""What did the current call's response say?

A client's successful response rarely reaches the executor: the user's function returns an answer,
not headers. `observe` lets it pass on what it saw.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


class Observation:
    """What was seen during one call. Written perhaps from another thread, read when it is over."""

    __slots__ = ("headers", "usage")

    def __init__(self) -> None:
        self.headers: Any = None
        self.usage: Mapping[str, float] | None = None


_current: ContextVar[Observation | None] = ContextVar("limpet_observation", default=None)


def observe(*, headers: Any = None, usage: Mapping[str, float] | None = None) -> None:
    """Tell the pacer of the current call what its response said; elsewhere, do nothing.

    Call it inside the function that an executor runs, also in a thread that it started with
    `asyncio.to_thread`.

    Args:
        headers: The response's headers, as any client has them.
        usage: What the call used, by name: `{"total_tokens": 812}`.
    """
    observation = _current.get()
    if observation is None:
        return
    if headers is not None:
        observation.headers = headers
    if usage is not None:
        observation.usage = usage


def begin(observation: Observation) -> None:
    """Have what is observed from here on, in this context, go to `observation`."""
    _current.set(observation)


@contextmanager
def observing() -> Iterator[Observation]:
    """Have what is observed within go to an observation of its own."""
    token = _current.set(observed := Observation())
    try:
        yield observed
    finally:
        _current.reset(token)
