"""What is to be run again whatever is there, and which of that is still to be done?

A forced redo has a generation, higher than that of any record there is, and stands in `run.json`
until it is done: a cell it covers is still to do as long as its record is of a lower generation. So
an interrupted redo goes on where it stopped, however it was interrupted, and nothing is paid twice.
Until a cell is done anew, its earlier result stands and counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Redo:
    """One forced redo.

    Attributes:
        generation: What its records have; 0: it has not begun.
        steps: The workflow, evaluators, or both.
        items: The ids of the items; None: all.
        tried: Whether every cell that is still to do has failed in it.
    """

    generation: int
    steps: frozenset[str]
    items: frozenset[str] | None = None
    tried: bool = False

    def covers(self, step: str, id_: str) -> bool:
        """Tell whether it asks for a step of an item."""
        return step in self.steps and (self.items is None or id_ in self.items)

    def is_within(self, other: "Redo") -> bool:
        """Tell whether another redo asks for all that this one does."""
        is_all = other.items is None or (self.items is not None and self.items <= other.items)
        return is_all and self.steps <= other.steps

    def as_plain(self) -> dict[str, Any]:
        """Return it as it stands in `run.json`."""
        items = None if self.items is None else sorted(self.items)
        plain = {"generation": self.generation, "steps": sorted(self.steps), "items": items}
        return plain | ({"tried": True} if self.tried else {})


class Redos:
    """The forced redos that are not done.

    Args:
        about: What `run.json` says.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        noted = about.get("redo")
        found = map(_redo_in, noted if isinstance(noted, list) else [])
        self.noted: list[Redo] = [one for one in found if one is not None]

    def __bool__(self) -> bool:
        return bool(self.noted)

    def needed(self, step: str, id_: str) -> int:
        """Return which generation a cell's record must have; 0: any will do."""
        if not self.noted:
            return 0
        return max((one.generation for one in self.noted if one.covers(step, id_)), default=0)

    def any_needed(self, step: str) -> int | None:
        """Return what is needed of every item of a step; None: it depends on the item."""
        covering = [one for one in self.noted if step in one.steps]
        if any(one.items is not None for one in covering):
            return None
        return max((one.generation for one in covering), default=0)


def begin_redo(about: dict[str, Any], wanted: Redo | None, highest: int) -> Redos:
    """Note a redo that is asked for, unless it is one that was interrupted and now goes on.

    Args:
        about: What `run.json` says; brought up to date.
        wanted: What is asked for; None: nothing but what is noted.
        highest: The highest generation of any record.
    """
    noted = Redos(about).noted
    if wanted is not None:
        same = [one for one in noted if (one.steps, one.items) == (wanted.steps, wanted.items)]
        if not same or same[-1].tried:
            generation = 1 + max(highest, _number(about.get("generation")))
            about["generation"] = generation
            others = [one for one in noted if not one.is_within(wanted)]
            noted = [*others, Redo(generation, wanted.steps, wanted.items)]
    _note(about, noted)
    return Redos(about)


def end_redo(about: dict[str, Any], pending: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Take off the note what is done, and mark what failed throughout.

    Args:
        about: What `run.json` says; brought up to date.
        pending: The ids of items of which steps are still to be run again, without the trial, and
            by step why that failed if it did.
    """
    left: dict[Redo, list[Any]] = {one: [] for one in Redos(about).noted}
    if not left:
        return
    for id_, steps in pending:
        for step, error in steps.items():
            for one, errors in left.items():
                if one.covers(step, id_):
                    errors.append(error)
    _note(
        about,
        [
            Redo(one.generation, one.steps, one.items, all(error is not None for error in errors))
            for one, errors in left.items()
            if errors
        ],
    )


def _note(about: dict[str, Any], redos: Sequence[Redo]) -> None:
    about["redo"] = [one.as_plain() for one in redos]
    if not redos:
        del about["redo"]


def _redo_in(plain: Any) -> Redo | None:
    if not isinstance(plain, Mapping):
        return None
    steps, items = plain.get("steps"), plain.get("items")
    if not isinstance(steps, list) or not isinstance(items, (list, type(None))):
        return None
    return Redo(
        _number(plain.get("generation")),
        frozenset(map(str, steps)),
        None if items is None else frozenset(map(str, items)),
        plain.get("tried") is True,
    )


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
