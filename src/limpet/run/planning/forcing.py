"""Which steps of which items were asked to run again, and are there such?"""

from collections.abc import Iterable, Sequence
from itertools import islice

from limpet.datasets.choosing import Selection
from limpet.errors import LimpetError
from limpet.run.executing.pipeline import WORKFLOW
from limpet.run.options import Redo
from limpet.run.planning.code_change import OnChange
from limpet.text import did_you_mean, one_line
from limpet.types import Item

_MOST_IDS = 20_000


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
