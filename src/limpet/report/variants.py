"""How do the variants of a matrix compare?"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

from limpet.report.runs import named, some
from limpet.report.score_table import GAP, NONE
from limpet.report.tables import cell, plain_table
from limpet.run.reading import RunReader
from limpet.run.reading.find_run import VariantRun
from limpet.run.results.score_words import ScoreName, score_words
from limpet.text import one_line

_NARROWEST = 16
"""A column of values may shrink to this."""


class VariantRow(NamedTuple):
    """A variant in one line.

    Attributes:
        values: What it varies, a string for each column.
        summary: The summary of its run; None if it has none.
        state: How its run ended, if not well: `stopped`, `error` or `not run`.
    """

    values: Sequence[str]
    summary: Mapping[str, Any] | None
    state: str = ""


class VariantsTable:
    """A row for each variant: its values, means, failed cells, cost and seconds per call.

    Where the means do not fit beside the values, they continue in another table below.
    """

    def __init__(self, labels: Sequence[str], rows: Sequence[VariantRow]) -> None:
        self._labels = [one_line(label) for label in labels]
        self._rows = rows
        self._columns = _columns(rows)

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        for number, names in enumerate(self._chunks(options.max_width)):
            if number:
                yield ""
            yield self._table(names)

    def _chunks(self, width: int) -> Iterator[list[str]]:
        free = width - sum(min(size, _NARROWEST) + GAP for size in self._widths())
        names: list[str] = []
        taken = 0
        for name, cells in self._columns.items():
            size = max(map(cell_len, [name, *cells])) + GAP
            if names and taken + size > free + GAP:
                yield names
                names, taken = [], 0
            names.append(name)
            taken += size
        yield names

    def _widths(self) -> Iterator[int]:
        for number, label in enumerate(self._labels):
            values = (cell_len(one_line(row.values[number])) for row in self._rows)
            yield max(cell_len(label), *values)

    def _table(self, names: Sequence[str]) -> Table:
        numbers = [name for name in names if name != _STATE]
        # The labels come first; a label may have the name of an evaluator.
        table = plain_table(*self._labels)
        for name in names:
            right = name in numbers
            table.add_column(cell(name), justify="right" if right else "left", no_wrap=True)
        for number, row in enumerate(self._rows):
            values = [cell(one_line(value)) for value in row.values]
            table.add_row(*values, *(cell(self._columns[name][number]) for name in names))
        return table


_STATE = "state"


def _columns(rows: Sequence[VariantRow]) -> dict[str, list[str]]:
    """Return the cells of each column after the values, without empty columns."""
    columns: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for row in rows for name in _means(row.summary)):
        columns[one_line(name)] = [_means(row.summary).get(name, NONE) for row in rows]
    columns["failed"] = [_count(variant_numbers(row.summary).get("failed")) for row in rows]
    for name in ("cost", "s/call"):
        columns[name] = [_number(variant_numbers(row.summary).get(name)) for row in rows]
    columns[_STATE] = [row.state for row in rows]
    return {name: cells for name, cells in columns.items() if any(cells)}


def _means(summary: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the means of a variant, or the counts of labels, by the names of the scores."""
    return {
        str(ScoreName(name, part)): words
        for name, numbers in (summary or {}).get("evaluators", {}).items()
        for part, words in score_words(numbers).items()
    }


def variant_data(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the means of a variant by the names of the scores, and its numbers, as JSON data."""
    scores = summary["evaluators"]
    found: dict[str, Any] = {"means": named(scores, "mean", "means")}
    for one, several in (("interval", "intervals"), ("bounds", "bounds_by_score")):
        found[f"{one.rstrip('s')}s"] = some(named(scores, one, several))
    more = variant_numbers(summary)
    return found | {name.replace("/", "_per_"): number for name, number in more.items()}


def row_on_disk(variant: VariantRun, labels: Sequence[str]) -> VariantRow:
    """Return the row of a variant from the files of its run, also if that has not begun."""
    # One that the matrix no longer has is known by its name alone.
    values = [variant.values.get(label, "") for label in labels]
    if not variant.values:
        values[0] = variant.path.name
    if not variant.has_begun:
        return VariantRow(values, None, "not begun")
    with RunReader(variant.path) as reader:
        return VariantRow(values, reader.summary(), "" if _is_over(reader) else reader.state)


def _is_over(reader: RunReader) -> bool:
    return reader.state in ("finished", "enough", "limited")


def variant_numbers(summary: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the failed cells of a run, its cost, and its seconds for each answer, if known."""
    if summary is None:
        return {}
    workflow = summary["workflow"]
    steps = [workflow, *summary["evaluators"].values()]
    numbers: dict[str, float] = {"failed": sum(sum(step["failed"].values()) for step in steps)}
    if any("cost" in step.get("usage", {}) for step in steps):
        numbers["cost"] = sum(step.get("usage", {}).get("cost", 0) for step in steps)
    if workflow["completed"] and "seconds" in workflow:
        numbers["s/call"] = workflow["seconds"] / workflow["completed"]
    return numbers


def _count(number: float | None) -> str:
    return f"{number:,.0f}" if number else ""


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:,.4g}"
