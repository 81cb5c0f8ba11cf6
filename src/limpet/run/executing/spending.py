"""May the next call start within the budget?

The problem. What a call costs is known when it ended, and calls are in flight together. Adding up
what ended would let all of those in flight go beyond the cap.

What we do. Each call reserves what it may cost before it starts, and no call starts unless what was
spent, what is reserved and its own reservation are within the cap. For a model with `max_tokens`
and a price, the reservation is the maximum, and the cap is hard. For other calls it is an estimate:
what one call in twenty exceeds. Who does not fit waits: most calls use less than they reserved.
When one does not fit although nothing is in flight, the budget is used up. During a pause, all
wait.

Nobody waits here with a pacer's permit: those who hold what is left of the budget may need it. Who
waited gets its permit afterwards; until then its share is promised, and not on disk.

A call of a model is one request. Of other steps, it is one attempt of a cell: what happens inside
is not known before it ends.
"""

import asyncio
import math
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from limpet.errors import BudgetReachedError, JournalError, LimpetError
from limpet.pacing.permits import current_permits
from limpet.pacing.signals import is_unpaid
from limpet.run.budget import UNITS, Amounts, Ledger, budget_facts, in_units
from limpet.run.results.costs import Prices, check_priced, usage_facts, without_price
from limpet.run.run_file import WORKFLOW
from limpet.shapes import Output, Usage
from limpet.usage import MostOf, paid_by, receipts_in, reserves_each_call, total_usage, usage_of

FIRST, FEW = 3, 20
"""Calls of a step that run one at a time; calls from which the 95th percentile is known."""
_SHARE, _TIMES, _RECENT = 0.95, 2, 1000
_BLOCK_CALLS, _BLOCKS = 16, 100
"""How much more is put on disk at once: so many calls, or the cap in so many parts."""
_LARGEST = 2**62
"""What a call reports to cost may be any number."""
_WRITE_EVERY_S = 1.0
_PRICED = {"cost", "tokens"}
Stop = Callable[[LimpetError], None]


