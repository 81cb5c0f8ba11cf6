"""Is the new run better? `limpet.compare`: runs against a base, item by item."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from limpet import stats
from limpet.errors import LimpetError, ScoresError
from limpet.run.comparing.comparable import Comparable, CompareOptions, PairedLabels
from limpet.run.comparing.opened_run import AnyRun, RunToCompare, open_to_compare
from limpet.run.comparing.pairs import cost, latency, pair
from limpet.run.comparing.results import (
    Answer,
    Comparison,
    Flip,
    GateResult,
    LabelComparison,
    LeftOut,
    RunComparison,
    ScoreComparison,
    ScoreDifference,
    Slice,
)
from limpet.run.comparing.scores import (
    SIGNIFICANT,
    PairedScores,
    difference,
    gate,
    sliced,
    to_decide,
)
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_words import ScoreName, no_such_score, split_name
from limpet.text import hint_near, one_line, quoted

# ---- Which of the comparable scores are shown? --------------------------------------------------
#
# A gate uses its score even if it is not shown.


def shown(found: Comparable, name: str | None) -> Comparable:
    """Return what is shown: all, or one evaluator or score.

    Raises:
        LimpetError: There is no such score, or nothing is left to compare.
    """
    some = found if name is None else _only(found, _score_name(found, name))
    if some.scores or some.labels:
        return some
    left_out = [one for one in some.left_out if one.kind != "items"]
    told = "; ".join(dict.fromkeys(one.why for one in left_out))
    allow = [one.allow for one in left_out if one.allow is not None]
    hint = None
    if allow:
        hint = f'limpet compare --allow {allow[0]} compares it, in Python allow="{allow[0]}"'
    runs = f"{one_line(found.pairs.base.name)} and {one_line(found.pairs.new.name)}"
    raise LimpetError(f"{runs} cannot be compared: {told}", hint=hint)


def _only(found: Comparable, wanted: ScoreName) -> Comparable:
    def is_wanted(name: ScoreName) -> bool:
        return wanted in (name, ScoreName(name.evaluator))

    def is_about(one: LeftOut) -> bool:
        is_general = one.kind in ("items", "trials")
        return is_general or one.name in (wanted.evaluator, str(wanted))

    some = copy(found)
    some.scores = [one for one in found.scores if is_wanted(one.name)]
    some.labels = [one for one in found.labels if is_wanted(one.name)]
    some.left_out = [one for one in found.left_out if is_about(one)]
    return some


def _score_name(found: Comparable, name: str) -> ScoreName:
    tables = (found.pairs.base.table, found.pairs.new.table)
    evaluators = dict.fromkeys(one for table in tables for one in table.evaluators)
    wanted = split_name(name, evaluators)
    parts = [one for table in tables for one in (*table.scores, *table.labels)]
    if wanted is None or (wanted.part is not None and wanted not in parts):
        raise no_such_score(name, [*evaluators, *map(str, parts)])
    return wanted


# ---- Which items changed most, and what did both runs answer? -----------------------------------


class _Change(NamedTuple):
    """An item that changed; `at` is its position among the pairs."""

    score: str
    at: int
    trial: int
    delta: float | None
    is_worse: bool
    base: Any
    new: Any


def flips(found: Comparable, most: int) -> list[Flip]:
    """Return the items that changed most, at most so many of each score.

    The largest changes come first; among equal ones, those that got worse.
    """
    changes = [
        *(change for scores in found.scores for change in _of_numbers(scores, most)),
        *(change for labels in found.labels for change in _of_labels(labels, most)),
    ]
    pairs = found.pairs
    base = pairs.base.read({int(pairs.base_rows[change.at]) for change in changes})
    new = pairs.new.read({int(pairs.new_rows[change.at]) for change in changes})
    return [
        Flip(
            change.score,
            pairs.base.table.ids[pairs.base_rows[change.at]],
            change.trial,
            change.delta,
            change.is_worse,
            _answer(base.get((int(pairs.base_rows[change.at]), change.trial)), change.base),
            _answer(new.get((int(pairs.new_rows[change.at]), change.trial)), change.new),
        )
        for change in changes
    ]


def _answer(item: ItemRecord | None, score: Any) -> Answer:
    return Answer(None if item is None else item.output, score)


def _of_numbers(scores: PairedScores, most: int) -> Iterator[_Change]:
    change = scores.changes()
    turned = change if scores.higher_is_better else -change
    some = np.flatnonzero(np.nan_to_num(change))
    order = np.lexsort((some, turned[some] > 0, -np.abs(change[some])))
    for row in some[order[:most]]:
        moved = np.abs(scores.new[row] - scores.base[row])
        trial = int(np.nanargmax(moved))
        yield _Change(
            str(scores.name),
            int(scores.at[row]),
            trial,
            float(change[row]),
            bool(turned[row] < 0),
            float(scores.base[row, trial]),
            float(scores.new[row, trial]),
        )


def _of_labels(labels: PairedLabels, most: int) -> Iterator[_Change]:
    for row, trial, before, after in label_changes(labels)[:most]:
        at = int(labels.at[row])
        yield _Change(str(labels.name), at, trial, None, False, before, after)  # noqa: FBT003


def label_changes(labels: PairedLabels) -> Sequence[tuple[int, int, str, str]]:
    """Return the cells whose label changed: row, trial, from, to."""
    base, new = labels.base, labels.new
    # The same label may have another number in the other run.
    number_in_base = {name: number for number, name in enumerate(base.names)}
    turned = np.array([number_in_base.get(name, -1) for name in new.names])
    there = (base.numbers >= 0) & (new.numbers >= 0)
    changed = there & (turned[new.numbers] != base.numbers)
    return [
        (row, trial, base.names[base.numbers[row, trial]], new.names[new.numbers[row, trial]])
        for row, trial in np.argwhere(changed).tolist()
    ]


# ---- Is the new run better? `limpet.compare`: runs against a base, item by item. ----------------

_MOST_SLICES = 500


def compare(
    base: AnyRun,
    new: AnyRun,
    *more: AnyRun,
    evaluator: str | None = None,
    group: str | None = None,
    by: str | None = None,
    allow: str | Collection[str] = (),
    these_questions: bool = False,
    fail_if_worse: Mapping[str, float] | None = None,
    flips: int = 5,  # noqa: A002, RUF100 - the word of the command line
) -> Comparison:
    """Compare runs with a base, item by item. Nothing runs, and nothing is changed.

    Items are paired by their ids and trials. What differs besides the answers (rows, evaluators,
    the number of trials) is named and left out. A score that is missing in one of the runs widens
    the interval: it is taken as the worst possible, and as the best.

    Args:
        base: The run to compare with: its directory, its name under `./runs`, or its result.
        new: The run that may be better.
        more: More runs, each compared with the base. Their p values are corrected by Holm.
        evaluator: The only score to compare, like "judge" or "judge.tone"; None: all.
        group: A field of the dataset that says which items belong together, like a document.
        by: A field of the dataset: the difference is also given for each of its values.
        allow: What may differ and is still compared: "rows", "evaluators", "trials".
        these_questions: Conclude about these very questions, not about questions like these. Needs
            two trials or more.
        fail_if_worse: By score, the largest acceptable loss: see `Comparison.gates`.
        flips: How many of the items that changed most to read, for each score.

    Raises:
        LimpetError: A run does not exist, or nothing can be compared. The message says why.
        TypeError: An argument has the wrong type.
        ValueError: An argument has a wrong value.
    """
    options = CompareOptions(
        evaluator, group, by, allow, these_questions, dict(fail_if_worse or {}), flips
    )
    return compare_runs([base, new, *more], options)


def compare_runs(runs: Sequence[AnyRun], options: CompareOptions) -> Comparison:
    """Compare runs with the first of them; see `compare`."""
    return compare_pairs(runs, options)[0]


def compare_pairs(
    runs: Sequence[AnyRun | RunToCompare], options: CompareOptions
) -> tuple[Comparison, list[Comparable]]:
    """Return the same, and what was compared of each run. What is open stays open."""
    with ExitStack() as opened:
        base, *others = (_opened(run, opened) for run in runs)
        compared = [_compare(base, new, options) for new in others]
        results = _corrected([found for found, _ in compared])
        gates = [each for found in compared for each in _gates(*found, options)]
        comparison = Comparison(
            base.about(), results, gates, options.by, options.group, options.these_questions
        )
        return comparison, [found for _, found in compared]


def _opened(run: AnyRun | RunToCompare, opened: ExitStack) -> RunToCompare:
    if isinstance(run, RunToCompare):
        return run
    found = open_to_compare(run)
    opened.callback(found.reader.close)
    return found


def _compare(
    base: RunToCompare, new: RunToCompare, options: CompareOptions
) -> tuple[RunComparison, Comparable]:
    comparable = Comparable(pair(base, new), options)
    found = shown(comparable, options.evaluator)
    notes = list(found.notes)
    if base.reader.layout.home == new.reader.layout.home:
        notes.insert(0, f"{one_line(new.name)} is compared with itself")
    scores: dict[str, ScoreComparison | LabelComparison] = {
        str(scores.name): _compared(scores, found, options) for scores in found.scores
    }
    scores |= {str(labels.name): _compared_labels(labels) for labels in found.labels}
    result = RunComparison(
        new.about(),
        scores,
        tuple(found.left_out),
        tuple(notes),
        tuple(flips(found, options.flips)),
        cost(found.pairs),
        latency(found.pairs),
    )
    return result, comparable


def _compared(scores: PairedScores, found: Comparable, options: CompareOptions) -> ScoreComparison:
    these = options.these_questions
    try:
        whole = difference(scores, these_questions=these)
    except ScoresError as error:
        raise LimpetError(f"{one_line(str(scores.name))}: {error}", hint=error.hint) from error
    assert whole is not None  # else it is left out
    slices: Sequence[Slice] = ()
    if options.by is not None:
        codes, values = found.fields.coded(options.by)
        if len(values) > _MOST_SLICES:
            name = quoted(options.by)
            raise LimpetError(
                f"the field {name} has {len(values):,} values: too many to compare each",
                hint="choose a field with fewer values",
            )
        slices = _slices(sliced(scores, codes, values, these_questions=these))
    groups = None if scores.groups is None else len(set(scores.groups.tolist()))
    given = {field.name: getattr(whole, field.name) for field in fields(ScoreDifference)}
    return ScoreComparison(
        **given,
        range=scores.range,
        higher_is_better=scores.higher_is_better,
        p_holm=whole.headline.p,
        groups=groups,
        slices=slices,
    )


def _slices(found: Sequence[tuple[Any, ScoreDifference | None]]) -> list[Slice]:
    """Return slices with their p corrected for their number."""
    known = [each for _, each in found if each is not None]
    corrected = _adjusted(stats.benjamini_hochberg, [each.headline.p for each in known])
    slices = []
    for value, each in found:
        if each is None:
            slices.append(Slice(value, None))
        else:
            p_bh = next(corrected)
            slices.append(Slice(value, _doubted(each, p_bh), p_bh))
    return slices


def _adjusted(
    adjust: Callable[[Sequence[float]], list[float]], ps: Sequence[float]
) -> Iterator[float]:
    """Yield p values corrected for their number; NaN where there is none."""
    known = [p for p in ps if not math.isnan(p)]
    corrected = iter(adjust(known) if known else ())
    for p in ps:
        yield p if math.isnan(p) else next(corrected)


def _doubted(found: Any, p: float) -> Any:
    """Return a difference whose verdict depends on its corrected p."""
    if found.verdict in ("no difference seen", "not known") or p < SIGNIFICANT:
        return found
    verdict: Any = "no difference seen"
    decide = to_decide(found.n, found.delta, found.smallest_seen, verdict)
    return replace(found, verdict=verdict, items_to_decide=decide)


def _corrected(runs: Sequence[RunComparison]) -> list[RunComparison]:
    """Correct the p values for the number of scores and runs, by Holm."""
    scores = [
        score for run in runs for score in run.scores.values() if isinstance(score, ScoreComparison)
    ]
    corrected = _adjusted(stats.holm, [score.headline.p for score in scores])
    results = []
    for run in runs:
        changed = dict(run.scores)
        for name, score in run.scores.items():
            if isinstance(score, ScoreComparison):
                p = next(corrected)
                changed[name] = replace(_doubted(score, p), p_holm=p)
        results.append(replace(run, scores=changed))
    return results


def _compared_labels(labels: PairedLabels) -> LabelComparison:
    there = (labels.base.numbers >= 0) & (labels.new.numbers >= 0)
    base, new = (
        {name: number for at, name in enumerate(side.names)
         if (number := int((side.numbers[there] == at).sum()))}
        for side in (labels.base, labels.new)
    )  # fmt: skip
    changes = Counter((before, after) for *_, before, after in label_changes(labels))
    ranked = dict(sorted(changes.items(), key=lambda pair: (-pair[1], pair[0])))
    return LabelComparison(int(there.sum()), base, new, ranked, int((~there).sum()))


def _gates(result: RunComparison, found: Comparable, options: CompareOptions) -> list[GateResult]:
    known = {str(scores.name): scores for scores in found.scores}
    gates = []
    for name, margin in options.fail_if_worse.items():
        if name not in known:
            raise _no_gate(name, result, found)
        gates.append(gate(known[name], result.run, margin))
    return gates


def _no_gate(name: str, result: RunComparison, found: Comparable) -> LimpetError:
    """Return why a gate cannot be decided."""
    shown = f"the gate on {quoted(name)}"
    for one in found.left_out:
        if one.name in (name, name.partition(".")[0]) and one.kind == "evaluators":
            hint = None if one.allow is None else f"limpet compare --allow {one.allow} compares it"
            return LimpetError(f"{shown} cannot be decided: {one.why}", hint=hint)
    parts = [one for one in result.scores if one.startswith(f"{name}.")]
    if parts:
        listed = ", ".join(map(one_line, parts))
        return LimpetError(f"{shown}: it has several scores: name one of {listed}")
    if isinstance(result.scores.get(name), LabelComparison):
        return LimpetError(
            f"{shown}: it gives labels, which are not better or worse",
            hint="use an evaluator that gives numbers",
        )
    listed = ", ".join(map(one_line, result.scores))
    return LimpetError(
        f"{shown}: no such score is compared; known: {listed}",
        hint=hint_near(name, result.scores),
    )
