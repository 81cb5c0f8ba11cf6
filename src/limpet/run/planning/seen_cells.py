"""What do finished cells, and what is known of the endpoints, say about the missing cells?

For each step, by the best that there is: cells of this version in this run; cells of the same
version in a run beside it; cells of an earlier version in this run. A version is a fingerprint, and
covers the prompt and the model.

Records and events are read as anybody may have written them: what is not a number is ignored.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from limpet.engines.sent_steps import is_plain
from limpet.errors import JournalError
from limpet.evaluators.reads import calls_of
from limpet.executors.options import ExecutorOptions
from limpet.journal.column import ColumnReader
from limpet.journal.event_log import last_pace
from limpet.journal.layout import Layout, layout_at
from limpet.pacing.known_limits import FIRST_WINDOW
from limpet.pacing.limits import number
from limpet.pacing.pacer import MAX_IN_FLIGHT
from limpet.pacing.registry import learned_of
from limpet.run.planning.forecast import (
    FEWEST,
    Between,
    Likely,
    Limits,
    Stage,
    between,
    same_draws,
    simulated_s,
)
from limpet.run.planning.plan import Forecast, Plan, StepPlan
from limpet.run.reading.find_run import runs_in
from limpet.run.record_fields import FINGERPRINT, MADE_OF
from limpet.run.request import Request
from limpet.run.results.costs import Prices, cost_of, is_bounded
from limpet.run.run_file import WORKFLOW, RunFile
from limpet.text import count, one_line

_MOST_CELLS, _MOST_RUNS = 1_000, 20
_DRAWS = 1_000
_SIMULATIONS, _FEW_SIMULATIONS, _MANY_CELLS = 60, 20, 3_000
"""A simulation of very many cells takes longer, and they differ less."""
_FREE = 32  # calls in flight of a step without an endpoint
_BY_RATE = ("rate", "quota", "headers", "hold")
_FOUND = ("cap", "in_flight", "most")
THIS_RUN, EARLIER = "this run", "an earlier version in this run"


# ---- Which cells were seen? ---------------------------------------------------------------------


Amounts = dict[Any, float]


@dataclass(slots=True)
class Seen:
    """What a call of each cell of a step took, by item and trial; some may not say.

    Attributes:
        where: Whose cells they are; empty: nobody's.
        cells: How many they are.
    """

    where: str = ""
    cells: int = 0
    seconds: Amounts = field(default_factory=dict)
    tokens: Amounts = field(default_factory=dict)
    cost: Amounts = field(default_factory=dict)
    retries: Amounts = field(default_factory=dict)


def read_seen(where: str, all_facts: Sequence[Mapping[str, Any]], prices: Prices | None) -> Seen:
    """Return what cells took, by the facts about them."""
    seen = Seen(where, len(all_facts))
    for facts in all_facts:
        usage = facts.get("usage")
        counts = usage if isinstance(usage, Mapping) else {}
        votes = facts.get(MADE_OF)
        replies = max(len(votes), 1) if isinstance(votes, list) else 1
        attempts = _amount(facts.get("attempts"))
        amounts = (
            (seen.seconds, _amount(facts.get("seconds")), 1),
            (seen.tokens, _amount(counts.get("total_tokens")), replies),
            (seen.cost, _amount(_cost(facts, counts, prices)), replies),
            (seen.retries, None if attempts is None else max(attempts - 1, 0.0), 1),
        )
        of = str(facts.get("id")), str(facts.get("trial"))
        for known, amount, calls in amounts:
            if amount is not None:
                known[of] = amount / calls
    return seen


def _cost(facts: Mapping[str, Any], counts: Mapping[str, Any], prices: Prices | None) -> Any:
    """Return what a cell costs at the prices of now; without them, what it cost."""
    models, requested = facts.get("models"), facts.get("requested")
    if prices and isinstance(models, Mapping):
        with suppress(TypeError, AttributeError):  # a damaged record
            cost = cost_of(models, requested if isinstance(requested, Mapping) else {}, prices)
            if cost is not None:
                return cost
    return counts.get("cost")


def _amount(value: Any) -> float | None:
    """Return a number that makes sense as an amount."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and is_bounded(value) and value >= 0 else None


