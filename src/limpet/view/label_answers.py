"""What does a page ask a person about an answer, and what becomes of what the person says?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limpet.errors import LimpetError
from limpet.run.calibrating.corrected import fingerprint_of
from limpet.run.calibrating.judged import IdAndTrial, output_of
from limpet.run.calibrating.label_values import UNIT, LabelValues, Meaning, choices_of, scale_of
from limpet.run.calibrating.sampling import Drawn, stamp
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_words import ScoreName, no_such_score
from limpet.text import one_line
from limpet.view.hiding_heads import HidingHeads
from limpet.view.opened_runs import NoSuchRunError, OpenedRun
from limpet.view.shown_values import Shown

# ---- What may a label of a score be: one of a few words, a number, or any text? -----------------

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


# ---- What does a page ask a person about an answer, and what becomes of what the person says?

MOST_BYTES = 128 * 1024
"""How long the request with a label may be."""
_MOST_LABEL, _MOST_NOTE = 200, 10_000
_FIELDS = {"run", "id", "trial", "evaluator", "label", "note", "answer"}
_CHANGED = "the answer has changed since this page showed it: look at it again, then label it"


class AnswerChangedError(LimpetError):
    """The answer that was labelled is not the one that counts now."""


# ---- what a page says of it ---------------------------------------------------------------------


def labelling_answer(opened: OpenedRun, item: ItemRecord, name: str | None) -> dict[str, Any]:
    """Return what a page needs to ask for a label of an answer, and what was said of it."""
    heads, shown = opened.heads, Shown()
    labelling, answer = heads.labelling, (item.id, item.trial)
    score = score_of(heads, name)
    hidden, reason = heads.hidden_scores(item.id), opened.why_no_labels()
    last, now = labelling.label(answer, score), stamp(_cell(item))
    drawn = labelling.drawn(answer)
    said = None
    if last is not None and (last.label is not None or last.note):
        said = {
            "label": last.label, "note": shown(last.note), "at": last.at or None,
            "seen": last.seen, "is_of_another": last.drawn not in ("", now),
        }  # fmt: skip
    others = [] if hidden else labelling.others(answer)
    return {
        "label": said,
        "labels": [
            {"person": one.person, "score": one.evaluator, "label": one.label, "note": one.note}
            for one in others
        ],
        "hidden": bool(hidden),
        "can_label": opened.can_label and not reason and item.entry is not None,
        "cannot_label": reason if opened.can_label and reason else None,
        "labelling": {
            **question(opened, score).data(),
            "scores": [str(one) for one in scores_in(heads)],
            "hidden": [str(one) for one in hidden],
            "answer": now,
            "drawn": drawn is not None,
            "drawn_trials": labelling.drawn_ids.get(item.id, []),
            "has_changed": drawn is not None and stamp(drawn) != now,
        },
    }


def _cell(item: ItemRecord) -> Drawn:
    return Drawn(item.id, item.trial, output_of(item))


def labelled_in(opened: OpenedRun, places: Any, at: int | None, name: str | None) -> dict[str, Any]:
    """Return how many of some rows are labelled, and the next one that is not.

    Args:
        opened: The run.
        places: The places of the rows, in their order.
        at: Which of them is shown; None: none.
        name: The score that labels are about.
    """
    heads = opened.heads
    score = score_of(heads, name)
    done = set(labelled_places(heads, score))
    count = int(np.isin(places, list(done)).sum()) if done else 0
    following = None
    if count < len(places):
        begin = 0 if at is None else at + 1
        for step in range(len(places)):
            place = int(places[(begin + step) % len(places)])
            if place not in done and step < len(places) - (at is not None):
                id_, trial = heads.where(place)
                following = {"id": id_, "trial": trial}
                break
    return {"labelled": count, "unlabelled": following}


def labelled_places(heads: HidingHeads, score: ScoreName | None) -> list[int]:
    """Return the places of the answers that are labelled."""
    labelling = heads.labelling
    return heads.places_of(
        answer for answer in labelling.labelled if labelling.is_labelled(answer, score)
    )


def draw_answer(opened: OpenedRun, name: str | None = None) -> dict[str, Any]:
    """Return how far the labels of the draws are."""
    places = np.array(opened.heads.places_of(opened.heads.labelling.queue), np.intp)
    return {"drawn": len(places), **labelled_in(opened, places, None, name)}


# ---- what a person says -------------------------------------------------------------------------


def keep_label(opened: OpenedRun, given: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what a person said, and return it when it is on disk.

    Raises:
        NoSuchRunError: There is no such item.
        AnswerChangedError: The answer is another one by now.
        LimpetError: It is not a label.
        JournalError: It could not be kept.
    """
    heads = opened.heads
    heads.refresh()
    if reason := opened.why_no_labels():
        raise LimpetError(f"labels cannot be kept: {reason}")
    answer = _id_and_trial(given)
    label, note = _label(given), _note(given)
    name = _text(given, "evaluator", _MOST_LABEL)
    score = score_of(heads, name) if name else None
    if label is not None and score is None and (known := scores_in(heads)):
        names = ", ".join(one_line(str(one)) for one in known)
        raise LimpetError("evaluator: which score is the label about?", hint=f"one of: {names}")
    item = _item(heads, answer)
    cell = _cell(item)
    if not cell.output:
        raise LimpetError(f"{one_line(item.id)} has no answer to label yet")
    if _text(given, "answer", _MOST_LABEL) not in ("", stamp(cell)):
        raise AnswerChangedError(_CHANGED)
    _check(label, question(opened, score))
    heads.labelling.add(cell, score, label, note, hides=heads.hides)
    return {"id": item.id, "trial": item.trial, "label": label, "note": note}


