"""How does a caller report the end of a call to its pacer, and what its response said?

The code that settles a ticket rarely sees a successful response: the user's function returns an
answer, not headers. `observe` lets the function pass on the headers and usage.
"""

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from limpet.errors import LimpetError
from limpet.pacing.known_limits import KnownLimits
from limpet.pacing.limits import Limit, number
from limpet.pacing.signals import FailureKind, Signal
from limpet.pacing.traffic import Sent

if TYPE_CHECKING:
    from limpet.pacing.pacer import Pacer


class Observation:
    """What one call observed. May be written from another thread; read when the call ends."""

    __slots__ = ("headers", "usage")

    def __init__(self) -> None:
        self.headers: Any = None
        self.usage: Mapping[str, float] | None = None


class Ticket:
    """Permission for one call. Settle it once, by how the call ended.

    A ticket that is dropped unsettled counts as failed, so that its slot is not lost.

    Attributes:
        observation: What the call observed.
        own_wait_s: Seconds this call alone must wait after a random refusal; None otherwise.
    """

    __slots__ = ("__weakref__", "_limits", "_pacer", "_sent", "observation", "own_wait_s")

    def __init__(self, pacer: "Pacer", limits: KnownLimits, sent: Sent) -> None:
        self._pacer = pacer
        self._limits = limits
        self._sent: Sent | None = sent
        self.observation = Observation()
        self.own_wait_s: float | None = None

    @property
    def pacer(self) -> "Pacer":
        """The pacer that issued it."""
        return self._pacer

    @property
    def owner(self) -> object:
        """Who asked for it."""
        return None if self._sent is None else self._sent.owner

    def ok(self, *, headers: object = None, usage: object = None) -> None:
        """The call was answered; pass on what its response said, unless `observe` did."""
        sent, observed = self._take(), self.observation
        if self._is_current():
            headers = observed.headers if headers is None else headers
            usage = observed.usage if usage is None else usage
            self._pacer._settle_ok(sent, headers, usage)  # noqa: SLF001 - its other half

    def refused(
        self,
        *,
        retry_after: float | None = None,
        headers: object = None,
        limits: tuple[Limit, ...] = (),
        at_once: bool = False,
    ) -> bool:
        """The call was refused. Returns whether other calls succeed meanwhile.

        `at_once`: because too many calls are in flight. If the refusal seems random, this sets
        `own_wait_s`: only this call has to wait.
        """
        sent = self._take()
        if not self._is_current():
            return True
        waits_alone = self._pacer._settle_refused(  # noqa: SLF001
            sent, retry_after, headers, limits, at_once
        )
        self.own_wait_s = (number(retry_after) or 0.0) if waits_alone else None
        return not self._pacer.blocked

    def failed(self, *, timeout: bool = False) -> bool:
        """The call failed. Returns whether it counts against the call: not in an outage."""
        sent = self._take()
        if not self._is_current():
            return True
        return self._pacer._settle_failed(sent, timeout=timeout)  # noqa: SLF001

    def settle(self, signal: Signal) -> bool:
        """The call ended with an error. Returns whether that counts against the call."""
        if signal.pushback:
            wait_s, limits = signal.retry_after_s, signal.limits
            self.refused(retry_after=wait_s, limits=limits, at_once=signal.at_once)
            return False
        if signal.outage and signal.kind is FailureKind.TRANSIENT:
            return self.failed()
        # The endpoint answered: the fault is in the call or its code.
        self.ok()
        return True

    def void(self) -> None:
        """The call was not made, or was cancelled: it says nothing about the endpoint."""
        sent = self._take()
        if self._is_current():
            self._pacer._settle_void(sent)  # noqa: SLF001

    def _take(self) -> Sent:
        if self._sent is None:
            raise LimpetError("this ticket is already settled")
        asyncio.get_running_loop()  # off the loop this raises, and the ticket stays valid
        sent, self._sent = self._sent, None
        return sent

    def _is_current(self) -> bool:
        """Return whether the pacer is still on the event loop this ticket is from."""
        return self._pacer._limits is self._limits  # noqa: SLF001

    def __del__(self) -> None:
        if self._sent is not None and self._is_current():
            self._pacer._settle_dropped(self._sent)  # noqa: SLF001


# ---- what the call observes ------------------------------------------------------------------

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
