"""Which items of a result are wanted, and in which order?

`limpet show` and `EvaluationResult.filter` take the same filters. They work item by item, so that
the worst ten of a large run take the memory of ten items.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from limpet.arguments import whole_number_from
from limpet.errors import LimpetError
from limpet.run.results.item_record import ItemRecord
from limpet.run.results.score_words import ScoreName, parts_of, split_name, votes_disagree
from limpet.text import hint_near, one_line, quoted

MISSING = object()
"""The value of a field in an item without it."""
_ABOUT_ITEM = ("id", "trial", "status")
"""Other names that work like a field."""
_MOST_NAMES = 20
_IS_NUMBER = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which items are wanted, and in which order; all conditions must hold.

    Attributes:
        failed: Only items with a failure, of `evaluator` if it is given.
        evaluator: The score that `failed`, `label` and `disagree` apply to; None: any.
        below: The upper limits of scores.
        label: The label that a score must have.
        disagree: Only items with a score on which the votes, or both orders of a pair, disagree.
        where: The allowed values, by field.
        grep: The text that must occur, ignoring case.
        sort: The score to sort by, lowest first; None: as in the dataset.
        descending: Sort with the highest first.
        worst: The number of first items in this order, without those that have no score.
    """

    failed: bool = False
    evaluator: ScoreName | None = None
    below: Mapping[ScoreName, float] = field(default_factory=dict)
    label: str | None = None
    disagree: bool = False
    where: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    grep: str | None = None
    sort: ScoreName | None = None
    descending: bool = False
    worst: int | None = None

    @property
    def selects(self) -> bool:
        """Whether it leaves out items."""
        conditions = (self.below, self.label, self.disagree, self.where, self.grep)
        return self.failed or self.worst is not None or any(conditions)

    @property
    def is_only_worst(self) -> bool:
        """Whether the selection depends on scores alone."""
        conditions = (self.failed, self.below, self.label, self.disagree, self.where, self.grep)
        return self.worst is not None and self.sort is not None and not any(conditions)

    def matching(self, items: Iterable[ItemRecord]) -> Iterator[ItemRecord]:
        """Yield the items for which all conditions hold, as they come."""
        return (item for item in items if self._holds(item))

    def ordered(self, items: Iterable[ItemRecord], most: int | None = None) -> Iterator[ItemRecord]:
        """Yield items in the wanted order, up to the wanted number."""
        if self.sort is None:
            yield from items
            return
        wanted = [number for number in (most, self.worst) if number is not None]
        if self.worst is not None:
            items = (item for item in items if self._sort_key(item)[0] == _IS_NUMBER)
        if not wanted:
            yield from sorted(items, key=self._sort_key, reverse=self.descending)
        else:
            first = heapq.nlargest if self.descending else heapq.nsmallest
            yield from first(min(wanted), items, key=self._sort_key)

    def _holds(self, item: ItemRecord) -> bool:
        return (
            (not self.failed or self._is_failed(item))
            and all(_is_below(name.lowest(item.scores), most) for name, most in self.below.items())
            and (self.label is None or self.label in self._labels(item))
            and (not self.disagree or any(map(votes_disagree, self._records(item))))
            and all(_is_any(field_of(item, name), any_) for name, any_ in self.where.items())
            and (not self.grep or _occurs(self.grep.casefold(), item))
        )

    def _is_failed(self, item: ItemRecord) -> bool:
        if self.evaluator is not None:
            return self.evaluator.evaluator in item.score_errors
        return item.error is not None or bool(item.score_errors)

    def _labels(self, item: ItemRecord) -> list[Any]:
        return [record.get("label") for record in self._records(item)]

    def _records(self, item: ItemRecord) -> list[Mapping[str, Any]]:
        names = [self.evaluator] if self.evaluator else [ScoreName(name) for name in item.scores]
        return [record for name in names for record in name.records(item.scores)]

    def _sort_key(self, item: ItemRecord) -> tuple[int, float, str]:
        """Return a sort key: numbers, then labels; items with neither come last in both orders."""
        assert self.sort is not None
        number = self.sort.lowest(item.scores)
        if number is not None:
            return _IS_NUMBER, number, ""
        for record in self.sort.records(item.scores):
            if label := record.get("label"):
                return _IS_NUMBER + 1, 0.0, str(label)
        return (_IS_NUMBER - 1 if self.descending else _IS_NUMBER + 2), 0.0, ""


def filter_of(
    read: Callable[[], Iterable[ItemRecord]],
    evaluators: Sequence[str],
    *,
    failed: bool = False,
    evaluator: str | None = None,
    below: float | Mapping[str, float] | None = None,
    label: str | None = None,
    disagree: bool = False,
    where: Mapping[str, Any] | None = None,
    grep: str | None = None,
    sort: str | None = None,
    worst: int | None = None,
) -> Filter:
    """Return a filter with checked names; see `EvaluationResult.filter`.

    `read` yields the items, for the names of their scores and fields.

    Raises:
        LimpetError: A name is unknown, or a score must be named.
    """
    names = {"evaluator": evaluator, "label": label, "grep": grep, "sort": sort}
    _check_types(names, below, where, worst)

    def named(name: str) -> ScoreName:
        return _score_name(name, evaluators, read)

    def chosen(option: str, example: str) -> ScoreName:
        if about is None and len(evaluators) != 1:
            names = ", ".join(map(one_line, evaluators)) or "none"
            hint = f"name the score, like {example}; one of: {names}"
            raise LimpetError(f"{option}: which score?", hint=hint)
        return about or ScoreName(evaluators[0])

    about = None if evaluator is None else named(evaluator)
    if below is not None and not isinstance(below, Mapping):
        limits = {chosen(f"below={below:g}", f"below={{'judge': {below:g}}}"): below}
    else:
        limits = {named(name): most for name, most in (below or {}).items()}
    by, descending = None, False
    if sort is not None:
        # An evaluator's name may begin with "-".
        descending = sort.startswith("-") and sort not in evaluators
        by = named(sort[1:] if descending else sort)
    elif worst is not None:
        by = chosen(f"worst={worst}", "sort='judge'")
    wanted = {name: _listed(value) for name, value in (where or {}).items()}
    check_fields(wanted, read)
    return Filter(
        failed=failed, evaluator=about, below=limits, label=label, disagree=disagree,
        where=wanted, grep=grep, sort=by, descending=descending, worst=worst,
    )  # fmt: skip


