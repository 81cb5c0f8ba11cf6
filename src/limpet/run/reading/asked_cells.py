"""Which answer counts for each item in each trial?

An item's identity, the workflow's fingerprint and the trial give the key of its answer. Where an
earlier answer is kept by decision, `items.jsonl` says so. Only where `items.jsonl` or `run.json` is
missing, the latest answer to each item counts.
"""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from limpet.fingerprints.keys import OutputKeys
from limpet.run.planning.items_file import EARLIER_FILES
from limpet.run.reading.facts_reader import FactsReader
from limpet.run.reading.failures_reader import FailuresReader
from limpet.run.reading.items_asked import ItemsFile


class AskedCell(NamedTuple):
    """An item in a trial, and the answer that counts for it.

    Attributes:
        place: The item's place in the dataset; None: not known.
        trial: The trial, from 0.
        key: The key of an answer by the current workflow.
        counting: The key of the answer that counts.
        version: The earlier version that gave it; empty: the current one.
        identity: The item's identity, for the keys of its scores; empty: not known.
        id: The item's id, where its place is not known.
    """

    place: int | None
    trial: int
    key: bytes
    counting: bytes
    version: str = ""
    identity: bytes = b""
    id: str = ""


@dataclass(slots=True)
class AskedCells:
    """The cells of the step that answers.

    Attributes:
        step: The step that answers: the workflow, or a map.
        column: Its column.
        failures: The failures of all steps.
        file: `items.jsonl`; None: it is missing or damaged.
        fingerprint: The workflow's fingerprint; empty: not known.
        places: The places of the items that the run reports on.
        trials: The number of trials.
        outdated: By key, the generation of an answer made from the files as they are now.
    """

    step: str
    column: FactsReader
    failures: FailuresReader
    file: ItemsFile | None
    fingerprint: str
    places: Sequence[int]
    trials: int
    outdated: Mapping[str, int] = field(default_factory=dict)
    _latest: list[AskedCell] | None = field(default=None)

    @property
    def have_keys(self) -> bool:
        """Whether answers are found by their keys."""
        return self.file is not None and bool(self.fingerprint)

    @property
    def are_fixed(self) -> bool:
        """Whether the answers that count depend on nothing but what is asked."""
        is_plain = self.file is not None and not self.file.has_standing and not self.outdated
        return self.have_keys and is_plain

    def __len__(self) -> int:
        return len(self.places) * self.trials if self.have_keys else len(self._latest_of_each())

    def cells(self, only: Container[int] | None = None) -> Iterator[AskedCell]:
        """Yield each item in each trial, in the order of the dataset, trial by trial.

        Args:
            only: The places of the items to yield; None: all.
        """
        if self.file is None or not self.fingerprint:
            found = self._latest_of_each()
            yield from (cell for cell in found if only is None or cell.place in only)
            return
        for trial in range(self.trials):
            for place in self.places:
                if only is None or place in only:
                    yield self._cell(self.file, place, trial)

    def counting_keys(self) -> list[bytes]:
        """Return the key of the answer that counts for each cell."""
        if self.file is None or not self.are_fixed:
            return [cell.counting for cell in self.cells()]
        keys: list[bytes] = []
        for trial in range(self.trials):
            keys += self.file.contents.keys(self.fingerprint, trial, self.places)
        return keys

    def offsets(self) -> list[int]:
        """Return where the answer of each cell begins in its column; -1 if there is none."""
        return [self.column.offset(key) for key in self.counting_keys()]

    def positions(self) -> list[int]:
        """Return for each cell which item it is a trial of, from 0."""
        if self.file is not None:
            return [number % len(self.places) for number in range(len(self))]
        known: dict[str, int] = {}
        return [known.setdefault(cell.id, len(known)) for cell in self._latest_of_each()]

    def numbers(self, wanted: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the number of the cell of each id and trial; what there is not is left out."""
        found: dict[tuple[str, int], int] = {}
        if self.file is None:
            cells = enumerate(self._latest_of_each())
            found = {(cell.id, cell.trial): number for number, cell in cells}
        else:
            ids, length = {id_ for id_, _ in wanted}, len(self.places)
            for at, place in enumerate(self.places):
                if (id_ := self.file.item(place).id) in ids:
                    cells_of_id = range(at, len(self), length)
                    found |= {(id_, trial): number for trial, number in enumerate(cells_of_id)}
        return {place: found[place] for place in wanted if place in found}

    def __getitem__(self, number: int) -> AskedCell:
        if self.file is None or not self.fingerprint:
            return self._latest_of_each()[number]
        trial, at = divmod(number, len(self.places))
        return self._cell(self.file, self.places[at], trial)

    def _cell(self, file: ItemsFile, place: int, trial: int) -> AskedCell:
        identity = file.contents.identity(place)
        key = OutputKeys(self.fingerprint, trial).key(identity)
        cell = AskedCell(place, trial, key, key, "", identity)
        cell = self._settled(cell, file) if file.has_standing else cell
        if self.outdated and not cell.version and self.is_outdated(cell.counting):
            return cell._replace(version=EARLIER_FILES)
        return cell

    def earlier_on_disk(self, versions: Collection[str]) -> int:
        """Return how many cells have no answer that counts, but one of these versions."""
        if not self.have_keys:
            return 0
        lacking = [cell for cell in self.cells() if not self.column.has(cell.counting)]
        return sum(
            any(self.column.has(OutputKeys(one, cell.trial).key(cell.identity)) for one in versions)
            for cell in lacking
        )

    def is_outdated(self, key: bytes) -> bool:
        """Return whether an answer was made from files that have changed since."""
        needed = self.outdated.get(key.hex()) if self.outdated else None
        return needed is not None and self.column.generation(key) < needed

    def _settled(self, cell: AskedCell, file: ItemsFile) -> AskedCell:
        """Return the cell with the answer that counts: an earlier one may stand in."""
        assert cell.place is not None
        standing = file.standing(cell.place, cell.trial)
        if standing is None:
            return cell
        own = self.column.generation(cell.key) if self.column.has(cell.key) else None
        cell = cell._replace(version=standing.version_shown(own))
        if not standing.counts(has_own=own is not None):
            return cell
        return cell._replace(counting=OutputKeys(cell.version, cell.trial).key(cell.identity))

    def _latest_of_each(self) -> list[AskedCell]:
        """Return the latest record of each item and trial, or its failure if there is none."""
        if self._latest is None:
            found: dict[tuple[str, int], bytes] = {}
            for key in self.column.keys():  # noqa: SIM118 - not a dict
                found[_id_and_trial(self.column.facts(key) or {})] = key
            for text, failed in self.failures.of(self.step):
                found.setdefault(_id_and_trial(failed.facts), bytes.fromhex(text))
            self._latest = list(self._in_order(found))
        return self._latest

    def _in_order(self, found: Mapping[tuple[str, int], bytes]) -> Iterator[AskedCell]:
        """Yield a cell for each item that is asked, or for each record if that is not known."""
        if self.file is None:
            for (id_, trial), key in found.items():
                yield AskedCell(None, trial, key, key, id=id_)
            return
        ids = list(self.file.ids())
        for trial in range(max((trial for _, trial in found), default=0) + 1):
            for place in self.places:
                key = found.get((ids[place], trial), b"")
                identity = self.file.contents.identity(place)
                yield AskedCell(place, trial, key, key, identity=identity)


def _id_and_trial(facts: Mapping[str, Any]) -> tuple[str, int]:
    return str(facts.get("id", "")), int(facts.get("trial", 0))
