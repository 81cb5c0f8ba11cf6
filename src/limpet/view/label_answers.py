"""Which label does a page ask a person for, and how is it saved?"""

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
from limpet.view.hiding_table import HidingTable
from limpet.view.shown_values import Shortener
from limpet.view.viewed_runs import NoSuchRunError, ViewedRun

# ---- What may a label of a score be: one of a few words, a number, or any text? -----------------

_MOST_CHOICES, _MOST_VALUES = 12, 1_000


@dataclass(frozen=True, slots=True)
class LabelQuestion:
    """The labels that one score may get.

    Attributes:
        score: The score; None: the run has no evaluators.
        choices: The labels to choose from; empty: a number, or any text.
        values: The meaning of labels; None: any text is a label.
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
    """The scores of a judge, from the table of all items."""

    values: Mapping[int, float]
    by_label: Mapping[str, set[float]]
    has_booleans: bool


def scores_in(run_table: HidingTable) -> list[ScoreName]:
    """Return the scores that can be labelled."""
    return [name for each in run_table.whole_table.evaluators for name in run_table.names_of(each)]


def score_of(run_table: HidingTable, name: str | None) -> ScoreName | None:
    """Return the score of a name; None: there are none.

    Without a name, the first one with labels, like that of a judge, or else the first.

    Raises:
        LimpetError: There is no such score.
    """
    known = scores_in(run_table)
    if not name:
        labels = run_table.whole_table.labels
        return next((score for score in known if score in labels), known[0] if known else None)
    found = next((score for score in known if str(score) == name), None)
    if found is None:
        raise no_such_score(name, map(str, known))
    return found


def question(opened: ViewedRun, score: ScoreName | None) -> LabelQuestion:
    """Return the labels that a score may get."""
    run_table, known = opened.run_table, opened.questions
    if known[0] != run_table.version:
        opened.questions = known = (run_table.version, {})
    if score not in known[1]:
        known[1][score] = LabelQuestion(None) if score is None else _question(opened, score)
    found: LabelQuestion = known[1][score]
    return found


def _question(opened: ViewedRun, score: ScoreName) -> LabelQuestion:
    reader, scores = opened.reader, _table_scores(opened.run_table, score)
    declared = choices_of(reader.layout, score.evaluator, fingerprint_of(reader, score.evaluator))
    if not (scores.values or scores.by_label or declared):
        return LabelQuestion(score)  # it has no scores yet
    scale = scale_of(reader, score.evaluator, list(scores.values.values()))
    values = LabelValues(scores, scale.range, declared)
    labels = dict.fromkeys([*declared, *sorted(scores.by_label)])
    meant = {label: of for label in labels if isinstance(of := values.meaning(label), Meaning)}
    if 0 < len(meant) == len(labels) <= _MOST_CHOICES:
        best_first = -1 if scale.higher_is_better else 1
        return LabelQuestion(
            score, sorted(meant, key=lambda one: best_first * (meant[one].value or 0.0)), values
        )
    return LabelQuestion(
        score, () if meant and not scores.values else _numbers(scores, values), values
    )


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


def _table_scores(run_table: HidingTable, score: ScoreName) -> _TableScores:
    table = run_table.whole_table
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


# ---- Which label does a page ask a person for, and how is it saved? -----------------------------

MOST_BYTES = 128 * 1024
"""The most bytes of a request with a label."""
_MOST_LABEL, _MOST_NOTE = 200, 10_000
_FIELDS = {"run", "id", "trial", "evaluator", "label", "note", "answer"}
_CHANGED = "the answer has changed since this page showed it: look at it again, then label it"


class AnswerChangedError(LimpetError):
    """The labelled answer is no longer the current one."""


# ---- what a page shows --------------------------------------------------------------------------


def labelling_answer(opened: ViewedRun, item: ItemRecord, name: str | None) -> dict[str, Any]:
    """Return what a page needs to ask for a label of an answer, and the labels it has."""
    run_table, shown = opened.run_table, Shortener()
    labelling, answer = run_table.labelling, (item.id, item.trial)
    score = score_of(run_table, name)
    hidden, reason = run_table.hidden_scores(item.id), opened.why_no_labels()
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
            "scores": [str(one) for one in scores_in(run_table)],
            "hidden": [str(one) for one in hidden],
            "answer": now,
            "drawn": drawn is not None,
            "drawn_trials": labelling.drawn_ids.get(item.id, []),
            "has_changed": drawn is not None and stamp(drawn) != now,
        },
    }


def _cell(item: ItemRecord) -> Drawn:
    return Drawn(item.id, item.trial, output_of(item))


def labelled_in(
    opened: ViewedRun, positions: Any, at: int | None, name: str | None
) -> dict[str, Any]:
    """Return how many of some rows are labelled, and the next one that is not.

    Args:
        opened: The run.
        positions: The positions of the rows, in their order.
        at: Which of them is open; None: none.
        name: The score that is labelled.
    """
    run_table = opened.run_table
    score = score_of(run_table, name)
    done = {*labelled_positions(run_table, score), *in_file_positions(run_table, score)}
    count = int(np.isin(positions, list(done)).sum()) if done else 0
    following = None
    if count < len(positions):
        begin = 0 if at is None else at + 1
        for step in range(len(positions)):
            position = int(positions[(begin + step) % len(positions)])
            if position not in done and step < len(positions) - (at is not None):
                id_, trial = run_table.where(position)
                following = {"id": id_, "trial": trial}
                break
    return {"labelled": count, "unlabelled": following}


def labelled_positions(run_table: HidingTable, score: ScoreName | None) -> list[int]:
    """Return the positions of labelled answers."""
    labelling = run_table.labelling
    return run_table.positions_of(
        answer for answer in labelling.labelled if labelling.is_labelled(answer, score)
    )


def in_file_positions(run_table: HidingTable, score: ScoreName | None) -> list[int]:
    """Return the positions of drawn answers that were labelled in a file only."""
    labelling = run_table.labelling
    return run_table.positions_of(
        answer for answer in labelling.queue if labelling.is_in_file(answer, score)
    )


def draw_answer(opened: ViewedRun, name: str | None = None) -> dict[str, Any]:
    """Return how many drawn answers are labelled."""
    run_table = opened.run_table
    positions = np.array(run_table.positions_of(run_table.labelling.queue), np.intp)
    in_file = in_file_positions(run_table, score_of(run_table, name))
    found = labelled_in(opened, positions, None, name)
    person = run_table.labelling.person
    return {"drawn": len(positions), "in_file": len(in_file), "person": person, **found}


# ---- what a person sends ------------------------------------------------------------------------


def keep_label(opened: ViewedRun, given: Mapping[str, Any]) -> dict[str, Any]:
    """Save a label, and return it when it is on disk.

    Raises:
        NoSuchRunError: There is no such item.
        AnswerChangedError: The answer has changed.
        LimpetError: It is not a label.
        JournalError: It could not be saved.
    """
    run_table = opened.run_table
    run_table.refresh()
    if reason := opened.why_no_labels():
        raise LimpetError(f"labels cannot be saved: {reason}")
    answer = _id_and_trial(given)
    label, note = _label(given), _note(given)
    name = _text(given, "evaluator", _MOST_LABEL)
    score = score_of(run_table, name) if name else None
    if label is not None and score is None and (known := scores_in(run_table)):
        names = ", ".join(one_line(str(one)) for one in known)
        raise LimpetError("evaluator: name the score to label", hint=f"one of: {names}")
    item = _item(run_table, answer)
    cell = _cell(item)
    if not cell.output:
        raise LimpetError(f"{one_line(item.id)} has no answer to label yet")
    if _text(given, "answer", _MOST_LABEL) not in ("", stamp(cell)):
        raise AnswerChangedError(_CHANGED)
    _check(label, question(opened, score))
    run_table.labelling.add(cell, score, label, note, hides=run_table.hides)
    return {"id": item.id, "trial": item.trial, "label": label, "note": note}


def _item(run_table: HidingTable, answer: IdAndTrial) -> ItemRecord:
    found = run_table.position(*answer)
    item = None if found is None else next(run_table.read([found]), None)
    if item is None:
        raise NoSuchRunError("no such item in this run")
    return item


def checked_fields(given: Any) -> Mapping[str, Any]:
    """Return the fields of a request.

    Raises:
        LimpetError: A field is unknown, or `run` is missing.
    """
    if not isinstance(given, dict):
        raise LimpetError("a label is a JSON object")
    if more := sorted(given.keys() - _FIELDS):
        raise LimpetError(f"{one_line(more[0])}: unknown field")
    if not isinstance(given.get("run"), str):
        raise LimpetError("run: must be a string")
    return given


def _id_and_trial(given: Mapping[str, Any]) -> IdAndTrial:
    id_, trial = given.get("id"), given.get("trial", 0)
    if not isinstance(id_, str):
        raise LimpetError("id: must be a string")
    if not isinstance(trial, int) or isinstance(trial, bool) or trial < 0:
        raise LimpetError("trial: must be a whole number, 0 or more")
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


def _check(label: Any, asked: LabelQuestion) -> None:
    if label is None:
        return
    if asked.values is None:
        if not isinstance(label, str):
            raise LimpetError("label: must be a string")
        return
    meaning = asked.values.meaning(label)
    if isinstance(meaning, str):
        raise LimpetError(f"label: {meaning}", hint=f"a label is one of: {asked.values.words}")
