"""What is the dataset, and how does it become items?"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from limpet.arguments import whole_number_from
from limpet.datasets.columns import Roles, find_roles
from limpet.datasets.csv_files import CsvForm, flaw_of_delimiter, flaw_of_encoding
from limpet.datasets.items import ItemMaker, Packed, pack, unpack
from limpet.datasets.rows import RESERVED, TAKEN, BadRow, BadRows, Flaw, SourceTable
from limpet.datasets.selection import RowFilter, Selection, check_shape, choose
from limpet.datasets.sources import table_of
from limpet.errors import DatasetError
from limpet.shapes import Item
from limpet.text import count

_Numbered: TypeAlias = tuple[int, Packed]
Source: TypeAlias = "str | os.PathLike[str] | Iterable[Any] | Callable[[], Any]"


@dataclass(frozen=True)
class Dataset:
    """A dataset and how to read it. Nothing is read until a run or `load` needs it.

    Attributes:
        source: A path to a .json, .jsonl, .ndjson, .csv, .tsv, .parquet or .xlsx file; an
            iterable of dicts; a DataFrame; or a function, or `"module:function"`, that returns
            one of these.
        id: The column with the ids. None: `id`; without it, ids are derived from the content.
        input: The column of the inputs. None: `question` or `input`.
        expected: The column of the expected answers. None: `answer` or `expected`, if present.
        on_bad_row: What to do with an unusable row: "raise", or "skip" and list it.
        filter: `{"allow": {column: [values or globs]}, "deny": {…}}`.
        limit: Take only the first items, after filter, shuffle and sample.
        sample: Take this many items, chosen by `seed`.
        shuffle: Shuffle the items by `seed`.
        seed: The seed of shuffle and sample.
        sheet: The sheet of a .xlsx file. None: the first.
        delimiter: The character between the cells of a .csv or .tsv file. None: a comma, or a tab.
        encoding: The encoding of a .csv or .tsv file, like "latin-1". None: UTF-8.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has an invalid value.
    """

    source: Source
    _: KW_ONLY
    id: str | None = None
    input: str | None = None
    expected: str | None = None
    on_bad_row: Literal["raise", "skip"] = "raise"
    filter: Mapping[str, Mapping[str, Any]] | None = None
    limit: int | None = None
    sample: int | None = None
    shuffle: bool = False
    seed: int = 0
    sheet: str | None = None
    delimiter: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.on_bad_row not in ("raise", "skip"):
            raise ValueError(f'on_bad_row={self.on_bad_row!r}: must be "raise" or "skip"')
        for name in ("limit", "sample"):
            if (value := getattr(self, name)) is not None:
                whole_number_from(1, **{name: value})
        if not isinstance(self.seed, int) or isinstance(self.seed, bool):
            raise TypeError(f"seed={self.seed!r}: must be a whole number")
        for name in ("id", "input", "expected", "sheet", "delimiter", "encoding"):
            if not isinstance(value := getattr(self, name), (str, type(None))):
                raise TypeError(f"{name}={value!r}: must be a string or None")
        if self.delimiter is not None and (flaw := flaw_of_delimiter(self.delimiter)):
            raise ValueError(f"delimiter={self.delimiter!r}: {flaw}")
        if self.encoding is not None and (flaw := flaw_of_encoding(self.encoding)):
            raise ValueError(f"encoding={self.encoding!r}: {flaw}")
        if self.filter is not None:
            check_shape(self.filter)

    @property
    def selection(self) -> Selection:
        """The items selected by `limit` and `sample`."""
        return Selection(self.sample, self.limit, self.seed)

    def load(self) -> "LoadedDataset":
        """Read the dataset, with every value unchanged.

        Raises:
            DatasetError: The source or a row cannot be used, or no rows are left.
        """
        table = table_of(self.source, self.sheet, CsvForm(self.delimiter, self.encoding))
        bad = BadRows(table, skip=self.on_bad_row == "skip")
        roles_among = partial(
            find_roles, table.location, id=self.id, input=self.input, expected=self.expected
        )
        rows, columns, maker = _read(table, bad, roles_among)
        roles = roles_among(columns)
        kept = rows
        if self.filter is not None:
            row_filter = RowFilter(self.filter, table.location, columns)
            kept = [entry for entry in rows if row_filter.keeps(unpack(entry[1]))]
        if not kept:
            raise DatasetError(
                f"{table.location}: the filter matches none of its {len(rows):,} rows"
            )
        if maker is None or maker.roles != roles or len(kept) < len(rows):
            maker = ItemMaker(roles, table)
            for number, packed in kept:
                maker.take(number, unpack(packed), packed)
        items = maker.items(bad)
        if not items:
            raise _nothing_left(table, bad)
        return LoadedDataset(
            choose(items, self.selection, shuffle=self.shuffle),
            name=table.name,
            columns=columns,
            roles=roles,
            bad_rows=sorted(bad.listed, key=lambda row: row.line),
            filtered=len(rows) - len(kept),
            path=_file(self.source),
        )


@dataclass(eq=False, repr=False)
class LoadedDataset:
    """The items of a dataset, in order. Can be iterated over any number of times.

    Attributes:
        items: The items; each access may create a new object.
        name: Its name: the file name.
        columns: Its column names, in order of appearance.
        roles: The columns of id, input and expected answer.
        bad_rows: The rows that were skipped, with reasons.
        filtered: How many rows the filter removed.
        path: The file it was read from; None if it was not read from a file.
    """

    items: Sequence[Item]
    _: KW_ONLY
    name: str
    columns: list[str]
    roles: Roles
    bad_rows: list[BadRow]
    filtered: int
    path: Path | None = None

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        text = f"<LoadedDataset {self.name}: {count(len(self), 'item')}"
        if self.bad_rows:
            text += f", {count(len(self.bad_rows), 'bad row')} skipped"
        if self.filtered:
            text += f", {self.filtered:,} filtered"
        return f"{text}>"


def _file(source: Source) -> Path | None:
    if isinstance(source, (str, os.PathLike)) and os.path.isfile(source):  # noqa: PTH113 - a URL too
        return Path(source).absolute()
    return None


def _read(
    table: SourceTable, bad: BadRows, roles_among: Callable[[list[str]], Roles]
) -> tuple[list[_Numbered], list[str], ItemMaker | None]:
    """Return the rows, all their columns in order of appearance, and the items.

    The items are right if the first row shows the roles of all columns. It usually does, and then
    no row is unpacked twice.
    """
    rows: list[_Numbered] = []
    columns: dict[str, None] = {}
    maker: ItemMaker | None = None
    with closing(table.rows) as entries:  # closes the file if a bad row raises
        for entry in entries:
            if isinstance(entry, Flaw):
                bad.add(*entry)
                continue
            number, values, packed = entry
            if not RESERVED.isdisjoint(values):
                bad.add(number, values, TAKEN.format(min(RESERVED.intersection(values))))
                continue
            if not rows:
                with suppress(DatasetError):  # a later row may have the missing column
                    maker = ItemMaker(roles_among(list(values)), table)
            row = packed or (pack(values) if table.is_file else values)
            rows.append((number, row))
            if maker is not None:
                maker.take(number, values, row)
            if not values.keys() <= columns.keys():
                columns.update(dict.fromkeys(values))
    if not rows:
        raise _nothing_left(table, bad)
    return rows, list(columns), maker


def _nothing_left(table: SourceTable, bad: BadRows) -> DatasetError:
    if not bad.listed:
        return DatasetError(
            f"{table.location}: there are no rows", hint="a dataset needs at least one row"
        )
    return DatasetError(
        f"{table.location}: none of its rows can be used; {len(bad.listed):,} were skipped, "
        f"the first: {bad.listed[0]}"
    )
