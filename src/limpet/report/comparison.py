"""What does a comparison look like on a terminal?"""

from collections.abc import Iterator, Mapping

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from limpet.report.comparison_words import (
    about_words,
    amount_lines,
    answers,
    are_news,
    change_lines,
    difference_cells,
    gate_words,
    is_corrected,
    label_lines,
    label_rows,
    left_out_lines,
    p_head,
    score_lines,
    score_row,
)
from limpet.report.tables import Indented, cell, plain_table
from limpet.report.words import shown
from limpet.run.comparing.results import (
    Comparison,
    Flip,
    LabelComparison,
    RunComparison,
    ScoreComparison,
)
from limpet.text import count, one_line

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
        yield Text("about these very questions asked again, not about others like them")
    if is_corrected(comparison):
        yield Text("p is corrected for the number of comparisons by Holm", style="dim")
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
    head = p_head(comparison)
    heads = ("score", *_NUMBERS, _INTERVAL, head, "verdict")
    table = plain_table(*heads, fixed=heads[4:], numbers=[*_NUMBERS, head])
    for name, score in scores.items():
        cells = score_row(one_line(name), score, several=is_corrected(comparison))
        table.add_row(*map(cell, cells[:-1]), cell(cells[-1], _STYLES.get(cells[-1], "")))
    return table


def _slices_table(score: ScoreComparison, field: str) -> Table:
    heads = (field, "items", *_NUMBERS, _INTERVAL, "p (BH)", "verdict")
    table = plain_table(*heads, fixed=heads[5:], numbers=["items", *_NUMBERS, "p (BH)"])
    for one in score.slices:
        name = cell(shown(one.value) or "–")
        if one.difference is None:
            table.add_row(name, "0", *("–" for _ in heads[2:]))
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
            how = f"all {count(score.n, 'item')} changed, --evaluator {one_line(name)} shows them"
            yield Text()
            yield Text(f"biggest changes of {one_line(name)}: {how}", style="dim")
            continue
        flips = [flip for flip in run.flips if flip.score == name]
        yield Text()
        yield Text(f"biggest changes of {one_line(name)}", style="bold")
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
        for score in (flip.base.score, flip.new.score)
    )
