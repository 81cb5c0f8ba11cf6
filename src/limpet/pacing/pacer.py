"""When may the next call to this endpoint start?

`adaptive` does the arithmetic. Here calls queue, first come, first served, and are woken when
something changes or their time comes. Nothing polls.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limpet.arguments import whole_number_from
from limpet.errors import LimpetError
from limpet.pacing.adaptive import AdaptiveLimits
from limpet.pacing.limits import Limit, number, read_limits
from limpet.pacing.memory import restore_memory, save_memory
from limpet.pacing.observation import Observation
from limpet.pacing.sharing import BEAT_S, CallLog, SharedLimits
from limpet.pacing.signals import LONGEST_WAIT_S, FailureKind, Signal, lower_cased
from limpet.pacing.traffic import Sent, tokens_in

# ---- What is a pacer doing, and why does it wait? ------------------------------------------------

WORDS = {
    "rate": "at the provider's limit",
    "quota": "at the provider's limit per minute",
    "cap": "at the provider's limit of calls in flight",
    "in_flight": "at the concurrency that pays off",
    "headers": "at the limit the provider names",
    "refused": "the provider refuses everything: probing",
    "down": "the provider is down: probing",
    "hold": "waiting as the provider requested",
    "pause": "a short pause after a refusal",
    "start": "finding the limit",
    "most": "at max_concurrency",
    "fixed": "at the number you set",
    "resting": "refused calls wait: a lower number or auto may be faster",
    "nothing": "as fast as calls come",
}
"""What each `binding` means, for people."""


@dataclass(frozen=True, slots=True)
class PacerState:
    """A snapshot of a pacer.

    Attributes:
        rate: Known limit in cost per second; None: unknown.
        in_flight_cap: Known limit of calls in flight; None: unknown.
        per_minute: Known limit in cost per minute; None: unknown.
        limit: Calls that may be in flight now.
        in_flight: Calls in flight.
        waiting: Calls waiting for a ticket.
        binding: What limits the pace now, one of the keys of `WORDS`.
        blocked: "refused" or "down" while no calls succeed.
        calls_per_s: Calls started per second over the last minute; at a number, the last second.
        sent: Number of calls.
        refused: Number of refused calls.
        failed: Number of failed calls.
        others: Number of other processes that call the endpoint and share its limit.
        usage: Total usage that the calls reported.
    """

    rate: float | None
    in_flight_cap: float | None
    per_minute: float | None
    limit: int
    in_flight: int
    waiting: int
    binding: str
    blocked: str | None
    calls_per_s: float
    sent: int
    refused: int
    failed: int
    others: int
    usage: Mapping[str, float]

    @property
    def words(self) -> str:
        """What limits the pace now, in words, and how many calls were refused and failed."""
        words = WORDS[self.binding]
        if self.others:
            words += f", shared with {self.others} other process{'es' * (self.others > 1)}"
        counts = ((self.refused, "refused"), (self.failed, "failed"))
        ended = ", ".join(f"{count:,} {what}" for count, what in counts if count)
        return f"{words} ({ended})" if ended else words

    def __str__(self) -> str:
        return f"{self.in_flight} in flight · {self.calls_per_s:.1f}/s · {self.words}"


@dataclass(frozen=True, slots=True)
class PaceEvent:
    """A change of pace: when, for which endpoint, after what, and the new state."""

    at: float
    key: str
    after: str
    state: PacerState


def _known(top: float) -> float | None:
    return top if top < math.inf else None


# ---- How does a caller report the end of a call? ------------------------------------------------


class Ticket:
    """The permit for one call. Settle it once, by how the call ended.

    A ticket that is dropped unsettled counts as failed, so its slot is not lost.

    Attributes:
        pacer: The pacer that issued it.
        asked: The pacer that was asked for it: the same, or a group with it.
        observation: What the call observed.
        own_wait_s: Seconds this call alone must wait after a random refusal; None otherwise.
    """

    __slots__ = (
        "__weakref__", "_costs", "_limits", "_sent", "asked", "observation", "own_wait_s", "pacer",
    )  # fmt: skip

    def __init__(
        self, pacer: "Pacer", limits: AdaptiveLimits, sent: Sent, costs: Mapping[str, float]
    ) -> None:
        self.pacer = self.asked = pacer
        self._limits = limits
        self._sent: Sent | None = sent
        self._costs = costs
        self.observation = Observation(pacer.key)
        self.own_wait_s: float | None = None

    @property
    def owner(self) -> object:
        """Who requested it."""
        return None if self._sent is None else self._sent.owner

    def ok(self, *, headers: object = None, usage: object = None) -> None:
        """The call was answered; pass its headers and usage, unless `observe` did."""
        sent, observed = self._take(), self.observation
        if self._is_current():
            headers = observed.headers if headers is None else headers
            usage = observed.usage if usage is None else usage
            self.pacer._settle_ok(sent, headers, usage)  # noqa: SLF001 - its other half

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
        waits_alone = self.pacer._settle_refused(  # noqa: SLF001
            sent, retry_after, headers, limits, at_once
        )
        self.own_wait_s = max(number(retry_after) or 0.0, sent.rest_s) if waits_alone else None
        return not self.pacer.blocked

    def failed(self, *, timeout: bool = False) -> bool:
        """The call failed. Returns whether the call is charged for it: not in an outage."""
        sent = self._take()
        if not self._is_current():
            return True
        return self.pacer._settle_failed(sent, timeout=timeout)  # noqa: SLF001

    def settle(self, signal: Signal) -> bool:
        """The call ended with an error. Returns whether the call is charged for it."""
        if signal.ends_account:
            self.asked.set_aside(self.pacer)
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
            self.pacer._settle_void(sent)  # noqa: SLF001

    async def wait(self, something: Awaitable[Any]) -> None:
        """Wait for something before the call starts; another call may start in its place."""
        owner = self.owner
        self.void()
        await something
        again = await self.asked.acquire(self._costs, owner=owner)
        self.pacer, self._limits = again.pacer, again._limits  # noqa: SLF001 - our own class
        self._sent = again._take()  # noqa: SLF001
        self.observation.endpoint = again.observation.endpoint

    def _take(self) -> Sent:
        if self._sent is None:
            raise LimpetError("this ticket is already settled")
        asyncio.get_running_loop()  # off the loop this raises, and the ticket stays valid
        sent, self._sent = self._sent, None
        return sent

    def _is_current(self) -> bool:
        """Return whether the pacer is still on the event loop this ticket is from."""
        return self.pacer._limits is self._limits  # noqa: SLF001

    def __del__(self) -> None:
        if self._sent is not None and self._is_current():
            self.pacer._settle_dropped(self._sent)  # noqa: SLF001


# ---- When may the next call to this endpoint start? ---------------------------------------------

logger = logging.getLogger("limpet.pacing")

MAX_IN_FLIGHT = 1000
MOST_USAGES = 20
Cost = float | Mapping[str, float]


class _Waiter:
    __slots__ = ("asked", "cost", "costs", "future", "granted", "owner")

    def __init__(
        self,
        cost: float,
        costs: Mapping[str, float],
        owner: object,
        future: asyncio.Future[Ticket],
        asked: "Pacer",
    ) -> None:
        self.cost = cost
        self.costs = costs
        self.owner = owner
        self.future = future
        self.asked = asked
        self.granted = False  # here, and not by another member of its group


class Pacer:
    """Paces the calls to one endpoint: finds its limit and stays just under it.

    Args:
        key: The endpoint: a provider, an account and a model; shown in messages.
        max_in_flight: Maximum calls in flight, even if the endpoint accepts more.
        fixed: Whether so many are always in flight. Only a wait that the provider names, the limits
            in its headers, and an outage make it fewer.
        clock: Returns the time in seconds; None: the running loop's.
        log: Returns where processes that share the endpoint tell each other of their calls; None:
            it is not shared.
    """

    def __init__(
        self,
        key: str = "",
        *,
        max_in_flight: int = MAX_IN_FLIGHT,
        fixed: bool = False,
        clock: Callable[[], float] | None = None,
        log: Callable[[], CallLog | None] | None = None,
    ) -> None:
        self.key = key
        self.max_in_flight = whole_number_from(1, max_in_flight=max_in_flight)
        self.fixed = fixed
        self._given_clock = clock
        self._given_log = log
        self._limits: AdaptiveLimits | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: deque[_Waiter] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._beat_timer: asyncio.TimerHandle | None = None
        self._memory: dict[str, Any] = {}
        self._listeners: list[Callable[[PaceEvent], None]] = []
        self._announced: tuple[object, ...] = ()
        self._counts = {"sent": 0, "refused": 0, "failed": 0}
        self._usage: dict[str, float] = {}
        self.members: Sequence[Pacer] = ()
        """The pacers that carry its calls, if it is a group."""

    # ---- acquiring --------------------------------------------------------------------------

    async def acquire(self, cost: Cost = 1, *, owner: object = None) -> Ticket:
        """Wait until one call may start.

        Args:
            cost: Estimated cost of the call: a number of tokens, or a mapping by dimension
                (`{"tokens": 900, "requests": 1}`).
            owner: The caller. Failures of a single owner never count as an outage.
        """
        ticket = self.acquire_nowait(cost, owner=owner)
        return ticket or await self._first_ticket(cost, owner)

    async def _first_ticket(self, cost: Cost, owner: object) -> Ticket:
        """Wait at each member; return the ticket of the first that lets the call start."""
        future: asyncio.Future[Ticket] = asyncio.get_running_loop().create_future()
        waiting: list[tuple[Pacer, _Waiter]] = []
        try:
            for one in self.members or (self,):
                waiting.append((one, one.queue(cost, owner, future, self)))  # noqa: PERF401 - if one raises, the others are left
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                future.result().void()  # granted and cancelled in the same turn
            raise
        finally:
            for one, waiter in waiting:
                if not waiter.granted:
                    one.leave(waiter)

    def queue(
        self, cost: Cost, owner: object, future: asyncio.Future[Ticket], asked: "Pacer"
    ) -> _Waiter:
        """Let a call of this pacer, or of a group, wait for its turn."""
        waiter = _Waiter(*self._priced(cost, owner), owner, future, asked)
        self._waiters.append(waiter)
        if len(self._waiters) == 1:  # the timer is for the first
            self._keep_beating()
            self._set_timer(self._bound().wait_s(waiter.cost, waiter.costs))
        return waiter

    def leave(self, waiter: _Waiter) -> None:
        """Let it wait no longer."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)
            self._grant()

    def send_away(self, asked: "Pacer") -> None:
        """Let no call of this group wait here any longer."""
        self._waiters = deque(one for one in self._waiters if one.asked is not asked)
        self._grant()

    def set_aside(self, member: "Pacer") -> None:
        """Send no more calls by a member: its key is refused, or its quota is exhausted.

        The last one stays: its refusal is the run's.
        """

    def acquire_nowait(self, cost: Cost = 1, *, owner: object = None) -> Ticket | None:
        """Return a ticket if a call may start now and no other call is waiting."""
        limits = self._bound()
        if self._waiters:
            return None
        amount, costs = self._priced(cost, owner)
        if limits.wait_s(amount, costs) != 0:
            return None
        return self._issue(limits, amount, costs, owner)

    def _priced(self, cost: Cost, owner: object) -> tuple[float, Mapping[str, float]]:
        amount, costs = _priced(cost)
        large = 1.0 if self.fixed else self._bound().large_calls.size_of(owner)
        return amount * large, costs

    def _issue(
        self, limits: AdaptiveLimits, cost: float, costs: Mapping[str, float], owner: object
    ) -> Ticket:
        self._counts["sent"] += 1
        sent = limits.send(cost, costs, object() if owner is None else owner)
        limits.throughput.add(sent, waited=bool(self._waiters))  # it is the first of them
        self._keep_beating()
        return Ticket(self, limits, sent, costs)

    def _grant(self) -> None:
        """Issue tickets to waiting calls, in order, and set a timer for the rest."""
        limits, wait = self._bound(), None
        while self._waiters:
            first = self._waiters[0]
            if first.future.done():  # cancelled, but not yet woken to remove itself
                self._waiters.popleft()
                continue
            wait = limits.wait_s(first.cost, first.costs)
            if wait != 0:
                break
            ticket = self._issue(limits, first.cost, first.costs, first.owner)
            ticket.asked, first.granted = first.asked, True
            first.future.set_result(ticket)
            self._waiters.popleft()
        self._set_timer(wait)

    def _grant_when_due(self, due: float) -> None:
        assert self._loop is not None
        self._bound().timer_late_s = max(0.0, self._loop.time() - due)
        self._grant()

    def _set_timer(self, wait: float | None) -> None:
        """Wake the first waiting call after so many seconds; None: when another call has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiters and wait is not None:
            assert self._loop is not None
            # Slightly later than needed: a timer may fire a tick early.
            due = self._loop.time() + wait + 1e-6
            self._timer = self._loop.call_at(due, self._grant_when_due, due)

    def _bound(self) -> AdaptiveLimits:
        """Return the limits, on the running loop's clock."""
        loop = asyncio.get_running_loop()
        if self._limits is not None and loop is self._loop:
            return self._limits
        busy = self._waiters or (self._limits is not None and self._limits.own_in_flight)
        if busy and self._loop is not None and not self._loop.is_closed():
            raise LimpetError(
                f"the pacer {self.key!r} is in use on another event loop",
                hint="use one pacer per event loop",
            )
        learned = self.memory
        self._waiters.clear()  # left over from a closed loop
        self._loop = loop
        self._beat_timer = None
        self._limits = self._new_limits(self._given_clock or loop.time)
        if not self.fixed and not self._limits.is_told:
            restore_memory(self._limits, learned)
        return self._limits

    def _new_limits(self, clock: Callable[[], float]) -> AdaptiveLimits:
        log = None if self._given_log is None else self._given_log()
        if log is not None:
            waits = self._waiters.__len__
            return SharedLimits(clock, self.max_in_flight, log, waits, fixed=self.fixed)
        return AdaptiveLimits(clock, self.max_in_flight, fixed=self.fixed)

    # ---- sharing --------------------------------------------------------------------------------

    def _keep_beating(self) -> None:
        """Tell other processes that this one is there, while it has calls."""
        if self._beat_timer is None and isinstance(self._limits, SharedLimits):
            assert self._loop is not None
            self._beat_timer = self._loop.call_later(BEAT_S, self._beat)

    def _beat(self) -> None:
        self._beat_timer = None
        limits = self._limits
        if isinstance(limits, SharedLimits) and (self._waiters or limits.own_in_flight):
            limits.beat()
            self._grant()
            self._keep_beating()

    # ---- settling -----------------------------------------------------------------------------

    def _settle_ok(self, sent: Sent, headers: object, usage: object) -> None:
        limits = self._bound()
        limits.ok(sent, self._read(headers), tokens_in(usage))
        if isinstance(usage, Mapping):
            for name, amount in list(usage.items())[:MOST_USAGES]:
                if name in self._usage or len(self._usage) < MOST_USAGES:
                    self._usage[str(name)] = self._usage.get(str(name), 0) + (number(amount) or 0)
        self._after("answered")

    def _settle_refused(
        self,
        sent: Sent,
        retry_after: float | None,
        headers: object,
        known: tuple[Limit, ...],
        at_once: bool,  # noqa: FBT001 - passed on
    ) -> bool:
        self._counts["refused"] += 1
        wait = min(number(retry_after) or 0.0, LONGEST_WAIT_S)
        limits = [*known, *self._read(headers)]
        self._bound().throughput.cost -= sent.cost
        waits_alone = self._bound().refused(sent, wait, limits, at_once=at_once)
        self._after("refused")
        return waits_alone

    def _settle_failed(self, sent: Sent, *, timeout: bool) -> bool:
        self._counts["failed"] += 1
        charged = self._bound().failed(sent, timeout=timeout)
        self._after("failed")
        return charged

    def _settle_void(self, sent: Sent) -> None:
        self._counts["sent"] -= 1
        self._bound().unsend(sent)
        self._after("void")

    def _settle_dropped(self, sent: Sent) -> None:
        # May run in another thread or inside any code: wherever the garbage collector runs.
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(lambda: self._settle_failed(sent, timeout=False))

    def _read(self, headers: object) -> list[Limit]:
        return [] if headers is None else read_limits(lower_cased(headers), time.time)

    def _after(self, what: str) -> None:
        self._grant()
        if self._listeners:
            self._announce(what)

    # ---- state ----------------------------------------------------------------------------------

    @property
    def state(self) -> PacerState:
        """What the pacer knows, and why it waits."""
        limits = self._limits or AdaptiveLimits(lambda: 0.0, 1, fixed=self.fixed)
        waiting = len(self._waiters)
        return PacerState(
            rate=_known(limits.rate.top),
            in_flight_cap=_known(limits.in_flight_cap.top),
            per_minute=_known(limits.quota.top),
            limit=limits.limit(),
            in_flight=limits.own_in_flight,
            waiting=waiting,
            binding=limits.binding(waiting=waiting > 0) if self._limits or self.fixed else "start",
            blocked=limits.blocked,
            calls_per_s=limits.calls_per_s(),
            others=limits.others,
            usage=dict(self._usage),
            **self._counts,
        )

    def change(self, most: int, *, fixed: bool) -> None:
        """Hold another number of calls in flight, or find the limit again.

        Calls in flight are not affected. Call this on the pacer's event loop.
        """
        limits = self._bound()
        self.max_in_flight, self.fixed = whole_number_from(1, max_in_flight=most), fixed
        limits.change(self.max_in_flight, fixed=fixed)
        self._after("ordered")

    @property
    def words(self) -> str:
        """What limits the pace now, in words."""
        return self.state.words

    @property
    def blocked(self) -> bool:
        """Whether no calls succeed and only probes are sent."""
        return self._limits is not None and self._limits.blocked is not None

    @property
    def held_s(self) -> float:
        """How many seconds it still waits because the provider refused a call; 0: it does not."""
        limits = self._limits
        return max(0.0, limits.hold_until - limits.clock()) if limits else 0.0

    @property
    def blocked_s(self) -> float:
        """For how many seconds no call has succeeded; 0 while calls succeed."""
        limits = self._limits
        return limits.clock() - limits.breaker.since if limits and limits.blocked else 0.0

    def subscribe(self, listener: Callable[[PaceEvent], None]) -> Callable[[], None]:
        """Call `listener` at every change of pace. Returns a function to unsubscribe."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _announce(self, what: str) -> None:
        assert self._limits is not None
        state = self.state
        pace = (state.binding, state.rate, state.in_flight_cap, state.per_minute, state.blocked)
        if pace == self._announced:
            return
        self._announced = pace
        event = PaceEvent(self._limits.clock(), self.key, what, state)
        for listener in list(self._listeners):
            try:
                listener(event)
            except Exception:
                logger.exception("a listener of the pacer %r failed", self.key)

    # ---- memory ---------------------------------------------------------------------------------

    @property
    def memory(self) -> dict[str, Any]:
        """What it learned, as plain JSON, for a later pacer of the same endpoint."""
        if self.fixed or self._limits is None:
            return dict(self._memory)
        return save_memory(self._limits)

    @memory.setter
    def memory(self, learned: Mapping[str, Any]) -> None:
        self._memory = dict(learned)
        if self._limits is not None and not self.fixed:
            restore_memory(self._limits, self._memory)


def _priced(cost: object) -> tuple[float, Mapping[str, float]]:
    """Return the cost that paces the rate, and the cost of each dimension.

    Estimates come from user code: an invalid one counts as one request.
    """
    if isinstance(cost, Mapping):
        amounts = {str(name): number(amount) for name, amount in cost.items()}
        known = {name: amount for name, amount in amounts.items() if amount is not None}
        tokens = known.get("tokens") or math.fsum(
            amount for name, amount in known.items() if "tokens" in name
        )
        return tokens or 1.0, {"requests": 1.0, **known}
    amount = number(cost)
    if not amount or amount == 1:
        return 1.0, {"requests": 1.0}
    return amount, {"requests": 1.0, "tokens": amount}
