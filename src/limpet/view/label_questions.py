"""What may a label of a score be: one of a few words, a number, or any text?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limpet.run.calibrating.corrected import fingerprint_of
from limpet.run.calibrating.label_values import UNIT, LabelValues, Meaning, choices_of, scale_of
from limpet.run.results.score_words import ScoreName, no_such_score
from limpet.view.hiding_heads import HidingHeads
from limpet.view.opened_runs import OpenedRun

_MOST_CHOICES, _MOST_VALUES = 12, 1_000


@dataclass(frozen=True, slots=True)
class Question:
    """What a label of one score may be.

    Attributes:
        score: The score; None: the run has no evaluators.
        choices: The labels to choose from; empty: a number, or any text.
        values: What labels mean; None: any text is a label.
    """

    score: ScoreName | None
    choices: Sequence[str] = ()
    values: LabelValues | None = None

    def data(self) -> dict[str, Any]:
        """Return it for a page."""
        ends = None if self.values is None else self.values.range
        kind = "choice" if self.choices else "text" if self.values is None else "number"
        return {
            "score": None if self.score is None else str(self.score),
            "kind": kind,
            "choices": list(self.choices),
            "range": None if ends is None or not all(map(math.isfinite, ends)) else list(ends),
        }


@dataclass(frozen=True, slots=True)
class _TableScores:
    """The scores of a judge, by the table of all items."""

    values: Mapping[int, float]
    by_label: Mapping[str, set[float]]
    has_booleans: bool


def scores_in(heads: HidingHeads) -> list[ScoreName]:
    """Return the scores that a label may be about."""
    return [name for each in heads.whole_table.evaluators for name in heads.names_of(each)]


def score_of(heads: HidingHeads, name: str | None) -> ScoreName | None:
    """Return the score of a name; None: there are none.

    Without a name the first one that gives labels, as judges do, or else the first.

    Raises:
        LimpetError: There is no such score.
    """
    known = scores_in(heads)
    if not name:
        labels = heads.whole_table.labels
        return next((score for score in known if score in labels), known[0] if known else None)
    found = next((score for score in known if str(score) == name), None)
    if found is None:
        raise no_such_score(name, map(str, known))
    return found


def question(opened: OpenedRun, score: ScoreName | None) -> Question:
    """Return what a label of a score may be."""
    heads, known = opened.heads, opened.questions
    if known[0] != heads.version:
        opened.questions = known = (heads.version, {})
    if score not in known[1]:
        known[1][score] = Question(None) if score is None else _question(opened, score)
    found: Question = known[1][score]
    return found


def _question(opened: OpenedRun, score: ScoreName) -> Question:
    reader, scores = opened.reader, _table_scores(opened.heads, score)
    declared = choices_of(reader.layout, score.evaluator, fingerprint_of(reader, score.evaluator))
    if not (scores.values or scores.by_label or declared):
        return Question(score)  # nothing is known of it yet
    scale = scale_of(reader, score.evaluator, list(scores.values.values()))
    values = LabelValues(scores, scale.range, declared)
    labels = dict.fromkeys([*declared, *sorted(scores.by_label)])
    meant = {label: of for label in labels if isinstance(of := values.meaning(label), Meaning)}
    if 0 < len(meant) == len(labels) <= _MOST_CHOICES:
        best_first = -1 if scale.higher_is_better else 1
        return Question(
            score, sorted(meant, key=lambda one: best_first * (meant[one].value or 0.0)), values
        )
    return Question(score, () if meant and not scores.values else _numbers(scores, values), values)


def _numbers(scores: _TableScores, values: LabelValues) -> Sequence[str]:
    """Return the numbers to choose from, if they are few."""
    known = set(scores.values.values())
    if values.range == UNIT and known <= set(UNIT):
        return ("yes", "no")
    ends = values.range
    if ends is None or not all(value.is_integer() for value in (*known, *ends)):
        return ()
    low, high = map(int, ends)
    return [str(number) for number in range(low, high + 1)] if high - low < _MOST_CHOICES else ()


def _table_scores(heads: HidingHeads, score: ScoreName) -> _TableScores:
    table = heads.whole_table
    values, labels = table.scores.get(score), table.labels.get(score)
    unique = np.array([]) if values is None else np.unique(values[~np.isnan(values)])
    by_label: dict[str, set[float]] = {}
    if labels is not None:
        for number, label in enumerate(labels.names):
            found = unique[:0] if values is None else values[labels.numbers == number]
            by_label[label] = set(found[~np.isnan(found)].tolist())
    some = unique[:_MOST_VALUES].tolist()
    is_binary = bool(some) and set(some) <= set(UNIT)
    return _TableScores(dict(enumerate(some)), by_label, is_binary)
