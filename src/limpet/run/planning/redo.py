"""Forced redos: what runs again although it has results, and what of it is still to do.

A forced redo has a generation higher than that of any record, and is listed in `run.json` until it
is done: a cell it covers is still to do while its record has a lower generation. So an interrupted
redo resumes where it stopped, and nothing is paid twice. Until a cell is done again, its earlier
result counts. `on_change="keep"` cancels it: it is removed from `run.json`.

If a record of a finished redo is damaged or lost, the earlier record under the same key would count
again. So the keys and generations of redone records are kept beside the indexes: a cell with a
lower generation runs again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limpet.datasets.selection import Selection
from limpet.errors import JournalError, LimpetError
from limpet.journal.column import ColumnReader
from limpet.journal.files import read_whole, replace_file
from limpet.journal.layout import Layout
from limpet.json_values import dumps
from limpet.run.run_file import WORKFLOW, NotedRedo, OnChange, RunFile
from limpet.text import hint_near, one_line
from limpet.types import Item

if TYPE_CHECKING:
    from limpet.run.options import Redo

_MOST_IDS = 20_000


class Redos:
    """The forced redos that are still to do.

    Args:
        noted: The forced redos that are not done.
        redone: By step and key, the required generation of records that were made again.
    """

    def __init__(
        self, noted: Sequence[NotedRedo] = (), redone: Mapping[str, Mapping[str, int]] | None = None
    ) -> None:
        self.noted = noted
        self._redone = redone or {}

    def __bool__(self) -> bool:
        return bool(self.noted or self._redone)

    def needed(self, step: str, id_: str, key: str) -> int:
        """Return the generation that a cell's record must have; 0: any."""
        if not self:
            return 0
        forced = (redo.generation for redo in self.noted if redo.covers(step, id_))
        return max(self._redone.get(step, {}).get(key, 0), *forced, 0)

    def any_needed(self, step: str) -> int | None:
        """Return the generation that every item of a step must have; None: it depends."""
        covering = [redo for redo in self.noted if step in redo.steps]
        if self._redone.get(step) or any(redo.items is not None for redo in covering):
            return None
        return max((redo.generation for redo in covering), default=0)


def cancel_redos(run_file: RunFile, wanted: NotedRedo | None) -> bool:
    """Remove the redos that are not done, except one that `wanted` resumes.

    What they have made again counts; for the rest, the earlier results do.

    Returns:
        Whether there were any.
    """
    before = run_file.redo
    run_file.redo = [redo for redo in before if wanted is not None and redo.is_same(wanted)]
    return len(run_file.redo) < len(before)


def begin_redo(run_file: RunFile, wanted: NotedRedo, highest: int) -> None:
    """Record a new redo, unless it resumes one that was interrupted.

    Its generation is above `highest`, the highest of any record.
    """
    same = [redo for redo in run_file.redo if redo.is_same(wanted)]
    if not same or same[-1].tried:
        run_file.generation = 1 + max(highest, run_file.generation)
        others = [redo for redo in run_file.redo if not redo.is_within(wanted)]
        run_file.redo = [*others, replace(wanted, generation=run_file.generation)]


def end_redo(run_file: RunFile, pending: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Remove redos that are done, and mark those whose remaining cells all failed.

    Args:
        run_file: The run file to update.
        pending: The ids of items with steps still to run again, and by step the error, if any.
    """
    errors: list[list[Any]] = [[] for _ in run_file.redo]
    redos = list(zip(run_file.redo, errors, strict=True))
    for id_, steps in pending if redos else ():
        for step, error in steps.items():
            for redo, failures in redos:
                if redo.covers(step, id_):
                    failures.append(error)
    run_file.redo = [
        replace(redo, tried=all(error is not None for error in failures))
        for redo, failures in redos
        if failures
    ]


def note_redone(layout: Layout, columns: Mapping[str, ColumnReader]) -> None:
    """Record which records were made again, so that the next session notices a lost one."""
    redone = {step: column.generations for step, column in columns.items()}
    redone = {step: keys for step, keys in redone.items() if keys}
    if redone:
        replace_file(layout.redone, [dumps(redone).encode()])


def note_outdated(layout: Layout, needed: Mapping[str, Mapping[str, int]]) -> None:
    """Record which records must be made again because a file changed, for readers."""
    if needed:
        replace_file(layout.outdated, [dumps(needed).encode()])
    else:
        layout.outdated.unlink(missing_ok=True)


def read_redone(layout: Layout) -> dict[str, dict[str, int]]:
    """Return the required generations of records that were made again."""
    return _needed_in(layout.redone)


def read_outdated(layout: Layout) -> dict[str, dict[str, int]]:
    """Return the required generations of records whose files changed."""
    return _needed_in(layout.outdated)


def _needed_in(path: Path) -> dict[str, dict[str, int]]:
    """Return the required generations by step and key; empty if the file is unreadable."""
    try:
        redone = json.loads(read_whole(path))
        return {
            str(step): {str(k): int(n) for k, n in keys.items()} for step, keys in redone.items()
        }
    except (OSError, ValueError, TypeError, AttributeError, JournalError):
        return {}


# ---- what the caller asks for --------------------------------------------------------------------


def forced(
    redo: "Redo | None",
    on_change: OnChange | None,
    evaluators: Sequence[str],
    items: Sequence[Item],
    selection: Selection,
) -> tuple[frozenset[str], frozenset[str] | None]:
    """Return the steps that the `redo` option runs again, and the ids of the items; None: all.

    Raises:
        ValueError: `redo` and `on_change="keep"` contradict each other.
        LimpetError: A step or item does not exist, or is not selected.
    """
    if redo is None:
        return frozenset(), None
    steps = frozenset({WORKFLOW}) if redo.steps is None else _steps(redo.steps, evaluators)
    if redo.items is None:
        if WORKFLOW in steps and on_change == "keep":
            raise ValueError('redo and on_change="keep": everything runs again, nothing is kept')
        return steps, None
    wanted = frozenset(map(str, redo.items))
    _check_ids(wanted, items, selection)
    return steps, wanted


def _steps(names: Sequence[str], evaluators: Sequence[str]) -> frozenset[str]:
    known = [WORKFLOW, *evaluators]
    for name in names:
        if name not in known:
            raise LimpetError(
                f"cannot run step {one_line(str(name))!r} again: it does not exist",
                hint=hint_near(str(name), known) or f"the steps are {', '.join(known)}",
            )
    return frozenset(names)


def _check_ids(wanted: frozenset[str], items: Sequence[Item], selection: Selection) -> None:
    known = {item.id for item in items}
    for id_ in sorted(wanted - known):
        raise LimpetError(
            f"cannot run item {one_line(id_)!r} again: it does not exist",
            hint=hint_near(id_, islice(known, _MOST_IDS)) or "it must be an id in the dataset",
        )
    places = selection.places(items)
    if outside := sorted(wanted - {items[place].id for place in places}):
        raise LimpetError(
            f"cannot run item {one_line(outside[0])!r} again: it is not among the "
            f"{len(places):,} selected items",
            hint="remove the limit or the sample",
        )
