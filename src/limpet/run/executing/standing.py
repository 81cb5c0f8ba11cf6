"""Where does each call in flight stand?"""

import asyncio
from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

from limpet.executors.details import Attempt
from limpet.run.executing.blocking import users_line
from limpet.run.executing.stalls import Hedge
from limpet.run.executing.step_runner import StepRunner
from limpet.text import count, one_line

_runners: WeakSet[StepRunner] = WeakSet()


def watch(runner: StepRunner) -> None:
    """Include the calls of a session as long as it is there."""
    _runners.add(runner)


def where_calls_stand() -> Iterator[str]:
    """Yield a line for each call in flight in this process, the oldest of each step first."""
    flying = 0
    for runner in list(_runners):
        for recorder, executor in list(runner.executors.values()):
            for attempt in executor.attempts():
                flying += 1
                cell = recorder.step.cell_of(attempt.index, attempt.input)
                age_s = executor.in_flight().get(attempt.index, 0.0)
                trial = f" trial {cell.trial}" if cell.trial else ""
                yield (
                    f"{one_line(cell.step)} {one_line(cell.id)}{trial}, attempt {attempt.number}, "
                    f"{age_s:.1f} s: {_place(attempt)}"
                )
    yield f"{count(flying, 'call')} in flight"


def _place(attempt: Attempt) -> str:
    if attempt.permits.is_waiting:
        return "waits for the pacer or a worker"
    at: Any = attempt.task
    found = ""
    while at is not None:
        if isinstance(at, asyncio.Task):
            at = at.get_coro()
        frame = getattr(at, "cr_frame", None) or getattr(at, "gi_frame", None)
        if frame and frame.f_code is Hedge.answer.__code__:  # it waits for tasks of its own
            at = frame.f_locals["self"].leg
            continue
        found = (frame and users_line(frame)) or found
        at = getattr(at, "cr_await", None) or getattr(at, "gi_yieldfrom", None)
    return f"at {found}" if found else "in a thread, in a worker, or in a library"
