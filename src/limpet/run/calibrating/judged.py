"""What did a judge say: of every answer in a few numbers, of the labelled ones in full?"""

from collections.abc import Collection, Mapping
from math import fsum
from typing import TYPE_CHECKING, Any, NamedTuple

from limpet.errors import LimpetError
from limpet.run.reading.scores import outputs_of
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_words import ScoreName, no_such_score, split_name
from limpet.text import one_line

if TYPE_CHECKING:
    from limpet.run.reading.run_results import RunResults

IdAndTrial = tuple[str, int]
"""An answer: the id of its item, and the trial."""


class JudgedCell(NamedTuple):
    """What a judge said of one answer.

    Attributes:
        number: Its number among the items of the run.
        item: The item, with the answer.
        output: The digest of the answer; empty: there is none.
        score: The record of the score; None: there is none.
        error: Why there is none; None: it did not fail.
    """

    number: int
    item: ItemRecord
    output: str
    score: Mapping[str, Any] | None
    error: Mapping[str, Any] | None

    @property
    def value(self) -> float | None:
        """The value of the score; None: it has none."""
        value = None if self.score is None else self.score.get("value")
        return None if value is None else float(value)

    @property
    def label(self) -> str:
        """The label of the score; empty: it has none."""
        return "" if self.score is None else str(self.score.get("label") or "")


class Judged:
    """The scores of one evaluator.

    Args:
        reader: Reads the run.
        name: Which score.
        wanted: The answers to know in full.

    Attributes:
        cells: What it said of the wanted answers; one that the run does not have is missing.
        values: The values of all its scores, by the number of the item in the run.
        by_label: By label, the values that scores with it have.
    """

    def __init__(
        self, reader: "RunResults", name: ScoreName, wanted: Collection[IdAndTrial]
    ) -> None:
        self._name = name
        self._offsets = reader.requested.offsets()
        self._item_of = reader.requested.items_of_cells()
        numbers = reader.numbers().scores[name.evaluator]
        self._parts = {*numbers.parts, *numbers.labels}
        self._check_part()
        scores = numbers.parts.get(name.part)
        self.values: dict[int, float] = {}
        if scores is not None:
            self.values = dict(zip(scores.cells, scores.values, strict=True))
        self.by_label = {
            label: {self.values[cell] for cell in cells if cell in self.values}
            for label, cells in numbers.labels.get(name.part, {}).items()
        }
        self.cells = self._in_full(reader, wanted)

    def _in_full(
        self, reader: "RunResults", wanted: Collection[IdAndTrial]
    ) -> dict[IdAndTrial, JudgedCell]:
        numbers = reader.requested.numbers(wanted)
        cells: dict[IdAndTrial, JudgedCell] = {}
        for number, item in zip(numbers.values(), reader.items_at(numbers.values()), strict=True):
            records = self._name.records(item.scores)
            error = item.score_errors.get(self._name.evaluator)
            score = records[0] if records else None
            cells[item.id, item.trial] = JudgedCell(number, item, output_of(item), score, error)
        return cells

    @property
    def has_booleans(self) -> bool:
        """Whether its values are true and false."""
        return any(cell.score and isinstance(cell.score.get("value"), bool)
                   for cell in self.cells.values())  # fmt: skip

    def population(self, answers_at: int) -> tuple[int, list[float]]:
        """Return how many answers began before this offset, and the mean score of each item."""
        before = [0 <= offset < answers_at for offset in self._offsets]
        by_item: dict[int, list[float]] = {}
        for cell, value in self.values.items():
            if before[cell]:
                by_item.setdefault(self._item_of[cell], []).append(value)
        # Sorted: no number depends on the order in which scores came.
        return sum(before), sorted(fsum(values) / len(values) for values in by_item.values())

    def answers(self) -> int:
        """Return how many answers there are."""
        return sum(offset >= 0 for offset in self._offsets)

    def _check_part(self) -> None:
        """Check that the evaluator gives the score that is named.

        Raises:
            LimpetError: It gives others, or none yet.
        """
        evaluator, part = self._name
        if part in self._parts:
            return
        if not self._parts:
            raise LimpetError(
                f"{one_line(evaluator)} has no score yet", hint="see how far it is: limpet status"
            )
        names = sorted(str(ScoreName(evaluator, known)) for known in self._parts)
        if part is None:
            raise LimpetError(
                f"{one_line(evaluator)} gives several scores",
                hint=f"name one of them: {', '.join(map(one_line, names))}",
            )
        raise no_such_score(str(self._name), names)


def score_named(name: str, reader: "RunResults") -> ScoreName:
    """Return the score that a name means.

    Raises:
        LimpetError: The run has no such evaluator.
    """
    found = split_name(name, reader.evaluators)
    if found is None:
        raise no_such_score(name, reader.evaluators)
    return found


def output_of(item: ItemRecord) -> str:
    """Return the digest of an item's answer; empty if it has none."""
    digests = () if item.entry is None else outputs_of(item.entry)
    return digests[0] if digests else ""
