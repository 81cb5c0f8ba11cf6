"""What does a comparison look like on a terminal?"""

import math
from collections.abc import Iterator, Mapping

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from limpet.report.tables import Indented, cell, plain_table
from limpet.report.words import json_line, latency, p_value, shown
from limpet.run.comparing.results import (
    AmountDifference,
    Comparison,
    Flip,
    GateResult,
    LabelComparison,
    RunAbout,
    RunComparison,
    ScoreComparison,
    ScoreDifference,
)
from limpet.text import count, money, one_line

# ---- How is a comparison put in numbers and sentences? ------------------------------------------
#
# The terminal and the Markdown file share them.

_LARGE = 1_000
_BEFORE = 12
"""How many characters of two answers are shown before their first difference."""
VERDICTS = {
    "better": "better",
    "worse": "worse",
    "no difference seen": "unclear",
    "not known": "–",
}


def number(value: float, *, signed: bool = False) -> str:
    """Return a number with three decimals; a large one with four digits."""
    if not math.isfinite(value):
        return "–"
    sign = "+" if signed else ""
    if abs(value) < 0.0005:  # noqa: PLR2004 - it rounds to 0.000
        return "0" if value == 0 else f"{value:{sign}.1g}"
    return f"{value:{sign}.3f}" if abs(value) < _LARGE else f"{value:{sign},.4g}"


def interval(low: float, high: float) -> str:
    """Return the ends of an interval: `-0.012 to +0.034`; a dash if there is none."""
    if not math.isfinite(high - low):
        return "–"
    return f"{number(low, signed=True)} to {number(high, signed=True)}"


def about_words(about: RunAbout) -> str:
    """Return how far a run is: `40 items · 2 failed`."""
    parts = [count(about.items, "item")]
    parts += [count(about.trials, "trial")] if about.trials > 1 else []
    parts += [f"{about.failed:,} failed"] if about.failed else []
    parts += [
        f"{one_line(name)}: {failed:,} failed"
        for name, failed in about.failed_scores.items()
        if failed
    ]
    parts += [f"{about.not_run:,} not run"] if about.not_run else []
    parts += ["running: these numbers are interim"] if about.is_running else []
    return " · ".join(parts)


def score_row(name: str, score: ScoreComparison, *, several: bool) -> list[str]:
    """Return the cells of a score in the table."""
    p = score.p_holm if several else score.headline.p
    return [name, *difference_cells(score, p)]


def difference_cells(found: ScoreDifference, p: float) -> list[str]:
    """Return both means, the change, its interval, p and the verdict."""
    ends = found.headline
    return [
        number(found.base_mean),
        number(found.new_mean),
        number(found.delta, signed=True),
        interval(ends.low, ends.high),
        p_value(p),
        VERDICTS[found.verdict],
    ]


def p_title(comparison: Comparison) -> str:
    """Return the title of the column with p."""
    return "p (Holm)" if is_corrected(comparison) else "p"


def is_corrected(comparison: Comparison) -> bool:
    """Return whether more than one score or run is compared."""
    numbers = [
        score
        for run in comparison.new
        for score in run.scores.values()
        if isinstance(score, ScoreComparison)
    ]
    return len(numbers) > 1


def score_lines(name: str, score: ScoreComparison) -> Iterator[str]:
    """Yield the lines about a score below the table."""
    name = one_line(name)
    counts = f"{score.better:,} better, {score.same:,} same, {score.worse:,} worse"
    how = [score.method]
    how += [f"{score.groups:,} groups"] if score.groups is not None else []
    how += [f"mid-p {p_value(score.mid_p)}"] if score.mid_p is not None else []
    how += [] if score.higher_is_better else ["lower is better"]
    words = f"{name}: {counts} of {count(score.n, 'item')} ({', '.join(how)})"
    if score.missing and score.bounds is not None:
        alone = interval(score.low, score.high)
        words += f"; {score.missing:,} missing counted as worst and as best; without them {alone}"
    elif score.missing:
        words += f"; {score.missing:,} missing are left out: the score has no range"
    yield words
    if score.verdict == "not known":
        yield f"{name}: {score.why_not_known}"
    elif score.verdict == "no difference seen" and not score.low <= 0 <= score.high:
        yield f"{name}: unclear because scores are missing, not because there are too few items"
    elif score.verdict == "no difference seen" and math.isfinite(score.smallest_seen):
        least, items = number(score.smallest_seen), count(score.n, "item")
        seen = f"{name}: with {items}, only differences of {least} or more are detectable"
        if score.items_to_decide is not None:
            items = count(score.items_to_decide, "item")
            seen += f"; detecting one of {number(abs(score.delta))} takes about {items}"
        yield seen


def label_lines(name: str, labels: LabelComparison) -> Iterator[str]:
    """Yield how the labels of a score changed."""
    changed = sum(labels.changes.values())
    missing = f"; {labels.missing:,} have no label in one of the runs" if labels.missing else ""
    yield f"{one_line(name)}: {changed:,} of {count(labels.n, 'label')} changed{missing}"


