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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from limpet.errors import JournalError
from limpet.journal.column import ColumnReader
from limpet.journal.files import read_whole, replace_file
from limpet.journal.layout import Layout


@dataclass(frozen=True, slots=True)
class Redo:
    """One forced redo.

    Attributes:
        generation: What its records have; 0: it has not begun.
        steps: The workflow, evaluators, or both.
        items: The ids of the items; None: all.
        tried: Whether every cell that is still to do has failed in it.
        versions: The fingerprint of each step when it was asked for.
    """

    generation: int
    steps: frozenset[str]
    items: frozenset[str] | None = None
    tried: bool = False
    versions: tuple[tuple[str, str], ...] = ()

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
        plain |= {"versions": dict(self.versions)}
        return plain | ({"tried": True} if self.tried else {})


class Redos:
    """What is still to be run again, whatever is there.

    Args:
        about: What `run.json` says: the forced redos that are not done.
        redone: By step and key, the generation of records that were made anew, and must be there.
    """

    def __init__(
        self, about: Mapping[str, Any], redone: Mapping[str, Mapping[str, int]] | None = None
    ) -> None:
        self.noted = _redos_in(about.get("redo"))
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


def begin_redo(about: dict[str, Any], wanted: Redo | None, highest: int) -> Redos:
    """Note a redo that is asked for, unless it is one that was interrupted and now goes on.

    Args:
        about: What `run.json` says; brought up to date.
        wanted: What is asked for; None: nothing but what is noted.
        highest: The highest generation of any record.
    """
    noted = Redos(about).noted
    if wanted is not None:
        what = (wanted.steps, wanted.items, wanted.versions)
        same = [one for one in noted if (one.steps, one.items, one.versions) == what]
        if not same or same[-1].tried:
            generation = 1 + max(highest, _number(about.get("generation")))
            about["generation"] = generation
            others = [one for one in noted if not one.is_within(wanted)]
            noted = [*others, replace(wanted, generation=generation)]
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
    still = [
        replace(one, tried=all(error is not None for error in errors))
        for one, errors in left.items()
        if errors
    ]
    _note(about, still)


def _note(about: dict[str, Any], redos: Sequence[Redo]) -> None:
    about["redo"] = [one.as_plain() for one in redos]
    if not redos:
        del about["redo"]


def _redos_in(noted: Any) -> list[Redo]:
    found = map(_redo_in, noted if isinstance(noted, list) else [])
    return [one for one in found if one is not None]


def _redo_in(plain: Any) -> Redo | None:
    if not isinstance(plain, Mapping):
        return None
    steps, items, versions = plain.get("steps"), plain.get("items"), plain.get("versions")
    versions = versions if isinstance(versions, Mapping) else {}
    if not isinstance(steps, list) or not isinstance(items, (list, type(None))):
        return None
    return Redo(
        _number(plain.get("generation")),
        frozenset(map(str, steps)),
        None if items is None else frozenset(map(str, items)),
        plain.get("tried") is True,
        tuple(sorted((str(step), str(one)) for step, one in versions.items())),
    )


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


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
