"""When does a forced redo begin and end, and what does the caller want redone?

A forced redo has a generation higher than that of any record, and is listed in `run.json` until it
is done. `on_change="keep"` cancels it and removes it from `run.json`. `run/planning/counting.py`
decides which of its cells are still to do, and which records count until then.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from limpet.datasets.selection import Selection
from limpet.errors import LimpetError
from limpet.run.run_file import WORKFLOW, OnChange, PendingRedo, RunFile
from limpet.shapes import Item
from limpet.text import hint_near, one_line

if TYPE_CHECKING:
    from limpet.run.options import Redo

_MOST_IDS = 20_000


def cancel_redos(run_file: RunFile, wanted: PendingRedo | None) -> bool:
    """Remove unfinished redos, except one that `wanted` resumes.

    Cells that they have redone count; for the rest, the earlier results count.

    Returns:
        Whether there were any.
    """
    before = run_file.redo
    run_file.redo = [redo for redo in before if wanted is not None and redo.is_same(wanted)]
    return len(run_file.redo) < len(before)


def begin_redo(run_file: RunFile, wanted: PendingRedo, highest: int) -> None:
    """Record a new redo, unless it resumes one that was interrupted.

    Its generation is above `highest`, the highest of any record.
    """
    same = [redo for redo in run_file.redo if redo.is_same(wanted)]
    if not same or same[-1].tried:
        run_file.generation = 1 + max(highest, run_file.generation)
        others = [redo for redo in run_file.redo if not redo.is_within(wanted)]
        run_file.redo = [*others, replace(wanted, generation=run_file.generation)]


def end_redo(run_file: RunFile, pending: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Remove finished redos, and mark those whose remaining cells all failed.

    Args:
        run_file: The run file to update.
        pending: The ids of items with steps still to redo, and by step the error, if any.
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


# ---- what the caller wants redone ----------------------------------------------------------------


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
            raise ValueError('redo and on_change="keep" cannot be combined: redo keeps nothing')
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
    positions = selection.positions(items)
    if outside := sorted(wanted - {items[position].id for position in positions}):
        raise LimpetError(
            f"cannot run item {one_line(outside[0])!r} again: it is not among the "
            f"{len(positions):,} selected items",
            hint="remove the limit or the sample",
        )
