"""How does a table fit, on a narrow terminal and in a pipe?"""

import io
import os
import sys
from collections.abc import Iterable
from textwrap import indent
from typing import Any

import click
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from limpet.report.terminal import stdout_console
from limpet.report.words import json_line

_WIDE = 2_000
"""In a pipe, nothing is cut."""


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
    """Return a table cell: one line, cut where space is short."""
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
