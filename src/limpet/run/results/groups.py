"""What are the numbers for each value of a dataset's field?"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from limpet.json_values import encode
from limpet.run.results.filters import MISSING, field_of
from limpet.run.results.item_record import ItemRecord
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

    `value` is the field's value, None for items without it; the rest is as in `summary.json`, with
    `from_rest`: how a mean differs from that of all other items. The groups are sorted: numbers,
    strings, other values, None.
    """
    groups = Groups(field, evaluators, trials, scales)
    for item in items:
        groups.add(item)
    return groups.data()


class Groups:
    """Adds up the numbers of items for each value of a field: see `groups_by`.

    Attributes:
        values: The values so far, by their text.
    """

    def __init__(
        self,
        field: str,
        evaluators: Sequence[str],
        trials: int = 1,
        scales: Mapping[str, Scale] | None = None,
    ) -> None:
        self.values: dict[str, Any] = {}
        self._field, self._about = field, (evaluators, trials, scales)
        self._numbers: dict[str, Numbers] = {}

    def add(self, item: ItemRecord) -> None:
        """Add an item."""
        value = field_of(item, self._field)
        value = None if value is MISSING else value
        text = value if isinstance(value, str) else encode(value)[0].decode()
        if text not in self._numbers:
            self.values[text], self._numbers[text] = value, Numbers(*self._about)
        self._numbers[text].add(item)

    def data(self) -> list[dict[str, Any]]:
        """Return the numbers of each group."""
        ordered = sorted(self._numbers, key=lambda text: _order(self.values[text], text))
        numbers = [self._numbers[text] for text in ordered]
        slices = [
            _group(self._field, self.values[text], one.summary())
            for text, one in zip(ordered, numbers, strict=True)
        ]
        _name_all(slices)
        scores = (scores for one in numbers for scores in one.scores.values())
        if len(slices) > 1 and any(one.parts for one in scores):
            from limpet.run.results.slices import add_differences  # noqa: PLC0415 - slow: NumPy

            add_differences(numbers, slices, self._about[0])
        return slices


def _name_all(slices: Sequence[Mapping[str, Any]]) -> None:
    """Give a group without any score of an evaluator the names that other groups know."""
    known: dict[str, dict[str, None]] = {}
    for group in slices:
        for name, score in group["scores"].items():
            if score["completed"]:
                known.setdefault(score["evaluator"], {})[name] = None
    for group in slices:
        for evaluator, names in known.items():
            empty = group["scores"].get(evaluator)
            if empty is not None and not empty["completed"] and evaluator not in names:
                del group["scores"][evaluator]
                group["scores"].update({name: dict(empty) for name in names})


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
    """Sort groups by a mean; those without one come last."""

    def key(group: Mapping[str, Any]) -> tuple[bool, float]:
        value = _mean(group, by)
        return (value is None) != descending, 0.0 if value is None else value

    groups.sort(key=key, reverse=descending)


def _mean(group: Mapping[str, Any], by: ScoreName) -> float | None:
    """Return the mean of a group; the lowest if it has several."""
    found = scores_of(group, by.evaluator)
    means = [score["mean"] for name, score in found.items() if by.part is None or name == str(by)]
    return min((value for value in means if value is not None), default=None)
