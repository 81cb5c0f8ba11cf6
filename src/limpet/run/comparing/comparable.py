"""Which scores of two runs can be compared, and why not the others?

Whatever differs between two runs besides the answers is named and left out: a mean over two kinds
of things means nothing.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from limpet.arguments import whole_number_from
from limpet.errors import LimpetError
from limpet.run.comparing.opened_run import RunToCompare, counted, named
from limpet.run.comparing.pairs import PairedFields, Pairs, Rows
from limpet.run.comparing.results import MOST_IDS, LeftOut
from limpet.run.comparing.scores import PairedScores
from limpet.run.reading.score_table import Flags, Floats, LabelTable
from limpet.run.results.score_words import ScoreName
from limpet.stats.samples import FEWEST_GROUPS
from limpet.text import count, did_you_mean, one_line, quoted

# ---- How are runs compared: which scores, over which items, and what may differ? ----------------

ALLOWED = ("rows", "evaluators", "trials")


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How runs are compared: the arguments of `limpet.compare`."""

    evaluator: str | None = None
    group: str | None = None
    by: str | None = None
    allow: Collection[str] = ()
    these_questions: bool = False
    fail_if_worse: Mapping[str, float] = field(default_factory=dict)
    flips: int = 5

    def __post_init__(self) -> None:
        words = self.allow.split(",") if isinstance(self.allow, str) else list(self.allow)
        object.__setattr__(self, "allow", frozenset(word.strip() for word in words if word))
        for word in sorted(self.allow):
            if word not in ALLOWED:
                near = did_you_mean(word, ALLOWED)
                raise LimpetError(
                    f"allow: {quoted(word)} is not one of {', '.join(ALLOWED)}{near}",
                    hint="compare without it first, to see what differs",
                )
        for name in ("evaluator", "group", "by"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name}={value!r}: must be a string")
        for name, margin in self.fail_if_worse.items():
            is_number = isinstance(margin, (int, float)) and not isinstance(margin, bool)
            if not is_number or not (math.isfinite(margin) and margin >= 0):
                raise LimpetError(f"fail_if_worse: {name}={margin!r}: must be a number, 0 or more")
        whole_number_from(0, flips=self.flips)
        if self.these_questions and self.group is not None:
            raise LimpetError(
                "these_questions and group cannot be combined: for these very questions, only the "
                "trials are a sample"
            )


# ---- Did the same evaluator score both runs, on the same scale? ---------------------------------


def same_evaluator(
    base: RunToCompare, new: RunToCompare, evaluator: str, allow: Collection[str]
) -> tuple[LeftOut | None, str | None]:
    """Return why the scores of an evaluator cannot be compared, and a note about it."""
    name, note = one_line(evaluator), None
    for run, other in ((base, new), (new, base)):
        if evaluator not in run.table.evaluators:
            why = f"only {named(other)} has the evaluator {name}"
            return LeftOut("evaluators", evaluator, why), None
    one, another = base.fingerprint(evaluator), new.fingerprint(evaluator)
    if not (one and another):
        run = new if one else base
        note = f"{named(run)} does not say which evaluator {name} was: it may be a different one"
    elif one != another:
        differs = f"the evaluator {name} differs between the runs"
        if "evaluators" not in allow:
            why = f"{differs}: its code, its prompt or its settings were changed"
            return LeftOut("evaluators", evaluator, why, allow="evaluators"), None
        note = f"{differs}, and is compared as allowed"
    why = _other_scale(base, new, evaluator)
    return (LeftOut("evaluators", evaluator, why) if why else None), note


def _other_scale(base: RunToCompare, new: RunToCompare, evaluator: str) -> str:
    """Return how the scales differ; empty: they do not."""
    name, scales = one_line(evaluator), (base.scale(evaluator), new.scale(evaluator))
    if scales[0].higher_is_better != scales[1].higher_is_better:
        run = base if scales[0].higher_is_better else new
        return f"a higher score of {name} is better only in {named(run)}"
    ranges = [scale.range for scale in scales]
    if None not in ranges and ranges[0] != ranges[1]:
        words = [
            f"{range_words(limits)} in {named(run)}"
            for limits, run in zip(ranges, (base, new), strict=True)
        ]
        return f"the range of {name} is {' and '.join(words)}"
    return ""


