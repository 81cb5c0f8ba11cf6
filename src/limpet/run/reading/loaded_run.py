"""The result of a run that is on disk already: `load_run`."""

import os
from pathlib import Path

from limpet.errors import LimpetError
from limpet.run.evaluation_result import EvaluationResult
from limpet.run.planning.plan import Plan, StepPlan
from limpet.run.reading.description import summary_of
from limpet.run.reading.reader import RunReader, State, open_run
from limpet.run.results.item_result import ItemResult


class LoadedRun(EvaluationResult):
    """The result of a run, read from its directory. It may still be running.

    Attributes:
        summary: The numbers of the results when it was last read.
        plan: What the last session kept, and how many calls it planned.
        run: The run's directory.
        stop_reason: Why its last session stopped early; None if it did not, or is running.
        state: "running", "finished", "enough", "limited", "stopped" or "cut off".
    """

    state: State

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        super().__init__(self._read, {}, _plan(reader), str(reader.path))
        self._load()

    def refresh(self) -> None:
        """Read what has happened since: the items, the summary and the state."""
        self._reader.refresh()
        self._load()

    def _load(self) -> None:
        with self._reader as reader:
            self.state = reader.state
            self.plan = _plan(reader)
            self.summary = summary_of(reader)
        reason = self.summary["stop_reason"]
        self.stop_reason = None if reason is None else LimpetError(str(reason))
        self.__dict__.pop("items", None)

    def _read(self) -> list[ItemResult]:
        with self._reader as reader:
            return list(reader.items())


def load_run(path: str | os.PathLike[str]) -> LoadedRun:
    """Return the result of a run that is finished, stopped or still running.

    Nothing runs, and nothing is changed or locked. Items are in the order of the dataset, those
    of a map in the order in which they finished.

    Args:
        path: The run's directory, its name under `./runs`, or the `.jsonl` file of a map.

    Raises:
        LimpetError: There is no run at `path`. The hint names runs near it.
        TypeError: `path` is not a path.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path={path!r}: must be a string or a Path")
    return LoadedRun(open_run(str(Path(path))))


def _plan(reader: RunReader) -> Plan:
    session = reader.session
    steps = {name: StepPlan(name, step.kept, 0, calls=step.calls)
             for name, step in session.steps.items()}  # fmt: skip
    workflow = steps.pop(reader.step, StepPlan(reader.step, 0, 0))
    items = session.items or 0
    selected = items if session.selected is None else session.selected
    return Plan(selected, session.trials, workflow, tuple(steps.values()), session.of)
