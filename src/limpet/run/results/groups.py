"""What are the numbers for each value of a dataset's field?"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from limpet.json_values import encode
from limpet.run.results.filters import MISSING, field_of
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_numbers import ScoreNumbers
from limpet.run.results.score_words import ScoreName, scores_of
from limpet.run.results.summary import Numbers
from limpet.shapes import Scale


def groups_by(
    items: Iterable[ItemRecord],
    field: str,
    evaluators: Sequence[str],
    trials: int = 1,
    scales: Mapping[str, Scale] | None = None,
) -> list[dict[str, Any]]:
    """Return the numbers of the items for each value of a field, as JSON data.

    `value` is the field's value, None if an item does not have it; the rest is as in
    `summary.json`, with `from_rest`: how a mean differs from that of all other items. The groups
    are sorted: numbers, then strings, then other values, then None.
    """
    numbers: dict[str, tuple[Any, Numbers]] = {}
    for item in items:
        value = field_of(item, field)
        value = None if value is MISSING else value
        text = value if isinstance(value, str) else encode(value)[0].decode()
        known = numbers.setdefault(text, (value, Numbers(evaluators, trials, scales)))
        known[1].add(item)
    ordered = sorted(numbers.items(), key=lambda pair: _order(pair[1][0], pair[0]))
    slices = [_group(field, value, of_value.summary()) for _, (value, of_value) in ordered]
    if len(slices) > 1 and any(scores.parts for scores in _all_scores(numbers)):
        from limpet.run.results.slices import add_differences  # noqa: PLC0415 - slow: NumPy

        add_differences([of_value for _, (_, of_value) in ordered], slices, evaluators)
    return slices


def _all_scores(numbers: Mapping[str, tuple[Any, Numbers]]) -> Iterator[ScoreNumbers]:
    return (scores for _, of_value in numbers.values() for scores in of_value.scores.values())


def coded(values: Iterable[Any]) -> tuple[list[int], list[Any]]:
    """Return the number of each value, and the values in the order of `groups_by`."""
    texts, known = list[str](), dict[str, Any]()
    for value in values:
        given = None if value is MISSING else value
        text = given if isinstance(given, str) else f"\0{encode(given)[0].decode()}"
        texts.append(text)
        known.setdefault(text, given)
    ordered = sorted(known, key=lambda text: _order(known[text], text))
    numbers = {text: number for number, text in enumerate(ordered)}
    return [numbers[text] for text in texts], [known[text] for text in ordered]


def _order(value: Any, text: str) -> tuple[int, float, str]:
    if value is None:
        return 3, 0.0, ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return 0, value, ""
    return (1 if isinstance(value, str) else 2), 0.0, text


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


def _mean(group: Mapping[str, Any], by: ScoreName) -> float | None:
    """Return a mean of a group; the lowest, if it has several."""
    found = scores_of(group, by.evaluator)
    means = [score["mean"] for name, score in found.items() if by.part is None or name == str(by)]
    return min((value for value in means if value is not None), default=None)