class Spending:
    """What a session spends, within its budget.

    Args:
        budget: The limits by kind; empty: none.
        ledger: What all sessions spent.
        prices: What a million tokens cost, by model.
        stop: Called with the reason when the budget is used up.

    Attributes:
        limits: The limits, in the units of the ledger.
    """

    def __init__(
        self, budget: Mapping[str, float], ledger: Ledger, prices: Prices | None, stop: Stop
    ) -> None:
        self.limits = in_units(budget)
        self._ledger = ledger
        self._prices = prices
        self._stop = stop
        self._steps: list[StepSpending] = []
        # Invariant: in order; the first waits for what is in flight, for the file, or for a resume.
        self._waiting: deque[tuple[Call, asyncio.Future[None]]] = deque()
        # What calls in flight, and those let through that wait for a permit, may cost.
        self._promised: Counter[str] = Counter()
        self._syncing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._counted_until: float | None = None
        self._is_paused = self._is_over = False

    # ---- the session ----------------------------------------------------------------------------

    def step(self, name: str, target: Any) -> "StepSpending":
        """Return what a step spends; `target`: its workflow or evaluator."""
        self._steps.append(StepSpending(self, name, target))
        return self._steps[-1]

    def start(self) -> None:
        """Begin, or go on after a pause."""
        self._count_time()
        self._is_paused = False
        if self._timer is None:
            self._tick()
        self._admit()

    def pause(self) -> None:
        """Start no more calls; time does not count."""
        self._count_time()
        self._is_paused = True

    def close(self) -> None:
        """Count the session's time; nothing starts any more."""
        self._count_time()
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def change(self, budget: Mapping[str, float]) -> str:
        """Replace the limits of these kinds; return the budget in words.

        Raises:
            LimpetError: It is too late, or the cost is limited and a model has no price.
        """
        if self._is_over:
            raise LimpetError("the run is stopping", hint="run it again with this budget")
        if "cost" in budget:
            check_priced(self._prices, [step.target for step in self._steps])
        self.limits |= in_units(budget)
        self._admit()
        return str(self.facts["words"])

    @property
    def facts(self) -> dict[str, Any]:
        """The budget and what was spent of it; empty without a budget."""
        return budget_facts(self.limits, self._ledger) if self.limits else {}

    def _tick(self) -> None:
        """Write what was spent now and then: without a budget, no call does."""
        self._timer = asyncio.get_running_loop().call_later(_WRITE_EVERY_S, self._tick)
        self._write()
        if "time" in self.limits and self._left("time") <= 0:
            self._reached("time")

    def _count_time(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._counted_until is not None and not self._is_paused:
            self._ledger.spent["time"] += round((now - self._counted_until) * UNITS["time"])
        self._counted_until = now

    # ---- a call ---------------------------------------------------------------------------------

    async def admit(self, call: "Call") -> None:
        """Wait until a call fits into the budget, and reserve what it may cost."""
        while not await self._turn(call):
            self._take_back(call)
        self._ledger.reserved.update(call.reserved)
        if self.limits:
            self._write()

    async def _turn(self, call: "Call") -> bool:
        """Wait for a call's turn, then for its permit; return whether it may still start."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((call, turn))
        self._admit()
        if turn.done():
            return True
        try:
            await current_permits().wait(turn)
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._take_back(call)
            self._admit()  # the next one may fit
            raise
        return not (self._is_paused or self._is_over)

    def _take_back(self, call: "Call") -> None:
        """Take back what was promised to a call: it has ended, or is not made now."""
        call.step.in_flight -= 1
        self._promised.subtract(call.reserved)

    def _admit(self) -> None:
        """Let calls that wait start, in order, as far as the budget reaches."""
        while self._waiting and not (self._is_paused or self._is_over):
            call, turn = self._waiting[0]
            if not turn.done():  # it was not cancelled
                if not self._promise(call):
                    return
                turn.set_result(None)
            self._waiting.popleft()

    def _promise(self, call: "Call") -> bool:
        """Promise a call what it may cost, and return True; or end the run, if it never fits."""
        step = call.step
        is_first = step.known < FIRST and call.most is None and self.limits.keys() & _PRICED
        if is_first and step.in_flight:
            return False
        call.reserved = {"calls": 1, **(call.most or step.estimate)}
        for kind in self.limits:
            left = self._left(kind)
            if left <= 0 or self._promised[kind] + call.reserved.get(kind, 0) > left:
                if not any(step.in_flight for step in self._steps):
                    self._reached(kind)
                return False
        if self._ledger.durable and not self._is_covered(call.reserved):
            return False
        step.in_flight += 1
        self._promised.update(call.reserved)
        return True

    def settle(self, call: "Call", usage: object, error: BaseException | None) -> None:
        """Count what a call used, by its usage and by how it ended."""
        known = usage_of(usage)[0]
        used = self.amounts_of(known)
        if known is not None and used is None:
            self._end(without_price(known.models or ()))
        is_cut_off = error is not None and not issubclass(type(error), Exception)
        # A reply that reports half its tokens says little of what it cost.
        is_half = call.most is not None and known is not None and not _is_whole(known)
        if error is None or used is not None:
            call.step.learn(used)
        if used is None and error is not None and is_unpaid(error):
            self._settle(call, {"calls": 1})
        elif used is None or is_cut_off or is_half:  # more may have been used than was reported
            self._settle(call, Counter(call.reserved) | Counter(used or {}), about=True)
        else:
            self._settle(call, used)

    def _settle(self, call: "Call", used: Amounts, *, about: bool = False) -> None:
        """Count what a call used, in place of its reservation; `about`: that is what it used."""
        self._take_back(call)
        self._ledger.reserved.subtract(call.reserved)
        self._ledger.spent.update(used)
        if about:
            self._ledger.about.update({**used, "calls": 0})
        if self.limits:
            self._write()
        self._admit()

    def amounts_of(self, usage: Usage | None) -> Amounts | None:
        """Return what a usage counts; None: it is not known, or has no price."""
        counts = usage_facts(usage, self._prices).get("usage", {})
        cost, tokens = counts.get("cost"), counts.get("total_tokens")
        if tokens is None or (tokens and cost is None and "cost" in self.limits):
            return None
        cost = math.ceil(min((cost or 0.0) * UNITS["cost"], _LARGEST))
        return {"calls": 1, "cost": cost, "tokens": tokens}

    # ---- on disk --------------------------------------------------------------------------------

    def _write(self) -> None:
        self._count_time()
        try:
            self._ledger.write()
        except JournalError as error:
            self._end(error)

    def _is_covered(self, reserved: Amounts) -> bool:
        """Return whether the bound on disk covers a call; if not, begin to raise it."""
        ledger, limits = self._ledger, Counter(self.limits)
        needed = (ledger.spent + self._promised + Counter(reserved)) & limits
        if needed <= ledger.covered:
            return True
        if self._syncing is None:
            for kind, limit in limits.items():
                needed[kind] += max(_BLOCK_CALLS * reserved.get(kind, 0), limit // _BLOCKS)
            self._syncing = asyncio.get_running_loop().create_task(self._cover(needed & limits))
        return False

    async def _cover(self, bound: Counter[str]) -> None:
        try:
            await self._ledger.cover(bound)
        except JournalError as error:
            self._end(error)
        self._syncing = None
        self._admit()

    # ---- the end of the budget ------------------------------------------------------------------

    def _left(self, kind: str) -> int:
        return self.limits[kind] - self._ledger.spent[kind] - self._ledger.beside[kind]

    def _reached(self, kind: str) -> None:
        limit, left = self.limits[kind], self._left(kind)
        what = "the budget is used up" if left <= 0 else "the next call may exceed the budget"
        words = f"{what}: {budget_facts({kind: limit}, self._ledger)['words']}"
        error = BudgetReachedError(words, hint="run again with a larger budget to go on")
        error.kind, error.limit = kind, max(limit, limit - left) / UNITS[kind]
        self._end(error)

    def _end(self, error: LimpetError) -> None:
        if self.limits and not self._is_over:  # without a budget, a full disk may pass
            self._is_over = True
            self._stop(error)


def _is_whole(usage: Usage) -> bool:
    return usage.cost is not None or bool(usage.prompt_tokens and usage.completion_tokens)


# ---- What does one call spend? ------------------------------------------------------------------


class StepSpending:
    """What the calls of a step spend, and so what the next one may.

    Args:
        spending: What the session spends.
        name: The step's name.
        target: Its workflow or evaluator.

    Attributes:
        spending: What the session spends.
        target: The step's workflow or evaluator.
        in_flight: How many of its calls are in flight.
        known: How many reported what they used.
        estimate: What the next call may use: the 95th percentile; twice the largest, while few are
            known.
    """

    def __init__(self, spending: Spending, name: str, target: Any) -> None:
        self.spending = spending
        self.target = target
        # All its calls are requests of our models; an evaluator without an endpoint makes none.
        is_free = name != WORKFLOW and target.endpoint is None
        self._by_request = is_free or reserves_each_call(target)
        self._recent: deque[Amounts] = deque(maxlen=_RECENT)
        self.in_flight = self.known = 0
        self.estimate: Amounts = {}

    def learn(self, used: Amounts | None) -> None:
        """Learn what a call used; None: it does not report that."""
        self.known += 1
        if used is not None:
            self._recent.append(used)
        if len(self._recent) in range(1, FEW) or (self._recent and self.known % FEW == 0):
            self.estimate = {kind: self._may_use(kind) for kind in ("cost", "tokens")}

    def _may_use(self, kind: str) -> int:
        used = sorted(one[kind] for one in self._recent)
        return _TIMES * used[-1] if len(used) < FEW else used[math.ceil(_SHARE * len(used)) - 1]

    async def attempt(self, make: Callable[[], Awaitable[Output]]) -> Output:
        """Make an attempt of a cell, when it or its requests fit into the budget."""
        if self._by_request:
            with paid_by(self._request):
                return await make()
        async with Call(self) as call:
            output = await make()
            call.told = output.usage
            return output

    def _request(self, most_of: MostOf) -> "Call":
        # Without a budget, too: one may be set while the call is in flight, or after a kill.
        return Call(self, self.spending.amounts_of(most_of()))


class Call:
    """A context for a call: a request, or an attempt of which the requests are not known.

    Not a generator: that would touch foreign exceptions.

    Attributes:
        step: Its step.
        most: What it can use at most; None: not known.
        reserved: What is reserved for it.
        told: The usage that its output reports; None: that of the replies counts.
    """

    def __init__(self, step: StepSpending, most: Amounts | None = None) -> None:
        self.step = step
        self.most = most
        self.reserved: Amounts = {}
        self.told: object = None
        self._replies = receipts_in([], always=True)
        self._inner = paid_by(None)  # calls within it are part of it

    async def __aenter__(self) -> Self:
        await self.step.spending.admit(self)
        self._receipts = self._replies.__enter__()
        self._inner.__enter__()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._inner.__exit__()
        self._replies.__exit__(kind, error, trace)
        told = total_usage(self._receipts) if self.told is None else self.told
        self.step.spending.settle(self, told, error)
