"""When did somebody work on this run, and was it cut off?"""

import logging
import os
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

from limpet.errors import JournalError
from limpet.journal.column import Column
from limpet.journal.journal import Journal
from limpet.journal.lines import timestamp
from limpet.journal.story import unfinished
from limpet.run.plans import Plan
from limpet.text import one_line

logger = logging.getLogger("limpet.run")
_MOST_SESSIONS = 100


def begin_session(
    journal: Journal, about: dict[str, Any], kind: str, plan: Plan, records: Mapping[str, int]
) -> None:
    """Write down that a session begins, before anything is spent. `records`: of each step.

    What is there at its beginning, and what it plans, is how others tell how far it is.
    """
    about.update({"limpet": version("limpet"), "kind": kind})
    session: dict[str, Any] = {"began": timestamp(), "pid": os.getpid()}
    session["events_at"] = journal.layout.events.stat().st_size
    session["failures_at"] = journal.layout.failures.stat().st_size
    session |= {"items": plan.items, "trials": plan.trials}
    session["steps"] = {
        step.name: {
            "kept": step.kept,
            "calls": step.calls,
            "records_at": records[step.name],
        }
        for step in (plan.workflow, *plan.evaluators)
    }
    about["sessions"] = [*about.get("sessions", []), session][-_MOST_SESSIONS:]
    journal.write_about(about)
    journal.tell("began", pid=os.getpid(), plan=str(plan))


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
    in_flight = [id_ for key, id_ in begun.items() if not any(key in one for one in known)]
    if in_flight:
        logger.warning(
            "%s: %s calls were in flight when the last session was cut off, and may have been "
            "paid for: %s",
            journal.layout.single or journal.layout.home,
            len(in_flight),
            ", ".join(one_line(id_) for id_ in in_flight[:10]),
        )
    return in_flight
