"""What does a person's label mean, and which labels can be compared with the judge?"""

import ast
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from limpet.errors import LimpetError
from limpet.journal.layout import Layout
from limpet.run.calibrating.judged import IdAndTrial, Judged, JudgedCell
from limpet.run.calibrating.labels import Said, listed
from limpet.run.calibrating.sampling import Draw, Labelled, stamp
from limpet.shapes import Scale
from limpet.text import count, one_line

if TYPE_CHECKING:
    from limpet.run.reading.run_results import RunResults


# ---- What does a person's label mean: which of the judge's labels, and which value? -------------
#
# A label of the judge means the value of its scores with this label. A number means itself, and
# yes, no, true and false mean 1 and 0, if the score's range has them. Nothing else is a label: an
# unknown word is never turned into a number.

UNIT = (0.0, 1.0)
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


class Scores(Protocol):
    """The scores of a judge that give its labels their meaning."""

    @property
    def has_booleans(self) -> bool:
        """Whether its values are true and false."""

    @property
    def values(self) -> Collection[Any]:
        """Its values; empty: it has none."""

    @property
    def by_label(self) -> Mapping[str, set[float]]:
        """By label, the values of its scores."""


class Meaning(NamedTuple):
    """What a label means.

    Attributes:
        value: Its value; None: the judge's labels have none.
        label: The judge's label; empty: it is only a number.
    """

    value: float | None
    label: str


class LabelValues:
    """What the labels of a judge mean.

    Args:
        scores: What the judge said.
        range_: The range of its score; None: any number.
        choices: The labels that it may give, with their values, if known.
    """

    def __init__(
        self,
        scores: Scores,
        range_: tuple[float, float] | None,
        choices: Mapping[str, float | None],
    ) -> None:
        self.range = range_
        self._has_booleans = scores.has_booleans
        self.has_values = bool(scores.values)
        known = {label: set(values) for label, values in scores.by_label.items()}
        for label, value in choices.items():
            known.setdefault(label, set() if value is None else {float(value)})
        self._by_label = known
        self._folded = {label.casefold(): label for label in reversed(known)}
        by_value: dict[float, list[str]] = {}
        for label, values in known.items():
            for value in values:
                by_value.setdefault(value, []).append(label)
        self._by_value = {value: labels[0] for value, labels in by_value.items() if not labels[1:]}

    def meaning(self, written: Any) -> Meaning | str:
        """Return what a person's label means, or why it means nothing."""
        word = "" if isinstance(written, (bool, int, float)) else str(written).strip()
        label = word if word in self._by_label else self._folded.get(word.casefold())
        if label is not None:
            return self._of_label(label)
        number = _number(written)
        if number is None or not self.has_values:
            return f"{one_line(written)!r} is not a label of the judge"
        if self.range is not None and not self.range[0] <= number <= self.range[1]:
            low, high = self.range
            return f"{one_line(written)} is outside the score's range, {low:g} to {high:g}"
        if word.casefold() in _WORDS and self.range != UNIT:
            return f"{one_line(written)!r} has no value here: the score is not between 0 and 1"
        return Meaning(number, self._by_value.get(number, ""))

    def _of_label(self, label: str) -> Meaning | str:
        values = self._by_label[label]
        if len(values) > 1:
            some = ", ".join(f"{value:g}" for value in sorted(values)[:5])
            return f"{one_line(label)!r} stands for several scores ({some}): write the number"
        return Meaning(next(iter(values), None), label)

    @property
    def words(self) -> str:
        """What a label may be."""
        labels = ", ".join(map(one_line, sorted(self._by_label)))
        if not self.has_values:
            return labels
        numbers = "a number"
        if self.range is not None:
            numbers = f"a number from {self.range[0]:g} to {self.range[1]:g}"
        yes_or_no = ", yes or no" if self.range == UNIT else ""
        return f"{labels}, {numbers}{yes_or_no}" if labels else f"{numbers}{yes_or_no}"

    def name(self, value: float) -> str:
        """Return a value in a word."""
        if label := self._by_value.get(value):
            return label
        if self._has_booleans and value in UNIT:
            return "yes" if value else "no"
        return f"{value:g}"


