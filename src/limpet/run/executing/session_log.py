"""Records in `run.json` when each session began and ended."""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from limpet.errors import JournalError
from limpet.journal.column import Column
from limpet.journal.event_log import unfinished
from limpet.journal.journal import Journal
from limpet.journal.layout import Layout
from limpet.journal.lines import size_and_crc, timestamp
from limpet.run.planning.items_file import NOT_KNOWN, ItemsMark
from limpet.run.planning.plan import Plan
from limpet.run.request import Goal
from limpet.run.results.summary import StepNumbers
from limpet.run.run_file import RunFile, Session, StepBegan
from limpet.text import count, one_line
from limpet.version import VERSION

logger = logging.getLogger("limpet.run")
_MOST_SESSIONS = 100


def begin_session(
    journal: Journal,
    run_file: RunFile,
    kind: Literal["evaluation", "map"],
    plan: Plan,
    columns: Mapping[str, Path],
    *,
    items: int | None = None,
    done: Mapping[str, int] | None = None,
    goals: Sequence[Goal] = (),
    mark: ItemsMark = NOT_KNOWN,
) -> None:
    """Record that a session begins, before anything is spent.

    Readers compute its progress from what is done at the beginning and what it plans.

    Args:
        journal: The run's journal.
        run_file: The run file to update.
        kind: "evaluation" or "map".
        plan: What the session will do.
        columns: The file of each step's column.
        items: How many items the run reports on; None: those of the plan.
        done: How many cells of each step are done; None: those the plan keeps.
        goals: When it stops; empty: it does all items.
        mark: What `items.jsonl` is.
    """
    run_file.limpet, run_file.kind = VERSION, kind
    session = Session(
        began=timestamp(),
        pid=os.getpid(),
        events_at=journal.layout.events.stat().st_size,
        failures_at=journal.layout.failures.stat().st_size,
        items=plan.items if items is None else items,
        trials=plan.trials,
        selected=None if plan.of is None else plan.items,
        of=plan.of,
        **mark._asdict(),
        steps={
            step.name: StepBegan(
                step.kept if done is None else done[step.name],
                step.calls,
                columns[step.name].stat().st_size,
            )
            for step in (plan.workflow, *plan.evaluators)
        },
        stop_when={str(goal.name): goal.half_width for goal in goals},
    )
    run_file.sessions = [*run_file.sessions, session][-_MOST_SESSIONS:]
    run_file.write(journal)
    journal.log_event("began", pid=os.getpid(), plan=str(plan))


def record_ended(
    run_file: RunFile,
    steps: Mapping[str, StepNumbers],
    totals: Mapping[str, tuple[int, dict[str, float]]],
    given_up: int,
) -> None:
    """Record how many cells of each step are done and have failed, in all sessions.

    Also record the session's totals: retries, usage, and calls that were given up.

    A new answer that equals the earlier one keeps its scores, and no line in any file says so:
    readers cannot count it themselves.
    """
    known = dict(run_file.sessions[-1].steps)
    for name, numbers in steps.items():
        retries, tokens = totals[name]
        known[name] = replace(
            known[name],
            have=numbers.done,
            retries=retries,
            tokens=tokens,
            failed=numbers.failed,
            errors=numbers.errors,
        )
    run_file.change_session(steps=known, given_up=given_up)


def close_session(journal: Journal, run_file: RunFile | None) -> None:
    """Record that the session ended properly, if it began, and close the journal."""
    try:
        if run_file is not None:
            columns = _columns_now(journal.layout, run_file)
            run_file.change_session(columns=columns, ended=timestamp())
            given_up = run_file.sessions[-1].given_up
            facts: dict[str, Any] = {"given_up": given_up} if given_up else {}
            journal.log_event("ended", **facts)
            run_file.write(journal)
    except JournalError as error:  # the next session then checks what was in flight
        logger.warning("%s", error)
    finally:
        journal.close()


def _columns_now(layout: Layout, run_file: RunFile) -> dict[str, list[int]]:
    try:
        return {step: size_and_crc(layout.column(step)) for step in run_file.sessions[-1].steps}
    except (OSError, JournalError) as error:  # readers then cannot compare
        logger.warning("a column cannot be read: %s", error)
        return {}


def say_unfinished(journal: Journal, run_file: RunFile, columns: Iterable[Column]) -> None:
    """Warn about calls that were in flight when the last session was cut off."""
    last = run_file.session
    if last is None or last.ended or last.events_at is None:
        return
    begun = unfinished(journal.layout.events, last.events_at)
    known = list(columns)
    in_flight = [
        call.id
        for call in begun
        if not any(column.generation_of(call.key) >= call.generation for column in known)
    ]
    if in_flight:
        logger.warning(
            "%s: %s in flight when the last session was cut off, and may have been paid for: %s",
            journal.layout.single or journal.layout.home,
            count(len(in_flight), "call was", "calls were"),
            ", ".join(one_line(id_) for id_ in in_flight[:10]),
        )
