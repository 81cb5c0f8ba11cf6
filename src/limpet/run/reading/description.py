"""What does a screen show of a run? One description, which the terminal, JSON and pages render.

None of them takes facts about a run from elsewhere, so they cannot differ. Items, groups of
failures and charts are read separately.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limpet.errors import LimpetError
from limpet.journal.event_log import StartedAttempt
from limpet.run.housekeeping import tags_of
from limpet.run.reading.reader import RunReader
from limpet.run.reading.run_files import Holder
from limpet.run.results.costs import used_by
from limpet.run.results.summary import NUMBERS
from limpet.run.run_file import PendingRedo
from limpet.run.watcher import Snapshot
from limpet.text import text_of

_MOST_ADDED_UP = 50_000
"""Above this, the scores of a cut off run are not added up just to show its progress."""


@dataclass(frozen=True, slots=True)
class Description:
    """A run at one moment, without its items.

    Attributes:
        run: Its directory.
        state: As in `RunReader.state`; or "unreadable"; or "not begun", for a variant.
        why: Why it is unreadable.
        kind: "evaluation" or "map".
        progress: How far each step is.
        summary: The numbers of its results, as in `summary.json`; empty if not known: the run is
            running, and its results were not added up.
        sessions: The number of sessions.
        first_began: When the first session began.
        began: When the last session began.
        last_at: When it last wrote something.
        worked_s: How long all sessions took, and whether all of them are known.
        retries: The failed attempts that were tried again in all sessions, by step.
        holder: Who has its lock, or had it last.
        cut_off: The calls that were in flight when it was cut off.
        selected: How many items the last session selected, and of how many; None: all.
        redos: What is to run again.
        by_current_version: How many answers are by the current workflow, and of how many; None:
            all.
        earlier_on_disk: Cells whose only answer is by an earlier version, and does not count.
        remarks: What could not be read.
        logged: The remark that was logged already; empty: none.
        paused: When `limpet ctl` paused it; empty: it is not paused.
        tags: Its tags.
    """

    run: str
    state: str
    why: str | None = None
    kind: str = "evaluation"
    progress: Snapshot = field(default_factory=lambda: Snapshot((), 0.0))
    summary: Mapping[str, Any] = field(default_factory=dict)
    sessions: int = 0
    first_began: str | None = None
    began: str | None = None
    last_at: str | None = None
    worked_s: tuple[float, bool] = (0.0, True)
    retries: Mapping[str, int] = field(default_factory=dict)
    holder: Holder | None = None
    cut_off: Sequence[StartedAttempt] = ()
    selected: tuple[int, int] | None = None
    redos: Sequence[PendingRedo] = ()
    by_current_version: tuple[int, int] | None = None
    earlier_on_disk: int = 0
    remarks: Sequence[str] = ()
    logged: str = ""
    paused: str = ""
    tags: Sequence[str] = ()

    @property
    def is_running(self) -> bool:
        return self.state == "running"

    @property
    def state_now(self) -> str:
        """The state; "paused" if it is running and starts nothing."""
        return "paused" if self.is_running and self.paused else self.state

    @property
    def done(self) -> int:
        """The items with an answer, in each trial."""
        steps = self.progress.steps
        return steps[0].kept + steps[0].done if steps else 0

    @property
    def total(self) -> int:
        """The items, in each trial."""
        return self.progress.steps[0].total if self.progress.steps else 0

    @property
    def failed(self) -> int:
        """The cells that failed, of all steps."""
        return sum(sum(step.failed.values()) for step in self.progress.steps)

    @property
    def scores(self) -> dict[str, Mapping[str, Any]]:
        """The scores in the summary, by name."""
        return dict(self.summary.get("scores", {}))

    @property
    def evaluators(self) -> dict[str, Mapping[str, Any]]:
        """The evaluators in the summary, by name."""
        return dict(self.summary.get("evaluators", {}))

    @property
    def stop_reason(self) -> str | None:
        """Why the last session stopped early; None: it did not, or the reason is unknown."""
        reason = self.summary.get("stop_reason") if self.state == "stopped" else None
        return reason if isinstance(reason, str) else None

    @property
    def used(self) -> dict[str, float]:
        """What all steps used together: `cost` and `tokens`, where known."""
        return used_by((self.summary.get("workflow") or {}, *self.evaluators.values()))


def describe(
    reader: RunReader,
    progress: Snapshot | None = None,
    numbers: Mapping[str, Any] | None = None,
) -> Description:
    """Describe a run.

    Args:
        reader: The run.
        progress: Its progress; None: read it, without the event log.
        numbers: The numbers of its results; None: those on disk, if they are current.
    """
    session, steps_before = reader.session, [one.steps for one in reader.run_file.sessions[:-1]]
    now = reader.counts if progress is None else progress
    return Description(
        str(reader.path),
        reader.state,
        kind=reader.kind,
        progress=now,
        summary=_summary(reader, numbers),
        sessions=len(reader.run_file.sessions),
        first_began=reader.run_file.sessions[0].began if reader.run_file.sessions else None,
        began=reader.began_at or None,
        last_at=reader.last_at or None,
        worked_s=reader.worked_s,
        retries={
            step.name: step.retries
            + sum(steps[step.name].retries or 0 for steps in steps_before if step.name in steps)
            for step in now.steps
        },
        holder=reader.holder,
        cut_off=[] if progress is None else reader.cut_off_calls(),
        selected=None if session.selected is None else (session.selected, session.of or 0),
        redos=reader.counting.redos,
        by_current_version=reader.by_current_version,
        earlier_on_disk=reader.earlier_on_disk,
        remarks=tuple(reader.remarks),
        logged=reader.logged,
        paused=reader.run_file.paused,
        tags=tags_of(reader.layout),
    )


def described_at(path: Path) -> Description:
    """Describe a run as a line of a list: there may be a hundred runs."""
    try:
        with RunReader(path) as reader:
            return describe(reader)
    except (OSError, LimpetError, ValueError) as error:
        return unreadable(path, text_of(error))


def unreadable(path: Path, why: str) -> Description:
    """Describe a run that cannot be read."""
    # Without the run's path, which is shown beside it.
    return Description(str(path), "unreadable", why.replace(f"{path.resolve()}/", ""))


def summary_of(reader: RunReader, numbers: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return `summary.json` with the current numbers."""
    more: dict[str, Any] = {"stop_reason": None, "bad_rows": []}
    if reader.session.ended and not reader.is_running:
        written = reader.summary_written()
        if _is_summary(written):
            more |= {name: part for name, part in written.items() if name not in NUMBERS}
    return {**(reader.summary() if numbers is None else numbers), **more}


