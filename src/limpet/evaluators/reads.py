"""What does an evaluator read, and how is it kept from reading anything else?

The key of every score covers what its evaluator declares to read. So the evaluator gets exactly
that: if it read more, a change of that would go unnoticed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from limpet.copies import own_copy
from limpet.errors import DatasetError
from limpet.evaluators.protocol import Scored, filled, given_to, not_given, scale_of
from limpet.shapes import Item
from limpet.text import hint_near, one_line, quoted

PARTS = ("input", "expected", "output", "trace", "row", "id")
"""What can be read; `row.<field>` is one field of the row."""
ITEM = frozenset({"id", "input", "expected", "row"})
"""What an evaluator reads that takes the whole item."""
_OF_ITEM = ("id", "input", "expected")
FIELD = "row."
"""The prefix of a field."""


def checked_reads(reads: Any, who: str) -> frozenset[str]:
    """Return what an evaluator declares that it reads: names out of `PARTS`, or `row.<field>`.

    Raises:
        TypeError: It is not a list of strings.
        ValueError: One of them is unknown.
    """
    if isinstance(reads, str) or not isinstance(reads, Iterable):
        raise TypeError(
            f"{who}: reads={reads!r} must be a list, for example ['output', 'expected']"
        )
    parts = frozenset(reads)
    for part in parts:
        is_field = isinstance(part, str) and part.startswith(FIELD) and part != FIELD
        if part not in PARTS and not is_field:
            raise ValueError(
                f"{who}: reads contains {part!r}; known: {', '.join(PARTS)} and row.<field>"
            )
    return parts


def needs_of(evaluator: Any) -> Collection[str]:
    """Return the part of `reads` that every dataset must have: the evaluator's `needs`."""
    needs: Collection[str] = getattr(evaluator, "needs", ())
    return needs


def calls_of(evaluator: Any) -> int:
    """Return how many calls a score takes at most: the evaluator's `calls_each`."""
    calls: int = getattr(evaluator, "calls_each", 1)
    return calls


def replies_of(evaluator: Any, scored: Scored) -> Sequence[Any] | None:
    """Return what each reply behind a score depends on; None: it has no replies.

    Raises:
        PermanentError: The item lacks a value that the evaluator needs.
    """
    replies = getattr(evaluator, "replies", None)
    return None if replies is None else replies(scored)


def check_needs(evaluators: Iterable[Any], columns: Collection[str], expected: str | None) -> None:
    """Check that the dataset has what evaluators need.

    Args:
        evaluators: The evaluators.
        columns: The names of the dataset's columns.
        expected: The column of the expected answer; None: it has none.

    Raises:
        DatasetError: It lacks something. The message names the existing columns.
    """
    for evaluator in evaluators:
        for part in sorted(needs_of(evaluator)):
            field = part.removeprefix(FIELD)
            if part == "expected" and expected is None:
                what: str = "an expected column"
                hint = hint_near(part, columns) or "name it in the dataset's `expected`"
            elif part.startswith(FIELD) and field not in columns:
                what, hint = (
                    f"the column {quoted(field)}",
                    hint_near(field, (*columns, *PARTS)) or "",
                )
            else:
                continue
            there = ", ".join(map(one_line, columns))
            raise DatasetError(
                f"the evaluator {evaluator.name} needs {what}: the dataset has {there}",
                hint=hint or None,
            )


def check_groups(evaluators: Iterable[Any], columns: Collection[str]) -> None:
    """Check that the dataset has the fields that group its items.

    Raises:
        DatasetError: It lacks one.
    """
    for evaluator in evaluators:
        group = scale_of(evaluator).group
        if group is not None and group not in columns:
            there = ", ".join(map(one_line, columns))
            raise DatasetError(
                f"the evaluator {evaluator.name} groups items by {quoted(group)}: the dataset has "
                f"{there}",
                hint=hint_near(group, columns),
            )


def reads_item(reads: Collection[str]) -> bool:
    """Return whether an evaluator reads something that only the item has."""
    return any(part in ("id", "row") or part.startswith(FIELD) for part in reads)


def given(item: Item, output: Any, trace: Any, reads: Collection[str]) -> Scored:
    """Return what an evaluator sees: copies of what it reads, and nothing else."""
    parts = {"output": output, "trace": trace, "input": item.input, "expected": item.expected}
    values = {name: own_copy(value) for name, value in parts.items() if name in reads}
    values["where"] = f"item {item.id!r}"
    if reads_item(reads):
        values["item"] = own_copy(item) if ITEM.issubset(reads) else _part_of(item, reads)
    return filled(Scored, values)


def _part_of(item: Item, reads: Collection[str]) -> Item:
    values = {name: own_copy(getattr(item, name)) for name in _OF_ITEM if name in reads}
    if "row" in reads:
        values["row"] = own_copy(item.row)
    else:
        fields = [part[len(FIELD) :] for part in reads if part.startswith(FIELD)]
        values["row"] = _Fields(item.row, fields)
    return filled(_ItemPart, values)


class _ItemPart(Item):
    """An item without some of its attributes."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        raise not_given(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return filled, (_ItemPart, given_to(self))


class _Fields(dict[str, Any]):
    """The declared fields of a row. Reading another is an error, not a missing value."""

    def __init__(self, row: Mapping[str, Any], fields: Collection[str]) -> None:
        super().__init__({name: own_copy(row[name]) for name in fields if name in row})
        self._fields = fields

    def _check(self, name: Any) -> None:
        if name not in self._fields:
            raise LookupError(f"the evaluator does not declare that it reads 'row.{name}'")

    def __missing__(self, name: Any) -> NoReturn:
        self._check(name)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        self._check(name)
        return super().__contains__(name)

    def get(self, name: Any, default: Any = None) -> Any:
        self._check(name)
        return super().get(name, default)
