"""How do the answers in a `workflow_output.json` get into a run?

A row is imported if an item of the dataset has its id and input, and if it holds a real answer:
`nat eval` writes null or an empty string for a failed call. It is added to the workflow's column
under the key of the current workflow, so `limpet run` continues from there. Each row is imported
only once.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from limpet.datasets import LoadedDataset
from limpet.datasets.rows import Row, is_nan
from limpet.datasets.sources import table_of_file
from limpet.errors import DatasetError
from limpet.fingerprints.keys import digest
from limpet.journal.column import Column
from limpet.journal.journal import Journal
from limpet.journal.layout import directory_at
from limpet.json_values import kept_form
from limpet.nat_trace import trace_of
from limpet.run.api import Arguments
from limpet.run.executing.outcomes import masked_record
from limpet.run.options import as_run
from limpet.run.planning.items_file import write_items
from limpet.run.planning.work_items import WorkItem, WorkItems
from limpet.run.record_fields import (
    ANSWER,
    RETURNED,
    ROW,
    TOOLKIT_ANSWER,
    TOOLKIT_TRACE,
    TRACE,
    ToolkitNames,
    answer_record,
    digests_of,
)
from limpet.run.results.costs import Prices, usage_facts
from limpet.run.run_file import WORKFLOW, RunFile, StepIdentity
from limpet.secrets.masking import by_environment
from limpet.shapes import Cell, Outcome, Usage
from limpet.text import one_line
from limpet.usage import usage_of, usage_of_trace
from limpet.workflows.protocol import Workflow

_CHUNK = 500
NO_ID, NO_ITEM = "the row has no id", "no item of the dataset has this id"
OTHER_INPUT, NO_ANSWER = "the question has changed", "no answer"


class _Target(NamedTuple):
    """The run that receives the answers."""

    run: Path
    dataset: LoadedDataset
    trials: int
    workflow: Workflow
    names: ToolkitNames
    prices: Prices | None


def _target_of(prepared: Arguments) -> _Target:
    run, dataset = as_run(prepared.run), prepared.dataset
    assert run is not None
    assert run.path is not None
    loaded = dataset if isinstance(dataset, LoadedDataset) else dataset.load()
    names = replace(prepared.names, id=loaded.roles.id or "id")
    prices = prepared.options.get("prices")
    return _Target(Path(run.path), loaded, prepared.trials, prepared.workflow, names, prices)


def rows_of_file(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, including the facts that our runs add.

    Raises:
        DatasetError: The file cannot be read, or holds something that is not a row.
    """
    table = table_of_file(file, nan=True)  # as the toolkit writes it
    for row in table.rows:
        if not isinstance(row, Row):
            raise DatasetError(f"{table.at(row.number)}: {row.reason}")
        yield row.values


def is_answer(value: Any) -> bool:
    """Return whether a value is an answer.

    The toolkit writes null or "" where a call failed, and NaN after it has read that null.
    """
    is_blank = isinstance(value, str) and not value.strip()
    return value is not None and not is_nan(value) and not is_blank


@dataclass(slots=True)
class ImportReport:
    """What happened to the rows.

    Attributes:
        file: The file's name.
        imported: How many were imported.
        existing: How many had an answer already.
        skipped: How many were skipped, by reason.
        examples: The id of the first row that was skipped, by reason.
    """

    file: str
    imported: int = 0
    existing: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def skip(self, reason: str, id_: str) -> None:
        """Count a row that is skipped."""
        self.skipped[reason] += 1
        self.examples.setdefault(reason, id_)

    def __str__(self) -> str:
        parts = [f"{self.imported:,} imported"]
        parts += [f"{self.existing:,} already there"] if self.existing else []
        parts += [
            f"{number:,} skipped: {reason} ({one_line(self.examples[reason])})"
            for reason, number in self.skipped.items()
        ]
        return f"{one_line(self.file)}: {'; '.join(parts)}"


def import_rows(
    rows: Iterable[Mapping[str, Any]],
    name: str,
    prepared: Arguments,
    source: str | None = None,
    before: Callable[[], None] = lambda: None,
) -> ImportReport:
    """Add the answers of rows to a run. If there are none, nothing is changed.

    Args:
        rows: The rows.
        name: The name of their file.
        prepared: The evaluation that receives them.
        source: The directory they come from, recorded in the run as imported.
        before: Called before the run is changed.

    Raises:
        JournalError: The run cannot be written.
    """
    report, target = ImportReport(name), _target_of(prepared)
    matched = list(_matched(rows, target, report))
    if not matched:
        return report
    before()
    with Journal(directory_at(target.run)) as journal:
        journal.move_column(WORKFLOW)
        column, fingerprint = journal.column(WORKFLOW), digest(dict(target.workflow.fingerprint))
        keyed = [(work_item.key(fingerprint), (work_item, row)) for work_item, row in matched]
        new = {key: answer for key, answer in keyed if key not in column}
        report.imported = len(new)
        report.existing = sum(key in column for key, _ in keyed)
        run_file = RunFile.load(journal.layout)
        if new:
            _prepare_run(run_file, journal, fingerprint, target)
            asyncio.run(_append(column, new, name, target))
        if source is not None:
            run_file.imported.append(source)
            run_file.write(journal)
    return report


