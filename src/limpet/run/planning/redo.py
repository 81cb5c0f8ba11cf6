"""What is to be run again whatever is there, and which of that is still to be done?

A forced redo has a generation, higher than that of any record there is, and stands in `run.json`
until it is done: a cell it covers is still to do as long as its record is of a lower generation. So
an interrupted redo goes on where it stopped, however it was interrupted, and nothing is paid twice.
Until a cell is done anew, its earlier result stands and counts.

Where a record of a redo that is done gets damaged or lost, the earlier one under the same key would
come back and be taken for the answer. So the keys and generations of such records are noted beside
the indexes: below its generation, a cell runs again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from limpet.datasets.choosing import Selection
from limpet.errors import JournalError, LimpetError
from limpet.journal.column import ColumnReader
from limpet.journal.files import read_whole, replace_file
from limpet.journal.layout import Layout
from limpet.run.options import Redo
from limpet.run.run_file import WORKFLOW, NotedRedo, OnChange, RunFile
from limpet.text import did_you_mean, one_line
from limpet.types import Item

_MOST_IDS = 20_000


class Redos:
    """What is still to be run again, whatever is there.

    Args:
        noted: The forced redos that are not done.
        redone: By step and key, the generation of records that were made anew, and must be there.
    """

    def __init__(
        self, noted: Sequence[NotedRedo] = (), redone: Mapping[str, Mapping[str, int]] | None = None
    ) -> None:
        self.noted = noted
        self._redone = redone or {}

    def __bool__(self) -> bool:
        return bool(self.noted or self._redone)

    def needed(self, step: str, id_: str, key: str) -> int:
        """Return which generation a cell's record must have; 0: any will do."""
        if not self:
            return 0
        asked = (one.generation for one in self.noted if one.covers(step, id_))
        return max(self._redone.get(step, {}).get(key, 0), *asked, 0)

    def any_needed(self, step: str) -> int | None:
        """Return what is needed of every item of a step; None: it depends on the item."""
        covering = [one for one in self.noted if step in one.steps]
        if self._redone.get(step) or any(one.items is not None for one in covering):
            return None
        return max((one.generation for one in covering), default=0)


def begin_redo(run_file: RunFile, wanted: NotedRedo | None, highest: int) -> None:
    """Note a redo that is asked for, unless it is one that was interrupted and now goes on.

    Args:
        run_file: Brought up to date.
        wanted: What is asked for; None: nothing but what is noted.
        highest: The highest generation of any record.
    """
    if wanted is None:
        return
    what = (wanted.steps, wanted.items, wanted.versions)
    same = [redo for redo in run_file.redo if (redo.steps, redo.items, redo.versions) == what]
    if not same or same[-1].tried:
        run_file.generation = 1 + max(highest, run_file.generation)
        others = [redo for redo in run_file.redo if not redo.is_within(wanted)]
        run_file.redo = [*others, replace(wanted, generation=run_file.generation)]


def end_redo(run_file: RunFile, pending: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Take off the note what is done, and mark what failed throughout.

    Args:
        run_file: Brought up to date.
        pending: The ids of items of which steps are still to be run again, without the trial, and
            by step why that failed if it did.
    """
    errors: list[list[Any]] = [[] for _ in run_file.redo]
    if not errors:
        return
    for id_, steps in pending:
        for step, error in steps.items():
            for redo, found in zip(run_file.redo, errors, strict=True):
                if redo.covers(step, id_):
                    found.append(error)
    run_file.redo = [
        replace(redo, tried=all(error is not None for error in found))
        for redo, found in zip(run_file.redo, errors, strict=True)
        if found
    ]


def note_redone(layout: Layout, columns: Mapping[str, ColumnReader]) -> None:
    """Note which records were made anew, for the next session to miss one that is lost."""
    redone = {step: column.generations for step, column in columns.items()}
    redone = {step: keys for step, keys in redone.items() if keys}
    if redone:
        replace_file(layout.redone, [json.dumps(redone).encode()])


def note_outdated(layout: Layout, needed: Mapping[str, Mapping[str, int]]) -> None:
    """Note which records are to be made anew because a file changed, for those who only read."""
    if needed:
        replace_file(layout.outdated, [json.dumps(needed).encode()])
    else:
        layout.outdated.unlink(missing_ok=True)


def read_redone(layout: Layout) -> dict[str, dict[str, int]]:
    """Return which records must be there, as they were made anew before."""
    return _needed_in(layout.redone)


def read_outdated(layout: Layout) -> dict[str, dict[str, int]]:
    """Return which records must be there, beside those that `read_redone` knows."""
    return _needed_in(layout.outdated)


def _needed_in(path: Path) -> dict[str, dict[str, int]]:
    """Return by step and key which generation is needed. A hint: nothing, if it is unreadable."""
    try:
        redone = json.loads(read_whole(path))
        return {
            str(step): {str(k): int(n) for k, n in keys.items()} for step, keys in redone.items()
        }
    except (OSError, ValueError, TypeError, AttributeError, JournalError):
        return {}


# ---- what a caller asks for ----------------------------------------------------------------------


def forced(
    redo: Redo | None,
    on_change: OnChange | None,
    evaluators: Sequence[str],
    items: Sequence[Item],
    selection: Selection,
) -> tuple[frozenset[str], frozenset[str] | None]:
    """Return the steps that run again, and the ids of the items; None: all.

    Args:
        redo: What the caller said.
        on_change: What the caller said of a workflow that changed.
        evaluators: The names of the evaluators.
        items: Every item of the dataset.
        selection: Which of them the session is about.

    Raises:
        ValueError: Everything is to run again, and nothing is to change.
        LimpetError: There is no such step or item, or it is none of those that are selected.
    """
    if redo is None:
        return frozenset(), None
    steps = frozenset({WORKFLOW}) if redo.steps is None else _steps(redo.steps, evaluators)
    if redo.items is None:
        if WORKFLOW in steps and on_change == "keep":
            raise ValueError('redo and on_change="keep": all of it runs again, so nothing is kept')
        return steps, None
    wanted = frozenset(map(str, redo.items))
    _check_ids(wanted, items, selection)
    return steps, wanted


def _steps(names: Sequence[str], evaluators: Sequence[str]) -> frozenset[str]:
    known = [WORKFLOW, *evaluators]
    for name in names:
        if name not in known:
            raise LimpetError(
                f"there is no step {one_line(str(name))!r} to run again",
                hint=_nearest(str(name), known) or f"there is {', '.join(known)}",
            )
    return frozenset(names)


def _check_ids(wanted: frozenset[str], items: Sequence[Item], selection: Selection) -> None:
    known = {item.id for item in items}
    for id_ in sorted(wanted - known):
        raise LimpetError(
            f"there is no item {one_line(id_)!r} to run again",
            hint=_nearest(id_, islice(known, _MOST_IDS)) or "it must be an id of the dataset",
        )
    places = selection.places(items)
    if outside := sorted(wanted - {items[place].id for place in places}):
        raise LimpetError(
            f"the item {one_line(outside[0])!r} is to run again, and is not among the "
            f"{len(places):,} that are selected",
            hint="leave out the limit or the sample",
        )


def _nearest(name: str, known: Iterable[str]) -> str | None:
    return did_you_mean(name, known).removeprefix("; ") or None