def _number(written: Any) -> float | None:
    if isinstance(written, (bool, int, float)):
        number = float(written)
    else:
        word = str(written).strip()
        if word.casefold() in _WORDS:
            return _WORDS[word.casefold()]
        try:
            number = float(word)
        except ValueError:
            return None
    return number if math.isfinite(number) else None


def choices_of(layout: Layout, evaluator: str, fingerprint: str) -> dict[str, float | None]:
    """Return the labels of a judge with their values; empty if they are not known.

    A person may give one that the judge never gave.
    """
    from limpet.run.planning.identity_file import read_identity  # noqa: PLC0415 - slow to import

    kept = read_identity(layout).steps.get(evaluator)
    if kept is None or kept.fingerprint != fingerprint or "choices" not in kept.shown:
        return {}
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        choices = ast.literal_eval(kept.shown["choices"].text or "")
        if isinstance(choices, dict):
            return {
                label: None if value is None else float(value)
                for label, value in choices.items()
                if isinstance(label, str) and isinstance(value, (int, float, type(None)))
            }
    return {}


def scale_of(reader: "RunResults", evaluator: str, values: Collection[float]) -> Scale:
    """Return the declared scale of a score. Its range is 0 to 1 if all values are within."""
    scale = reader.run_file.scales.get(evaluator, Scale())
    if scale.range is None and (not values or (min(values) >= 0 and max(values) <= 1)):
        return replace(scale, range=UNIT)
    return scale


# ---- Which labels of people can be compared with the judge, and why not the others? -------------


