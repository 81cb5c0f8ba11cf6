"""What do finished cells, and what is known of the endpoints, say about the missing cells?

For each step, by the best that there is: cells of this version in this run; cells of the same
version in a run beside it; cells of an earlier version in this run. A version is a fingerprint, and
covers the prompt and the model.

Records and events are read as anybody may have written them: what is not a number is ignored.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from limpet.engines.sent_steps import is_plain
from limpet.errors import JournalError
from limpet.evaluators.reads import calls_of
from limpet.journal.column import ColumnReader
from limpet.journal.event_log import last_pace
from limpet.journal.layout import Layout, layout_at
from limpet.pacing.known_limits import FIRST_WINDOW
from limpet.pacing.limits import number
from limpet.pacing.pacer import MAX_IN_FLIGHT
from limpet.pacing.registry import learned_of, members_of
from limpet.run.planning.forecast import FEWEST, Amounts, Between, Limits, Stage, seconds_of
from limpet.run.planning.plan import Forecast, Plan, StepPlan
from limpet.run.reading.find_run import runs_in
from limpet.run.record_fields import FINGERPRINT, MADE_OF
from limpet.run.request import Request
from limpet.run.results.costs import Prices, cost_of
from limpet.run.run_file import WORKFLOW, RunFile
from limpet.text import count, one_line

_MOST_CELLS, _MOST_RUNS = 1_000, 20
_MOST = 1e15  # of anything, in one cell
_FREE = 32  # calls in flight of a step without an endpoint


# ---- Which cells were seen? ---------------------------------------------------------------------


class Seen(NamedTuple):
    """What a call of finished cells took; some may not say.

    Attributes:
        where: Whose cells they are; empty: nobody's.
        cells: How many they are.
        amounts: `seconds`, `tokens`, `cost` and `retries`, where enough of them say.
    """

    where: str = ""
    cells: int = 0
    amounts: Mapping[str, Amounts] = {}


def read_seen(where: str, all_facts: Sequence[Mapping[str, Any]], prices: Prices | None) -> Seen:
    """Return what cells took, by the facts about them."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for facts in all_facts:
        usage, votes, attempts = facts.get("usage"), facts.get(MADE_OF), facts.get("attempts")
        counts = usage if isinstance(usage, Mapping) else {}
        calls = max(len(votes), 1) if isinstance(votes, list) else 1
        for name, value, calls_each in (
            ("seconds", facts.get("seconds"), 1),
            ("tokens", counts.get("total_tokens"), calls),
            ("cost", _cost(facts, counts, prices), calls),
            ("retries", attempts - 1 if type(attempts) is int else None, 1),
        ):
            if isinstance(value, (int, float)) and 0 <= value <= _MOST:
                values[name].append(value / calls_each)
    known = {name: Amounts(some) for name, some in values.items() if len(some) >= FEWEST}
    return Seen(where, len(all_facts), known)


def _cost(facts: Mapping[str, Any], counts: Mapping[str, Any], prices: Prices | None) -> Any:
    """Return what a cell costs at the prices of now; without them, what it cost."""
    if prices and "models" in facts:
        with suppress(TypeError, AttributeError):  # a damaged record
            cost = cost_of(facts["models"], facts.get("requested") or {}, prices)
            if cost is not None:
                return cost
    return counts.get("cost")


