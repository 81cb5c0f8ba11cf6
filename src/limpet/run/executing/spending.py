"""May the next call start within the budget?

The problem. What a call costs is known when it ended, and calls are in flight together. Adding up
what ended would let all of those in flight go beyond the cap.

What we do. Each call reserves what it may cost before it starts, and no call starts unless what was
spent, what is reserved and its own reservation are within the cap. For a model with `max_tokens`
and a price, the reservation is the maximum, and the cap is hard. For other calls it is an estimate:
what one call in twenty exceeds. Who does not fit waits: most calls use less than they reserved.
When one does not fit although nothing is in flight, the budget is used up.

A call of a model is one request. Of other steps, it is one attempt of a cell: what happens inside
is not known before it ends.
"""

import asyncio
import bisect
import logging
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from limpet.errors import BudgetReachedError, JournalError, LimpetError
from limpet.foreign import is_interrupt
from limpet.pacing.permits import current_permits
from limpet.pacing.signals import recognised, status_of
from limpet.run.budget import NANO, Amounts, Ledger, amount_in, amount_words, spent_words
from limpet.run.results.costs import Prices, cost_of, usage_facts
from limpet.run.run_file import WORKFLOW
from limpet.text import one_line
from limpet.usage import Most, Receipts, paid_by, reserves_each_call, total_usage, usage_of

logger = logging.getLogger("limpet.run")

FIRST, FEW = 3, 20
"""Calls of a step that run one at a time; calls from which the 95th percentile is known."""
_SHARE, _TIMES = 0.95, 2
_RECENT = 1000
_BLOCK_CALLS, _BLOCK_SHARE = 16, 0.01
"""How much more is put on disk at once: so many calls, or this share of the cap."""
_LARGEST = 2**62
"""What a server reports may be any number."""
_ONE: Amounts = {"calls": 1}
_MOST_CAUSES = 5
_MARGIN = 1.25
"""How much more than expected is suggested to finish."""
_WRITE_EVERY_S = 0.25
"""Without a budget, how often what was spent is written."""


class _History:
    """What the calls of a step used so far, and so what the next one may."""

    def __init__(self) -> None:
        self.in_flight = self.known = self.ended = 0
        self.spent: Counter[str] = Counter()
        self._recent: dict[str, deque[int]] = {}
        self._sorted: dict[str, list[int]] = {}

    def add(self, used: Amounts) -> None:
        self.known += 1
        for kind in ("cost", "tokens"):
            recent = self._recent.setdefault(kind, deque())
            values = self._sorted.setdefault(kind, [])
            if len(recent) == _RECENT:
                del values[bisect.bisect_left(values, recent.popleft())]
            recent.append(used.get(kind, 0))
            bisect.insort(values, used.get(kind, 0))

    @property
    def estimate(self) -> Amounts:
        """The 95th percentile; twice the largest, while few are known."""
        if self.known >= FEW:
            return {
                kind: values[math.ceil(_SHARE * len(values)) - 1]
                for kind, values in self._sorted.items()
            }
        return {kind: _TIMES * values[-1] for kind, values in self._sorted.items()}