def label_rows(labels: LabelComparison) -> list[list[str]]:
    """Return each label with its counts in both runs."""
    names = dict.fromkeys([*labels.base, *labels.new])
    ranked = sorted(names, key=lambda name: (-labels.base.get(name, 0), name))
    return [
        [name, f"{before:,}", f"{after:,}", f"{after - before:+,}"]
        for name in ranked
        for before, after in [(labels.base.get(name, 0), labels.new.get(name, 0))]
    ]


def change_lines(labels: LabelComparison, most: int = 10) -> Iterator[str]:
    """Yield each change of label, with its count."""
    for (before, after), number_ in list(labels.changes.items())[:most]:
        yield f"{number_:,} × {one_line(before)} → {one_line(after)}"
    if more := len(labels.changes) - most:
        yield from [f"… and {more:,} other changes"] if more > 0 else []


def left_out_lines(run: RunComparison) -> Iterator[str]:
    """Yield what is left out, and other remarks, a sentence each."""
    yield from map(one_line, (*run.about.notes, *run.notes))
    for one in run.left_out:
        hint = f" (--allow {one.allow} compares them)" if one.allow else ""
        yield f"{one.why}{hint}"


def answers(flip: Flip) -> tuple[str, str]:
    """Return both answers on one line each, from shortly before their first difference."""
    outputs = (flip.base.output, flip.new.output)
    if None in outputs or outputs[0] == outputs[1]:
        return shown(outputs[0]) or "–", shown(outputs[1]) or "–"
    base, new = (each if isinstance(each, str) else json_line(each) for each in outputs)
    letters = enumerate(zip(base, new, strict=False))
    same = next((at for at, (a, b) in letters if a != b), min(len(base), len(new)))
    begin = same - _BEFORE
    if begin <= _BEFORE:
        return one_line(base) or "–", one_line(new) or "–"
    begin = base.find(" ", begin, same) + 1 or begin
    return f"…{one_line(base[begin:])}", f"…{one_line(new[begin:])}"


def are_news(score: ScoreComparison | LabelComparison) -> bool:
    """Return whether it matters which items changed: not if all did, as with a length."""
    return isinstance(score, LabelComparison) or score.range is not None or score.same > 0


def amount_lines(run: RunComparison) -> Iterator[str]:
    """Yield the differences of cost and latency."""
    if (found := run.cost) is not None:
        share = _share(found)
        both = f"${money(found.base.total)} → ${money(found.new.total)}"
        yield f"cost: {both}{share} for the answers to {count(found.n, 'item')}"
    if (found := run.latency) is not None:
        yield (
            f"latency: median {latency(found.base.median)} → {latency(found.new.median)}, "
            f"p95 {latency(found.base.p95)} → {latency(found.new.p95)}, "
            f"mean {_change(found.delta)} s{_ends(found)}"
        )


def _share(found: AmountDifference) -> str:
    if not found.base.total:
        return ""
    share = round((found.new.total - found.base.total) / found.base.total, 2)
    return f" ({share + 0.0:+.0%})"  # not -0%


def _ends(found: AmountDifference) -> str:
    is_known = math.isfinite(found.high - found.low)
    return f" ({_change(found.low)} to {_change(found.high)} s)" if is_known else ""


