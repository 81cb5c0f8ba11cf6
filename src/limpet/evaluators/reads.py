"""What does an evaluator read, and how is it kept from reading anything else?

What is declared here is in the key of every score. So an evaluator is given exactly that: one that
reached for more would have scores that do not notice when it changes.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from limpet.copies import own_copy
from limpet.evaluators.protocol import Scored, not_given
from limpet.fingerprints.keys import digest
from limpet.types import Item

PARTS = ("input", "expected", "output", "trace", "row", "id")
"""What can be read; `row.<field>` is one field of the row."""
ALL = frozenset(PARTS)
ITEM = frozenset({"id", "input", "expected", "row"})
"""What whoever asks for the whole item reads."""
_FIELD = "row."
KindT = TypeVar("KindT")


def checked_reads(reads: Any, who: str) -> frozenset[str]:
    """Return what an evaluator declares to read.

    Args:
        reads: Names out of `PARTS`, or `row.<field>`.
        who: Which evaluator it is, for the message.

    Raises:
        TypeError: It is not a list of strings.
        ValueError: One of them is unknown.
    """
    if isinstance(reads, str) or not isinstance(reads, Iterable):
        raise TypeError(f"{who}: reads={reads!r} must be a list, such as ['output', 'expected']")
    parts = frozenset(reads)
    for part in parts:
        is_field = isinstance(part, str) and part.startswith(_FIELD) and part != _FIELD
        if part not in ALL and not is_field:
            raise ValueError(
                f"{who}: reads names {part!r}; there are {', '.join(PARTS)} and row.<field>"
            )
    return parts


def reads_item(reads: Collection[str]) -> bool:
    """Tell whether something is read that only the item has."""
    return any(part in ("id", "row") or part.startswith(_FIELD) for part in reads)


def seen_digest(item: Item, reads: Collection[str]) -> str:
    """Return the digest of what is read of an item, and of which parts those are."""
    return digest(sorted(reads), _seen(item, reads))


def _seen(item: Item, reads: Collection[str]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for part in reads:
        if part == "row":
            seen[part] = dict(item.row)
        elif part == "id":
            seen[part] = item.id
        elif part == "input":
            seen[part] = item.input
        elif part == "expected":
            seen[part] = item.expected
        elif part.startswith(_FIELD) and (name := part[len(_FIELD) :]) in item.row:
            seen[part] = item.row[name]
    return seen


def given(item: Item, output: Any, trace: Any, reads: Collection[str]) -> Scored:
    """Return what an evaluator gets to see: copies of what it reads, and nothing else."""
    values: dict[str, Any] = {"where": f"item {item.id!r}"}
    if "output" in reads:
        values["output"] = own_copy(output)
    if "trace" in reads:
        values["trace"] = own_copy(trace)
    if "input" in reads:
        values["input"] = own_copy(item.input)
    if "expected" in reads:
        values["expected"] = own_copy(item.expected)
    if reads_item(reads):
        values["item"] = own_copy(item) if ITEM.issubset(reads) else _part_of(item, reads)
    return _filled(Scored, values)


def _part_of(item: Item, reads: Collection[str]) -> Item:
    names = ("id", "input", "expected")
    values = {name: own_copy(getattr(item, name)) for name in names if name in reads}
    if "row" in reads:
        values["row"] = own_copy(item.row)
    else:
        fields = [part[len(_FIELD) :] for part in reads if part.startswith(_FIELD)]
        values["row"] = _Fields(item.row, fields)
    return _filled(_ItemPart, values)


def _filled(kind: type[KindT], values: Mapping[str, Any]) -> KindT:
    """Return an object without those of its attributes that are not given."""
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


class _ItemPart(Item):
    """An item of which some attributes are missing."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        raise not_given(self, name)


class _Fields(dict[str, Any]):
    """The declared fields of a row. To ask for another is an error, not a missing value."""

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