def _prepare_run(run_file: RunFile, journal: Journal, fingerprint: str, target: _Target) -> None:
    """Write what a run needs before its first answer; `fingerprint` is the workflow's."""
    # A later session compares its workflow with this.
    run_file.functions.setdefault(fingerprint, dict(target.workflow.fingerprint))
    run_file.steps.setdefault(WORKFLOW, StepIdentity(fingerprint))
    run_file.names = target.names
    run_file.write(journal)
    if not journal.layout.items.exists():  # else a session writes it
        items = target.dataset.items
        contents = WorkItems(items, target.trials, target.workflow).contents
        write_items(journal.layout, items, contents, {})


_OWN = {"_limpet", ROW, ANSWER, TRACE}
"""Fields of a line of our own column, which has the dataset's row in a separate field."""


def _matched(
    rows: Iterable[Mapping[str, Any]], target: _Target, report: ImportReport
) -> Iterable[tuple[WorkItem, Mapping[str, Any]]]:
    by_id: dict[str, WorkItem] = {}
    for work_item in WorkItems(target.dataset.items, target.trials, target.workflow):
        by_id[f"{work_item.item.id}_rep{work_item.trial}"] = work_item
        if work_item.trial == 0:
            by_id.setdefault(work_item.item.id, work_item)
    by_number = {_as_number(id_): work_item for id_, work_item in by_id.items()}
    by_number.pop(None, None)
    answer = target.names.answer
    theirs = (answer, TOOLKIT_ANSWER)
    for given in rows:
        row = given
        if given.keys() >= _OWN and given.keys().isdisjoint(theirs):
            row = {**target.names.row(given), "_limpet": given["_limpet"]}
        written = _first(row, target.names.id, "id")
        if written is None:
            report.skip(NO_ID, "?")
            continue
        id_ = str(written)
        # The toolkit reads "001" as a number, and writes 1.
        known = by_id.get(id_) or by_number.get(_as_number(id_))
        if known is None:
            report.skip(NO_ITEM, id_)
        elif known.item.input != row.get(target.dataset.roles.input):
            report.skip(OTHER_INPUT, id_)
        elif not is_answer(_first(row, *theirs)):
            report.skip(NO_ANSWER, id_)
        else:
            yield known, row


def _as_number(id_: str) -> tuple[float, str] | None:
    """Return an id as a number, with its repetition; None if it is not one."""
    whole, mark, rep = id_.rpartition("_rep")
    whole, rep = (whole, rep) if mark and rep.isdigit() else (id_, "")
    try:
        return float(whole), rep
    except ValueError:
        return None


def _first(row: Mapping[str, Any], *names: str) -> Any:
    return next((row[name] for name in names if name in row), None)


def _usage_of(row: Mapping[str, Any], trace: Sequence[Any]) -> Usage | None:
    """Return an answer's usage, from our own line or else from its steps."""
    ours = row.get("_limpet")
    if isinstance(ours, Mapping) and isinstance(ours.get("usage"), Mapping):
        more = {name: ours[name] for name in ("models", "times") if name in ours}
        return usage_of({**ours["usage"], **more})[0]
    return usage_of_trace(trace)


async def _append(
    column: Column,
    chosen: Mapping[str, tuple[WorkItem, Mapping[str, Any]]],
    name: str,
    target: _Target,
) -> None:
    mask, names = by_environment().certain, target.names
    waiting = []
    for key, (work_item, row) in chosen.items():
        item = work_item.item
        steps = _first(row, names.trace, TOOLKIT_TRACE)
        trace = trace_of(steps)
        answer = _first(row, names.answer, TOOLKIT_ANSWER)
        record = kept_form(answer_record(item.id, item.row, answer, trace))
        digests = digests_of(record[ANSWER], record[TRACE])
        record, masking = masked_record(mask, record, RETURNED)
        cell = Cell(WORKFLOW, item.id, work_item.trial, key)
        usage = usage_facts(_usage_of(row, trace), target.prices)
        facts = {"imported": name, **digests, **masking, **usage}
        waiting.append(column.append(Outcome(cell, record=record, attempts=0, facts=facts)))
        if len(waiting) == _CHUNK:
            await asyncio.gather(*waiting)
            waiting.clear()
    await asyncio.gather(*waiting)
