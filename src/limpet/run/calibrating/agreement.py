"""How often do a judge and people say the same, and where not?"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from limpet import stats
from limpet.errors import LimpetError
from limpet.run.calibrating.judged import Judged
from limpet.run.calibrating.label_values import LabelValues
from limpet.run.calibrating.people_file import Labelled

if TYPE_CHECKING:
    from limpet.stats import Kappa

_MOST_KINDS = 10
"""With more different values than this, scores are measurements, and equal ones mean little."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often a judge and people say the same.

    Attributes:
        mean: The share of the answers of which they say the same.
        low: The lower end of its 95% interval.
        high: The upper end.
        n: How many answers both judged.
        same: Of how many they say the same.
        kappa: Cohen's kappa, the agreement beyond chance; None: it is not defined.
        confusion: By what the judge says, how often people say what.
    """

    mean: float
    low: float
    high: float
    n: int
    same: int
    kappa: "Kappa | None"
    confusion: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An answer of which a judge and people say different things.

    Attributes:
        id: The item's id.
        trial: The trial.
        input: The input.
        output: The answer.
        judge: What the judge says.
        reason: Why, by the judge; empty: it gives none.
        people: What people say.
    """

    id: str
    trial: int
    input: Any
    output: Any
    judge: str
    reason: str
    people: str


@dataclass
class Comparison:
    """Compares what a judge and people say.

    Attributes:
        judged: What the judge said.
        values: What labels mean.
    """

    judged: Judged
    values: LabelValues

    def _words(self, labels: Sequence[Labelled]) -> Callable[[float | None, str], str]:
        """Return how what somebody says is written, so that the same is written the same."""
        cells = [self.judged.cells[one.id, one.trial] for one in labels]
        by_label = all(one.label for one in labels) and all(cell.label for cell in cells)
        if by_label:
            return lambda _, label: label
        return lambda value, label: label if value is None else self.values.name(value)

    def _pairs(self, labels: Sequence[Labelled]) -> list[tuple[str, str]]:
        """Return what the judge and people say of each answer."""
        words = self._words(labels)
        pairs = []
        for one in labels:
            cell = self.judged.cells[one.id, one.trial]
            pairs.append((words(cell.value, cell.label), words(one.value, one.label)))
        return pairs

    def agreement(self, labels: Sequence[Labelled]) -> Agreement | None:
        """Return how often both say the same; None: there are too many different values."""
        pairs = self._pairs(labels)
        if len({word for pair in pairs for word in pair}) > _MOST_KINDS:
            return None
        judge, people = [list(said) for said in zip(*pairs, strict=True)]
        same = sum(one == other for one, other in pairs)
        share = stats.proportion(same, len(pairs))
        try:
            kappa: Kappa | None = stats.kappa(judge, people)
        except LimpetError:  # all say the same: agreement by chance is certain
            kappa = None
        confusion = {
            one: dict(Counter(other for first, other in pairs if first == one))
            for one in sorted(set(judge))
        }
        return Agreement(share.mean, share.low, share.high, len(pairs), same, kappa, confusion)

    def difference(self, labels: Sequence[Labelled]) -> float | None:
        """Return how far both are apart in the mean; None: labels have no values."""
        gaps = [gap for one in labels if (gap := self._gap(one)) is not None]
        return sum(gaps) / len(gaps) if gaps else None

    def _gap(self, one: Labelled) -> float | None:
        value = self.judged.cells[one.id, one.trial].value
        return None if value is None or one.value is None else abs(value - one.value)

    def disagreements(self, labels: Sequence[Labelled]) -> list[Disagreement]:
        """Return where they disagree, the largest differences first."""
        found: list[tuple[float, int, Disagreement]] = []
        for one, (judge, people) in zip(labels, self._pairs(labels), strict=True):
            if judge != people:
                cell = self.judged.cells[one.id, one.trial]
                reason = (cell.score or {}).get("reasoning")
                words = reason if isinstance(reason, str) else ""
                item = cell.item
                one_of = Disagreement(
                    one.id, one.trial, item.input, item.output, judge, words, people
                )
                found.append((-(self._gap(one) or 0.0), len(found), one_of))
        return [one_of for *_, one_of in sorted(found, key=lambda each: each[:2])]