def _item(heads: HidingHeads, answer: IdAndTrial) -> ItemRecord:
    found = heads.place(*answer)
    item = None if found is None else next(heads.read([found]), None)
    if item is None:
        raise NoSuchRunError("there is no such item in this run")
    return item


def checked_fields(given: Any) -> Mapping[str, Any]:
    """Return the fields of a request.

    Raises:
        LimpetError: There are others, or `run` is missing.
    """
    if not isinstance(given, dict):
        raise LimpetError("a label is a JSON object")
    if more := sorted(given.keys() - _FIELDS):
        raise LimpetError(f"{one_line(more[0])}: there is no such field")
    if not isinstance(given.get("run"), str):
        raise LimpetError("run: must be a string")
    return given


def _id_and_trial(given: Mapping[str, Any]) -> IdAndTrial:
    id_, trial = given.get("id"), given.get("trial", 0)
    if not isinstance(id_, str):
        raise LimpetError("id: must be a string")
    if not isinstance(trial, int) or isinstance(trial, bool) or trial < 0:
        raise LimpetError("trial: must be a whole number from 0")
    return id_, trial


def _label(given: Mapping[str, Any]) -> Any:
    label = given.get("label")
    if isinstance(label, (int, float)):
        return label
    return _text(given, "label", _MOST_LABEL).strip() or None


def _note(given: Mapping[str, Any]) -> str:
    return _text(given, "note", _MOST_NOTE).strip()


def _text(given: Mapping[str, Any], name: str, most: int) -> str:
    text = given.get(name)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise LimpetError(f"{name}: must be a string")
    if len(text) > most:
        raise LimpetError(f"{name}: has {len(text):,} characters; the maximum is {most:,}")
    return text


def _check(label: Any, asked: Question) -> None:
    if label is None:
        return
    if asked.values is None:
        if not isinstance(label, str):
            raise LimpetError("label: must be a string")
        return
    meaning = asked.values.meaning(label)
    if isinstance(meaning, str):
        raise LimpetError(f"label: {meaning}", hint=f"a label is one of: {asked.values.words}")
