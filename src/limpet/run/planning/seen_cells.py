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
from random import Random
from typing import Any

from limpet.engines.sent_steps import is_plain
from limpet.errors import JournalError
from limpet.evaluators.reads import calls_of
from limpet.executors.options import ExecutorOptions
from limpet.journal.column import ColumnReader
from limpet.journal.event_log import last_pace
from limpet.journal.layout import Layout, layout_at
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
_DRAWS, _SIMULATIONS = 1_000, 60
_FREE = 32  # calls in flight of a step without an endpoint
_BY_RATE = ("rate", "quota", "headers", "hold")
_FOUND = ("cap", "in_flight", "most")
THIS_RUN, EARLIER = "this run", "an earlier version in this run"


# ---- Which cells were seen? ---------------------------------------------------------------------


@dataclass(slots=True)
class _Seen:
    """What cells of a step took, each a call; a list is shorter where some do not say.

    Attributes:
        where: Whose cells they are; empty: nobody's.
        cells: How many they are.
    """

    where: str = ""
    cells: int = 0
    seconds: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)
    retries: list[float] = field(default_factory=list)


def _read(where: str, all_facts: Sequence[Mapping[str, Any]], prices: Prices | None) -> _Seen:
    seen = _Seen(where, len(all_facts))
    for facts in all_facts:
        usage = facts.get("usage")
        counts = usage if isinstance(usage, Mapping) else {}
        votes = facts.get(MADE_OF)
        replies = max(len(votes), 1) if isinstance(votes, list) else 1
        attempts = _amount(facts.get("attempts"))
        _add(seen.seconds, facts.get("seconds"))
        _add(seen.tokens, counts.get("total_tokens"), replies)
        _add(seen.cost, _cost(facts, counts, prices), replies)
        _add(seen.retries, None if attempts is None else max(attempts - 1, 0.0))
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


def _add(values: list[float], value: Any, parts: int = 1) -> None:
    if (amount := _amount(value)) is not None:
        values.append(amount / parts)


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

    def of(self, step: str) -> _Seen:
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
            return _read(THIS_RUN, now, self._prices)
        for path, run_file in self._runs_beside():
            if len(there := _beside(path, run_file, step, wanted)) >= FEWEST:
                return _read(one_line(path.name), there, self._prices)
        return _read(EARLIER, known, self._prices) if len(known) >= FEWEST else _Seen()

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
            usual = fixed if fixed != "auto" else getattr(step, "concurrency", None) or _FREE
        return Limits(min(most, usual))
    limits = _learned(_memory(name, step, options), most) or _paced(last_pace(events, name), most)
    if fixed == "auto":
        return limits
    return replace(limits or Limits(1), most=min(fixed, most), perhaps=0)


def _memory(name: str, step: Any, options: ExecutorOptions) -> Mapping[str, Any]:
    pacer = options.get("pacer") if name == WORKFLOW else None
    return learned_of(step.endpoint) if pacer is None else pacer.memory


def _learned(learned: Mapping[str, Any], most: int) -> Limits | None:
    """Return the limits that a pacer remembers: see `save_memory`."""
    cost = max(number(learned.get("mean_cost")) or 1.0, 1e-3)
    rate, quota = (number(learned.get(name)) or 0.0 for name in ("rate", "per_minute"))
    cap, window = (int(number(learned.get(name)) or 0) for name in ("in_flight", "window"))
    found = Limits(most, 0, rate / cost, quota / cost, by_tokens=cost > 2)  # noqa: PLR2004 - calls cost 1
    if cap or rate or quota:
        return replace(found, most=min(most, cap or most))
    if window:
        return Limits(min(most, window), 0 if learned.get("found") is True else most)
    return None


def _paced(pace: Mapping[str, Any], most: int) -> Limits | None:
    """Return the limits that the last session worked at: see the event `pace`."""
    limit, rate = int(number(pace.get("limit")) or 0), number(pace.get("calls_per_s")) or 0.0
    if not limit:
        return None
    if pace.get("binding") in _BY_RATE and rate:
        return Limits(most, per_s=rate)
    return Limits(min(limit, most), 0 if pace.get("binding") in _FOUND else most)


