"""How do the rows of the configuration's dataset become items?

Values stay unchanged. An unusable row, like a second one with the same id, is skipped and reported;
the toolkit skips it silently.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from limpet.config.environment import typed
from limpet.datasets import Dataset, LoadedDataset
from limpet.datasets.columns import MissingColumnError
from limpet.datasets.rows import RESERVED, BadRow, Row
from limpet.datasets.sources import shown_path, table_of
from limpet.errors import DatasetError
from limpet.integrations.importing import rows_of_file
from limpet.integrations.nat.eval_block import DatasetBlock
from limpet.shapes import Item
from limpet.text import one_line, text_of

_WHOLE_ROW = "the whole row"
_MARK = re.compile(rb'"(_limpet|_crc)":|[:,[]\s*-?(NaN|Infinity)\b')


def read_dataset_rows(
    block: DatasetBlock,
    keep: Mapping[str, Any] | None,
    function: Callable[..., Any] | None,
    say: Callable[[str], None],
) -> LoadedDataset:
    """Read the dataset.

    Args:
        block: The dataset's block.
        keep: Which rows to keep: `allow` and `deny`.
        function: The function that returns the rows of a custom dataset.
        say: Called with a line for each part of the filter without effect.

    Raises:
        DatasetError: It cannot be read.
    """
    structure = block.structure
    options: dict[str, Any] = {"id": _unless(block.id_key, "id"), "filter": keep}
    options["on_bad_row"] = "skip"
    if structure.disable:
        rows = _named(block, lambda: [_with_whole_row(row) for row in _rows(block, function)])
        return _without_whole_row(_loaded(rows, {**options, "input": _WHOLE_ROW}, say))
    options["input"] = _unless(structure.question_key, "question")
    options["expected"] = _unless(structure.answer_key, "answer")
    if function is not None or _may_be_an_output(block.file_path):
        rows = _named(block, lambda: list(_rows(block, function)))
        return _without_blank(_loaded(rows, options, say))
    assert block.file_path is not None
    return _without_blank(_loaded(block.file_path, options, say))


def _loaded(source: Any, options: dict[str, Any], say: Callable[[str], None]) -> LoadedDataset:
    """Load a dataset. As in the toolkit, a filter on a missing column has no effect."""
    try:
        return Dataset(source, **options).load()
    except MissingColumnError as error:
        if error.argument[:1] != ("filter",):
            raise
        say(f"{error}: ignored, as in nat eval")
        _, side, column = error.argument
        rest = {name: value for name, value in options["filter"][side].items() if name != column}
        keep = {name: value for name, value in options["filter"].items() if name != side}
        keep |= {side: rest} if rest else {}
        return _loaded(source, {**options, "filter": keep or None}, say)


def _without_blank(dataset: LoadedDataset) -> LoadedDataset:
    """Skip and report items with a blank question, which the toolkit skips, too."""
    blank = [item for item in dataset if isinstance(item.input, str) and not item.input.strip()]
    if not blank:
        return dataset
    reason = "the question is blank"
    skipped = [
        BadRow(f"{dataset.name}, {one_line(item.id)}", 0, one_line(repr(item.input)), reason)
        for item in blank
    ]
    ids = {item.id for item in blank}
    return replace(
        dataset,
        items=[item for item in dataset if item.id not in ids],
        bad_rows=[*dataset.bad_rows, *skipped],
    )


def _unless(column: str, default: str) -> str | None:
    """Return a column's name; None for the toolkit's default, which the dataset finds itself."""
    return None if column == default else column


def _may_be_an_output(file: Path | None) -> bool:
    """Return whether a run may have written the file, so that its rows are read leniently.

    Our runs add facts to failed rows, and the toolkit writes NaN for a column that a row lacks.
    Such rows must not be skipped, whatever the file's name.
    """
    if file is None or file.suffix not in (".json", ".jsonl") or not file.is_file():
        return False
    with file.open("rb") as lines:
        return any(_MARK.search(line) for line in lines)


def _rows(block: DatasetBlock, function: Callable[..., Any] | None) -> Iterator[dict[str, Any]]:
    if function is None:
        assert block.file_path is not None
        for values in rows_of_file(block.file_path):
            yield {key: value for key, value in values.items() if key not in RESERVED}
        return
    try:
        found = function(file_path=block.file_path, **typed(block.kwargs))
    except Exception as error:
        raised = f"{type(error).__name__}: {one_line(text_of(error))}"
        raise DatasetError(f"{block.function} raised {raised}") from error
    items = getattr(found, "eval_input_items", None)
    if items is not None:
        yield from (_row_of(item, block) for item in items)
        return
    for row in table_of(found, None).rows:
        if not isinstance(row, Row):
            raise DatasetError(f"{block.function}: {row.reason}")
        yield row.values


def _row_of(item: Any, block: DatasetBlock) -> dict[str, Any]:
    """Return the row of an item from a custom function, as the toolkit would write it."""
    columns = block.structure
    entry = getattr(item, "full_dataset_entry", None)
    row = dict(entry) if isinstance(entry, Mapping) else {}
    row[block.id_key] = item.id
    row[columns.question_key] = item.input_obj
    row[columns.answer_key] = item.expected_output_obj
    if item.output_obj not in (None, ""):
        row[columns.generated_answer_key] = item.output_obj
    for name, steps in (
        (columns.trajectory_key, item.trajectory),
        (columns.expected_trajectory_key, item.expected_trajectory),
    ):
        if steps:
            row[name] = [_plain(step) for step in steps]
    return row


def _plain(step: Any) -> Any:
    dump = getattr(step, "model_dump", None)
    return step if dump is None else dump(mode="json")


def _named(block: DatasetBlock, rows: Callable[[], Iterable[Any]]) -> Callable[[], Any]:
    """Give a function the dataset's name, for messages."""
    source = block.function or block.file_path
    assert source is not None
    rows.__qualname__ = shown_path(source)
    return rows


def _with_whole_row(row: dict[str, Any]) -> dict[str, Any]:
    # The toolkit sends the row as a JSON string.
    return {**row, _WHOLE_ROW: json.dumps(row, separators=(",", ":"), default=str)}


def _without_whole_row(dataset: LoadedDataset) -> LoadedDataset:
    """Return the dataset without the added column and without expected answers."""

    def without(item: Item) -> Item:
        row = {key: value for key, value in item.row.items() if key != _WHOLE_ROW}
        return replace(item, row=row, expected=None)

    columns = [column for column in dataset.columns if column != _WHOLE_ROW]
    return replace(dataset, items=[without(item) for item in dataset], columns=columns)