def _check_types(strings: Mapping[str, Any], below: Any, where: Any, worst: Any) -> None:
    """Check the types: a wrong one must not look like "no item matches"."""
    for name, value in strings.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name}={value!r}: must be a string")
    if where is not None and not isinstance(where, Mapping):
        raise TypeError(f"where={where!r}: must be a dict, like {{'lang': 'de'}}")
    for value in below.values() if isinstance(below, Mapping) else [below]:
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise TypeError(f"below={below!r}: must be a number, or a dict of numbers by score")
    if worst is not None:
        whole_number_from(1, worst=worst)


def _score_name(
    name: str, evaluators: Sequence[str], read: Callable[[], Iterable[ItemRecord]]
) -> ScoreName:
    """Return which scores a name like `judge` or `judge.quality` means.

    Raises:
        LimpetError: There is no such score.
    """
    found = split_name(name, evaluators)
    if found is None:
        raise _unknown("score", name, evaluators)
    if found.part is None:
        return found
    seen: dict[str, None] = {}
    for item in read():  # mostly, the first item has it
        for part, _ in parts_of(item.scores.get(found.evaluator, {})):
            if part == found.part:
                return found
            if len(seen) < _MOST_NAMES:
                seen[str(ScoreName(found.evaluator, part))] = None
    raise _unknown("score", name, list(seen) or evaluators)


def check_fields(names: Iterable[str], read: Callable[[], Iterable[ItemRecord]]) -> None:
    """Check that some item has each of the fields.

    Raises:
        LimpetError: No item has it.
    """
    left = set(names)
    seen: dict[str, None] = {}
    for item in read() if left else ():  # mostly, the first item has them
        left = {name for name in left if field_of(item, name) is MISSING}
        if not left:
            return
        if len(seen) < _MOST_NAMES:
            seen |= dict.fromkeys(item.row)
    if left and seen:  # without items, no field is known
        raise _unknown("field", min(left), [*seen])


def field_of(item: ItemRecord, name: str) -> Any:
    """Return the value of a dataset's field, like `lang` or `meta.lang`, or `MISSING`."""
    if name in item.row:
        return item.row[name]
    if name in _ABOUT_ITEM:
        return getattr(item, name)
    return value_in(item.row, name)


def value_in(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a row's field, like `lang` or `meta.lang`, or `MISSING`."""
    if name in row:
        return row[name]
    value: Any = row
    for key in name.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return MISSING
        value = value[key]
    return value


def _unknown(kind: str, name: str, known: Sequence[str]) -> LimpetError:
    names = ", ".join(map(one_line, known[:_MOST_NAMES])) or "none"
    near = hint_near(name, known)
    return LimpetError(f"no {kind} is called {quoted(name)}; known: {names}", hint=near)


def _listed(value: Any) -> Sequence[Any]:
    return list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]


def _is_below(number: float | None, most: float) -> bool:
    return number is not None and number < most


def _is_any(value: Any, wanted: Sequence[Any]) -> bool:
    return value is not MISSING and any(is_value(value, choice) for choice in wanted)


def is_value(value: Any, wanted: Any) -> bool:
    """Return whether a field, or a list in it, has a value; a typed `"3"` also means 3."""
    if isinstance(value, list) and not isinstance(wanted, list):
        return any(is_value(element, wanted) for element in value)
    if value == wanted or not isinstance(wanted, str):
        return bool(value == wanted)
    if value is None or isinstance(value, bool):
        return wanted.lower() in _WORDS[value]
    if not isinstance(value, (int, float)):
        return False
    try:
        return float(wanted) == value
    except ValueError:
        return False


_WORDS: dict[Any, tuple[str, ...]] = {
    None: ("", "null", "none"),
    True: ("true", "yes"),
    False: ("false", "no"),
}


def _occurs(folded: str, item: ItemRecord) -> bool:
    return any(folded in text.casefold() for text in _texts(item))


def _texts(item: ItemRecord) -> Iterator[str]:
    """Yield the strings and numbers of an item: row, answer, errors, labels and reasons."""
    left: list[Any] = [item.id, item.input, item.expected, item.row, item.output]
    for error in (item.error or {}, *item.score_errors.values()):
        left += [error.get("type"), error.get("message")]
    for score in item.scores.values():
        for _, record in parts_of(score):
            left += [record.get("label"), record.get("explanation")]
    while left:  # not by recursion: a row may be nested deeply
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            left += value.values()
        elif isinstance(value, (list, tuple)):
            left += value
        elif value is not None:
            yield one_line(value)