def _change(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "–"
    decimals = 3 if abs(seconds) < 0.1 else 2 if abs(seconds) < 10 else 0  # noqa: PLR2004 - no exponents
    return f"{round(seconds, decimals) + 0.0:+.{decimals}f}"


def gate_words(gate: GateResult) -> str:
    """Return the verdict of a gate, and why."""
    side = "below" if gate.higher_is_better else "above"
    line = -gate.margin if gate.higher_is_better else gate.margin
    words = (
        f"{one_line(gate.name)}: {gate.verdict}: the change is {number(gate.delta, signed=True)}"
        f"{_bound_words(gate)}; worse would be {side} {number(line, signed=True)}"
    )
    if gate.missing:
        words += f"; {count(gate.missing, 'pair lacks', 'pairs lack')} a score"
        words += f": {gate.why}" if gate.why else ", counted as worst and as best"
    elif gate.why:
        words += f": {gate.why}"
    if gate.verdict == "inconclusive" and gate.items_to_decide is not None:
        words += f"; about {count(gate.items_to_decide, 'item')} would decide it"
    return words


def _bound_words(gate: GateResult) -> str:
    """Return the bounds of the change: one if it decides, else both.

    Each holds with 95% confidence on its own, so they are closer than the ends of the interval.
    """
    low, high = number(gate.low, signed=True), number(gate.high, signed=True)
    if gate.verdict == "inconclusive":
        return f" and may be from {low} to {high}"
    is_above = (gate.verdict == "not worse") == gate.higher_is_better
    return f", with 95% confidence {f'above {low}' if is_above else f'below {high}'}"


# ---- What does a comparison look like on a terminal? --------------------------------------------

_NUMBERS = ("base", "new", "change")
_STYLES = {"better": "green", "worse": "red", "not worse": "green", "inconclusive": "yellow"}
_INTERVAL = "95% interval"


def comparison_lines(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield a comparison."""
    base = comparison.base
    yield Text.assemble(("base  ", "cyan"), f"{one_line(base.run)} · {about_words(base)}")
    yield from (Indented(one_line(note)) for note in base.notes)
    for run in comparison.new:
        words = f"{one_line(run.run)} · {about_words(run.about)}"
        yield Text.assemble(("new   ", "cyan"), words)
        yield Text()
        yield from _run_lines(run, comparison)
        yield Text()
    if comparison.these_questions:
        yield Text("the conclusions hold for these very questions, not for similar ones")
    if is_corrected(comparison):
        yield Text("p is corrected for the number of comparisons (Holm)", style="dim")
    for gate in comparison.gates:
        several = f" ({one_line(gate.run)})" if len(comparison.new) > 1 else ""
        style = _STYLES.get(gate.verdict, "")
        yield Text(f"{gate_words(gate)}{several}", style=style)


def _run_lines(run: RunComparison, comparison: Comparison) -> Iterator[RenderableType]:
    numbers = {name: one for name, one in run.scores.items() if isinstance(one, ScoreComparison)}
    if numbers:
        yield _scores_table(numbers, comparison)
        for name, score in numbers.items():
            yield from (Indented(line, hang=2) for line in score_lines(name, score))
    for name, score in numbers.items():
        if score.slices:
            yield Text()
            yield Text(f"{one_line(name)} by {one_line(comparison.by or '')}", style="bold")
            yield _slices_table(score, one_line(comparison.by or ""))
    for name, labels in run.scores.items():
        if isinstance(labels, LabelComparison):
            yield from (Text(line) for line in label_lines(name, labels))
            yield _labels_table(labels)
            yield from (Indented(line) for line in change_lines(labels))
    yield from (Text(f"note: {line}", style="yellow") for line in left_out_lines(run))
    yield from (Text(line) for line in amount_lines(run))
    yield from _flip_lines(run)


def _scores_table(scores: Mapping[str, ScoreComparison], comparison: Comparison) -> Table:
    title = p_title(comparison)
    titles = ("score", *_NUMBERS, _INTERVAL, title, "verdict")
    table = plain_table(*titles, fixed=titles[4:], numbers=[*_NUMBERS, title])
    for name, score in scores.items():
        cells = score_row(one_line(name), score, several=is_corrected(comparison))
        table.add_row(*map(cell, cells[:-1]), cell(cells[-1], _STYLES.get(cells[-1], "")))
    return table


def _slices_table(score: ScoreComparison, field: str) -> Table:
    titles = (field, "items", *_NUMBERS, _INTERVAL, "p (BH)", "verdict")
    table = plain_table(*titles, fixed=titles[5:], numbers=["items", *_NUMBERS, "p (BH)"])
    for one in score.slices:
        name = cell(shown(one.value) or "–")
        if one.difference is None:
            table.add_row(name, "0", *("–" for _ in titles[2:]))
        else:
            found = one.difference
            cells = difference_cells(found, found.p if one.p_bh is None else one.p_bh)
            table.add_row(name, f"{found.n:,}", *map(cell, cells))
    return table


def _labels_table(labels: LabelComparison) -> Table:
    table = plain_table("label", *_NUMBERS, numbers=_NUMBERS)
    for name, *counts in label_rows(labels):
        table.add_row(cell(one_line(name)), *counts)
    return table


def _flip_lines(run: RunComparison) -> Iterator[RenderableType]:
    for name in dict.fromkeys(flip.score for flip in run.flips):
        score = run.scores[name]
        if len(run.scores) > 1 and not are_news(score):
            how = f"all {count(score.n, 'item')} changed; --evaluator {one_line(name)} shows them"
            yield Text()
            yield Text(f"biggest changes in {one_line(name)}: {how}", style="dim")
            continue
        flips = [flip for flip in run.flips if flip.score == name]
        yield Text()
        yield Text(f"biggest changes in {one_line(name)}", style="bold")
        table = plain_table("item", "score", "base", "new", fixed=["score"])
        for flip in flips:
            style = "red" if flip.is_worse else ""
            words = (cell(item_words(flip)), cell(flip_words(flip), style))
            table.add_row(*words, *map(cell, answers(flip)))
        yield table


def item_words(flip: Flip) -> str:
    """Return which item changed, and in which trial if that is not the first."""
    return one_line(flip.id) + (f", trial {flip.trial}" if flip.trial else "")


def flip_words(flip: Flip) -> str:
    """Return how a score changed: `1 → 0`, `kind → rude`."""
    return " → ".join(
        one_line(score) if isinstance(score, str) else f"{score:g}"
        for score in (flip.base.value, flip.new.value)
    )