class Spending:
    """What a session spends, within its budget.

    Args:
        budget: The limits by kind; empty: none.
        ledger: What all sessions spent.
        prices: What a million tokens cost, by model.
        cells: How many cells each step will run.
        stop: Called with the reason when the budget is used up.
    """

    def __init__(
        self,
        budget: Mapping[str, float],
        ledger: Ledger,
        prices: Prices | None,
        cells: Mapping[str, int],
        stop: Callable[[LimpetError], None],
    ) -> None:
        self._limits: dict[str, float] = {}
        self._most: dict[str, float] = {}  # without the time, in the units of the ledger
        self._ledger = ledger
        self._prices = prices
        self._cells = cells
        self._stop = stop
        self._steps: dict[str, _History] = {}
        # Invariant: in order; the first waits for what is in flight, or for the file.
        self._waiting: deque[tuple[Call, asyncio.Future[None]]] = deque()
        self._in_flight = 0
        self._syncing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writer: asyncio.TimerHandle | None = None
        self._running_since: float | None = None
        self._is_broken = False
        self.is_over = False
        self._set(budget)

    def _set(self, budget: Mapping[str, float]) -> None:
        self._limits |= budget
        self._most = {
            kind: round(limit * NANO) if kind == "cost" else limit
            for kind, limit in self._limits.items()
            if kind != "time"
        }
        self._is_priced = "cost" in self._limits or "tokens" in self._limits

    # ---- the session ----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin, or go on after a pause: time counts."""
        if self._running_since is None:
            self._running_since = asyncio.get_running_loop().time()
            self._set_timer()

    def pause(self) -> None:
        """Stop counting time."""
        self._count_time()
        self._running_since = None
        self._set_timer()

    def close(self) -> None:
        """Record the end of the session."""
        if self._running_since is not None:
            self.pause()
        for timer in (self._timer, self._writer):
            if timer is not None:
                timer.cancel()
        if self._syncing is not None:
            self._syncing.cancel()

    def change(self, budget: Mapping[str, float]) -> str:
        """Replace the limits of these kinds; return the budget in words."""
        self._set(budget)
        self._set_timer()
        self._admit()
        return self.words

    @property
    def words(self) -> str:
        """What was spent of each limit, in words; empty without a budget."""
        if self._running_since is not None:
            self._count_time()
        return spent_words(self._limits, self._ledger.numbers)

    def _count_time(self) -> None:
        if self._running_since is not None:
            now = asyncio.get_running_loop().time()
            self._ledger.seconds += now - self._running_since
            self._running_since = now

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if "time" in self._limits and self._running_since is not None:
            left_s = max(0.0, self._limits["time"] - self._ledger.seconds)
            self._timer = asyncio.get_running_loop().call_later(left_s, self._reached, "time")

    # ---- a call ---------------------------------------------------------------------------------

    def step(self, name: str, target: Any) -> "StepSpending":
        """Return what a step spends; `target`: its workflow or evaluator."""
        if name != WORKFLOW and target.endpoint is None:  # it is free
            return StepSpending(None, _History(), asks_models=False)
        history = self._steps.setdefault(name, _History())
        return StepSpending(self, history, asks_models=reserves_each_call(target))

    async def admit(self, call: "Call", *, holds: bool) -> None:
        """Wait until a call fits into the budget, and reserve what it may cost."""
        if not self._waiting and not self._exceeded(call) and self._is_covered(call):
            self._reserve(call)
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append((call, place))
        self._admit()
        try:
            await current_permits().wait(place, lambda: self.is_over, holds=holds)
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.settle(call, {}, is_known=False)  # it was not made
            raise

    def _admit(self) -> None:
        while self._waiting and not self.is_over:
            call, place = self._waiting[0]
            if place.done():  # cancelled
                self._waiting.popleft()
            elif kind := self._exceeded(call):
                if kind in self._limits and not self._in_flight:
                    self._reached(kind)
                return
            elif self._is_covered(call):
                self._waiting.popleft()
                self._reserve(call)
                place.set_result(None)
            else:
                return  # until the file is synced

    def _exceeded(self, call: "Call") -> str:
        """Return the limit that a call would exceed now, or "first"; empty: it may start."""
        history, ledger = call.history, self._ledger
        if not self._limits:
            call.reserved = _ONE
            return ""
        call.reserved = {"calls": 1, **(call.most or history.estimate)}
        if self.is_over:
            return "over"
        if call.most is None and history.known < FIRST and history.in_flight and self._is_priced:
            return "first"
        for kind, most in self._most.items():
            spent = ledger.spent[kind]
            if spent >= most or spent + ledger.reserved[kind] + call.reserved.get(kind, 0) > most:
                return kind
        return ""

    def _reserve(self, call: "Call") -> None:
        self._in_flight += 1
        call.history.in_flight += 1
        self._ledger.reserve(call.reserved)
        self._write()

    def settle(
        self, call: "Call", used: Amounts, *, is_known: bool = True, about: bool = False
    ) -> None:
        """Count what a call used.

        Args:
            call: The call.
            used: What it used.
            is_known: Whether that tells what other calls may use.
            about: Whether it is its reservation.
        """
        self._in_flight -= 1
        call.history.in_flight -= 1
        self._ledger.settle(call.reserved, used, about=about)
        for kind, amount in used.items():
            call.history.spent[kind] += amount
        if is_known and self._is_priced:
            call.history.add(used)
        self._write()
        self._admit()

    # ---- on disk --------------------------------------------------------------------------------

    def _is_covered(self, call: "Call") -> bool:
        """Return whether the bound on disk covers a call; if it soon will not, raise it."""
        if not self._most or self._is_broken:
            return True
        ledger, reserved = self._ledger, call.reserved
        used = {
            kind: ledger.spent[kind] + ledger.reserved[kind] + reserved.get(kind, 0)
            for kind in self._most
        }
        block = {
            kind: max(_BLOCK_CALLS * reserved.get(kind, 0), math.ceil(_BLOCK_SHARE * most))
            for kind, most in self._most.items()
        }
        if any(used[kind] + block[kind] // 2 > ledger.bound[kind] for kind in used):
            for kind, needed in used.items():
                ledger.bound[kind] = max(ledger.bound[kind], needed + block[kind])
            if self._syncing is None:
                self._syncing = asyncio.get_running_loop().create_task(self._sync())
        return all(used[kind] <= ledger.covered[kind] for kind in used)

    async def _sync(self) -> None:
        try:
            while self._ledger.covered != self._ledger.bound:
                self._ledger.write()
                await asyncio.to_thread(self._ledger.sync)
        except OSError as error:
            self._break(error)
        self._syncing = None
        self._admit()

    def _write(self) -> None:
        if self._limits:
            self._count_time()
            self._write_now()
        elif self._writer is None:
            loop = asyncio.get_running_loop()
            self._writer = loop.call_later(_WRITE_EVERY_S, self._write_now)

    def _write_now(self) -> None:
        self._writer = None
        try:
            self._ledger.write()
        except OSError as error:
            self._break(error)

    def _break(self, error: OSError) -> None:
        """Stop, or without a budget go on: what was spent can no longer be written."""
        if self._is_broken:
            return
        self._is_broken = True
        words = f"what was spent cannot be written: {error.strerror}"
        if self._limits:
            self._end(JournalError(words, hint="finished results are safe: run again to resume"))
        else:
            logger.warning("%s", words)

    # ---- the end of the budget ------------------------------------------------------------------

    def _reached(self, kind: str) -> None:
        self._count_time()
        more = self._to_finish(kind)
        words = spent_words({kind: self._limits[kind]}, self._ledger.numbers)
        is_used_up = amount_in(self._ledger.numbers, kind) >= self._limits[kind]
        what = "the budget is used up" if is_used_up else "the next call may exceed the budget"
        words = f"{what}: {words}"
        if more is not None:
            words += f"; finishing would take about {amount_words(kind, more)} more"
        error = BudgetReachedError(words, hint="run again with a larger budget to go on")
        error.kind = kind
        error.more = self._limits[kind] * 2 if more is None else self._limits[kind] + _MARGIN * more
        self._end(error)

    def _to_finish(self, kind: str) -> float | None:
        """Return what the cells that are left would take of a kind; None: unknown."""
        total = 0.0
        for name, history in self._steps.items():
            left = self._cells.get(name, 0) - history.ended
            if left <= 0:
                continue
            if kind == "time" or not history.ended:
                return None
            total += left * history.spent[kind] / history.ended
        return total / (NANO if kind == "cost" else 1)

    def amounts_of(self, usage: Any) -> Amounts | None:
        """Return what a call used, by its usage; None: it reported none."""
        if usage is None:
            return None
        known = usage_of(usage)[0]
        counts = usage_facts(known, self._prices).get("usage")
        if known is None or counts is None:
            return None
        cost, tokens = counts.get("cost"), counts.get("total_tokens", 0)
        if cost is None and tokens and "cost" in self._limits:
            named = ", ".join(map(one_line, known.models or ())) or "a model without a name"
            self._end(
                BudgetReachedError(
                    f"the budget limits the cost, and {named} has no price",
                    hint="add it under `prices`, and run again: finished results are kept",
                )
            )
        return {"calls": 1, "cost": _nano(cost or 0.0), "tokens": min(tokens, _LARGEST)}

    def most_of(self, most: Most) -> Amounts | None:
        """Return what a request can use at most; None: its model has no price."""
        counts = {"prompt_tokens": most.prompt, "completion_tokens": most.completion}
        cost = cost_of({most.model: counts}, {}, self._prices or {})
        if cost is None and "cost" in self._limits:
            return None
        return {"cost": _nano(cost or 0.0), "tokens": most.prompt + most.completion}

    def _end(self, error: LimpetError) -> None:
        if not self.is_over:
            self.is_over = True
            self._stop(error)


def _nano(cost: float) -> int:
    """Return a cost in billionths."""
    return math.ceil(min(cost * NANO, _LARGEST))


# ---- What does one call spend? ------------------------------------------------------------------


class Call:
    """A call, or an attempt of which the calls are not known.

    Attributes:
        history: What the calls of its step used.
        most: What it can use at most; None: not known.
        reserved: What is reserved for it.
    """

    __slots__ = ("_spending", "history", "most", "reserved")

    def __init__(self, spending: Spending, history: _History, most: Amounts | None) -> None:
        self._spending = spending
        self.history = history
        self.most = most
        self.reserved: Amounts = {}

    def settle(self, usage: object, error: BaseException | None) -> None:
        """Count what it used, by its usage and by how it ended."""
        used = self._spending.amounts_of(usage)
        if used is None and error is not None and costs_nothing(error):
            self._spending.settle(self, _ONE, is_known=False)
        elif error is not None and (used is None or not issubclass(type(error), Exception)):
            # It was cut off: more may have been used than was reported.
            most = Counter(self.reserved) | Counter(used or {})
            self._spending.settle(self, most, is_known=False, about=True)
        elif used is None and self.most is not None:
            self._spending.settle(self, self.reserved, is_known=False, about=True)
        else:  # without a usage, it is free
            self._spending.settle(self, used or _ONE)


class StepSpending:
    """What a step spends.

    Args:
        spending: What the session spends; None: the step is free.
        history: What its calls used.
        asks_models: Whether all its calls are requests to our models.
    """

    def __init__(self, spending: Spending | None, history: _History, *, asks_models: bool) -> None:
        self._spending = spending
        self._history = history
        self._asks_models = asks_models

    @property
    def pays(self) -> bool:
        """Whether it pays for each request to a model."""
        return self._spending is not None and self._asks_models

    async def reserve(self, most: Most | None) -> Call:
        """Wait until a request fits into the budget."""
        assert self._spending is not None
        bound = None if most is None else self._spending.most_of(most)
        call = Call(self._spending, self._history, bound)
        await self._spending.admit(call, holds=True)
        return call

    def attempt(self, receipts: Receipts) -> "Attempted":
        """Return a context for an attempt, which yields a list for its output.

        It waits until the attempt fits into the budget; afterwards, what it used is counted: that
        of its output, or else the receipts.
        """
        call = None
        if self._spending is not None and not self._asks_models:
            call = Call(self._spending, self._history, None)
        return Attempted(self, call, receipts)

    async def admit(self, call: Call) -> None:
        """Wait until an attempt fits into the budget."""
        assert self._spending is not None
        await self._spending.admit(call, holds=False)

    def ended(self) -> None:
        """Count a cell that is done."""
        self._history.ended += 1


class Attempted:
    """An attempt of a cell. Not a generator: that would touch foreign exceptions."""

    __slots__ = ("_call", "_outputs", "_payer", "_receipts", "_step")

    def __init__(self, step: StepSpending, call: Call | None, receipts: Receipts) -> None:
        self._step = step
        self._call = call
        self._receipts = receipts
        self._outputs: list[Any] = []
        self._payer = paid_by(step) if call is None and step.pays else None

    async def __aenter__(self) -> list[Any]:
        if self._call is not None:
            await self._step.admit(self._call)
        elif self._payer is not None:
            self._payer.__enter__()
        return self._outputs

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            self._step.ended()
        if self._payer is not None:
            self._payer.__exit__()
        if self._call is not None:
            told = self._outputs[0].usage if self._outputs else None
            self._call.settle(total_usage(self._receipts) if told is None else told, error)


_NEVER_SENT = re.compile("ClientConnector|ConnectError|Connect(ion)?Timeout|RefusedError")


def costs_nothing(error: BaseException) -> bool:
    """Return whether a call without usage was refused, or never sent."""
    try:
        signal = recognised(error)
        if status_of(error) is not None or (signal is not None and signal.pushback):
            return True
        link: BaseException | None = error
        for _ in range(_MOST_CAUSES):
            if link is None:
                return False
            if _NEVER_SENT.search(type(link).__name__):
                return True
            link = link.__context__ if link.__cause__ is None else link.__cause__
    except BaseException as odd:  # reading an exception's attributes may raise anything
        if is_interrupt(odd):
            raise
    return False
