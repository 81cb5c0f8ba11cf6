"""Which steps of which items were asked to run again, and are there such?"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from limpet.datasets.choosing import Selection
from limpet.errors import LimpetError
from limpet.run.executing.cells import WORKFLOW
from limpet.text import did_you_mean, one_line
from limpet.types import Item

_MOST_IDS = 20_000


def forced(
    told: Mapping[str, Any], evaluators: Sequence[str], items: Sequence[Item], selection: Selection
) -> dict[str, Any]:
    """Return `redo` and `redo_items` as a `Request` has them.

    Args:
        told: What the caller said: `redo` (True, or names of steps), `redo_items` (ids).
        evaluators: The names of the evaluators.
        items: Every item of the dataset.
        selection: Which of them the session is about.

    Raises:
        TypeError: One of them has the wrong type.
        LimpetError: There is no such step or item, or it is none of those that are selected.
    """
    steps, ids = _steps(told.get("redo"), evaluators), told.get("redo_items")
    if ids is None:
        if WORKFLOW in steps and told.get("on_change") == "keep":
            raise ValueError('redo and on_change="keep": all of it runs again, so nothing is kept')
        return {"redo": steps, "redo_items": None}
    if isinstance(ids, str) or not isinstance(ids, Sequence) or not ids:
        raise TypeError(f"redo_items={ids!r}: must be a list of ids")
    wanted = frozenset(map(str, ids))
    _check_ids(wanted, items, selection)
    return {"redo": steps or frozenset({WORKFLOW}), "redo_items": wanted}


def _steps(redo: Any, evaluators: Sequence[str]) -> frozenset[str]:
    if redo is None or isinstance(redo, bool):
        return frozenset({WORKFLOW} if redo else ())
    if isinstance(redo, str) or not isinstance(redo, Sequence):
        raise TypeError(f'redo={redo!r}: must be True or a list of steps, such as ["workflow"]')
    known = [WORKFLOW, *evaluators]
    for name in redo:
        if name not in known:
            raise LimpetError(
                f"there is no step {one_line(str(name))!r} to run again",
                hint=_nearest(str(name), known) or f"there is {', '.join(known)}",
            )
    return frozenset(redo)


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
