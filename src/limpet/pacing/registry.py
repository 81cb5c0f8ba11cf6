"""Which pacer belongs to this endpoint?

There is one limit for each provider, account and model, so there must be one pacer for it, whoever
calls. A registry hands it out by that key and can carry what all of them learned to a later run.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any

from limpet.pacing import observation
from limpet.pacing.observation import Observation
from limpet.pacing.pacer import MAX_IN_FLIGHT, Cost, Pacer, Ticket
from limpet.pacing.signals import FailureKind, classify


class PacerRegistry:
    """Pacers by their endpoint's key.

    Args:
        max_in_flight: Calls in flight at most, for each of them.
        memory: What the pacers of an earlier run had learned.
    """

    def __init__(
        self, *, max_in_flight: int = MAX_IN_FLIGHT, memory: Mapping[str, Any] | None = None
    ) -> None:
        self._max_in_flight = max_in_flight
        self._memory: dict[str, Any] = dict(memory or {})
        self._pacers: dict[str, Pacer] = {}

    def get(self, key: str) -> Pacer:
        """Return the one pacer for this key."""
        pacer = self._pacers.get(key)
        if pacer is None:
            pacer = self._pacers[key] = Pacer(key, max_in_flight=self._max_in_flight)
            learned = self._memory.get(key)
            if isinstance(learned, Mapping):
                pacer.memory = learned
        return pacer

    def __iter__(self) -> Iterator[Pacer]:
        return iter(self._pacers.values())

    @property
    def memory(self) -> dict[str, Any]:
        """What all of them learned, by key, as plain JSON; also of those not asked for yet."""
        return {**self._memory, **{key: pacer.memory for key, pacer in self._pacers.items()}}


_current: ContextVar[PacerRegistry | None] = ContextVar("limpet_pacers", default=None)


@contextmanager
def pacing_with(registry: PacerRegistry) -> Iterator[None]:
    """Have `endpoint` ask these pacers, in this context."""
    token = _current.set(registry)
    try:
        yield
    finally:
        _current.reset(token)


@asynccontextmanager
async def endpoint(key: str, *, cost: Cost = 1) -> AsyncIterator[None]:
    """Wait for leave to make one call, and pace it: what is done within is that call.

    For a workflow or an evaluator that calls several endpoints, and therefore says `endpoint=None`:
    each of its calls is paced, and not the cell. Whoever in the run names the same endpoint shares
    its pacer. What the call raises goes on to the run, which tries the cell again, and tells the
    pacer, as `observe` within it does. Outside a run it does nothing.

    Args:
        key: The endpoint: a provider, an account and a model.
        cost: What the call is expected to cost: a number of tokens, or a mapping by dimension.
    """
    registry = _current.get()
    if registry is None:
        yield
        return
    ticket = await registry.get(key).acquire(cost)
    with observation.observing() as seen:
        try:
            yield
        except Exception as error:
            _settle(ticket, error, seen)
            raise
        except BaseException:
            ticket.void()
            raise
        ticket.ok(headers=seen.headers, usage=seen.usage)


def _settle(ticket: Ticket, error: Exception, seen: Observation) -> None:
    if isinstance(error, TimeoutError):
        ticket.failed(timeout=True)
        return
    signal = classify(error)
    if signal.pushback:
        wait_s = signal.retry_after_s
        ticket.refused(retry_after=wait_s, limits=signal.limits, at_once=signal.at_once)
    elif signal.outage and signal.kind is FailureKind.TRANSIENT:
        ticket.failed()
    else:  # the endpoint did its part
        ticket.ok(headers=seen.headers, usage=seen.usage)
