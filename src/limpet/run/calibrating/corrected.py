"""What would the mean of a judge be if people had judged?

The run keeps the labels, and the number is computed from the current scores. Only the labels of a
draw are used, because otherwise people label what stands out; and they represent the answers that
could be drawn, not later ones. An answer that changed since it was labelled is left out. If the
evaluator changed, it must be compared with the labels again.
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
_CHANGED = "the evaluator has changed since; run limpet calibrate again"


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
        newer: How many answers came after the draw, and are left out.
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
    """The labels of the draws that have the most labels, from the same answers.

    Args:
        judged: What the judge said.
        scale: The scale of its score.
        labels: What people said.
        draws: The draws of the run.

    Attributes:
        labels: The labels of drawn answers that have a score and have not changed, given before the
            scores were seen.
        draw: The latest of the draws; None: no label comes from a draw.
        skipped: How many drawn answers without a label precede the last one with a label: people
            should label in the order of the file.
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
        # A label given with the scores in view may repeat the judge's verdict.
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
            raise LimpetError("no label comes from a recorded draw, so the mean is not corrected")
        judged = self._judged
        if not judged.values:
            raise LimpetError("the judge gives labels without values, so there is no mean")
        pairs = [
            (value, one.value)
            for one in self.labels
            if (value := judged.cells[one.id, one.trial].value) is not None
            and one.value is not None
        ]
        answers, means = judged.population(self.draw.answers_at)
        if answers > self.draw.of:
            raise LimpetError("the answers that were drawn from are no longer in the report")
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
    """Return a digest of a corrected mean and all that determines it; empty: not known."""
    return digest(inputs, dumps(corrected)) if inputs and corrected else ""


def fingerprint_of(reader: "RunResults", evaluator: str) -> str:
    """Return the fingerprint of an evaluator as it last ran; empty if it is not known."""
    step = reader.run_file.steps.get(evaluator)
    return "" if step is None else step.fingerprint


def add_calibrations(summary: dict[str, Any], reader: "RunResults", inputs: str | None) -> None:
    """Add the corrected mean to each calibrated score.

    As `calibrated`, or `not_calibrated` with the reason.

    Args:
        summary: The numbers, as in `summary.json`.
        reader: Reads the run.
        inputs: A digest of all that determines the numbers; None: not known.
    """
    scores: dict[str, dict[str, Any]] = summary["scores"]
    for score in scores.values():  # the written value may be old
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
    """Return the current corrected mean, or why there is none."""
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
            labels = count(len(kept.labels), "label")
            return f"the answers have changed since: none of {labels} is left"
        scale = scale_of(reader, score.evaluator, judged.values.values())
        return OfDraw(judged, scale, same, draws[: kept.draws]).corrected()
    except LimpetError as error:
        return str(error)