# ---- What will the missing cells take? ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Missing:
    """A step's missing cells: the fewest that there may be, and the most."""

    name: str
    step: Any
    seen: _Seen
    cells: tuple[int, int]
    calls: tuple[int, int]
    following: tuple[int, int]
    limits: Limits | None

    @property
    def is_paid(self) -> bool:
        """Whether its calls may cost money."""
        return self.name == WORKFLOW or self.step.endpoint is not None

    def stage(self, end: int) -> Stage:
        """Return it for a simulation: of the fewest cells (0) or of the most (1)."""
        seen, cells, following = self.seen, self.cells[end], self.following[end]
        return Stage(
            endpoint=self.step.endpoint or self.name,
            ready=cells - following,
            following=following,
            calls_each=self.calls[end] / max(cells, 1),
            seconds=Likely(seen.seconds or [0.0]),
            tokens=Likely(seen.tokens) if seen.tokens else None,
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
    missing = [
        _missing(plan, step_plan, step, cells.of(step_plan.name), request, layout)
        for step_plan, step in zip((plan.workflow, *plan.evaluators), steps, strict=True)
        if step_plan.calls and step_plan.asks != 0
    ]
    if not missing:
        return None
    paid = [one for one in missing if one.is_paid]
    calls = Between(*(float(sum(one.calls[end] for one in paid)) for end in (0, 1)))
    if unseen := tuple(one.name for one in paid if not one.seen.cells):
        return Forecast(calls, unseen=unseen)
    retries = _sum(paid, "retries")
    if retries is not None:
        calls = Between(round(calls.low + retries.low), round(calls.high + retries.high))
    sources = Counter({one.seen.where: one.seen.cells for one in reversed(paid)})
    source = " and ".join(f"{count(n, 'cell')} of {where}" for where, n in sources.items())
    timeout = request.options.get("timeout") or math.inf
    seconds = _seconds(missing, timeout)
    return Forecast(calls, _sum(paid, "tokens"), _sum(paid, "cost"), seconds, source)


def _missing(
    plan: Plan, step_plan: StepPlan, step: Any, seen: _Seen, request: Request, layout: Layout
) -> _Missing:
    name, cells = step_plan.name, step_plan.calls
    limits = _limits(name, step, request, layout.events)
    if name == WORKFLOW:
        return _Missing(name, step, seen, (cells, cells), (cells, cells), (0, 0), limits)
    asks = cells if step_plan.asks is None else step_plan.asks
    # A new answer that equals the earlier one keeps its scores.
    workflow = plan.workflow
    kept = workflow.calls - workflow.new - workflow.retried
    fewest = max(0, asks - kept * calls_of(step))
    following = (min(cells, workflow.calls - kept), min(cells, workflow.calls))
    return _Missing(name, step, seen, (cells - kept, cells), (fewest, asks), following, limits)


def _sum(paid: Sequence[_Missing], what: str) -> Between | None:
    """Return what all steps take together; None: unknown, as no step says, or one with tokens."""
    known = [(one, getattr(one.seen, what)) for one in paid]
    said = [(one, Likely(values)) for one, values in known if len(values) >= FEWEST]
    if not said or any(len(values) < FEWEST <= len(one.seen.tokens) for one, values in known):
        return None

    def draws(end: int) -> Between | None:
        total = [0.0] * _DRAWS
        for one, likely in said:
            random = _random(f"{what} {one.name}")
            for at in range(_DRAWS):
                total[at] += likely.draw(random).total(one.calls[end], random)
        return between(total)

    return _from_fewest_to_most(draws, paid)


def _seconds(missing: Sequence[_Missing], timeout_s: float) -> Between | None:
    """Return how long the session takes; None: unknown, as an endpoint or a step is."""
    limits = {one.step.endpoint or one.name: one.limits for one in missing}
    known = {name: one for name, one in limits.items() if one is not None}
    enough = all(len(one.seen.seconds) >= FEWEST or not one.is_paid for one in missing)
    if len(known) < len(limits) or not enough:
        return None

    def simulate(end: int) -> Between | None:
        stages = [one.stage(end) for one in missing]
        random = _random("seconds")
        return between([simulated_s(stages, known, timeout_s, random) for _ in range(_SIMULATIONS)])

    return _from_fewest_to_most(simulate, missing)


def _from_fewest_to_most(
    range_at: Callable[[int], Between | None], missing: Sequence[_Missing]
) -> Between | None:
    """Return the range from the lower end with the fewest cells to the upper with the most."""
    most = range_at(1)
    is_certain = all(one.calls[0] == one.calls[1] for one in missing)
    fewest = most if is_certain else range_at(0)
    return None if fewest is None or most is None else Between(fewest.low, most.high)


def _random(seed: str) -> Random:
    """Return draws that are the same each time: a plan says the same twice."""
    return Random(seed)  # noqa: S311 - not for secrets
