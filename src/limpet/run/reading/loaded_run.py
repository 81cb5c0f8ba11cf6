"""The result of a run that is on disk already: `load_run`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limpet.errors import LimpetError
from limpet.evaluators import pairwise as pairwise_of_answers
from limpet.evaluators.protocol import Evaluator
from limpet.run.planning.plan import Plan, StepPlan
from limpet.run.reading.reader import RunReader, State, open_run
from limpet.run.results.evaluation_result import EvaluationResult, ItemResult
from limpet.run.results.summary import NUMBERS


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
            self.summary = _summary(reader)
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


def _summary(reader: RunReader) -> dict[str, Any]:
    """Return what `summary.json` says, with the numbers of now."""
    more: dict[str, Any] = {"stop_reason": None, "bad_rows": []}
    if reader.session.ended and not reader.is_running:
        written = reader.summary_written()
        more |= {name: part for name, part in written.items() if name not in NUMBERS}
    return {**reader.summary(), **more}


def _plan(reader: RunReader) -> Plan:
    session = reader.session
    steps = {name: StepPlan(name, step.kept, 0, calls=step.calls)
             for name, step in session.steps.items()}  # fmt: skip
    workflow = steps.pop(reader.step, StepPlan(reader.step, 0, 0))
    items = session.items or 0
    selected = items if session.selected is None else session.selected
    return Plan(selected, session.trials, workflow, tuple(steps.values()), session.of)


Against = str | os.PathLike[str] | EvaluationResult | Mapping[str, Any]
"""A run's directory or its name under `./runs`, a result, or answers by the item's id."""


def pairwise(
    model: Any,
    prompt: str | None = None,
    *,
    against: Against,
    votes: int = 1,
    reasks: int = 1,
    name: str = "pairwise",
    params: Mapping[str, Any] | None = None,
) -> Evaluator:
    """Score whether an output is better than the answer of another run to the same item.

    The label is "win" (1), "loss" (0) or "tie" (0.5). Both orders are asked, two calls per item. If
    they disagree, it is a tie, and the metadata says `flipped: True`. With several votes or models,
    each asks both orders, and the label with the most votes counts; without one, it is a tie. Two
    answers that are the same are a tie without a call.

    Args:
        model: A model, or anything `limpet.models.as_model` takes; a list of them is a jury.
        prompt: What to compare, and how, with `{{first}}` and `{{second}}` for the answers and
            placeholders as for `judge`. It asks for "first", "second" or "tie". None: our own.
        against: The other run: its directory, its name under `./runs`, or its result. Its answers
            are read now, those of its first trial. Or the answers themselves, by the item's id.
        votes: How often each model is asked about an item, in both orders.
        reasks: How often a model is asked again after a reply that cannot be used.
        name: Its name.
        params: Parameters of each call, for example `{"temperature": 0}`.

    Raises:
        LimpetError: There is no such run, it has no answer, or the prompt cannot be filled.
        TypeError: An argument has the wrong type.
        ValueError: An argument has a wrong value.
    """
    return pairwise_of_answers(
        model,
        prompt,
        against=answers_of(against),
        votes=votes,
        reasks=reasks,
        name=name,
        params=params,
    )


def answers_of(against: Against) -> Mapping[str, Any]:
    """Return the answers of a run, by the item's id.

    Raises:
        LimpetError: There is no such run, or it has no answer.
        TypeError: It is not a run.
    """
    if isinstance(against, Mapping):
        return against
    run = against if isinstance(against, EvaluationResult) else load_run(against)
    answers = {item.id: item.output for item in run.items if not item.trial and item.is_completed}
    if not answers:
        raise LimpetError(f"against: {run.run} has no answers", hint="run it first")
    return answers
