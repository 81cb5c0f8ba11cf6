"""What does loading a dataset return?"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from limpet.datasets.columns import Roles
from limpet.datasets.rows import BadRow
from limpet.types import Item


class LoadedDataset:
    """The items of a dataset, in order. Can be iterated over any number of times.

    Attributes:
        name: Its name: the file name.
        columns: Its column names, in order of appearance.
        roles: The columns of id, input and expected answer.
        bad_rows: The rows that were skipped, with reasons.
        filtered: How many rows the filter removed.
        items: The items; each access may create a new object.
        path: The file it was read from; None if it was not read from a file.
    """

    def __init__(
        self,
        items: Sequence[Item],
        *,
        name: str,
        columns: Sequence[str],
        roles: Roles,
        bad_rows: list[BadRow],
        filtered: int,
        path: Path | None = None,
    ) -> None:
        self.name = name
        self.columns = list(columns)
        self.roles = roles
        self.bad_rows = bad_rows
        self.filtered = filtered
        self.items = items
        self.path = path

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        text = f"<LoadedDataset {self.name}: {_count(len(self), 'item')}"
        if self.bad_rows:
            text += f", {_count(len(self.bad_rows), 'bad row')} skipped"
        if self.filtered:
            text += f", {self.filtered:,} filtered"
        return f"{text}>"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