def range_words(limits: tuple[float, float] | None) -> str:
    """Return a range: `1 to 5`."""
    return "any number" if limits is None else f"{limits[0]:g} to {limits[1]:g}"


# ---- Which scores of two runs can be compared, and why not the others? --------------------------


@dataclass(frozen=True, slots=True)
class PairedLabels:
    """The labels of one score in both runs: a row per item, a column per trial.

    Attributes:
        name: The score.
        at: The items, by their position among the pairs.
        base: The labels of the base.
        new: The labels of the new run.
    """

    name: ScoreName
    at: Rows
    base: LabelTable
    new: LabelTable


@dataclass
class Comparable:
    """What can be compared of two runs.

    Args:
        pairs: Their items.
        options: What may differ.

    Attributes:
        scores: The scores that are numbers.
        labels: The scores that are labels.
        left_out: What is left out, and why.
        notes: What is compared only because it was allowed, and what is not known.
        fields: The fields of their items.
    """

    pairs: Pairs
    options: CompareOptions
    scores: list[PairedScores] = field(default_factory=list)
    labels: list[PairedLabels] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[ScoreName]:
        """The names of what is compared."""
        return [*(one.name for one in self.scores), *(one.name for one in self.labels)]

    def __post_init__(self) -> None:
        self.fields = PairedFields(self.pairs)
        self._compare_items()
        self._compare_trials()
        for evaluator in self._evaluators():
            if self._is_comparable(evaluator):
                self._add_scores(evaluator)

    @property
    def _base(self) -> RunToCompare:
        return self.pairs.base

    @property
    def _new(self) -> RunToCompare:
        return self.pairs.new

    # ---- items and trials -----------------------------------------------------------------------

    def _compare_items(self) -> None:
        pairs = self.pairs
        if not pairs.common.any():
            raise _no_common_item(self._base, self._new)
        for run, only in ((self._base, pairs.new_rows < 0), (self._new, pairs.base_rows < 0)):
            if number := int(only.sum()):
                ids = pairs.ids(only, MOST_IDS)
                why = f"only {named(run)} has {counted(number, ids)}: they only widen the interval"
                self.left_out.append(LeftOut("items", run.name, why, number, ids))
        self._not_needed = np.zeros(len(pairs.common), np.bool_)
        for run, rows in self._sides():
            unrun = (rows >= 0) & run.not_needed[rows]
            if number := int(unrun.sum()):
                self._not_needed |= unrun
                why = f"{named(run)} reached its stop_when without {count(number, 'item')}"
                why += ", in random order: they are left out"
                self.left_out.append(LeftOut("items", run.name, why, number))
        if self._base.file is None or self._new.file is None:
            run = self._base if self._base.file is None else self._new
            self.notes.append(
                f"{named(run)} does not say what its items were (items.jsonl is missing or "
                "damaged): they may not be the same"
            )

    def _compare_trials(self) -> None:
        few, many = sorted((self._base, self._new), key=lambda run: run.table.trials)
        fewer, more = few.table.trials, many.table.trials
        if self.options.these_questions and (fewer == 1 or (fewer < more and self._all_trials)):
            raise LimpetError(
                f"these very questions need 2 or more trials in both runs, and the same number: "
                f"{named(few)} has {fewer}, {named(many)} {more}",
                hint="run both with 2 or more trials, or compare without these_questions",
            )
        if fewer == more:
            return
        differs = f"{named(many)} has {count(more, 'trial')}, {named(few)} {fewer}"
        if self._all_trials:
            self.notes.append(f"{differs}: the means of each item are compared, as allowed")
            return
        kept = "the first is" if fewer == 1 else f"the first {fewer} are"
        why = f"{differs}: only {kept} compared"
        self.left_out.append(LeftOut("trials", many.name, why, more - fewer, allow="trials"))

    @property
    def _all_trials(self) -> bool:
        """Whether runs with different numbers of trials are compared by the means of items."""
        return "trials" in self.options.allow

    # ---- evaluators -----------------------------------------------------------------------------

    def _evaluators(self) -> list[str]:
        known = list(dict.fromkeys([*self._base.table.evaluators, *self._new.table.evaluators]))
        if not known:
            are_imported = not any(run.reader.run_file.sessions for run in (self._base, self._new))
            raise LimpetError(
                f"neither {named(self._base)} nor {named(self._new)} has an evaluator: there are "
                "no scores to compare",
                hint="score the imported answers first, with limpet run"
                if are_imported
                else "add evaluators to the file and run it again: the answers are kept",
            )
        return known

    def _is_comparable(self, evaluator: str) -> bool:
        left_out, note = same_evaluator(self._base, self._new, evaluator, self.options.allow)
        self.left_out += [] if left_out is None else [left_out]
        self.notes += [] if note is None else [note]
        return left_out is None

    def _leave_out(self, name: str, why: str) -> None:
        self.left_out.append(LeftOut("evaluators", name, why))

    # ---- scores ---------------------------------------------------------------------------------

    def _add_scores(self, evaluator: str) -> None:
        base, new = self._base.table, self._new.table
        names = dict.fromkeys(
            name
            for table in (base, new)
            for name in (*table.scores, *table.labels)
            if name.evaluator == evaluator
        )
        if not names:
            self._leave_out(evaluator, f"{one_line(evaluator)} has no score in either run")
            return
        at = self._same_rows(evaluator)
        if at is not None:
            for name in names:
                self._add_score(name, at)

    def _same_rows(self, evaluator: str) -> Rows | None:
        """Return the items to compare for an evaluator; None: there are none."""
        pairs = self.pairs
        differing = pairs.differing(evaluator)
        number = int(differing.sum())
        if not number:
            return np.flatnonzero(~self._not_needed)
        ids, common = pairs.ids(differing, MOST_IDS), int(pairs.common.sum())
        are = "is a different row" if number == 1 else "are different rows"
        told = f"{counted(number, ids)} {are} in {named(self._new)} than in {named(self._base)}"
        if "rows" in self.options.allow:
            self._note_once(f"{told}, and compared as allowed")
            return np.flatnonzero(~self._not_needed)
        if number == common:
            why = f"all {count(common, 'common item')} are different rows: this is another dataset"
            self.left_out.append(LeftOut("rows", evaluator, why, number, ids, "rows"))
            return None
        why = f"{told}: left out of {one_line(evaluator)}"
        self.left_out.append(LeftOut("rows", evaluator, why, number, ids, "rows"))
        return np.flatnonzero(~differing & ~self._not_needed)

    def _note_once(self, note: str) -> None:
        self.notes += [] if note in self.notes else [note]

    def _add_score(self, name: ScoreName, at: Rows) -> None:
        has_numbers = [name in run.table.scores for run in (self._base, self._new)]
        has_labels = [name in run.table.labels for run in (self._base, self._new)]
        if all(has_numbers):
            self._add_numbers(name, at)
        elif not any(has_numbers) and all(has_labels):
            labels = (self._labels(run, rows[at], name) for run, rows in self._sides())
            self.labels.append(PairedLabels(name, at, *labels))
        else:
            self._leave_out(str(name), self._why_not_both(name, has_numbers, has_labels))

    def _why_not_both(
        self, name: ScoreName, has_numbers: Sequence[bool], has_labels: Sequence[bool]
    ) -> str:
        runs, shown = (self._base, self._new), one_line(str(name))
        for run, other, numbers, labels in zip(
            runs, runs[::-1], has_numbers, has_labels, strict=True
        ):
            if not numbers and not labels:
                failed = int(run.table.failed.sum() + run.table.failed_scores[name.evaluator].sum())
                told = f": {count(failed, 'item')} failed" if failed else ""
                return f"{named(run)} has no score of {shown}{told}"
            if labels and not numbers:
                return f"{shown} is a label in {named(run)} and a number in {named(other)}"
        raise AssertionError(shown)

    def _sides(self) -> Iterator[tuple[RunToCompare, Rows]]:
        yield self._base, self.pairs.base_rows
        yield self._new, self.pairs.new_rows

    def _labels(self, run: RunToCompare, rows: Rows, name: ScoreName) -> LabelTable:
        found = run.table.labels[name]
        return LabelTable(found.names, taken(found.numbers, rows, self._trials, -1))

    @property
    def _trials(self) -> int:
        return min(self._base.table.trials, self._new.table.trials)

    def _add_numbers(self, name: ScoreName, at: Rows) -> None:
        base, new = (self._values(run.table.scores[name], rows[at]) for run, rows in self._sides())
        shown, scale = one_line(str(name)), self._base.scale(name.evaluator)
        limits = scale.range or self._new.scale(name.evaluator).range
        both = np.concatenate([base.ravel(), new.ravel()])
        infinite = np.isinf(both)
        if infinite.any():
            number = count(int(infinite.sum()), "score")
            self.notes.append(f"{number} of {shown} are not finite: they count as missing")
            base[np.isinf(base)] = new[np.isinf(new)] = np.nan
        there = both[np.isfinite(both)]
        if limits is None:
            limits = (0.0, 1.0) if ((there >= 0) & (there <= 1)).all() else None
        elif len(out := there[(there < limits[0]) | (there > limits[1])]):
            why = f"{shown} has a score of {out[0]:g}, outside its range {range_words(limits)}"
            self._leave_out(str(name), why)
            return
        missing = np.isnan(base) | np.isnan(new)
        if missing.all():
            self._leave_out(str(name), f"no item has a score of {shown} in both runs")
            return
        self._name_labelled(name, at, base, new)
        group = self.options.group
        if group is None and not self.options.these_questions:
            group = scale.group or self._new.scale(name.evaluator).group
        groups = None if group is None else self.fields.coded(group)[0][at]
        if groups is not None and not self._has_groups(name, groups[~missing.all(axis=1)]):
            return
        self.scores.append(
            PairedScores(name, at, base, new, limits, scale.higher_is_better, groups)
        )

    def _has_groups(self, name: ScoreName, groups: Rows) -> bool:
        number = len(set(groups.tolist()))
        if number >= FEWEST_GROUPS:
            return True
        few = f"the items form only {count(number, 'group')}, and {FEWEST_GROUPS} are the fewest"
        self._leave_out(str(name), f"{one_line(str(name))}: {few} that can be compared")
        return False

    def _values(self, values: Floats, rows: Rows) -> Floats:
        if self._all_trials and self._base.table.trials != self._new.table.trials:
            # An item that lacks a trial has no mean.
            values = values.mean(axis=1, keepdims=True)
        found: Floats = taken(values, rows, min(self._trials, values.shape[1]), np.nan)
        return found

    def _name_labelled(self, name: ScoreName, at: Rows, base: Floats, new: Floats) -> None:
        """Name the items that have a label instead of a number."""
        found = np.zeros(len(at), np.bool_)
        for (run, rows), values in zip(self._sides(), (base, new), strict=True):
            if name in run.table.labels and values.shape[1] == self._trials:
                labels = self._labels(run, rows[at], name)
                found |= ((labels.numbers >= 0) & np.isnan(values)).any(axis=1)
        if number := int(found.sum()):
            which: Flags = np.zeros(len(self.pairs.common), np.bool_)
            which[at[found]] = True
            ids = self.pairs.ids(which, MOST_IDS)
            why = f"{counted(number, ids)} have a label of {one_line(str(name))} and no number"
            self.left_out.append(LeftOut("scores", str(name), why, number, ids))


def taken(values: Any, rows: Rows, trials: int, none: Any) -> Any:
    """Return some rows of a table and its first trials; `none` where a row is -1."""
    found = np.full((len(rows), trials), none, values.dtype)
    there = rows >= 0
    found[there] = values[rows[there], :trials]
    return found


def _no_common_item(base: RunToCompare, new: RunToCompare) -> LimpetError:
    ids = [f"{named(run)}: {one_line(run.table.ids[0])}" for run in (base, new) if run.table.ids]
    empty = [named(run) for run in (base, new) if not run.table.ids]
    if empty:
        return LimpetError(f"{empty[0]} has no items", hint="run it first")
    return LimpetError(
        f"{named(base)} and {named(new)} have no item in common",
        hint=f"items are paired by their ids; the first are {'; '.join(ids)}",
    )
