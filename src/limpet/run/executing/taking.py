"""Which item does a session with `stop_when` take next, and is it enough?

Decide, drain, then report. Wrong answers are often slow: they are overrepresented among items in
progress and underrepresented among finished ones. So a look at the finished items only decides to
take no more. The session then finishes all trials and steps of what it began, and uses the
half-widths over all of it. If one is above its goal after all, it takes more items.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from limpet.datasets.selection import rank
from limpet.journal.column import ColumnReader
from limpet.json_values import encode
from limpet.run.executing.half_widths import FIRST_LOOK, GoalScore, load_statistics
from limpet.run.executing.steps import AnsweringStep, ScoringStep, StepQueue
from limpet.run.planning.lookup import Lookup
from limpet.run.planning.work_items import AnswerTask
from limpet.run.request import Goal, Request
from limpet.run.results.item_record import ItemRecord
from limpet.run.run_file import WORKFLOW, RandomOrder, RunFile
from limpet.shapes import Item, Outcome, Scale

# ---- In which order does a session with `stop_when` take the items? -----------------------------
#
# In random order: wherever it stops, its items must be a sample of the dataset. Each item has a
# rank, a hash of the seed and its id, and items are taken by rank. So a resumed session keeps the
# order, adding or removing rows moves no others, and two runs of one dataset that stop early have
# mostly the same items.


def begin_order(
    run_file: RunFile, request: Request, columns: Mapping[str, ColumnReader]
) -> RandomOrder:
    """Return the order of a new session, and record it in the run file.

    The seed is that of the first such session. An item that another selection began counts only
    once it is reached.
    """
    order = run_file.order or RandomOrder(request.selection.seed, request.selection)
    if order.selection != request.selection:
        order = RandomOrder(order.seed, request.selection)
    elif (until := _cut_off_at(run_file, order, columns)) > order.until:
        order = replace(order, until=until)
    run_file.order = order
    return order


def _cut_off_at(run_file: RunFile, order: RandomOrder, columns: Mapping[str, ColumnReader]) -> str:
    """Return how far a cut off session got, by its records; empty: none was cut off."""
    last = run_file.session
    if last is None or last.ended or not last.stop_when:
        return ""
    ids = {
        id_
        for step, began in last.steps.items()
        if step in columns
        for id_, _ in columns[step].ids(began.bytes_at)
    }
    return max((rank(order.seed, id_).hex() for id_ in ids), default="")


# ---- Which item does a session with `stop_when` take next, and is it enough? --------------------

_EVERY, _EVERY_SHARE = 10, 0.01
"""How many more items finish before the next look: 10, and above 1,000 items 1% of them, as a
look takes time in proportion to the items."""

logger = logging.getLogger("limpet.run")


class Taken(NamedTuple):
    """An item that was begun, and what it lacks.

    Attributes:
        missing: What the workflow has to answer.
        kept: Its answers on disk that lack a score.
    """

    missing: Sequence[AnswerTask]
    kept: Sequence[AnswerTask]


class Taking:
    """Takes the items of a session in random order.

    A guard: it sees each outcome.

    Args:
        goals: The goals.
        lookup: The results on disk, and what is missing.
        order: The order.
        scales: The scale of each evaluator's scores, where it is not the default.

    Attributes:
        is_enough: Whether the goals are reached: no more items are taken.
        is_over: Whether everything begun is finished, and nothing more begins.
    """

    def __init__(
        self,
        goals: Sequence[Goal],
        lookup: Lookup,
        order: RandomOrder,
        scales: Mapping[str, Scale],
    ) -> None:
        work_items, answers = lookup.answers.work_items, lookup.answers
        self._items = answers.reported
        trials = len(work_items) // max(self._items, 1)
        items = [work_items[position].item for position in range(self._items)]
        ids = [item.id for item in items]
        self._positions = {id_: position for position, id_ in enumerate(ids)}
        self._ranks = [rank(order.seed, id_).hex() for id_ in ids]
        selected = filter(answers.is_selected, range(self._items))
        self._order = sorted(selected, key=self._ranks.__getitem__)
        self._lookup = lookup
        self._begun_until = order.until
        self._scores = []
        for goal in goals:
            scale = scales.get(goal.name.evaluator, Scale())
            groups = None if scale.group is None else _groups(items, scale.group)
            self._scores.append(GoalScore(goal, self._items, trials, scale, groups))
        self._open = [trials * len(goals)] * self._items  # cells of an item without an outcome
        self._has_results = bytearray(self._items)
        self._is_taken = bytearray(self._items)
        self._taken: list[int] = []
        self._finished, self._next_look = 0, FIRST_LOOK
        self._problems: set[str] = set()
        self.is_enough = self.is_over = False

    # ---- what is known --------------------------------------------------------------------------

    def add_earlier(self, results: Iterator[ItemRecord]) -> None:
        """Add the results of earlier sessions, except those to redo."""
        load_statistics()
        for result in results:
            position = self._positions[result.id]
            self._has_results[position] |= result.is_completed
            for score in self._scores:
                name = score.goal.name.evaluator
                if name in result.scores and name not in result.redo:
                    self._add(score, position, result.trial, result.scores[name])
                elif name in result.score_errors or result.error is not None:
                    self._add(score, position, result.trial, None)
        for position in self._order:
            missing, kept = self._lookup.lacking(position)
            for only_failed, lacking in ((False, missing), (True, kept)):
                for work_item, _ in lacking:
                    self._forget(position, work_item.trial, only_failed=only_failed)

    def see(self, outcome: Outcome) -> None:
        """Add an outcome that is on disk."""
        step, id_, trial, _ = outcome.cell
        for score in self._scores:
            if outcome.failure is not None and step in (WORKFLOW, score.goal.name.evaluator):
                self._add(score, self._positions[id_], trial, None)
            elif outcome.failure is None and step == score.goal.name.evaluator:
                self._add(score, self._positions[id_], trial, outcome.record)

    def add_kept(self, step: str, id_: str, trial: int, record: Mapping[str, Any]) -> None:
        """Add a score that a new answer keeps because it equals the earlier one."""
        for score in self._scores:
            if step == score.goal.name.evaluator:
                self._add(score, self._positions[id_], trial, record)

    def _add(
        self, score: GoalScore, position: int, trial: int, record: Mapping[str, Any] | None
    ) -> None:
        """Add the record of a score; None: it failed."""
        cell = trial * self._items + position
        if not score.is_known(cell):
            self._open[position] -= 1
            self._finished += not self._open[position] and self._is_taken[position]
        if record is None:
            score.add_failure(cell)
        else:
            score.add(cell, record)

    def _forget(self, position: int, trial: int, *, only_failed: bool) -> None:
        cell = trial * self._items + position
        for score in self._scores:
            was_known = score.is_known(cell)
            score.forget(cell, only_failed=only_failed)
            self._open[position] += was_known and not score.is_known(cell)

    # ---- taking ---------------------------------------------------------------------------------

    @property
    def until(self) -> str:
        """The rank of the last item that was begun, in this session or before."""
        last = self._ranks[self._taken[-1]] if self._taken else ""
        return max(last, self._begun_until)

    @property
    def has_more(self) -> bool:
        """Whether items are left."""
        return len(self._taken) < len(self._order)

    def take(self) -> Taken:
        """Begin the next item."""
        position = self._order[len(self._taken)]
        self._taken.append(position)
        self._is_taken[position] = True
        self._finished += not self._open[position]
        return Taken(*self._lookup.lacking(position))

    def take_finished(self) -> None:
        """Take items up to the first that lacks something, or until they are enough."""
        while self.has_more and not any(
            map(len, self._lookup.lacking(self._order[len(self._taken)]))
        ):
            self.take()
            if self.may_be_enough():
                self.decide()
            if self.is_enough:
                return

    def may_be_enough(self) -> bool:
        """Look, if it is time; return whether the finished items reach the goals."""
        begun = self._ranks[self._taken[-1]] if self._taken else ""
        if begun < self._begun_until or self._finished < self._next_look:
            return False
        self._next_look = self._finished + max(_EVERY, int(_EVERY_SHARE * self._finished))
        self._say_problems()
        return self._missed_by(drained=False) <= 1

    def end(self) -> None:
        """Record that everything begun is finished, and nothing more begins."""
        self.is_over = True
        self._say_problems()

    def decide(self) -> None:
        """Decide whether the items are enough; everything begun is finished.

        If not, the next look waits for as many items as should be enough.
        """
        missed = self._missed_by(drained=True)
        self.is_enough = self.has_more and missed <= 1
        if missed < math.inf:
            self._next_look = max(self._next_look, int(self._finished * missed**2))

    def _missed_by(self, *, drained: bool) -> float:
        """Return the largest half-width as a multiple of its goal; infinite if one is unknown."""
        widths = [score.half_width(self._taken, drained=drained) for score in self._scores]
        return max(
            math.inf if width is None else width / score.goal.half_width
            for width, score in zip(widths, self._scores, strict=True)
        )

    def _say_problems(self) -> None:
        for score in self._scores:
            if score.problem and score.problem not in self._problems:
                self._problems.add(score.problem)
                logger.warning("stop_when: %s; the run covers all items", score.problem)

    # ---- in the summary -------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """Return its part of the summary; everything begun is finished."""
        scores: dict[str, dict[str, Any]] = {}
        reached = []
        for score in self._scores:
            half_width = score.half_width(self._taken, drained=True)
            reached.append(half_width is not None and half_width <= score.goal.half_width)
            scores[str(score.goal.name)] = {
                "goal": score.goal.half_width,
                "half_width": half_width,
                **({"problem": score.problem} if score.problem else {}),
            }
        outside = {
            position
            for position, has_results in enumerate(self._has_results)
            if has_results and not self._is_taken[position]
        }
        unselected = len(outside.difference(self._order))
        return {
            "reached": all(reached),
            "items": len(self._taken),
            "of": len(self._order),
            "scores": scores,
            **({"outside": len(outside)} if outside else {}),
            **({"unselected": unselected} if unselected else {}),
        }


def _groups(items: Sequence[Item], field: str) -> list[str]:
    """Return the value of a field of each item, as a string."""
    values = (item.row.get(field) for item in items)
    return [value if isinstance(value, str) else encode(value)[0].decode() for value in values]


# ---- How do items enter the steps one by one, so that a session can stop early? -----------------

_WAITING, _MOST_WAITING = 8, 32
"""No item begins while as many inputs of a step wait, for a call or the disk, as are in flight,
within these limits: whatever was begun must still be finished."""


class Feeding:
    """Begins the items of a session one by one, each when the workflow can call.

    Args:
        taking: Decides which item is next, and when they are enough.
        answering: The workflow's step.
        scoring: The steps of the evaluators.
        pass_on_kept: Queues answers on disk that lack a score.
        is_stopping: Returns whether the session stops, for whatever reason.

    Attributes:
        tasks: What the workflow has to answer.
    """

    def __init__(
        self,
        taking: Taking,
        answering: AnsweringStep,
        scoring: Sequence[ScoringStep],
        pass_on_kept: Callable[[Sequence[AnswerTask]], Awaitable[None]],
        is_stopping: Callable[[], bool],
    ) -> None:
        self.tasks: StepQueue[AnswerTask] = StepQueue(1)
        self._taking = taking
        self._answering = answering
        self._scoring = scoring
        self._pass_on_kept = pass_on_kept
        self._is_stopping = is_stopping
        self._moved = asyncio.Event()
        self.tasks.on_move = self._moved.set
        for step in scoring:
            step.queue.on_move = self._moved.set

    async def run(self) -> None:
        """Begin items until they are enough, none is left, or the session stops."""
        taking = self._taking
        try:
            while taking.has_more and await self._may_take():
                taken = taking.take()
                if taken.kept:
                    await self._pass_on_kept(taken.kept)
                for task in taken.missing:
                    if (slot := self.tasks.put(task)) is not None:
                        await slot
        finally:
            self.tasks.end()

    async def _may_take(self) -> bool:
        """Return whether to begin another item, when no step is far behind."""
        await self._until(self._has_room)
        if self._taking.may_be_enough():
            await self._until(self._is_drained)
            if not self._is_stopping():
                self._taking.decide()
        return not self._is_stopping() and not self._taking.is_enough

    def _has_room(self) -> bool:
        return _has_room(0, self._answering) and all(
            _has_room(len(step.queue), step) for step in self._scoring
        )

    def _is_drained(self) -> bool:
        """Return whether nothing is in progress.

        A call that met a server's failure is tried a last time at the end of the session. Until
        then it counts as a failure, and is not waited for.
        """
        if len(self.tasks) or _in_progress(self._answering):
            return False
        return not any(len(step.queue) or _in_progress(step) for step in self._scoring)

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds or the session stops; check it when something moves."""
        while not self._is_stopping() and not condition():
            self._moved.clear()
            await self._moved.wait()


def _in_progress(step: AnsweringStep | ScoringStep) -> int:
    return 0 if step.executor is None else step.executor.in_progress


def _has_room(queued: int, step: AnsweringStep | ScoringStep) -> bool:
    in_flight = 0 if step.executor is None else len(step.executor.in_flight())
    waiting = queued + _in_progress(step) - in_flight
    return waiting < min(max(in_flight, _WAITING), _MOST_WAITING)
