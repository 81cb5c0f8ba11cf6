"""What would the mean of a judge be if people had judged?

The labels are kept in the run, and the number is computed from the scores as they are now. Only the
labels of a draw count, because people label what stands out; and they speak for the answers that
could be drawn, not for those that came later. An answer that changed since it was labelled is left
out. If the evaluator changed, nothing is left to correct: it is to be compared with the labels
again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum
from typing import TYPE_CHECKING, Any

from limpet import stats
from limpet.errors import JournalError, LimpetError
from limpet.fingerprints.keys import digest
from limpet.json_values import dumps
from limpet.run.calibrating.judged import Judged
from limpet.run.calibrating.label_values import scale_of
from limpet.run.calibrating.sampling import (
    Draw,
    Drawn,
    KeptCalibration,
    Labelled,
    PeopleFile,
)
from limpet.run.results.score_words import ScoreName, split_name
from limpet.shapes import Scale
from limpet.text import count

if TYPE_CHECKING:
    from limpet.run.reading.run_results import RunResults

_ADDED = ("calibrated", "not_calibrated")
_CHANGED = "the evaluator changed since; run limpet calibrate again"


@dataclass(frozen=True, slots=True)
class Corrected:
    """The mean of a score, corrected by people's labels.

    Attributes:
        mean: The mean that people would have given.
        low: The lower end of its 95% interval.
        high: The upper end.
        n_labelled: How many labels it rests on.
        method: How it was computed.
        raw: The judge's own mean of the same items.
        items: How many items these are.
        newer: How many answers came after the draw, and are not in it.
    """

    mean: float
    low: float
    high: float
    n_labelled: int
    method: str
    raw: float
    items: int
    newer: int = 0


class OfDraw:
    """The labels of the draws from the same answers that have the most labels.

    Args:
        judged: What the judge said.
        scale: What its score means.
        labels: What people said.
        draws: The draws of the run.

    Attributes:
        labels: The labels of drawn answers that have a score and have not changed, and were given
            before the scores were seen.
        draw: The latest of the draws; None: no label is of a draw.
        skipped: How many drawn answers without a label are before the last one with a label: people
            are to label in the order of the file.
        late: How many drawn answers were labelled with the scores in view.
    """

    def __init__(
        self,
        judged: Judged,
        scale: Scale,
        labels: Iterable[Labelled],
        draws: Sequence[Draw],
    ) -> None:
        known = {Drawn(one.id, one.trial, one.output): one for one in labels}
        drawn = {cell for draw in draws for cell in draw.cells}
        # A label that was given with the scores in view may repeat what the judge said.
        late = {cell for cell, one in known.items() if one.seen and cell in drawn}
        self.late = len(late)
        known = {cell: one for cell, one in known.items() if cell not in late}
        self.labels: list[Labelled] = []
        self.draw: Draw | None = None
        self.skipped = 0
        by_population: dict[tuple[int, int], list[Draw]] = {}
        for draw in draws:
            by_population.setdefault(draw.population, []).append(draw)
        for several in by_population.values():
            of_draw = [known[cell] for draw in several for cell in draw.cells if cell in known]
            if of_draw and len(of_draw) >= len(self.labels):
                self.labels, self.draw = of_draw, several[-1]
                self.skipped = sum(_skipped(draw, known) for draw in several)
        self._judged, self._scale = judged, scale

    def corrected(self) -> Corrected:
        """Return the corrected mean.

        Raises:
            LimpetError: It cannot be computed; the message says why.
        """
        if self.draw is None:
            raise LimpetError("no label is of a recorded draw, so that the mean is not corrected")
        judged = self._judged
        if not judged.values:
            raise LimpetError("the judge gives labels without values, so that there is no mean")
        pairs = [
            (value, one.value)
            for one in self.labels
            if (value := judged.cells[one.id, one.trial].value) is not None
            and one.value is not None
        ]
        answers, means = judged.population(self.draw.answers_at)
        if answers > self.draw.of:
            raise LimpetError("the run reports on other answers than those that were drawn from")
        if self._scale.range is None:
            raise LimpetError(
                "the mean is not corrected: the range of the score is not known; declare it, "
                "like range: [1, 5]"
            )
        found = stats.ppi_mean(
            means,
            [value for value, _ in pairs],
            [label for _, label in pairs],
            range=self._scale.range,
        )
        newer = judged.answers() - answers
        raw = fsum(means) / len(means)
        method = found.method if self._scale.group is None else f"{found.method}, groups ignored"
        return Corrected(
            found.mean, found.low, found.high, len(pairs), method, raw, len(means), newer
        )


def _skipped(draw: Draw, known: Mapping[Drawn, Labelled]) -> int:
    labelled = [at for at, cell in enumerate(draw.cells) if cell in known]
    return labelled[-1] + 1 - len(labelled) if labelled else 0


def digest_of(inputs: str | None, corrected: Mapping[str, Any]) -> str:
    """Return a digest of a corrected mean and of all that it follows from; empty: not known."""
    return digest(inputs, dumps(corrected)) if inputs and corrected else ""


def fingerprint_of(reader: "RunResults", evaluator: str) -> str:
    """Return the fingerprint of an evaluator as it last ran; empty if it is not known."""
    step = reader.run_file.steps.get(evaluator)
    return "" if step is None else step.fingerprint


def add_calibrations(summary: dict[str, Any], reader: "RunResults", inputs: str | None) -> None:
    """Add the mean that people's labels give to each score that was calibrated.

    `calibrated`, or `not_calibrated`: why there is none.

    Args:
        summary: The numbers, as in `summary.json`.
        reader: Reads the run.
        inputs: A digest of all that the numbers follow from; None: not known.
    """
    scores: dict[str, dict[str, Any]] = summary["scores"]
    for score in scores.values():  # what was written may be old
        for name in _ADDED:
            score.pop(name, None)
    try:
        people = PeopleFile.load(reader.layout)
    except JournalError as error:
        reader.remarks.append(str(error))
        return
    for name, kept in people.calibrations.items():
        about, known = split_name(name, summary["evaluators"]), scores.get(name)
        if about is None or known is None:
            continue
        found = _now(reader, about, kept, people.draws, inputs)
        if isinstance(found, str):
            known["not_calibrated"] = found
        else:
            known["calibrated"] = asdict(found)


def _now(
    reader: "RunResults",
    score: ScoreName,
    kept: KeptCalibration,
    draws: Sequence[Draw],
    inputs: str | None,
) -> Corrected | str:
    """Return the corrected mean of now, or why there is none."""
    if kept.fingerprint != fingerprint_of(reader, score.evaluator):
        return _CHANGED
    if kept.of and kept.of == digest_of(inputs, kept.corrected):
        return Corrected(**kept.corrected)
    try:
        judged = Judged(reader, score, {(one.id, one.trial) for one in kept.labels})
        same = [
            one
            for one in kept.labels
            if (cell := judged.cells.get((one.id, one.trial))) and cell.output == one.output
        ]
        if not same:
            return f"the answers changed since: none of {count(len(kept.labels), 'label')} is left"
        scale = scale_of(reader, score.evaluator, judged.values.values())
        return OfDraw(judged, scale, same, draws[: kept.draws]).corrected()
    except LimpetError as error:
        return str(error)
