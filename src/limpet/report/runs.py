"""Which runs exist, and what is their state?"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from limpet.report.status import remark_lines
from limpet.report.tables import GAP, INDENT, NONE, cell, plain_table, wrapped
from limpet.report.words import ago
from limpet.run.reading import RunReader
from limpet.run.reading.description import Description, described_at
from limpet.run.reading.find_run import VariantRun, variants_in
from limpet.run.results.score_words import claims_of, headline, label_counts, score_words
from limpet.text import one_line


def _in_words(run: Description) -> dict[str, str]:
    """Return the means of a run by name; for scores with labels only, their counts."""
    words = {}
    for name, score in run.scores.items():
        labels = score.get("labels") if score.get("mean") is None else None
        words[one_line(name)] = f"({label_counts(labels)})" if labels else headline(score)
    return words


def _note(run: Description) -> str:
    """Return a remark on the means, or why there are none."""
    if run.why is not None:
        return one_line(run.why)
    note = version_note(run)
    return f"({note})" if note else ""


def version_note(run: Description) -> str:
    """Return a remark on versions beside a mean; empty if there is only one version."""
    if run.earlier_on_disk:
        return f"{run.earlier_on_disk:,} from an earlier version on disk"
    if run.by_current_version is None:
        return ""
    current, of = run.by_current_version
    return f"{current:,} of {of:,} answers current"


def described_variants(directory: Path) -> list[Description]:
    """Describe the runs of a matrix: those in its file, even if not begun, and older ones."""
    return [
        described_at(variant.path)
        if variant.has_begun
        else Description(str(variant.path), "not begun")
        for variant in variants_in(directory)
    ]


class RunsTable:
    """A line for each run; if the means do not fit, they are below it.

    On a terminal too narrow for the names of runs, each name has its own line.
    """

    def __init__(self, lines: Sequence[Description]) -> None:
        self._lines = lines
        self._with_failed = any(line.failed for line in lines)
        self._with_tags = any(line.tags for line in lines)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        def fits(table: Table) -> bool:
            wide = options.update(max_width=_UNLIMITED)
            return Measurement.get(console, wide, table).maximum <= options.max_width

        if fits(whole := self._table(with_means=True)):
            yield whole
        elif fits(table := self._table(with_means=False)):
            lines = iter(console.render_lines(table, options, pad=False))
            for segments in (next(lines), next(lines)):  # the titles, and the rule below them
                yield from (*segments, Segment.line())
            for segments, line in zip(lines, self._lines, strict=True):
                yield from (*segments, Segment.line())
                yield from _below(line, options.max_width)
        else:
            for line in self._lines:
                yield Text(one_line(line.run), style="bold", overflow="fold")
                yield Padding(Text("  ".join(filter(None, _facts(line)))), (0, 0, 0, INDENT))
                yield from _below(line, options.max_width)

    def _table(self, *, with_means: bool) -> Table:
        failed = ["failed"] if self._with_failed else []
        tags = ["tags"] if self._with_tags else []
        names = ["run", "state", "done", *failed, *(["means"] if with_means else []), *tags]
        table = plain_table(*names, "active", fixed=["run", "state"], numbers=["done", *failed])
        for line in self._lines:
            means = ", ".join(" ".join(pair) for pair in _in_words(line).items())
            cells = [one_line(line.run), line.state_now, f"{line.done:,}/{line.total:,}"]
            cells += [f"{line.failed:,}" if line.failed else ""] if failed else []
            cells += [f"{means} {_note(line)}".strip()] if with_means else []
            cells += [_tags(line)] if tags else []
            table.add_row(*map(cell, (*cells, ago(line.last_at or ""))))
        return table


_UNLIMITED = 1_000_000


def _facts(line: Description) -> Iterator[str]:
    yield line.state_now
    yield f"{line.done:,}/{line.total:,}"
    yield f"{line.failed:,} failed" if line.failed else ""
    yield ago(line.last_at or "")
    yield _tags(line)


def _tags(line: Description) -> str:
    return ", ".join(map(one_line, line.tags))


def _below(line: Description, width: int) -> Iterator[Padding]:
    """Yield the means of a run, and remarks on them."""
    note = [Text(_note(line))] if _note(line) else []
    for below in (*wrapped(_in_words(line), width - INDENT, 0), *note):
        yield Padding(below, (0, 0, 0, INDENT))


def line_data(run: Description) -> dict[str, Any]:
    """Return a run as JSON data."""
    return {
        "run": run.run,
        "state": run.state,
        "done": run.done,
        "total": run.total,
        "failed": run.failed,
        "scores": claims_of(run.scores),
        "by_current_version": run.by_current_version and run.by_current_version[0],
        "last_at": run.last_at,
        "why": run.why,
        "tags": run.tags,
        "earlier_on_disk": run.earlier_on_disk,
        "used": run.used,
        "remarks": [*run.remarks, *remark_lines(run)],
    }


# ---- How do the variants of a matrix compare? ---------------------------------------------------

_NARROWEST = 16
"""A column of values may shrink to this."""


class VariantRow(NamedTuple):
    """A variant in one line.

    Attributes:
        values: Its values, a string for each column.
        summary: The summary of its run; None if it has none.
        state: How its run ended, if not well: `stopped`, `error` or `not run`.
    """

    values: Sequence[str]
    summary: Mapping[str, Any] | None
    state: str = ""


class VariantsTable:
    """A row for each variant: its values, means, failed cells, cost and seconds per call.

    Means that do not fit beside the values continue in another table below.
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
    scores = (summary or {}).get("scores", {})
    return {name: score_words(score) for name, score in scores.items()}


def variant_data(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores of a variant by name, and its numbers, as JSON data."""
    more = variant_numbers(summary)
    numbers = {name.replace("/", "_per_"): number for name, number in more.items()}
    return {"scores": claims_of(summary["scores"]), **numbers}


def row_on_disk(variant: VariantRun, labels: Sequence[str]) -> VariantRow:
    """Return the row of a variant from the files of its run, even if that has not begun."""
    # One that is no longer in the matrix has only its name.
    values = [variant.values.get(label, "") for label in labels]
    if not variant.values:
        values[0] = variant.path.name
    if not variant.has_begun:
        return VariantRow(values, None, "not begun")
    with RunReader(variant.path) as reader:
        is_over = reader.state in ("finished", "enough", "limited")
        return VariantRow(values, reader.summary(), "" if is_over else reader.state)


def variant_numbers(summary: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the failed cells of a run, its cost, and its seconds per answer, if known."""
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
