"""When did somebody work on this run, and was it cut off?"""

import logging
import os
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from limpet.errors import JournalError
from limpet.journal.column import Column
from limpet.journal.event_log import unfinished
from limpet.journal.journal import Journal
from limpet.journal.lines import timestamp
from limpet.run.planning.plan import Plan
from limpet.text import one_line

logger = logging.getLogger("limpet.run")
_MOST_SESSIONS = 100


def begin_session(
    journal: Journal,
    about: dict[str, Any],
    kind: str,
    plan: Plan,
    columns: Mapping[str, Path],
    *,
    items: int | None = None,
    there: Mapping[str, int] | None = None,
) -> None:
    """Write down that a session begins, before anything is spent.

    What is there at its beginning, and what it plans, is how others tell how far it is.

    Args:
        journal: Of the run.
        about: What `run.json` says; brought up to date.
        kind: "evaluation" or "map".
        plan: What the session will do.
        columns: The file of each step's column.
        items: How many items the run reports of; None: those of the plan.
        there: How many cells of each step need nothing more; None: those the plan keeps.
    """
    about.update({"limpet": version("limpet"), "kind": kind})
    session: dict[str, Any] = {"began": timestamp(), "pid": os.getpid()}
    session["events_at"] = journal.layout.events.stat().st_size
    session["failures_at"] = journal.layout.failures.stat().st_size
    session |= {"items": plan.items if items is None else items, "trials": plan.trials}
    if plan.of is not None:
        session |= {"selected": plan.items, "of": plan.of}
    session["steps"] = {
        step.name: {
            "kept": step.kept if there is None else there[step.name],
            "calls": step.calls,
            "bytes_at": columns[step.name].stat().st_size,
        }
        for step in (plan.workflow, *plan.evaluators)
    }
    about["sessions"] = [*about.get("sessions", []), session][-_MOST_SESSIONS:]
    journal.write_about(about)
    journal.tell("began", pid=os.getpid(), plan=str(plan))


def note_ended(about: dict[str, Any], steps: Mapping[str, Mapping[str, Any]]) -> None:
    """Write down how many cells of each step are there now, as the summary of the run tells.

    A new answer that is as it was before keeps its scores: no line in any file tells of that.
    """
    for name, numbers in steps.items():
        have = numbers["completed"] - sum(numbers.get("redo", {}).values())
        about["sessions"][-1]["steps"][name]["have"] = have


def end_session(journal: Journal, about: dict[str, Any]) -> None:
    """Write down that it ended in good order."""
    about["sessions"][-1]["ended"] = timestamp()
    journal.tell("ended")
    journal.write_about(about)


def close_session(journal: Journal, about: dict[str, Any] | None) -> None:
    """End the session, if it began, and close the journal in any case."""
    try:
        if about is not None:
            end_session(journal, about)
    except JournalError as error:  # all it loses: the next session asks what was in flight
        logger.warning("%s", error)
    finally:
        journal.close()


def say_unfinished(journal: Journal, about: dict[str, Any], columns: Iterable[Column]) -> list[str]:
    """Say which calls were in flight when the last session was cut off; return their ids."""
    last = (about.get("sessions") or [{}])[-1]
    if "ended" in last or "events_at" not in last:
        return []
    begun = unfinished(journal.layout.events, last["events_at"])
    known = list(columns)
    in_flight = [
        one.id for one in begun if not any(c.reaches(one.key, one.generation) for c in known)
    ]
    if in_flight:
        logger.warning(
            "%s: %s calls were in flight when the last session was cut off, and may have been "
            "paid for: %s",
            journal.layout.single or journal.layout.home,
            len(in_flight),
            ", ".join(one_line(id_) for id_ in in_flight[:10]),
        )
    return in_flight
