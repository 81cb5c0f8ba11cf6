"""The result of an evaluation, read back from its files.

Its methods use everything that reads runs; only the pages are above it.
"""

import functools
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from limpet.errors import LimpetError
from limpet.run.planning.plan import Plan, StepPlan
from limpet.run.reading.description import summary_of
from limpet.run.reading.reader import RunReader, State, open_run
from limpet.run.results.filters import check_fields, filter_of
from limpet.run.results.groups import groups_by
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.item_result import ItemResult, result_of
from limpet.run.results.score_words import (
    scale_in,
    score_words,
    stop_when_lines,
)
from limpet.run.results.table import Table, cells_of, rows_by_item
from limpet.run.session_view import summary_html
from limpet.secrets.masking import by_environment
from limpet.text import count, one_line, size, text_of

if TYPE_CHECKING:
    from limpet.run.calibrating.calibration import Calibration
    from limpet.run.calibrating.sampling import DrawnSample

# ---- The file that `EvaluationResult.report` writes. --------------------------------------------


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A report in one HTML file. A notebook shows it as a link.

    Attributes:
        path: The file.
        bytes: Its size.
        left_out: What did not fit, in a sentence; empty: nothing.
    """

    path: Path
    bytes: int
    left_out: str = ""

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        words = f"{one_line(str(self.path))} ({size(self.bytes)})"
        return f"{words}. {self.left_out}" if self.left_out else words

    def _repr_html_(self) -> str:
        # A notebook's page resolves a link from the notebook's directory, as its kernel does.
        path, here = self.path.resolve(), Path.cwd()
        inside = path.is_relative_to(here)
        address = quote(path.relative_to(here).as_posix()) if inside else path.as_uri()
        link = f'<a href="{escape(address)}" target="_blank">{escape(one_line(str(self.path)))}</a>'
        more = f"<p>{escape(self.left_out)}</p>" if self.left_out else ""
        return f"<p>{link} ({size(self.bytes)})</p>{more}"


# The pages are above this room: they register the function that writes a report.
_writes_reports: list[Callable[..., ReportFile]] = []


def report_with(write: Callable[..., ReportFile]) -> None:
    """Write the reports of results with this function."""
    _writes_reports[:] = [write]


# ---- The result of an evaluation, read back from its files. -------------------------------------


class EvaluationResult:
    """The result of an evaluation: from `evaluate`, or from a run that `load_run` read.

    Attributes:
        summary: The numbers: counts, failures by class, means of the scores.
        plan: What the last session kept, and what it had to do.
        run: The run's directory; None if it was not saved.
        stop_reason: Why the last session stopped before all cells were done; None if it did not.
    """

    def __init__(
        self,
        read_items: Callable[[], Iterable[ItemRecord]],
        summary: dict[str, Any],
        plan: Plan,
        run: str | None = None,
        stop_reason: Exception | None = None,
    ) -> None:
        self.summary = summary
        self.plan = plan
        self.run = run
        self.stop_reason = stop_reason
        self._read_items = read_items
        self._reader: RunReader | None = None

    @classmethod
    def _of(cls, reader: RunReader) -> "EvaluationResult":
        """Return the result of a run on disk."""
        result = cls(list, {}, _plan_of(reader), str(reader.path))
        result._reader = reader
        result._load(reader)
        return result

    @functools.cached_property
    def items(self) -> list[ItemResult]:
        """Each item in each trial, in the order of the dataset, trial by trial.

        They are read from the run's files on first access.
        """
        return [result_of(record) for record in self._records]

    @functools.cached_property
    def _records(self) -> list[ItemRecord]:
        return list(self._read_items())

    @functools.cached_property
    def state(self) -> State:
        """The run's state: "running", "finished", "enough", "limited", "stopped" or "cut off"."""
        if self.run is None:
            return "finished" if self.stop_reason is None else "stopped"
        with self._opened() as reader:
            return reader.state

    @property
    def failed(self) -> list[ItemResult]:
        """The items without an answer, or without one of their scores, because of a failure."""
        return [item for item in self.items if item.error is not None or item.score_errors]

    def refresh(self) -> None:
        """Read the run's files again: the items, the summary and the state of the whole run.

        Raises:
            LimpetError: The run was not saved.
        """
        if self._reader is None:
            self._reader = self._opened()
        else:
            self._reader.refresh()
        self._load(self._reader)

    def _load(self, opened: RunReader) -> None:
        for name in ("items", "_records"):
            self.__dict__.pop(name, None)
        with opened as reader:
            self.state = reader.state
            self.plan = _plan_of(reader)
            self.summary = summary_of(reader)
        self._read_items = functools.partial(_read_all, opened)
        reason = self.summary["stop_reason"]
        self.stop_reason = None if reason is None else LimpetError(str(reason))

    def raise_for_failures(self) -> None:
        """Raise if cells failed, for a script that must not continue without them.

        Raises:
            LimpetError: Some failed: it says which steps, how often and why; its `result` is this.
        """
        steps = {"workflow": self.summary["workflow"], **self.summary["evaluators"]}
        failed = {name: step["failed"] for name, step in steps.items() if step["failed"]}
        if not failed:
            return
        many = sum(sum(kinds.values()) for kinds in failed.values())
        words = "; ".join(
            f"{one_line(name)}: {', '.join(f'{kind} {number:,}' for kind, number in kinds.items())}"
            for name, kinds in failed.items()
        )
        where = "`result.failed` has them"
        if self.run is not None:
            where = f"see why: limpet show {shlex.quote(self.run)} --failed"
        error = LimpetError(f"{count(many, 'cell')} failed ({words})", hint=where)
        error.result = self
        raise error

    def filter(
        self,
        *,
        failed: bool = False,
        evaluator: str | None = None,
        below: float | Mapping[str, float] | None = None,
        label: str | None = None,
        disagree: bool = False,
        where: Mapping[str, Any] | None = None,
        grep: str | None = None,
        sort: str | None = None,
        worst: int | None = None,
    ) -> list[ItemResult]:
        """Return the items for which all conditions hold, like `limpet show`.

        A score has the name of its evaluator, like "judge"; one of several, "judge.quality". Of
        several values, the lowest counts.

        Args:
            failed: Only items with a failure, of `evaluator` if it is given.
            evaluator: The score that the other conditions apply to; None: any.
            below: An upper limit for the score, or a limit for each of several scores.
            label: A label that the score must have.
            disagree: Only items on which the votes of a judge, or both orders of a pair, disagree.
            where: The values of dataset fields; a list means one of these values.
            grep: A text that must occur in the row, the answer, an error, a label or a reason, in
                upper or lower case.
            sort: The score to sort by, lowest first; with "-" before it, highest first.
            worst: At most this many: the lowest by `sort`, `evaluator` or the only evaluator.

        Raises:
            LimpetError: A name is unknown, or a score must be named.
            TypeError: A condition is of the wrong type.
            ValueError: `worst` is not positive.
        """
        return [result_of(record) for record in self._filtered(
            failed=failed, evaluator=evaluator, below=below, label=label, disagree=disagree,
            where=where, grep=grep, sort=sort, worst=worst,
        )]  # fmt: skip

    def _filtered(self, **conditions: Any) -> list[ItemRecord]:
        chosen = filter_of(lambda: self._records, list(self.summary["evaluators"]), **conditions)
        return list(chosen.ordered(chosen.matching(self._records)))

    def by(self, field: str, **conditions: Any) -> list[dict[str, Any]]:
        """Return the numbers by the values of a dataset field, like `limpet show --by`.

        Args:
            field: The field, like "lang", or "meta.lang" for nested ones.
            conditions: Which items to include: the arguments of `filter`.

        Returns:
            A dict for each value, sorted by it: `field`, `value`, and the numbers of `summary`.

        Raises:
            LimpetError: A name is unknown.
        """
        check_fields([field], lambda: self._records)
        scores = self.summary["scores"].values()
        scales = {score["evaluator"]: scale_in(score) for score in scores}
        known = list(self.summary["evaluators"])
        return groups_by(self._filtered(**conditions), field, known, self.plan.trials, scales)

    def to_dataframe(self, *, by_item: bool = False) -> Any:
        """Return a pandas DataFrame with a row for each item in each trial.

        Args:
            by_item: One row for each item instead, with means over its trials.

        Raises:
            LimpetError: pandas is not installed.
        """
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise LimpetError(
                f"a DataFrame needs pandas, which cannot be imported ({error})",
                hint="pip install pandas",
            ) from error
        rows = [*rows_by_item(self._records)] if by_item else [*map(cells_of, self._records)]
        table = Table(self.summary["evaluators"], by_item=by_item)
        for cells in rows:
            table.add(cells)
        names = table.names()
        data = [[cells.get(key) for key in names] for cells in rows]
        return pandas.DataFrame(data, columns=list(names.values()))

    def sample(
        self,
        n: int,
        path: "str | os.PathLike[str]",
        *,
        seed: int | None = None,
        force: bool = False,
    ) -> "DrawnSample":
        """Draw answers at random for people to label, like `limpet sample`.

        Args:
            n: How many; if there are fewer, all.
            path: A `.csv` or `.xlsx` file, with an empty `label` column.
            seed: The seed of the draw; None: a new one.
            force: Replace a file that exists.

        Raises:
            LimpetError: There is no answer to draw, the run was not saved, or the file exists or
                cannot be written.
        """
        from limpet.run.calibrating.sampling import draw_sample  # noqa: PLC0415 - slow: NumPy

        with self._opened() as reader:
            return draw_sample(reader, n, path, seed=seed, force=force)

    def calibrate(
        self, evaluator: str, labels: Any = None, *, label_column: str | None = None
    ) -> "Calibration":
        """Compare the scores of a judge with people's labels, like `limpet calibrate`.

        Args:
            evaluator: The judge's name; for one of several scores, like "judge.quality".
            labels: A filled-in file from `sample`, any table with the columns `id` and
                `label`, a list of files, rows, or a DataFrame. None: the run's `labels.jsonl`.
            label_column: The column with the labels; None: "label".

        Raises:
            LimpetError: The labels cannot be read or used, or the run was not saved.
        """
        from limpet.run.calibrating.calibration import calibrate  # noqa: PLC0415 - slow: NumPy

        with self._opened() as reader:
            return calibrate(reader, evaluator, labels, label_column=label_column)

    def report(
        self,
        path: "str | os.PathLike[str]",
        against: "str | os.PathLike[str] | EvaluationResult | None" = None,
        *,
        max_mb: float = 20,
    ) -> ReportFile:
        """Write the run as one HTML file, like `limpet report`. A notebook shows its link.

        Args:
            path: The `.html` file; one that exists is replaced.
            against: A run to compare it with: its directory, its name under `./runs`, or its
                result.
            max_mb: The largest size of the file in megabytes; it says what is left out.

        Raises:
            LimpetError: The run was not saved, cannot be read or compared, or the file cannot be
                written.
            ValueError: `max_mb` is less than 0.5.
        """
        return _writes_reports[0](self, path, against, max_mb)

    def _opened(self) -> RunReader:
        """Return a reader of the run."""
        if self.run is None:
            raise LimpetError(
                "this evaluation was not saved: it has no directory",
                hint='name a directory for it: evaluate(…, run="runs/first")',
            )
        return RunReader(self.run)

    def _repr_html_(self) -> str:
        stopped = "" if self.stop_reason is None else f"<p>stopped: {escape(self._why)}</p>"
        enough = "".join(f"<p>{escape(line)}</p>" for line in stop_when_lines(self.summary))
        return summary_html(self.summary) + enough + stopped

    @property
    def _why(self) -> str:
        """The reason without secrets: notebooks are saved."""
        reason = "" if self.stop_reason is None else text_of(self.stop_reason)
        return by_environment().certain.text(reason)

    def __repr__(self) -> str:
        done, total = self.summary["workflow"]["completed"], self.summary["n"]
        scores = ", ".join(
            f"{one_line(name)} {score_words(score)}"
            for name, score in self.summary["scores"].items()
        )
        if "by_current_version" in self.summary["workflow"]:
            current = self.summary["workflow"]["by_current_version"]
            scores = f"{scores} ({current:,} of {done:,} from the current version)".lstrip()
        trials = self.plan.trials
        of = f" ({count(total // trials, 'item')} × {trials:,} trials)" if trials > 1 else ""
        parts = filter(None, [f"{done:,} of {total:,} completed{of}", scores])
        return f"<EvaluationResult: {'; '.join(parts)}>"


# ---- A run on disk. ------------------------------------------------------------------------------


def load_run(path: str | os.PathLike[str]) -> EvaluationResult:
    """Return the result of a run that is finished, stopped or still running.

    Nothing runs, and nothing is changed or locked. Items are in the order of the dataset; those of
    a map, in the order in which they finished.

    Args:
        path: The run's directory, its name under `./runs`, or the `.jsonl` file of a map.

    Raises:
        LimpetError: There is no run at `path`. The hint names runs near it.
        TypeError: `path` is not a path.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path={path!r}: must be a string or a Path")
    reader = open_run(str(Path(path)))
    return EvaluationResult._of(reader)  # noqa: SLF001 - they are one


def _plan_of(reader: RunReader) -> Plan:
    session = reader.session
    steps = {name: StepPlan(name, step.kept, 0, calls=step.calls)
             for name, step in session.steps.items()}  # fmt: skip
    workflow = steps.pop(reader.step, StepPlan(reader.step, 0, 0))
    items = session.items or 0
    selected = items if session.selected is None else session.selected
    return Plan(selected, session.trials, workflow, tuple(steps.values()), session.of)


def _read_all(reader: RunReader) -> list[ItemRecord]:
    with reader:
        return list(reader.items())
