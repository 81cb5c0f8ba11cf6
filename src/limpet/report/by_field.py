"""What are the means for each value of a dataset's field?"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from limpet.report.score_table import ScoreTable
from limpet.report.tables import cell
from limpet.report.words import p_value, shown
from limpet.run.results.score_words import ScoreName, score_words
from limpet.text import one_line

_BY_CHANCE = 0.05
"""A difference counts if its adjusted p value is at most this."""


def groups_table(
    groups: Sequence[Mapping[str, Any]], field: str, only: ScoreName | None = None
) -> ScoreTable:
    """Return a table of groups with their means."""
    scores = [_words(group, only) for group in groups]
    names = dict.fromkeys(name for of_group in scores for name in of_group)
    names |= dict.fromkeys(_unscored(groups, only))
    with_failed = any(group["workflow"]["failed"] for group in groups)
    numbers = ["items", *(["failed"] if with_failed else [])]
    table = ScoreTable([one_line(field), *numbers], list(names), numbers)
    for group, of_group in zip(groups, scores, strict=True):
        failed = sum(group["workflow"]["failed"].values())
        cells = [shown(group["value"]) or "–", f"{group['n']:,}"]
        cells += [f"{failed:,}" if failed else ""] if with_failed else []
        table.add([*map(cell, cells)], of_group, {})
    return table


def difference_lines(
    groups: Sequence[Mapping[str, Any]], only: ScoreName | None = None
) -> list[str]:
    """Return which groups differ from the rest by more than chance, a line each."""
    lines, is_tested = [], False
    for group in groups:
        for evaluator, numbers in group["evaluators"].items():
            by_part = {None: numbers.get("from_rest"), **numbers.get("from_rest_by_score", {})}
            for part, about in by_part.items():
                name = ScoreName(evaluator, part)
                if about is None or only not in (None, name, ScoreName(evaluator)):
                    continue
                is_tested = True
                if about["p_adjusted"] <= _BY_CHANCE:
                    way = "above" if about["difference"] > 0 else "below"
                    value = shown(group["value"]) or "–"
                    apart = f"{abs(about['difference']):.3g} {way} the rest"
                    p = p_value(about["p_adjusted"]).replace("<", "< ")
                    lines.append(f"{value}: {one_line(str(name))} is {apart} (p {p})")
    adjusted = "p values adjusted by Benjamini–Hochberg"
    if is_tested:
        lines = [*lines, adjusted] if lines else [f"no group differs from the rest ({adjusted})"]
    return [*lines, *_grouped(groups, only)]


def _grouped(groups: Sequence[Mapping[str, Any]], only: ScoreName | None) -> Iterator[str]:
    """Yield which scores count the items of a group together: their intervals are wider."""
    for name, numbers in groups[0]["evaluators"].items() if groups else ():
        if (field := numbers.get("group")) and (only is None or only.evaluator == name):
            yield f"{one_line(name)}: items of one {one_line(field)} count together (group)"


def _words(group: Mapping[str, Any], only: ScoreName | None) -> dict[str, str]:
    return {
        one_line(str(name)): words
        for evaluator, numbers in group["evaluators"].items()
        if numbers["completed"]  # else the names of its scores are not known here
        for part, words in score_words(numbers).items()
        if only in (None, name := ScoreName(evaluator, part), ScoreName(evaluator))
    }


def _unscored(groups: Sequence[Mapping[str, Any]], only: ScoreName | None) -> list[str]:
    """Return the evaluators that have scored nothing in any group."""
    return [
        one_line(name)
        for name in groups[0]["evaluators"]
        if not any(group["evaluators"][name]["completed"] for group in groups)
        if only is None or only.evaluator == name
    ]
