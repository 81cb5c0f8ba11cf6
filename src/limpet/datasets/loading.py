"""How does whatever a caller has become a dataset?"""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from limpet.arguments import whole_number_from
from limpet.datasets.choosing import choose
from limpet.datasets.columns import Roles, find_roles
from limpet.datasets.dataset import Dataset
from limpet.datasets.filtering import RowFilter, check_shape
from limpet.datasets.items import ItemMaker
from limpet.datasets.packed import Packed, pack, unpack
from limpet.datasets.rows import RESERVED, TAKEN, BadRows, Flaw, Table
from limpet.datasets.sources import table_of
from limpet.errors import DatasetError

_Numbered: TypeAlias = tuple[int, Packed]
Source: TypeAlias = "str | os.PathLike[str] | Iterable[Any] | Callable[[], Any]"


def load(
    source: Source,
    *,
    id: str | None = None,  # noqa: A002 - the columns' roles, in the words of the house
    input: str | None = None,  # noqa: A002
    expected: str | None = None,
    on_bad_row: Literal["raise", "skip"] = "raise",
    filter: Mapping[str, Mapping[str, Any]] | None = None,  # noqa: A002
    limit: int | None = None,
    sample: int | None = None,
    shuffle: bool = False,
    seed: int = 0,
    sheet: str | None = None,
) -> Dataset:
    """Load a dataset, with every value as it stands in the source.

    Args:
        source: A path to a .json, .jsonl, .ndjson, .csv, .tsv, .parquet or .xlsx file; an
            iterable of dicts; a DataFrame; or a function, or `"module:function"`, that returns
            one of these.
        id: The column of the ids. None: `id`; if there is none, ids come from the content.
        input: The column of what is asked. None: `question`, else `input`.
        expected: The column of the expected answer. None: `answer`, else `expected`, else none.
        on_bad_row: What to do about a row that cannot be used: "raise", or "skip" and list it.
        filter: `{"allow": {column: [values or globs]}, "deny": {…}}`.
        limit: Take the first so many, after all else.
        sample: Take so many, chosen by `seed`.
        shuffle: Take them in an order chosen by `seed`.
        seed: Which shuffle, which sample.
        sheet: The sheet of a .xlsx file. None: the first.

    Raises:
        DatasetError: The source, or a row of it, cannot be used, or no row is left.
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value that is not allowed.
    """
    _check_choice(on_bad_row=on_bad_row, limit=limit, sample=sample, seed=seed)
    _check_texts(id=id, input=input, expected=expected, sheet=sheet)
    if filter is not None:
        check_shape(filter)
    table = table_of(source, sheet)
    bad = BadRows(table, skip=on_bad_row == "skip")
    roles_among = partial(find_roles, table.place, id=id, input=input, expected=expected)
    rows, columns, maker = _read(table, bad, roles_among)
    roles = roles_among(columns)
    asked = rows if filter is None else _filtered(rows, RowFilter(filter, table.place, columns))
    if not asked:
        raise DatasetError(f"{table.place}: the filter leaves none of its {len(rows):,} rows")
    if maker is None or maker.roles != roles or len(asked) < len(rows):
        maker = ItemMaker(roles, table)
        for number, packed in asked:
            maker.take(number, unpack(packed), packed)
    items = maker.items(bad)
    if not items:
        raise _nothing_left(table, bad)
    items = choose(items, shuffle=shuffle, sample=sample, limit=limit, seed=seed)
    return Dataset(
        items,
        name=table.name,
        columns=columns,
        roles=roles,
        bad_rows=sorted(bad.listed, key=lambda one: one.line),
        filtered=len(rows) - len(asked),
        path=_file(source),
    )


def _file(source: Source) -> Path | None:
    if isinstance(source, (str, os.PathLike)) and os.path.isfile(source):  # noqa: PTH113 - a URL too
        return Path(source).absolute()
    return None


def _check_choice(*, on_bad_row: object, limit: object, sample: object, seed: object) -> None:
    if on_bad_row not in ("raise", "skip"):
        raise ValueError(f'on_bad_row={on_bad_row!r}: must be "raise" or "skip"')
    if limit is not None:
        whole_number_from(1, limit=limit)
    if sample is not None:
        whole_number_from(1, sample=sample)
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise TypeError(f"seed={seed!r}: must be a whole number")


def _check_texts(**arguments: object) -> None:
    for name, value in arguments.items():
        if not isinstance(value, (str, type(None))):
            raise TypeError(f"{name}={value!r}: must be a text or None")


def _read(
    table: Table, bad: BadRows, roles_among: Callable[[list[str]], Roles]
) -> tuple[list[_Numbered], list[str], ItemMaker | None]:
    """Return the rows, the columns that any of them has in the order they were met, and the items.

    The items are right if the columns' roles are those that the first row gives them; they mostly
    are, and then nothing has to be unpacked again.
    """
    rows: list[_Numbered] = []
    columns: dict[str, None] = {}
    maker: ItemMaker | None = None
    with closing(table.rows) as read:  # a file is not left open where a row ends the reading
        for one in read:
            if isinstance(one, Flaw):
                bad.add(*one)
                continue
            number, values, packed = one
            if not RESERVED.isdisjoint(values):
                bad.add(number, values, TAKEN.format(min(RESERVED.intersection(values))))
                continue
            if not rows:
                with suppress(DatasetError):  # a later row may have what this one lacks
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


def _filtered(rows: list[_Numbered], asked: RowFilter) -> list[_Numbered]:
    return [row for row in rows if asked.keeps(unpack(row[1]))]


def _nothing_left(table: Table, bad: BadRows) -> DatasetError:
    if not bad.listed:
        return DatasetError(
            f"{table.place}: there are no rows", hint="a dataset needs at least one row"
        )
    return DatasetError(
        f"{table.place}: none of its rows can be used; {len(bad.listed):,} were skipped, "
        f"the first: {bad.listed[0]}"
    )
