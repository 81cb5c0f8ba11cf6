"""How does a call pass its response's headers and usage to its pacer?

The code that settles a ticket rarely sees a successful response: the user's function returns an
answer, not headers. `observe` lets the function pass on the headers and usage.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any


class Observation:
    """What one call observed. May be written from another thread; read when the call ends.

    Attributes:
        endpoint: The key of the pacer that carries the call.
        headers: The response's headers.
        usage: What the call used.
    """

    __slots__ = ("endpoint", "headers", "usage")

    def __init__(self, endpoint: str = "") -> None:
        self.endpoint = endpoint
        self.headers: Any = None
        self.usage: Mapping[str, float] | None = None


_current: ContextVar[Observation | None] = ContextVar("limpet_observation", default=None)


def observe(*, headers: Any = None, usage: Mapping[str, float] | None = None) -> None:
    """Pass the headers and usage of the current call's response to its pacer.

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


def carrying_endpoint() -> str:
    """Return the key of the pacer that carries the current call; empty: none does."""
    observation = _current.get()
    return "" if observation is None else observation.endpoint


def observe_into(observation: Observation) -> None:
    """Send what is observed in this context to `observation`, from now on."""
    _current.set(observation)


class observing:  # noqa: N801 - used like a function; a generator would take three times as long
    """Send what is observed within the block to `observation`."""

    __slots__ = ("_observation", "_token")

    def __init__(self, observation: Observation) -> None:
        self._observation = observation

    def __enter__(self) -> None:
        self._token = _current.set(self._observation)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
