"""What does a loaded dataset hand out?"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from limpet.datasets.columns import Roles
from limpet.datasets.rows import BadRow
from limpet.types import Item


class LoadedDataset:
    """Items, in order, as often as they are asked for.

    Attributes:
        name: What people call it: the file's name.
        columns: The names of its columns, in the order they were met.
        roles: Which of them are the id, the input and the expected answer.
        bad_rows: The rows that were skipped, with the reasons.
        filtered: How many rows the filter left out.
        items: The items; each may be made anew whenever it is asked for.
        path: The file it was read from; None if it was not.
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
        said = f"<LoadedDataset {self.name}: {_count(len(self), 'item')}"
        if self.bad_rows:
            said += f", {_count(len(self.bad_rows), 'bad row')} skipped"
        if self.filtered:
            said += f", {self.filtered:,} filtered"
        return f"{said}>"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
