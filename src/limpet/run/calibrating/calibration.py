"""How far does a judge agree with people, and what would its mean be if people had judged?"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from limpet import stats
from limpet.errors import LimpetError
from limpet.journal.lines import timestamp
from limpet.run.calibrating.corrected import Corrected, OfDraw, digest_of, fingerprint_of
from limpet.run.calibrating.judged import Judged, score_named
from limpet.run.calibrating.label_values import LabelValues, SortedLabels, choices_of, scale_of
from limpet.run.calibrating.labels import LabelsLog, Said, counting, read_labels
from limpet.run.calibrating.sampling import KeptCalibration, Labelled, PeopleFile
from limpet.run.results.score_words import ScoreName
from limpet.text import count, one_line

if TYPE_CHECKING:
    from limpet.run.reading.run_results import RunResults
    from limpet.stats import Kappa


# ---- How often do a judge and people agree, and where not? --------------------------------------

_MOST_KINDS = 10
"""With more distinct values, scores are measurements, and equality means little."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often a judge and people agree.

    Attributes:
        mean: The share of the answers on which they agree.
        low: The lower end of its 95% interval.
        high: The upper end.
        n: How many answers both judged.
        same: On how many they agree.
        kappa: Cohen's kappa, the agreement beyond chance; None: it is not defined.
        confusion: By the judge's verdict, how often people give each verdict.
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
    """An answer on which a judge and people disagree.

    Attributes:
        id: The item's id.
        trial: The trial.
        input: The input.
        output: The answer.
        judge: What the judge says.
        reason: The judge's reason; empty: it gives none.
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
class JudgeComparison:
    """Compares the verdicts of a judge and people.

    Attributes:
        judged: What the judge said.
        values: What labels mean.
    """

    judged: Judged
    values: LabelValues

    def _words(self, labels: Sequence[Labelled]) -> Callable[[float | None, str], str]:
        """Return a function that writes verdicts, so that equal ones look equal."""
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
        """Return how often both agree; None: there are too many distinct values."""
        pairs = self._pairs(labels)
        if len({word for pair in pairs for word in pair}) > _MOST_KINDS:
            return None
        judge, people = [list(said) for said in zip(*pairs, strict=True)]
        same = sum(one == other for one, other in pairs)
        share = stats.proportion(same, len(pairs))
        try:
            kappa: Kappa | None = stats.kappa(judge, people)
        except LimpetError:  # all verdicts are equal: agreement by chance is certain
            kappa = None
        confusion = {
            one: dict(Counter(other for first, other in pairs if first == one))
            for one in sorted(set(judge))
        }
        return Agreement(share.mean, share.low, share.high, len(pairs), same, kappa, confusion)

    def difference(self, labels: Sequence[Labelled]) -> float | None:
        """Return how far their means are apart; None: labels have no values."""
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
                reason = (cell.score or {}).get("explanation")
                words = reason if isinstance(reason, str) else ""
                item = cell.item
                one_of = Disagreement(
                    one.id, one.trial, item.input, item.output, judge, words, people
                )
                found.append((-(self._gap(one) or 0.0), len(found), one_of))
        return [one_of for *_, one_of in sorted(found, key=lambda each: each[:2])]


# ---- How far does a judge agree with people, and what would its mean be if people had judged?

_LABELLING = "draw answers with limpet sample RUN --n 200 -o humans.csv"


@dataclass(frozen=True, slots=True)
class Calibration:
    """A judge compared with people.

    Attributes:
        score: The name of the score.
        labelled: How many answers have a label that could be compared.
        drawn: How many of these come from a recorded draw.
        agreement: How often both agree, on drawn answers if there are any; None: there are too
            many distinct values.
        others: The agreement on labelled answers that were not drawn, if there are drawn ones.
        difference: How far their means are apart; None: labels have no values.
        corrected: The judge's mean, corrected by the labels; None: see the remarks.
        disagreements: Where they disagree, the largest differences first.
        remarks: What was left out and why, a sentence each.
    """

    score: str
    labelled: int
    drawn: int
    agreement: Agreement | None
    others: Agreement | None
    difference: float | None
    corrected: Corrected | None
    disagreements: Sequence[Disagreement]
    remarks: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return asdict(self)


def calibrate(
    reader: "RunResults", name: str, labels: Any = None, *, label_column: str | None = None
) -> Calibration:
    """Compare the scores of a judge with people's labels, and keep the labels in the run.

    Args:
        reader: Reads the run, which may be running.
        name: The evaluator; for one of several scores, like `judge.quality`.
        labels: The labels: a file of `limpet sample` that was filled in, any other table with the
            columns `id` and `label`, a list of these, rows, or a DataFrame. None: the run's
            `labels.jsonl`.
        label_column: The column with the labels; None: `label`.

    Raises:
        LimpetError: The labels cannot be read or used. The message says where and why.
    """
    score = score_named(name, reader)
    with PeopleFile.changing(reader.layout) as people:
        remarks: list[str] = []
        said = _all_labels(reader, labels, label_column, score, remarks)
        sorted_out = SortedLabels(reader, said, people.draws, remarks)
        judged = Judged(reader, score, set(sorted_out.by_answer))
        fingerprint = fingerprint_of(reader, score.evaluator)
        scale = scale_of(reader, score.evaluator, judged.values.values())
        choices = choices_of(reader.layout, score.evaluator, fingerprint)
        values = LabelValues(judged, scale.range, choices)
        kept = sorted_out.usable(judged, values)
        of_draw = OfDraw(judged, scale, kept, people.draws)
        corrected = _corrected(of_draw, remarks)
        compared = JudgeComparison(judged, values)
        drawn = set(of_draw.labels)
        others = [one for one in kept if one not in drawn]
        known = asdict(corrected) if corrected else {}
        people.calibrations[str(score)] = KeptCalibration(
            timestamp(),
            fingerprint,
            len(people.draws),
            kept,
            digest_of(reader.inputs(), known),
            known,
        )
    return Calibration(
        str(score),
        len(kept),
        len(drawn),
        compared.agreement(of_draw.labels or others),
        compared.agreement(others) if drawn and others else None,
        compared.difference(of_draw.labels or others),
        corrected,
        compared.disagreements(kept),
        remarks,
    )


def _all_labels(
    reader: "RunResults", labels: Any, column: str | None, score: ScoreName, remarks: list[str]
) -> list[Said]:
    names = (score.evaluator, str(score))
    if labels is None:
        return _labels_of_page(reader, names, remarks)
    is_several = isinstance(labels, (list, tuple)) and all(
        isinstance(one, (str, os.PathLike)) for one in labels
    )
    said: list[Said] = []
    for source in labels if is_several and labels else [labels]:
        said += read_labels(source, column=column, names=names)
    return said


def _labels_of_page(reader: "RunResults", names: Sequence[str], remarks: list[str]) -> list[Said]:
    log = LabelsLog(reader.layout)
    log.refresh()
    remarks += filter(None, [log.remark])
    said = counting(one for one in log.said if not one.evaluator or one.evaluator in names)
    if not said:
        about = f" of {one_line(names[-1])}" if log.said else ""
        raise LimpetError(
            f"{one_line(str(reader.path))}: there are no labels{about} in this run",
            hint=f"{_LABELLING}; label them in limpet view, or in the file, and name it: --labels",
        )
    return said


def _corrected(of_draw: OfDraw, remarks: list[str]) -> Corrected | None:
    """Return the corrected mean, or add a remark why there is none."""
    if of_draw.late:
        labels = count(of_draw.late, "drawn answer was", "drawn answers were")
        remarks.append(f"{labels} labelled with the scores in view: not in the corrected mean")
    if of_draw.skipped:
        rows = count(of_draw.skipped, "drawn answer has", "drawn answers have")
        remarks.append(
            f"{rows} no usable label, though later ones do: the corrected mean assumes that "
            "they are like the others"
        )
    try:
        corrected = of_draw.corrected()
    except LimpetError as error:
        remarks.append(str(error))
        return None
    if without := len(of_draw.labels) - corrected.n_labelled:
        labels = count(without, "label has", "labels have")
        remarks.append(f"{labels} no value from people or the judge: not in the corrected mean")
    if corrected.newer:
        remarks.append(
            f"{count(corrected.newer, 'answer is', 'answers are')} newer than the draw, and not in "
            "the corrected mean: draw again to include them"
        )
    return corrected
