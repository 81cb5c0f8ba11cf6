"""How are the results of a run exported?

As a table with the columns of `EvaluationResult.to_dataframe`, or as the files of `nat eval`. A
table is read twice, first for its columns, and never held: there may be a million rows.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from limpet.journal.files import make_directory
from limpet.journal.layout import Layout
from limpet.json_values import encode
from limpet.run.reading import RunReader
from limpet.run.reading.find_run import VariantRun
from limpet.run.results.output_files import AnswerRows, write_outputs
from limpet.run.results.table import (
    Key,
    Table,
    cells_of,
    csv_line,
    flat_cell,
    means_of,
    spreadsheet_cell,
    without_controls,
)

_MARKDOWN = re.compile(r"[\\`*_\[\]|~$]")
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "<br>", "\t": " "})


class Rows:
    """The results of a run as the rows of a table.

    Args:
        reader: Reads the run.
        by_item: One row for each item, with means over its trials.

    Attributes:
        columns: What each column is, with its name.
    """

    def __init__(self, reader: RunReader, *, by_item: bool = False) -> None:
        self._reader = reader
        self._count(Table(reader.evaluators, by_item=by_item), by_item=by_item)

    def _count(self, table: Table, *, by_item: bool) -> None:
        self._by_item = by_item
        self._length = 0
        for cells in self._cells():
            table.add(cells)
            self._length += 1
        self.columns = table.names()

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [*self.columns.values()]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[list[Any]]:
        for cells in self._cells():
            yield [cells.get(key) for key in self.columns]

    def _cells(self) -> Iterator[dict[Key, Any]]:
        return self._cells_in(self._reader)

    def _cells_in(self, reader: RunReader) -> Iterator[dict[Key, Any]]:
        if self._by_item:
            return map(means_of, reader.trials_of_items())
        return map(cells_of, reader.items())


class VariantRows(Rows):
    """The results of all runs of a matrix. The first columns say which variant it is.

    Args:
        variants: The variants; those that have not begun have no rows.
        by_item: One row for each item, with means over its trials.
    """

    def __init__(self, variants: Iterable[VariantRun], *, by_item: bool = False) -> None:
        self._variants = [variant for variant in variants if variant.has_begun]
        evaluators: dict[str, None] = {}
        for variant in self._variants:
            with RunReader(variant.path) as reader:
                evaluators |= dict.fromkeys(reader.evaluators)
        labels = dict.fromkeys(label for variant in self._variants for label in variant.values)
        self._count(Table(evaluators, by_item=by_item, first=("variant", *labels)), by_item=by_item)

    def _cells(self) -> Iterator[dict[Key, Any]]:
        for variant in self._variants:
            about: dict[Key, Any] = {("variant", "variant"): variant.path.name}
            about |= {("variant", label): value for label, value in variant.values.items()}
            with RunReader(variant.path) as reader:
                for cells in self._cells_in(reader):
                    yield about | cells


def as_jsonl(rows: Rows) -> Iterator[bytes]:
    """Yield a JSON object for each row, with unchanged values."""
    names = rows.names
    for row in rows:
        yield encode(dict(zip(names, row, strict=True)))[0] + b"\n"


def as_csv(rows: Rows) -> Iterator[bytes]:
    """Yield the lines of a CSV file."""
    yield csv_line(map(spreadsheet_cell, rows.names))
    for row in rows:
        yield csv_line(map(spreadsheet_cell, row))


def as_markdown(rows: Rows) -> Iterator[bytes]:
    """Yield the lines of a Markdown table, as GitHub renders it."""
    yield _markdown_line(map(_markdown_cell, rows.names))
    yield _markdown_line("---" for _ in rows.names)
    for row in rows:
        yield _markdown_line(map(_markdown_cell, row))


def _markdown_line(cells: Iterable[str]) -> bytes:
    return f"| {' | '.join(cells)} |\n".encode("utf-8", "backslashreplace")


def _markdown_cell(value: Any) -> str:
    """Return a value as text that Markdown shows verbatim, on one line."""
    flat = flat_cell(value)
    text = "" if flat is None else str(flat)
    return _MARKDOWN.sub(r"\\\g<0>", without_controls(text)).translate(_HTML)


def nat_files(reader: RunReader) -> list[str]:
    """Return the names of the files to write."""
    return [f"{step}_output.json" for step in ("workflow", *reader.evaluators)] + ["summary.json"]


def write_nat(reader: RunReader, directory: Path) -> None:
    """Write `workflow_output.json`, `<evaluator>_output.json` and `summary.json`."""
    make_directory(directory)
    items, evaluators = reader.items(), reader.evaluators
    write_outputs(
        Layout(directory),
        items,
        evaluators,
        AnswerRows(reader.run_file.names, reader.trials, as_toolkit=True),
        reader.summary,
    )
