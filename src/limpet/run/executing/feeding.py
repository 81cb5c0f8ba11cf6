"""How do items enter the steps one by one, so that a session can stop when it is enough?"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from limpet.run.executing.answering import AnsweringStep
from limpet.run.executing.scoring import ScoringStep
from limpet.run.executing.step_queue import StepQueue
from limpet.run.executing.taking import Taking
from limpet.run.planning.work_items import Call

_WAITING, _MOST_WAITING = 8, 32
"""No item begins while as many inputs of a step wait, for a call or for the disk, as are in flight,
within these limits: when it is enough, all of them would still have to be finished."""


class Feeding:
    """Begins the items of a session one by one, each when the workflow can call.

    Args:
        taking: Says which item is next, and when it is enough.
        answering: The workflow's step.
        scoring: The steps of the evaluators.
        pass_on_kept: Queues answers on disk that lack a score.
        is_stopping: Returns whether the session stops, for whatever reason.

    Attributes:
        calls: The calls that the workflow has to answer.
    """

    def __init__(
        self,
        taking: Taking,
        answering: AnsweringStep,
        scoring: Sequence[ScoringStep],
        pass_on_kept: Callable[[Sequence[Call]], Awaitable[None]],
        is_stopping: Callable[[], bool],
    ) -> None:
        self.calls: StepQueue[Call] = StepQueue(1)
        self._taking = taking
        self._answering = answering
        self._scoring = scoring
        self._pass_on_kept = pass_on_kept
        self._is_stopping = is_stopping
        self._moved = asyncio.Event()
        self.calls.on_move = self._moved.set
        for step in scoring:
            step.queue.on_move = self._moved.set

    async def run(self) -> None:
        """Begin items until it is enough, none is left, or the session stops."""
        taking = self._taking
        try:
            while taking.has_more and await self._may_take():
                taken = taking.take()
                if taken.kept:
                    await self._pass_on_kept(taken.kept)
                for call in taken.calls:
                    if (place := self.calls.put(call)) is not None:
                        await place
        finally:
            self.calls.end()

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

        The last try of a call that met a server's failure comes at the end of the session. Until
        then it is not waited for, and counts as a failure.
        """
        if len(self.calls) or _in_progress(self._answering):
            return False
        return not any(len(step.queue) or _in_progress(step) for step in self._scoring)

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that changes when something moves, or until the session stops."""
        while not self._is_stopping() and not condition():
            self._moved.clear()
            await self._moved.wait()


def _in_progress(step: AnsweringStep | ScoringStep) -> int:
    return 0 if step.executor is None else step.executor.in_progress


def _has_room(queued: int, step: AnsweringStep | ScoringStep) -> bool:
    in_flight = 0 if step.executor is None else len(step.executor.in_flight())
    waiting = queued + _in_progress(step) - in_flight
    return waiting < min(max(in_flight, _WAITING), _MOST_WAITING)
