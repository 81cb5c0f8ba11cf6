"""How does a table fit, on a narrow terminal and in a pipe?"""

import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import indent
from typing import Any, NamedTuple

import click
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from limpet.report.terminal import stdout_console
from limpet.report.words import json_line

_WIDE = 2_000
"""In a pipe, nothing is shortened."""


def plain_table(*columns: str, fixed: Iterable[str] = (), numbers: Iterable[str] = ()) -> Table:
    """Return an empty table; `fixed` and `numbers` keep their width, numbers are right-aligned."""
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0),
        header_style="bold",
    )  # fmt: skip
    for name in columns:
        is_number = name in numbers
        # Rich narrows columns that may wrap first; their cells end in "…" instead of wrapping.
        table.add_column(
            cell(name),
            justify="right" if is_number else "left",
            no_wrap=is_number or name in fixed,
        )
    return table


def cell(text: str, style: str = "") -> Text:
    """Return a table cell: one line, shortened if space is scarce."""
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


class Indented:
    """Text under a heading: wrapped on a terminal, unchanged in a pipe.

    Args:
        text: The text.
        style: A style of rich.
        hang: How much further the second and later lines are indented on a terminal.
    """

    def __init__(self, text: str, style: str = "", hang: int = 0) -> None:
        self._text = text
        self._style = style
        self._hang = hang

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if console.is_terminal:
            text = Text(self._text, style=self._style)
            lines = text.wrap(console, options.max_width - 2 - self._hang)
            for number, line in enumerate(lines):
                yield Padding(line, (0, 0, 0, 2 + (self._hang if number else 0)))
        else:
            yield Text(indent(self._text, "  "), no_wrap=True, overflow="ignore")


def put(*renderables: RenderableType) -> None:
    """Print to stdout: as wide as the terminal, or as wide as needed without one."""
    console = stdout_console()
    if console.is_terminal:
        console.print(Group(*renderables), soft_wrap=False)
        return
    # Without a terminal, the console of stdout is always 80 wide.
    text = io.StringIO()
    width = console.width if "COLUMNS" in os.environ else _WIDE
    plain = Console(file=text, width=width, highlight=False, markup=False, emoji=False)
    plain.print(Group(*renderables), crop=False)
    for line in text.getvalue().splitlines():
        sys.stdout.write(f"{line.rstrip()}\n")


def put_json(value: Any) -> None:
    """Print one line of JSON to stdout."""
    click.echo(json_line(value))


# ---- How do many scores fit beside a few long texts, on any terminal? ---------------------------
#
# They are columns of a table if that leaves enough room for the texts; otherwise the scores follow
# each line, wrapped.

NONE = "–"
_REASON = "explanation"
_ROOMY, _TIGHT = 24, 12
"""Texts may shrink to the first to make room for scores, to the second for full ids."""
GAP = 2
INDENT = 4


class _Row(NamedTuple):
    cells: Sequence[Text]
    scores: Mapping[str, str]
    reasons: Mapping[str, str]


class FittedTable:
    """A table of texts with scores, and perhaps reasons.

    Args:
        titles: The columns of texts.
        scores: The names of the scores, without control characters.
        numbers: Which of the titles are numbers.
    """

    def __init__(
        self, titles: Sequence[str], scores: Sequence[str], numbers: Iterable[str] = ()
    ) -> None:
        self._titles = titles
        self._scores = scores
        self._numbers = [*numbers]
        self._rows: list[_Row] = []

    def add(
        self, cells: Sequence[Text], scores: Mapping[str, str], reasons: Mapping[str, str]
    ) -> None:
        """Add a line: its texts, and its scores and reasons by name, if any."""
        self._rows.append(_Row(cells, scores, reasons))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._needs() <= options.max_width:
            yield self._wide()
        else:
            yield from self._narrow(console, options)

    def _needs(self) -> int:
        """Return the width at which all columns have enough room."""
        texts = [
            max(cell_len(title), *(min(_ROOMY, row.cells[at].cell_len) for row in self._rows))
            for at, title in enumerate(self._titles)
        ]
        texts[0] = max(texts[0], self._id_width)
        scores = [
            max(cell_len(name), *(cell_len(row.scores.get(name, "")) for row in self._rows))
            for name in self._scores
        ]
        reasons = [min(_ROOMY, max(cell_len(_in_one(row)) for row in self._rows))]
        return sum(wide + GAP for wide in (*texts, *scores, *filter(None, reasons))) - GAP

    @property
    def _id_width(self) -> int:
        return max(row.cells[0].cell_len for row in self._rows)

    def _wide(self) -> Table:
        reason = [_REASON] if any(row.reasons for row in self._rows) else []
        table = plain_table(
            *self._titles, *self._scores, *reason,
            fixed=self._titles[:1], numbers=[*self._numbers, *self._scores],
        )  # fmt: skip
        for row in self._rows:
            scores = [cell(row.scores.get(name, NONE)) for name in self._scores]
            table.add_row(*row.cells, *scores, *([cell(_in_one(row))] if reason else []))
        return table

    def _narrow(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # A full id can be copied.
        is_room = self._id_width + _TIGHT * (len(self._titles) - 1) <= options.max_width
        fixed = self._titles[:1] if is_room else ()
        table = plain_table(*self._titles, fixed=fixed, numbers=self._numbers)
        for row in self._rows:
            table.add_row(*row.cells)
        lines = iter(console.render_lines(table, options, pad=False))
        for line in (next(lines), next(lines)):  # the titles, and the rule below them
            yield from (*line, Segment.line())
        width = options.max_width - INDENT
        for line, row in zip(lines, self._rows, strict=True):
            yield from (*line, Segment.line())
            scores = {name: row.scores[name] for name in self._scores if name in row.scores}
            for below in (*wrapped(scores, width, self._column), *_reasons(row)):
                yield Padding(below, (0, 0, 0, INDENT))

    @property
    def _column(self) -> int:
        """The width of a score in the lines below, to align them."""
        return max(
            (cell_len(name) + 1 + cell_len(row.scores.get(name, "")))
            for row in self._rows
            for name in self._scores or [""]
        )


def wrapped(scores: Mapping[str, str], width: int, column: int) -> Iterator[RenderableType]:
    """Yield scores by name in lines of a width, in aligned columns if they are short."""
    line = Text()
    for name, words in scores.items():
        score = Text.assemble((name, "cyan"), " ", words)
        if line and line.cell_len + GAP + score.cell_len > width:
            yield line
            line = Text()
        line = (line + Text(" " * GAP) if line else line) + score
        line.pad_right(max(0, min(_ROOMY, column) - score.cell_len))
    if line:
        line.rstrip()
        yield line


def _in_one(row: _Row) -> str:
    return "; ".join(f"{name}{reason}" for name, reason in _named_reasons(row))


def _reasons(row: _Row) -> Iterator[RenderableType]:
    for name, reason in _named_reasons(row):
        yield Text.assemble((name, "cyan"), reason)


def _named_reasons(row: _Row) -> Iterator[tuple[str, str]]:
    """Yield each reason after the name of its score, unless the row has only one."""
    is_only = len(row.reasons) == 1 and len(row.scores) <= 1
    for name, reason in row.reasons.items():
        yield "" if is_only else f"{name}: ", reason
