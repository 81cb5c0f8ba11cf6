"""How do the rows that the configuration names become a dataset?

Values stay as they are. A row that cannot be asked, such as the second with an id, is left out and
said: the toolkit leaves it out in silence.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from limpet.datasets import Dataset, LoadedDataset
from limpet.datasets.rows import RESERVED, Row
from limpet.datasets.sources import table_of
from limpet.errors import DatasetError
from limpet.integrations.nat.wanted import WantedDataset
from limpet.text import one_line, text_of
from limpet.types import Item

_WHOLE = "the whole row"
_MARKS = tuple(f'"{name}":'.encode() for name in RESERVED)


def read_dataset_rows(wanted: WantedDataset, function: Callable[..., Any] | None) -> LoadedDataset:
    """Read the dataset.

    Args:
        wanted: What the configuration says of it.
        function: The function that returns its rows, if it is a custom one.

    Raises:
        DatasetError: It cannot be used as it is.
    """
    structure = wanted.structure
    asked: dict[str, Any] = {"id": wanted.id, "filter": wanted.keep}
    asked["on_bad_row"] = "skip"
    if structure.disable:
        rows = _named(wanted, lambda: [_with_whole(one) for one in _rows(wanted, function)])
        return _bare(Dataset(rows, input=_WHOLE, **asked).load())
    asked |= {"input": structure.question, "expected": structure.answer}
    if function is not None or _may_be_ours(wanted.file):
        rows = _named(wanted, lambda: list(_rows(wanted, function)))
        return Dataset(rows, **asked).load()
    assert wanted.file is not None
    return Dataset(Path(wanted.shown), **asked).load()


def _may_be_ours(file: Path | None) -> bool:
    """Tell a file that a run wrote: its rows hold facts of ours, which are not the dataset's.

    Under whatever name: only rows that failed hold them, and they must not be left out.
    """
    if file is None or file.suffix not in (".json", ".jsonl") or not file.is_file():
        return False
    with file.open("rb") as lines:
        return any(mark in line for line in lines for mark in _MARKS)


def _rows(wanted: WantedDataset, function: Callable[..., Any] | None) -> Iterator[dict[str, Any]]:
    if function is None:
        assert wanted.file is not None
        yield from rows_of_file(wanted.file)
        return
    try:
        found = function(file_path=wanted.file, **wanted.kwargs)
    except Exception as error:
        said = f"{type(error).__name__}: {one_line(text_of(error))}"
        raise DatasetError(f"{wanted.function}: {said}") from error
    items = getattr(found, "eval_input_items", None)
    if items is not None:
        yield from (_row_of(one, wanted) for one in items)
        return
    for one in table_of(found, None).rows:
        if not isinstance(one, Row):
            raise DatasetError(f"{wanted.function}: {one.reason}")
        yield one.values


def rows_of_file(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file without what a run of ours has added to them.

    Raises:
        DatasetError: It cannot be read, or something in it is no row.
    """
    table = table_of(file, None)
    for one in table.rows:
        if not isinstance(one, Row):
            raise DatasetError(f"{table.at(one.number)}: {one.reason}")
        yield {key: value for key, value in one.values.items() if key not in RESERVED}


def _row_of(item: Any, wanted: WantedDataset) -> dict[str, Any]:
    """Return the row of an item that a custom function made, as the toolkit would write it."""
    columns = wanted.structure
    entry = getattr(item, "full_dataset_entry", None)
    row = dict(entry) if isinstance(entry, Mapping) else {}
    row[wanted.id or "id"] = item.id
    row[columns.question or "question"] = item.input_obj
    row[columns.answer or "answer"] = item.expected_output_obj
    if item.output_obj not in (None, ""):
        row[columns.generated_answer] = item.output_obj
    for name, steps in (
        (columns.trajectory, item.trajectory),
        (columns.expected_trajectory, item.expected_trajectory),
    ):
        if steps:
            row[name] = [_plain(one) for one in steps]
    return row


def _plain(step: Any) -> Any:
    dump = getattr(step, "model_dump", None)
    return step if dump is None else dump(mode="json")


def _named(wanted: WantedDataset, rows: Callable[[], Iterable[Any]]) -> Callable[[], Any]:
    """Return a function that messages call by the dataset's name."""
    rows.__qualname__ = wanted.function or wanted.shown
    return rows


def _with_whole(row: dict[str, Any]) -> dict[str, Any]:
    # As the toolkit sends it: the row as a text.
    return {**row, _WHOLE: json.dumps(row, separators=(",", ":"), default=str)}


def _bare(dataset: LoadedDataset) -> LoadedDataset:
    """Return the dataset without the column that was added, and with nothing expected."""

    def bare(item: Item) -> Item:
        row = {key: value for key, value in item.row.items() if key != _WHOLE}
        return replace(item, row=row, expected=None)

    return LoadedDataset(
        [bare(item) for item in dataset],
        name=dataset.name,
        columns=[one for one in dataset.columns if one != _WHOLE],
        roles=dataset.roles,
        bad_rows=dataset.bad_rows,
        filtered=dataset.filtered,
    )
