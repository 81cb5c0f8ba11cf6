"""Which items does a session work on, and of which does the run report?

`limit` and `sample` select what one session works on. The run reports of every item that any
session was asked for: so a limit on a finished run changes nothing of what it says, and a first try
with three items says nothing of the others.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from limpet.datasets.choosing import Selection
from limpet.types import Item


def note_selection(about: dict[str, Any], selection: Selection) -> None:
    """Write down that a session was asked for these items, among what sessions before it were."""
    plain = _plain(selection)
    known: list[Any] = about.get("selections", [])
    if not plain or {} in known:
        about["selections"] = [{}]  # all of them, whatever else
    elif plain not in known:
        about["selections"] = [*known, plain]


def reported_places(about: Mapping[str, Any], items: Sequence[Item]) -> Sequence[int]:
    """Return the places of the items that the run reports of, in the order of the dataset."""
    selections = [_selection(one) for one in about["selections"]]
    if any(one == Selection() for one in selections):
        return range(len(items))
    return sorted({place for one in selections for place in one.places(items)})


def _plain(selection: Selection) -> dict[str, int]:
    plain = {"sample": selection.sample, "limit": selection.limit}
    told = {name: number for name, number in plain.items() if number is not None}
    return told | ({"seed": selection.seed} if "sample" in told else {})


def _selection(plain: Any) -> Selection:
    """Read a selection. Of what nobody could have written, all items are meant."""
    named = plain if isinstance(plain, dict) else {}
    if not all(name in ("sample", "limit", "seed") and type(n) is int for name, n in named.items()):
        return Selection()
    return Selection(named.get("sample"), named.get("limit"), named.get("seed", 0))
