"""Are the files of a run sound? As a table and as data."""

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from limpet.journal.scan import ColumnState
from limpet.journal.verify import Report
from limpet.report.tables import cell, plain_table
from limpet.text import count, one_line


def soundness_table(report: Report) -> Table:
    """Return each file with what is wrong with it."""
    table = plain_table("file", "lines", "records", "state", numbers=["lines", "records"])
    for state in report.states:
        flaws = "; ".join(flaws_of(state))
        verdict = cell(flaws, style="yellow") if flaws else cell("sound", style="green")
        # The event log has lines, but no records.
        records = f"{state.records:,}" if state.records or not state.lines else ""
        table.add_row(cell(one_line(state.path.name)), f"{state.lines:,}", records, verdict)
    return table


def flaws_of(state: ColumnState) -> Iterator[str]:
    """Yield what is wrong with a file, in words."""
    if state.bad_lines:
        yield state.bad_words
    if state.lacked_line_end:
        yield "the last line has no line end"
    elif state.torn_bytes:
        yield f"{count(state.torn_bytes, 'torn byte')} at its end"
    if state.index not in (None, "good", "rebuilt"):
        yield f"its index is {state.index} (slower, but safe)"


def soundness_data(report: Report) -> dict[str, Any]:
    """Return a report as JSON data."""
    return {
        "sound": report.is_sound,
        "files": [
            {
                "file": str(state.path),
                "sound": state.is_sound,
                "lines": state.lines,
                "records": state.records,
                "bad_lines": state.bad_lines,
                "torn_bytes": state.torn_bytes,
                "torn_to": None if state.torn_to is None else str(state.torn_to),
                "lacked_line_end": state.lacked_line_end,
                "index": state.index,
            }
            for state in report.states
        ],
    }