class _Cells:
    """Finds cells of the steps, in this run and beside it."""

    def __init__(
        self,
        layout: Layout,
        run_file: RunFile,
        columns: Mapping[str, ColumnReader],
        fingerprint_of: Callable[[str], str],
        answers: Iterable[str],
        request: Request,
    ) -> None:
        self._layout, self._run_file, self._columns = layout, run_file, columns
        self._fingerprint_of, self._answers = fingerprint_of, answers
        self._prices, self._is_saved = request.prices, request.run is not None
        self._others: list[tuple[Path, RunFile]] | None = None

    def of(self, step: str) -> Seen:
        """Return the best cells for a step; none of them if they are too few."""
        wanted, column = self._fingerprint_of(step), self._columns[step]
        only = [*self._run_file.functions] == [wanted]
        known = list(_facts(column, column.some_keys(_MOST_CELLS)))
        if step == WORKFLOW and only:
            now = known
        elif step == WORKFLOW:
            keys = islice((key for key in self._answers if key in column), _MOST_CELLS)
            now = list(_facts(column, list(keys)))
        else:
            now = [facts for facts in known if facts.get(FINGERPRINT) == wanted]
        if len(now) >= FEWEST:
            return read_seen(THIS_RUN, now, self._prices)
        for path, run_file in self._runs_beside():
            if len(there := _beside(path, run_file, step, wanted)) >= FEWEST:
                return read_seen(one_line(path.name), there, self._prices)
        return read_seen(EARLIER, known, self._prices) if len(known) >= FEWEST else Seen()

    def _runs_beside(self) -> Iterator[tuple[Path, RunFile]]:
        if self._others is None:
            here = self._layout.single or self._layout.home
            self._others = []
            for path in islice(runs_in(here.parent), _MOST_RUNS) if self._is_saved else ():
                with suppress(JournalError, OSError):
                    if path.resolve() != here.resolve():
                        self._others.append((path, RunFile.load(layout_at(path), _ignore)))
        yield from self._others


def _ignore(_: str) -> None:
    """Whoever opens that run is told."""


