"""What are the means for each value of a dataset's field?"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from limpet.report.score_table import ScoreTable
from limpet.report.tables import cell
from limpet.report.words import shown
from limpet.run.results.evaluation_result import ItemResult
from limpet.run.results.filters import MISSING, ScoreName, field_of
from limpet.run.results.score_words import score_words
from limpet.run.results.summary import Numbers
from limpet.text import one_line


def groups_by(
    items: Iterable[ItemResult], field: str, evaluators: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the numbers of the items for each value of a field, as JSON data.

    `value` is the field's value, None if an item does not have it; the rest is as in
    `summary.json`. The groups are in the order in which they first appear.
    """
    numbers: dict[str, tuple[Any, Numbers]] = {}
    for item in items:
        value = field_of(item, field)
        value = None if value is MISSING else value
        known = numbers.setdefault(shown(value), (value, Numbers(evaluators)))
        known[1].add(item)
    return [_group(field, value, of_value.summary()) for value, of_value in numbers.values()]


def _group(field: str, value: Any, summary: Mapping[str, Any]) -> dict[str, Any]:
    about_run = ("masked", "versions")
    numbers = {name: part for name, part in summary.items() if name not in about_run}
    return {"field": field, "value": value, **numbers}


def sort_groups(groups: list[dict[str, Any]], by: ScoreName, *, descending: bool) -> None:
    """Sort groups by a mean; those without one are last."""

    def key(group: Mapping[str, Any]) -> tuple[bool, float]:
        value = _mean(group, by)
        return (value is None) != descending, 0.0 if value is None else value

    groups.sort(key=key, reverse=descending)


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


def _mean(group: Mapping[str, Any], by: ScoreName) -> float | None:
    """Return a mean of a group; the lowest, if it has several."""
    numbers = group["evaluators"][by.evaluator]
    means: dict[str | None, float | None] = {None: numbers["mean"], **numbers.get("means", {})}
    chosen = means.values() if by.part is None else [means.get(by.part)]
    return min((value for value in chosen if value is not None), default=None)