def _summary(reader: RunReader, numbers: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if numbers is not None:
        return summary_of(reader, numbers)
    if reader.is_running or (reader.state == "cut off" and len(reader) > _MOST_ADDED_UP):
        return {}
    if reader.is_as_recorded and reader.state != "cut off" and not reader.layout.people.exists():
        written = reader.summary_written()
        if _is_summary(written):
            return written
    return summary_of(reader)


def _is_summary(written: Mapping[str, Any]) -> bool:
    """Return whether a file has the shape of a summary: it may have been edited."""
    scores, evaluators = written.get("scores"), written.get("evaluators")
    if not isinstance(scores, Mapping) or not isinstance(evaluators, Mapping):
        return False
    skipped = written.get("bad_rows", [])
    return (
        isinstance(written.get("workflow"), Mapping)
        and isinstance(skipped, list)
        and all(isinstance(row, str) for row in skipped)
        and all(isinstance(numbers, Mapping) for numbers in evaluators.values())
        and all(_is_score(score, evaluators) for score in scores.values())
    )


def _is_score(score: Any, evaluators: Mapping[str, Any]) -> bool:
    return (
        isinstance(score, Mapping)
        and isinstance(name := score.get("evaluator"), str)
        and name in evaluators
        and isinstance(score.get("completed"), int)
        and isinstance(score.get("mean"), (int, float, type(None)))
        and all(_has_ends(score[name]) for name in ("interval", "bounds") if name in score)
    )


def _has_ends(interval: Any) -> bool:
    if not isinstance(interval, Mapping):
        return False
    is_bounds = "missing" in interval  # too few scores for an interval still have bounds
    ends = [interval.get("low"), interval.get("high")]
    return all(isinstance(end, (int, float)) for end in ends) or (is_bounds and ends == [None] * 2)