def _facts(column: ColumnReader, keys: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    return (entry.facts for _, entry in column.read_many(keys))


def _beside(path: Path, run_file: RunFile, step: str, wanted: str) -> list[Mapping[str, Any]]:
    """Return the cells of this version of a step in another run."""
    names = [name for name, known in run_file.steps.items() if known.fingerprint == wanted]
    if not names or (step == WORKFLOW and len(run_file.functions) > 1):
        return []
    with suppress(JournalError, OSError, ValueError):
        column = ColumnReader(layout_at(path).column(names[0]))
        cells = list(_facts(column, column.some_keys(_MOST_CELLS)))
        return [one for one in cells if step == WORKFLOW or one.get(FINGERPRINT) == wanted]
    return []


# ---- What is known of an endpoint's limit? ------------------------------------------------------


def _limits(name: str, step: Any, request: Request, events: Path) -> Limits | None:
    """Return the limits of a step's endpoint; None: nothing is known."""
    options = request.options
    fixed = options.get("concurrency", "auto")
    engine = request.engines.get(name)
    most = options.get("max_concurrency", MAX_IN_FLIGHT)
    if engine is not None and is_plain(step):  # a worker runs one call of it at a time
        most = min(most, engine.workers)
    if step.endpoint is None:
        usual = _FREE if fixed == "auto" else max(fixed, _FREE)
        if name == WORKFLOW:
            usual = fixed if fixed != "auto" else step.concurrency or _FREE
        return Limits(min(most, usual))
    limits = learned_limits(_memory(name, step, options), most) or _paced(
        last_pace(events, name), most
    )
    if fixed == "auto":
        return limits
    return replace(limits or Limits(1), most=min(fixed, most), perhaps=0)


def _memory(name: str, step: Any, options: ExecutorOptions) -> Mapping[str, Any]:
    pacer = options.get("pacer") if name == WORKFLOW else None
    return learned_of(step.endpoint) if pacer is None else pacer.memory


def learned_limits(learned: Mapping[str, Any], most: int) -> Limits | None:
    """Return the limits that a pacer remembers: see `save_memory`."""
    cost = max(number(learned.get("mean_cost")) or 1.0, 1e-3)
    rate, quota = (number(learned.get(name)) or 0.0 for name in ("rate", "per_minute"))
    cap, window = (int(number(learned.get(name)) or 0) for name in ("in_flight", "window"))
    found = Limits(most, 0, rate / cost, quota / cost, by_tokens=cost > 2)  # noqa: PLR2004 - calls cost 1
    if cap or rate or quota:
        return replace(found, most=min(most, cap or most))
    if window:
        if learned.get("found") is not True:
            return Limits(min(most, window), most)
        # It queues: more calls at once would only take longer. What it does in a second is at most
        # the window by the latency without a queue, and a third of that, or what it did before.
        steady, idle_s = (number(learned.get(name)) or 0.0 for name in ("steady_rate", "idle_s"))
        fastest = window / max(idle_s, 1e-3)
        return Limits(most, per_s=max(steady / cost, fastest / 3), fastest=fastest)
    return None


def _paced(pace: Mapping[str, Any], most: int) -> Limits | None:
    """Return the limits that the last session worked at: see the event `pace`."""
    limit, rate = int(number(pace.get("limit")) or 0), number(pace.get("calls_per_s")) or 0.0
    if not limit:
        return None
    limit = max(limit, FIRST_WINDOW) if pace.get("binding") == "start" else limit
    if pace.get("binding") in _BY_RATE and rate:
        return Limits(most, per_s=rate)
    return Limits(min(limit, most), 0 if pace.get("binding") in _FOUND else most)


# ---- What will the missing cells take? ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Missing:
    """A step's missing cells: of each number, the fewest that there may be, and the most.

    Attributes:
        name: The step.
        endpoint: Where its calls go; None: nowhere.
        seen: Finished cells like them.
        cells: How many they are.
        calls: How many calls they take.
        following: How many of them wait for an answer.
        limits: What is known of the endpoint's limit; None: nothing.
    """

    name: str
    endpoint: str | None
    seen: Seen
    cells: tuple[int, int]
    calls: tuple[int, int]
    following: tuple[int, int]
    limits: Limits | None

    @property
    def is_paid(self) -> bool:
        """Whether its calls may cost money."""
        return self.name == WORKFLOW or self.endpoint is not None

    def stage(self, end: int) -> Stage:
        """Return it for a simulation: of the fewest cells (0) or of the most (1)."""
        seen, cells, following = self.seen, self.cells[end], self.following[end]
        return Stage(
            endpoint=self.endpoint or self.name,
            ready=cells - following,
            following=following,
            calls_each=self.calls[end] / max(cells, 1),
            seconds=Likely([*seen.seconds.values()] or [0.0]),
            tokens=Likely([*seen.tokens.values()]) if seen.tokens else None,
        )


def forecast(
    plan: Plan,
    request: Request,
    layout: Layout,
    run_file: RunFile,
    columns: Mapping[str, ColumnReader],
    fingerprint_of: Callable[[str], str],
    answers: Iterable[str],
) -> Forecast | None:
    """Return what the missing cells will take; None: there are none.

    Args:
        plan: What is missing.
        request: The request.
        layout: The run's layout.
        run_file: The run file.
        columns: The columns of the steps.
        fingerprint_of: Returns the fingerprint of a step.
        answers: The keys of the answers of the current workflow.
    """
    steps = [request.workflow, *request.evaluators]
    cells = _Cells(layout, run_file, columns, fingerprint_of, answers, request)
    return foreseen(
        [
            _missing(plan, step_plan, step, cells.of(step_plan.name), request, layout)
            for step_plan, step in zip((plan.workflow, *plan.evaluators), steps, strict=True)
            if step_plan.calls and step_plan.asks != 0
        ],
        request.options.get("timeout") or math.inf,
    )


def foreseen(missing: Sequence[Missing], timeout_s: float = math.inf) -> Forecast | None:
    """Return what missing cells will take; None: there are none that call anybody."""
    paid = [one for one in missing if one.is_paid]
    calls = Between(*(float(sum(one.calls[end] for one in paid)) for end in (0, 1)))
    if not paid:
        return None
    if unseen := tuple(one.name for one in paid if not one.seen.cells):
        return Forecast(calls, unseen=unseen)
    if (retries := _sum(paid, "retries")) is not None:
        calls = Between(round(calls.low + retries.low), round(calls.high + retries.high))
    sources = Counter({one.seen.where: one.seen.cells for one in reversed(paid)})
    source = " and ".join(f"{count(n, 'cell')} of {where}" for where, n in sources.items())
    tokens, cost = _sum(paid, "tokens"), _sum(paid, "cost")
    return Forecast(calls, tokens, cost, _seconds(missing, timeout_s), source)


def _missing(
    plan: Plan, step_plan: StepPlan, step: Any, seen: Seen, request: Request, layout: Layout
) -> Missing:
    name, cells = step_plan.name, step_plan.calls
    limits = _limits(name, step, request, layout.events)
    if name == WORKFLOW:
        return Missing(name, step.endpoint, seen, (cells, cells), (cells, cells), (0, 0), limits)
    asks = cells if step_plan.asks is None else step_plan.asks
    # A new answer that equals the earlier one keeps its scores.
    workflow = plan.workflow
    kept = workflow.calls - workflow.new - workflow.retried
    fewest = max(0, asks - kept * calls_of(step))
    following = (min(cells, workflow.calls - kept), min(cells, workflow.calls))
    return Missing(
        name, step.endpoint, seen, (cells - kept, cells), (fewest, asks), following, limits
    )


def _sum(paid: Sequence[Missing], what: str) -> Between | None:
    """Return what all steps take together; None: unknown, as no step says, or one with tokens."""
    known = [(one, getattr(one.seen, what)) for one in paid]
    said = [(one, amounts) for one, amounts in known if len(amounts) >= FEWEST]
    if not said or any(len(amounts) < FEWEST <= len(one.seen.tokens) for one, amounts in known):
        return None

    def draws(end: int) -> Between | None:
        total = [0.0] * _DRAWS
        for likely, calls in _summands(said, end):
            # The same draws for each: long answers may take long judgements.
            random = same_draws(what)
            for at in range(_DRAWS):
                total[at] += likely.draw(random).total(calls, random)
        return between(total)

    return _from_fewest_to_most(draws, paid)


def _summands(said: Sequence[tuple[Missing, Amounts]], end: int) -> Iterator[tuple[Likely, int]]:
    """Yield how much is likely, and how many times; an answer and its scores as one if possible.

    What an answer takes, and what its scores take, are not independent.
    """
    first, together = said[0]
    together, times = dict(together), first.calls[end]
    for one, amounts in said[1:]:
        follows = one.following[end] == one.cells[end] == times and first.name == WORKFLOW
        both = together.keys() & amounts.keys()
        if follows and 2 * len(both) > max(len(together), len(amounts)) and len(both) >= FEWEST:
            calls_each = one.calls[end] / one.cells[end]
            together = {of: together[of] + amounts[of] * calls_each for of in both}
        else:
            yield Likely([*amounts.values()]), one.calls[end]
    yield Likely([*together.values()]), times


def _seconds(missing: Sequence[Missing], timeout_s: float) -> Between | None:
    """Return how long the session takes; None: unknown, as an endpoint or a step is."""
    known: dict[str, Limits] = {}
    for one in missing:
        if one.limits is None:
            return None
        limits, seen = one.limits, one.seen.cells
        if limits.per_s and not limits.by_tokens and one.seen.tokens:
            limits = replace(limits, varies=Likely([*one.seen.tokens.values()]).varies)
        if limits.perhaps:  # their latency is known of as many at once as have run
            limits = replace(limits, most=min(limits.most, max(FIRST_WINDOW, seen // 4)))
        known[one.endpoint or one.name] = limits
    is_known = all(len(one.seen.seconds) >= FEWEST or not one.is_paid for one in missing)
    if not is_known:
        return None

    def simulate(end: int) -> Between | None:
        stages = [one.stage(end) for one in missing]
        random, cells = same_draws("seconds"), sum(one.cells[end] for one in missing)
        enough = _SIMULATIONS * _MANY_CELLS // max(cells, _MANY_CELLS)
        return between(
            [
                simulated_s(stages, known, timeout_s, random)
                for _ in range(max(enough, _FEW_SIMULATIONS))
            ]
        )

    return _from_fewest_to_most(simulate, missing)


def _from_fewest_to_most(
    range_at: Callable[[int], Between | None], missing: Sequence[Missing]
) -> Between | None:
    """Return the range from the lower end with the fewest cells to the upper with the most."""
    most = range_at(1)
    is_certain = all(one.calls[0] == one.calls[1] for one in missing)
    fewest = most if is_certain else range_at(0)
    return None if fewest is None or most is None else Between(fewest.low, most.high)