@dataclass
class SeenCells:
    """Finds cells of the steps, in this run and beside it.

    Attributes:
        request: The request.
        layout: The run's layout.
        run_file: The run file.
        columns: The columns of the steps.
        fingerprint_of: Returns the fingerprint of a step.
        answers: The keys of the answers of the current workflow.
    """

    request: Request
    layout: Layout
    run_file: RunFile
    columns: Mapping[str, ColumnReader]
    fingerprint_of: Callable[[str], str]
    answers: Iterable[str]

    def of(self, step: str) -> Seen:
        """Return the best cells for a step; none of them if they are too few."""
        for where, cells in self._best_first(step):
            if len(cells) >= FEWEST:
                return read_seen(where, cells, self.request.prices)
        return Seen()

    def _best_first(self, step: str) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
        wanted, column = self.fingerprint_of(step), self.columns[step]
        known = _facts(column)
        if step == WORKFLOW and [*self.run_file.functions] != [wanted]:
            yield "this run", _facts(column, (key for key in self.answers if key in column))
        else:
            yield "this run", _of_version(step, wanted, known)
        for path, run_file in self._beside:
            names = [name for name, one in run_file.steps.items() if one.fingerprint == wanted]
            if names and (step != WORKFLOW or len(run_file.functions) <= 1):
                with suppress(JournalError, OSError, ValueError):
                    cells = _facts(ColumnReader(layout_at(path).column(names[0])))
                    yield one_line(path.name), _of_version(step, wanted, cells)
        yield "an earlier version in this run", known

    @cached_property
    def _beside(self) -> list[tuple[Path, RunFile]]:
        home, found = self.layout.single or self.layout.home, []
        for path in islice(runs_in(home.parent), _MOST_RUNS if self.request.run else 0):
            with suppress(JournalError, OSError):
                if path.resolve() != home.resolve():
                    found.append((path, RunFile.load(layout_at(path), lambda _: None)))
        return found


def _facts(column: ColumnReader, keys: Iterable[str] | None = None) -> list[Mapping[str, Any]]:
    """Return the facts of some of these cells, or of any."""
    some = column.some_keys(_MOST_CELLS) if keys is None else [*islice(keys, _MOST_CELLS)]
    return [entry.facts for _, entry in column.read_many(some)]


