"""How do the answers in a `workflow_output.json` come into a run?

A row is taken if it is an item of the dataset, by its id and by what was asked, and holds a real
answer: `nat eval` writes null or an empty text where a call failed. It goes into the workflow's
column under the key of the workflow as it is now, so that `limpet run` goes on from there. Taken
once, it is not taken again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limpet.fingerprints.keys import digest
from limpet.integrations.nat.existing_answers import is_answer
from limpet.integrations.nat.wanted import Structure
from limpet.journal.column import Column
from limpet.journal.journal import Journal
from limpet.json_values import kept_form
from limpet.run.executing.cells import (
    ANSWER,
    TRACE,
    answer_record,
    digests_of,
    masked_record,
)
from limpet.run.planning.items_file import write_items
from limpet.run.planning.work_items import WorkItem, WorkItems
from limpet.run.run_file import WORKFLOW, RunFile, StepIdentity
from limpet.secrets.masking import by_environment
from limpet.text import one_line
from limpet.trace import kept_events
from limpet.types import Cell, Item, Outcome
from limpet.workflows.nat_trace import trace_of
from limpet.workflows.protocol import Workflow

_CHUNK = 500
NO_ID, NO_ITEM = "the row has no id", "no item of the dataset has this id"
OTHER_INPUT, NO_ANSWER = "the question is another one now", "there is no answer"


@dataclass(frozen=True, slots=True)
class Target:
    """Where answers go.

    Attributes:
        run: The run's directory.
        items: The items of the dataset.
        trials: How often each is asked.
        workflow: Whose answers they are to be.
        question: The column of what was asked.
        structure: What the other columns are called.
        id: The column of the ids.
        trace_filter: Which types or kinds of events are kept; None: all.
    """

    run: Path
    items: Sequence[Item]
    trials: int
    workflow: Workflow
    question: str
    structure: Structure = field(default_factory=Structure)
    id: str = "id"
    trace_filter: tuple[str, ...] | None = None


@dataclass(slots=True)
class Imported:
    """What became of the rows.

    Attributes:
        file: The file's name.
        taken: How many came into the run.
        there: How many had an answer before.
        left_out: How many were not taken, by the reason.
        examples: For each reason, the id of the first.
    """

    file: str
    taken: int = 0
    there: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def leave(self, reason: str, id_: object) -> None:
        """Count a row that is not taken."""
        self.left_out[reason] += 1
        self.examples.setdefault(reason, str(id_))

    def __str__(self) -> str:
        parts = [f"{self.taken:,} taken"]
        parts += [f"{self.there:,} there already"] if self.there else []
        parts += [
            f"{number:,} left out: {reason} ({one_line(self.examples[reason])})"
            for reason, number in self.left_out.items()
        ]
        return f"{one_line(self.file)}: {'; '.join(parts)}"


def import_rows(
    rows: Iterable[Mapping[str, Any]],
    name: str,
    target: Target,
    source: str | None = None,
    before: Callable[[], None] = lambda: None,
) -> Imported:
    """Put the answers of rows into a run. If there are none, nothing is touched.

    Args:
        rows: The rows.
        name: The name of their file.
        target: Where they go.
        source: Where they come from: noted in the run, as taken over.
        before: Called when it is certain that there are some.

    Raises:
        JournalError: The run cannot be written to.
    """
    report = Imported(name)
    matched = list(_matched(rows, target, report))
    if not matched:
        return report
    before()
    with Journal(target.run) as journal:
        column = journal.column(WORKFLOW)
        parts = dict(target.workflow.fingerprint)
        whole = digest(parts)
        chosen: dict[str, tuple[WorkItem, Mapping[str, Any]]] = {}
        for asked, row in matched:
            key = asked.key(whole)
            if key in column:
                report.there += 1
            else:
                chosen[key] = (asked, row)
        report.taken = len(chosen)
        run_file = RunFile.load(journal.layout)
        if chosen:
            # A later session asks by this whether the workflow is still the same.
            run_file.functions.setdefault(whole, parts)
            run_file.steps.setdefault(WORKFLOW, StepIdentity(whole))
            run_file.write(journal)
            if not journal.layout.items.exists():  # of a run that goes on, a session writes it
                contents = WorkItems(target.items, target.trials, target.workflow).contents
                write_items(journal.layout, target.items, contents, {})
            asyncio.run(_append(column, chosen, name, target))
        if source is not None:
            run_file.imported.append(source)
            run_file.write(journal)
    return report


def _matched(
    rows: Iterable[Mapping[str, Any]], target: Target, report: Imported
) -> Iterable[tuple[WorkItem, Mapping[str, Any]]]:
    by_id: dict[str, WorkItem] = {}
    for one in WorkItems(target.items, target.trials, target.workflow):
        by_id[f"{one.item.id}_rep{one.trial}"] = one
        if one.trial == 0:
            by_id.setdefault(one.item.id, one)
    numbered = [(_as_number(id_), one) for id_, one in by_id.items()]
    by_number = {number: one for number, one in numbered if number is not None}
    answer = target.structure.generated_answer
    for row in rows:
        # A file of ours has its own ids under `id`, one of the toolkit's under the id column.
        ids = [str(row[name]) for name in ("id", target.id) if row.get(name) is not None]
        known = [by_id[one] for one in ids if one in by_id]
        # The toolkit reads "001" as a number, and writes 1.
        known = known or [by_number[n] for one in ids if (n := _as_number(one)) in by_number]
        same = [one for one in known if one.item.input == row.get(target.question)]
        if not same:
            reason = OTHER_INPUT if known else NO_ITEM if ids else NO_ID
            report.leave(reason, ids[0] if ids else "?")
        elif not is_answer(_first(row, answer, ANSWER)):
            report.leave(NO_ANSWER, ids[0])
        else:
            yield same[0], row


def _as_number(id_: str) -> tuple[float, str] | None:
    """Return the number that an id may be read as, and which repetition it is of."""
    whole, mark, rep = id_.rpartition("_rep")
    whole, rep = (whole, rep) if mark and rep.isdigit() else (id_, "")
    try:
        return float(whole), rep
    except ValueError:
        return None


def _first(row: Mapping[str, Any], *names: str) -> Any:
    return next((row[name] for name in names if name in row), None)


async def _append(
    column: Column,
    chosen: Mapping[str, tuple[WorkItem, Mapping[str, Any]]],
    name: str,
    target: Target,
) -> None:
    mask, columns = by_environment().certain, target.structure
    waiting = []
    for key, (asked, row) in chosen.items():
        steps = _first(row, columns.trajectory, TRACE)
        kept = kept_events(trace_of(steps), target.trace_filter)
        answer = _first(row, columns.generated_answer, ANSWER)
        record = kept_form(answer_record(asked.item.id, asked.item.row, answer, kept))
        digests = digests_of(record[ANSWER], record[TRACE])
        record, said = masked_record(mask, record, (ANSWER, TRACE))
        cell = Cell(WORKFLOW, asked.item.id, asked.trial, key)
        facts = {"imported": name, **digests, **said}
        waiting.append(column.append(Outcome(cell, record=record, attempts=0, facts=facts)))
        if len(waiting) == _CHUNK:
            await asyncio.gather(*waiting)
            waiting.clear()
    await asyncio.gather(*waiting)
