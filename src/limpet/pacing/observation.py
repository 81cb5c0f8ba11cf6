"""What did the current call's response say?

The executor rarely sees a successful response: the user's function returns an answer, not headers.
`observe` lets the function pass on the headers and usage.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


class Observation:
    """What one call observed. May be written from another thread; read when the call ends."""

    __slots__ = ("headers", "usage")

    def __init__(self) -> None:
        self.headers: Any = None
        self.usage: Mapping[str, float] | None = None


_current: ContextVar[Observation | None] = ContextVar("limpet_observation", default=None)


def observe(*, headers: Any = None, usage: Mapping[str, float] | None = None) -> None:
    """Pass what the current call's response said to its pacer.

    Call it inside a function that an executor runs, or in a thread that function starts with
    `asyncio.to_thread`. Anywhere else it does nothing.

    Args:
        headers: The response's headers, in any client's form.
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
    """Send what is observed in this context to `observation`, from now on."""
    _current.set(observation)


@contextmanager
def observing() -> Iterator[Observation]:
    """Send what is observed within the block to a new observation."""
    token = _current.set(observed := Observation())
    try:
        yield observed
    finally:
        _current.reset(token)
