"""`limpet verify` and `limpet repair`: are the files of a run intact, and how are they repaired?"""

import logging
import shlex
from collections.abc import Iterator
from typing import Any

from rich.table import Table
from rich.text import Text

from limpet.cli.error_exit import DONE, FAILED
from limpet.errors import LimpetError
from limpet.journal.recovery import ColumnState
from limpet.journal.verify import Report, repair, verify
from limpet.report.tables import cell, plain_table, put, put_json
from limpet.report.terminal import busy, say
from limpet.run.reading import open_run
from limpet.run.reading.find_run import choose_run, is_matrix, variants_in
from limpet.text import count, harmless, one_line

# ---- The files of a run and their flaws, as a table and as data. --------------------------------


def soundness_table(report: Report) -> Table:
    """Return a table of the files and their flaws."""
    table = plain_table("file", "lines", "records", "state", numbers=["lines", "records"])
    for state in report.states:
        flaws = "; ".join(flaws_of(state))
        verdict = cell(flaws, style="yellow") if flaws else cell("sound", style="green")
        # The event log has lines, but no records.
        records = f"{state.records:,}" if state.records or not state.lines else ""
        table.add_row(cell(one_line(state.path.name)), f"{state.lines:,}", records, verdict)
    return table


def flaws_of(state: ColumnState) -> Iterator[str]:
    """Yield the flaws of a file, in words."""
    if state.bad_lines:
        yield state.bad_words
    if state.lacked_line_end:
        yield "the last line has no newline"
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


def command(run: str | None, *, as_json: bool) -> int:
    """Check the files of a run, or of all runs of a matrix."""
    if run is None or not is_matrix(directory := choose_run(run)):
        return _verify(run, as_json=as_json)
    codes = []
    for variant in filter(lambda variant: variant.has_begun, variants_in(directory)):
        if not as_json:
            put(Text(one_line(str(variant.path)), style="bold"))
        codes.append(_verify(str(variant.path), as_json=as_json))
    return max(codes, default=DONE)


# ---- `limpet verify`: are the files of a run intact? --------------------------------------------


def _verify(run: str | None, *, as_json: bool) -> int:
    with open_run(run) as reader:
        path, is_running = reader.path, reader.is_running
    with busy("reading every line"):
        report = verify(path)
    if as_json:
        put_json(soundness_data(report))
    else:
        put(soundness_table(report))
    if report.is_sound:
        return DONE
    if is_running:
        say("it is running: the last lines may be half written")
    else:
        shown = shlex.quote(one_line(str(path)))
        if any(state.bad_lines for state in report.states):
            say("bad lines are ignored, and their cells run again")
        # Only a column has an index. Repair fixes all but its bad lines.
        if any(state.bad_lines and state.index is not None for state in report.states):
            say("run it again: bad lines are set aside once their cells are done")
        else:
            say(f"repair it: limpet repair {shown}, or run it again")
    return FAILED


def repair_run(run: str, *, as_json: bool) -> int:
    """Repair the files of a run."""
    with open_run(run) as reader:
        path = reader.path
    # The journal's warnings would repeat what is printed below.
    logging.getLogger("limpet.journal").addHandler(logging.NullHandler())
    messages: list[str] = []
    try:
        with busy("reading every line"):
            report = repair(path, messages.append)
    except OSError as error:
        raise LimpetError(
            f"{one_line(str(path))}: cannot be repaired: {error.strerror} ({error.filename})",
            hint="check the permissions",
        ) from error
    if as_json:
        put_json(soundness_data(report))
    else:
        put(*(Text(harmless(line)) for line in messages))
        bad = sum(len(state.bad_lines) for state in report.states)
        if bad:
            say(f"{count(bad, 'bad line')} kept; the cells run again")
    return DONE