@dataclass
class SortedLabels:
    """Which labels can be used, and why not the others.

    Attributes:
        reader: Reads the run.
        said: What people wrote.
        draws: The draws of the run.
        remarks: What was left out and why, a sentence each.
        by_answer: The labelled rows, by their answer.

    Raises:
        LimpetError: No row is labelled, or it is not known which answer a row is about.
    """

    reader: "RunResults"
    said: Sequence[Said]
    draws: Sequence[Draw]
    remarks: list[str]
    by_answer: dict[IdAndTrial, list[Said]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._stamps = {stamp(cell): cell for draw in self.draws for cell in draw.cells}
        latest = {(cell.id, cell.trial): cell for draw in self.draws for cell in draw.cells}
        self._latest = latest
        empty = 0
        for one in self.said:
            if one.label is None:
                empty += 1
            else:
                self.by_answer.setdefault(self._answer_of(one), []).append(one)
        if empty:
            self.remarks.append(f"{count(empty, 'row is', 'rows are')} not labelled yet")
        if not self.by_answer:
            raise LimpetError(
                f"none of {count(len(self.said), 'row')} is labelled yet",
                hint="fill in the label column",
            )

    def _answer_of(self, one: Said) -> IdAndTrial:
        """Return which answer a row is about."""
        if (cell := self._stamps.get(one.drawn)) is not None:
            if not _is_same_id(one.id, cell.id):
                raise LimpetError(
                    f"{one.where}: the row is for {one_line(one.id)!r}, but its drawn column for "
                    f"{one_line(cell.id)!r}",
                    hint="perhaps only some of the columns were sorted: draw again, or fix it",
                )
            return cell.id, cell.trial
        trial = one.trial
        if trial is None and self.reader.trials > 1:
            raise LimpetError(
                f"{one.where}: which trial? The run has {self.reader.trials} of each item",
                hint="add a trial column, counting from 0",
            )
        try:
            number = int(float(trial or 0))
        except (TypeError, ValueError, OverflowError):
            number = -1
        if number < 0:
            raise LimpetError(f"{one.where}: the trial {one_line(trial)!r} is not a whole number")
        return one.id, number

    def usable(self, judged: Judged, values: LabelValues) -> list[Labelled]:
        """Return the labels that can be compared; say what is left out.

        Raises:
            LimpetError: A label means nothing, people contradict themselves, or none is left.
        """
        kept: list[Labelled] = []
        left_out: dict[str, list[str]] = {}
        bad: list[str] = []
        for answer, rows in self.by_answer.items():
            cell = judged.cells.get(answer)
            rows_of_now = [one for one in rows if not self._is_of_another(one, answer, cell)]
            if cell is None or not cell.output or not rows_of_now or cell.score is None:
                why = _why_not(cell, rows_of_now)
                left_out.setdefault(why, []).append(_named(answer, self.reader.trials))
                continue
            meanings: list[tuple[Said, Meaning]] = []
            for one in rows_of_now:
                meaning = values.meaning(one.label)
                if isinstance(meaning, str):
                    bad.append(f"{one.where}: {meaning}")
                else:
                    meanings.append((one, meaning))
            agreed = None if len(meanings) < len(rows_of_now) else _agreed(answer, meanings)
            if agreed is not None:
                seen = any(one.seen for one in rows_of_now)
                kept.append(Labelled(*answer, cell.output, agreed.value, agreed.label, seen))
            elif len(meanings) == len(rows_of_now):
                left_out.setdefault("people disagree with each other on it", []).append(
                    _named(answer, self.reader.trials)
                )
        if bad:
            more = f" (and {len(bad) - 1:,} more rows)" if len(bad) > 1 else ""
            raise LimpetError(f"{bad[0]}{more}", hint=f"a label is one of: {values.words}")
        for why, answers in left_out.items():
            self.remarks.append(
                f"{count(len(answers), 'label')} left out: {why}: {listed(answers)}"
            )
        if not kept:
            raise LimpetError(f"no label can be compared: {'; '.join(self.remarks)}")
        return kept

    def _is_of_another(self, one: Said, answer: IdAndTrial, cell: JudgedCell | None) -> bool:
        """Return whether a row is about an answer that no longer counts."""
        drawn = self._latest.get(answer)
        seen = one.drawn.partition("-")[2] or ("" if drawn is None else drawn.output)
        return cell is not None and bool(seen) and not cell.output.startswith(seen)


def _is_same_id(written: str, id_: str) -> bool:
    """Return whether ids are equal, apart from a spreadsheet's changes."""
    same = written.strip(" \t'") == id_.strip(" \t'")
    with suppress(ValueError):
        same = same or float(written) == float(id_)
    return same


def _why_not(cell: JudgedCell | None, rows: Sequence[Said]) -> str:
    if cell is None:
        return "the run has no such item"
    if not cell.output:
        return "the run has no answer to it"
    if not rows:
        return "the answer has changed since it was drawn"
    if cell.error is not None:
        return "the judge failed on it"
    return "the judge has no score for it yet"


def _named(answer: IdAndTrial, trials: int) -> str:
    return answer[0] if trials == 1 else f"{answer[0]} trial {answer[1]}"


def _agreed(answer: IdAndTrial, meanings: Sequence[tuple[Said, Meaning]]) -> Meaning | None:
    """Return the label of the majority; None: there is no majority.

    Raises:
        LimpetError: One person, or nobody by name, says two things.
    """
    by_person: dict[str, tuple[Said, Meaning]] = {}
    for one, meaning in meanings:
        first, before = by_person.setdefault(one.person, (one, meaning))
        if before != meaning:
            who = f" by {one_line(one.person)}" if one.person else ""
            raise LimpetError(
                f"{one_line(answer[0])} is labelled twice{who}: {one_line(first.label)} in "
                f"{first.where}, {one_line(one.label)} in {one.where}",
                hint="keep one of them, or tell people apart in a person column",
            )
    votes = Counter(meaning for _, meaning in by_person.values()).most_common(2)
    return None if len(votes) > 1 and votes[0][1] == votes[1][1] else votes[0][0]
