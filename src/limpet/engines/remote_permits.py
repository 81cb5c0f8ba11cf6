"""How does a call inside a worker get a permit from the driver?

The driver owns the pacers: only one process granting every call can enforce a limit across all
workers. So `limpet.pacing.endpoint` in a worker asks the driver, waits for its answer, and reports
how the call ended and what it observed.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from limpet.engines.messages import ASK, Message
from limpet.errors import LimpetError
from limpet.pacing import signals
from limpet.pacing.limits import Limit, number
from limpet.pacing.observation import Observation
from limpet.pacing.pacer import Ticket
from limpet.pacing.permits import Permits, current_permits
from limpet.pacing.registry import current_pacers, members_of
from limpet.pacing.signals import FailureKind, Signal

MAY_START, ENDED, FORGET = "may_start", "ended", "forget"
_OK, _TIMEOUT, _VOID, _SIGNAL = "ok", "timeout", "void", "signal"

cell: ContextVar[int] = ContextVar("limpet_cell", default=0)
"""The number of the cell running in this context."""


def observed(observation: Observation) -> tuple[dict[str, str] | None, dict[str, float] | None]:
    """Return the headers and usage a call observed, as plain values."""
    headers, usage = observation.headers, observation.usage
    counts = None
    if isinstance(usage, Mapping):
        amounts = {str(name): number(amount) for name, amount in usage.items()}
        counts = {name: amount for name, amount in amounts.items() if amount is not None}
    return None if headers is None else signals.lower_cased(headers), counts


# ---- in a worker --------------------------------------------------------------------------------


class Questions:
    """The questions a worker's cells put to the driver.

    Args:
        send: Sends a message to the driver immediately.
    """

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[Any]] = {}

    async def may_start(self, keys: tuple[str, ...], cost: Any) -> tuple[int, str]:
        """Wait for a permit to call one of these endpoints; return its number, and which one.

        Raises:
            LimpetError: Called on an event loop other than the worker's. A pacer in the run's own
                process raises the same.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise LimpetError(f"the pacer {keys[0]!r} is in use on another event loop")
        question = next(self._numbers)
        answer = self._open[question] = self._loop.create_future()
        self._send((ASK, cell.get(), question, MAY_START, keys, cost))
        try:
            granted = await answer
        except asyncio.CancelledError:
            self._send((ASK, cell.get(), question, FORGET))
            raise
        finally:
            self._open.pop(question, None)
        if not granted:
            raise asyncio.CancelledError
        return question, granted if isinstance(granted, str) else ""

    def tell(self, question: int, how: str, observation: Observation, signal: Any = None) -> None:
        """Report how a call ended."""
        self._send((ASK, cell.get(), question, ENDED, how, *observed(observation), signal))

    def answered(self, question: int, granted: object) -> None:
        """Pass on the driver's answer."""
        answer = self._open.get(question)
        if answer is not None and not answer.done():
            answer.set_result(granted)


class RemotePacers:
    """The driver's pacers, as seen by `endpoint` in a worker."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._pacers: dict[str, RemotePacer] = {}

    def get(self, key: str) -> "RemotePacer":
        """Return the one pacer for this key."""
        return self._pacers.setdefault(key, RemotePacer(key, self._questions))


class RemotePacer:
    """One of the driver's pacers."""

    def __init__(self, key: str, questions: Questions) -> None:
        self.key = key
        self._questions = questions

    async def acquire(self, cost: Any = 1, *, owner: object = None) -> "RemoteTicket":
        """Wait until a call may start."""
        del owner  # the driver knows the cell
        plain = dict(cost) if isinstance(cost, Mapping) else cost
        question, endpoint = await self._questions.may_start(members_of(str(self.key)), plain)
        return RemoteTicket(question, self, endpoint)

    def end(self, question: int, how: str, observation: Observation, signal: Any = None) -> None:
        """Report to the driver how a call ended."""
        self._questions.tell(question, how, observation, signal)


class RemoteTicket:
    """The driver's permit for one call."""

    own_wait_s = None

    def __init__(self, question: int, pacer: RemotePacer, endpoint: str) -> None:
        self._question = question
        self.pacer = self.asked = pacer
        self.observation = Observation(endpoint)

    def ok(self) -> None:
        self.pacer.end(self._question, _OK, self.observation)

    def failed(self, *, timeout: bool = False) -> bool:
        del timeout
        self.pacer.end(self._question, _TIMEOUT, self.observation)
        return True

    def settle(self, signal: Signal) -> bool:
        limits = [(one.name, one.limit, one.remaining, one.reset_s) for one in signal.limits]
        told = (
            str(signal.kind),
            signal.retry_after_s,
            signal.overloaded,
            signal.outage,
            limits,
            signal.at_once,
        )
        self.pacer.end(self._question, _SIGNAL, self.observation, told)
        return True

    def void(self) -> None:
        self.pacer.end(self._question, _VOID, self.observation)


# ---- in the driver ------------------------------------------------------------------------------


class Desk:
    """Answers one cell's questions. Its methods run in the context of the cell's attempt.

    Args:
        answer: Sends the worker the question's number and the endpoint that its call may use;
            True: any, False: none.
    """

    def __init__(self, answer: Callable[[int, bool | str], None]) -> None:
        self._answer = answer
        self._permits: Permits = current_permits()
        self._asking: dict[int, asyncio.Task[None]] = {}
        self._tickets: dict[int, Ticket | None] = {}

    def receive(self, question: int, kind: str, *more: Any) -> None:
        """Handle a question, or an update to one."""
        if kind == MAY_START:
            task = asyncio.get_running_loop().create_task(self._ask(question, *more))
            self._asking[question] = task
            task.add_done_callback(lambda _: self._asking.pop(question, None))
        elif kind == FORGET:
            if (asking := self._asking.get(question)) is not None:
                asking.cancel()
            self._end(question, _VOID)
        elif kind == ENDED:
            self._end(question, *more)

    async def _ask(self, question: int, keys: tuple[str, ...], cost: Any) -> None:
        pacers = current_pacers()
        granted: bool | str = True
        try:
            if pacers is None:
                self._tickets[question] = None
            else:
                ticket = await self._permits.acquire(pacers.get(keys), cost)
                self._tickets[question], granted = ticket, ticket.pacer.key or True
        except asyncio.CancelledError:
            self._answer(question, False)  # noqa: FBT003 - the answer
            raise
        self._answer(question, granted)

    def _end(
        self, question: int, how: str, headers: Any = None, usage: Any = None, signal: Any = None
    ) -> None:
        ticket = self._tickets.pop(question, None)
        if ticket is None:
            return
        ticket.observation.headers, ticket.observation.usage = headers, usage
        if how == _SIGNAL:
            kind, wait_s, overloaded, outage, limits, at_once = signal
            known = tuple(Limit(*limit) for limit in limits)
            meant = Signal(FailureKind(kind), wait_s, overloaded, outage, known, at_once)
            self._permits.settle_call(ticket, meant)
        else:
            errors = {_OK: None, _TIMEOUT: TimeoutError(), _VOID: asyncio.CancelledError()}
            self._permits.end(ticket, errors[how])

    def close(self) -> None:
        """Return the cell's permits: it ended, or its worker died."""
        for task in list(self._asking.values()):
            task.cancel()
        for question in list(self._tickets):
            self._end(question, _VOID)