def _of_version(
    step: str, wanted: str, cells: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the cells of a version; an answer does not name its own."""
    return [facts for facts in cells if step == WORKFLOW or facts.get(FINGERPRINT) == wanted]


# ---- What is known of an endpoint's limit? ------------------------------------------------------


def _limits(name: str, step: Any, request: Request, layout: Layout) -> Limits:
    """Return what is known of a step's endpoint."""
    options, engine = request.options, request.engines.get(name)
    fixed = options.get("concurrency", "auto")
    if fixed != "auto":
        most = fixed if step.endpoint or name == WORKFLOW else max(_FREE, fixed)
    elif step.endpoint:
        most = options.get("max_concurrency", MAX_IN_FLIGHT)
    else:
        most = (step.concurrency if name == WORKFLOW else None) or _FREE
    most *= len(members_of(step.endpoint or ""))
    if engine is not None and is_plain(step):  # a worker runs one call of it at a time
        most = min(most, engine.workers)
    if fixed != "auto" or not step.endpoint:
        return Limits(most, most)
    remembered = learned_of(step.endpoint) if request.remember_pace else {}
    return learned_limits(remembered or last_pace(layout.events, name), most)


def learned_limits(learned: Mapping[str, Any], most: int) -> Limits:
    """Return the limits that a pacer remembers: see `save_memory`."""
    cost = max(number(learned.get("mean_cost")) or 1.0, 1e-3)
    cap = min(int(number(learned.get("in_flight")) or most), most) or most
    rates = (number(learned.get(name)) for name in ("steady_rate", "rate", "per_minute"))
    steady, rate, quota = (one or 0.0 for one in rates)
    pace = steady or rate or quota / 60
    # Anybody may write that file: the time that a call takes must stay finite, and above 0.
    per_s = min(max(pace / cost, 1e-9), 1e6) if pace else 0.0
    if per_s or cap < most:
        # The rate has been measured at this cap: it is a limit of its own where calls take longer.
        cap = min(round(1.5 * cap), most) if per_s else cap
        return Limits(cap, cap, per_s)
    return Limits(min(FIRST_WINDOW, most), most)  # nobody knows


# ---- What will the missing cells take? ----------------------------------------------------------


class Missing(NamedTuple):
    """A step's missing cells.

    Attributes:
        name: The step.
        endpoint: Where its calls go; None: nowhere.
        seen: Finished cells like them.
        cells: How many they are, at most.
        calls: How many calls they take: the fewest, and the most.
        following: How many of them wait for an answer.
        limits: What is known of the endpoint.
    """

    name: str
    endpoint: str | None
    seen: Seen
    cells: int
    calls: tuple[int, int]
    following: int
    limits: Limits

    @property
    def is_paid(self) -> bool:
        """Whether its calls may cost money."""
        return self.name == WORKFLOW or self.endpoint is not None


def forecast(plan: Plan, seen: SeenCells) -> Forecast | None:
    """Return what the missing cells of a plan will take; None: there are none."""
    request, missing = seen.request, []
    steps: list[Any] = [request.workflow, *request.evaluators]
    for step_plan, step in zip((plan.workflow, *plan.evaluators), steps, strict=True):
        name, cells = step_plan.name, step_plan.calls
        if cells and step_plan.asks != 0:
            calls, following = _calls(plan.workflow, step_plan, step)
            limits = _limits(name, step, request, seen.layout)
            missing.append(
                Missing(name, step.endpoint, seen.of(name), cells, calls, following, limits)
            )
    return foreseen(missing, request.options.get("timeout") or math.inf)


def _calls(workflow: StepPlan, step_plan: StepPlan, step: Any) -> tuple[tuple[int, int], int]:
    """Return how many calls a step makes, at least and at most, and how many cells follow."""
    most = step_plan.calls if step_plan.asks is None else step_plan.asks
    if step_plan is workflow:
        return (most, most), 0
    # A new answer that equals the earlier one keeps its scores.
    kept = workflow.calls - workflow.new - workflow.retried
    return (max(0, most - kept * calls_of(step)), most), min(step_plan.calls, workflow.calls)


def foreseen(missing: Sequence[Missing], timeout_s: float = math.inf) -> Forecast | None:
    """Return what missing cells will take; None: there are none that call anybody."""
    paid = [one for one in missing if one.is_paid]
    if not paid:
        return None
    calls = _added([Between(*one.calls) for one in paid])
    if unseen := tuple(one.name for one in paid if not one.seen.cells):
        return Forecast(calls, unseen=unseen)
    if retries := _sum(paid, "retries"):
        calls = Between(calls.low + round(retries.low), calls.high + round(retries.high))
    sources = Counter({one.seen.where: one.seen.cells for one in reversed(paid)})
    source = " and ".join(f"{count(n, 'cell')} of {where}" for where, n in sources.items())
    tokens, cost = _sum(paid, "tokens"), _sum(paid, "cost")
    return Forecast(calls, tokens, cost, _seconds(missing, timeout_s), source)


def _sum(paid: Sequence[Missing], what: str) -> Between | None:
    """Return what all steps take together; None: unknown, as no step says, or one with tokens."""
    said = [one for one in paid if what in one.seen.amounts]
    if not said or any(one not in said and "tokens" in one.seen.amounts for one in paid):
        return None
    return _added([one.seen.amounts[what].together(*one.calls) for one in said])


def _added(ranges: Sequence[Between]) -> Between:
    return Between(sum(one.low for one in ranges), sum(one.high for one in ranges))


def _seconds(missing: Sequence[Missing], timeout_s: float) -> Between | None:
    """Return how long the session takes; None: unknown, as a step is."""
    timed = [one for one in missing if "seconds" in one.seen.amounts]
    if any(one.is_paid and one not in timed for one in missing):
        return None
    limits = {one.endpoint or one.name: one.limits for one in timed}

    def at(end: int) -> list[float]:
        stages = [
            Stage(
                one.endpoint or one.name,
                one.cells,
                one.following,
                one.calls[end],
                one.seen.amounts["seconds"],
            )
            for one in timed
        ]
        return seconds_of(stages, limits, timeout_s)

    most = at(1)
    fewest = most if all(len({*one.calls}) == 1 for one in timed) else at(0)
    tail = len(most) // 20
    return Between(fewest[tail], most[-tail - 1])
