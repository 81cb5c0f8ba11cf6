"""Are the files of a run sound, said to a person and to a machine?"""

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from limpet.journal.scan import ColumnState
from limpet.journal.verify import Report
from limpet.report.tables import cell, plain_table
from limpet.report.words import count
from limpet.text import one_line

_MOST_LINES = 10


def soundness_table(report: Report) -> Table:
    """Return each file with what is wrong with it."""
    table = plain_table("file", "lines", "records", "state", numbers=["lines", "records"])
    for one in report.states:
        flaws = "; ".join(flaws_of(one))
        state = cell(flaws, style="yellow") if flaws else cell("sound", style="green")
        # The story has lines, and no records.
        records = f"{one.records:,}" if one.records or not one.lines else ""
        table.add_row(cell(one_line(one.path.name)), f"{one.lines:,}", records, state)
    return table


def flaws_of(state: ColumnState) -> Iterator[str]:
    """Yield what is wrong with a file, or only slow, in words."""
    if state.bad_lines:
        numbers = ", ".join(map(str, state.bad_lines[:_MOST_LINES]))
        more = ", …" if len(state.bad_lines) > _MOST_LINES else ""
        yield f"{count(len(state.bad_lines), 'bad line')} ({numbers}{more})"
    if state.lacked_line_end:
        yield "the last line lacks its line end"
    elif state.torn_bytes:
        yield f"{count(state.torn_bytes, 'torn byte')} at its end"
    if state.index not in (None, "good", "rebuilt"):
        yield f"its index is {state.index}, which is only slow"


def soundness_data(report: Report) -> dict[str, Any]:
    """Return a report for machines."""
    return {
        "sound": report.is_sound,
        "files": [
            {
                "file": str(one.path),
                "sound": one.is_sound,
                "lines": one.lines,
                "records": one.records,
                "bad_lines": one.bad_lines,
                "torn_bytes": one.torn_bytes,
                "torn_to": None if one.torn_to is None else str(one.torn_to),
                "lacked_line_end": one.lacked_line_end,
                "index": one.index,
            }
            for one in report.states
        ],
    }
