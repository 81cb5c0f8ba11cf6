"""`limpet status` and `limpet list`: how far is a run, and which runs exist?"""

import time
from pathlib import Path

from limpet.cli.error_exit import DONE
from limpet.errors import LimpetError
from limpet.journal.layout import layout_at
from limpet.report.runs import RunsTable, described_variants, line_data
from limpet.report.status import StatusScreen, status_data, status_line
from limpet.report.tables import put, put_json
from limpet.report.terminal import say, stderr_console
from limpet.run.housekeeping import tags_of
from limpet.run.reading import RunReader, open_run
from limpet.run.reading.description import Description, describe, described_at
from limpet.run.reading.find_run import choose_run, is_matrix, is_run, runs_in
from limpet.text import one_line

# ---- `limpet status`: how far is a run? ---------------------------------------------------------

_EVERY_S = 1.0


def command(run: str | None, *, watch: bool, as_json: bool) -> int:
    """Show how far a run is, or those of a matrix."""
    if run is not None and is_matrix(directory := choose_run(run)):
        lines = described_variants(directory)
        if as_json:
            put_json({"variants": [line_data(line) for line in lines]})
        else:
            put(RunsTable(lines))
        return DONE
    with open_run(run) as reader:
        if watch and not as_json and stderr_console().is_terminal:
            _watch(reader)
        elif watch:
            _log(reader, as_json=as_json)
        elif as_json:
            put_json(status_data(_now(reader)))
        else:
            put(StatusScreen(_now(reader)))
    return DONE


def _now(reader: RunReader) -> Description:
    return describe(reader, reader.snapshot())


def _watch(reader: RunReader) -> None:
    from rich.live import Live  # noqa: PLC0415 - slow, and only needed here

    screen = StatusScreen(_now(reader))
    with Live(screen, console=stderr_console(), auto_refresh=False, transient=True) as live:
        live.refresh()
        while reader.is_running:
            time.sleep(_EVERY_S)
            reader.refresh()
            screen = StatusScreen(_now(reader))
            live.update(screen, refresh=True)
    stderr_console().print(screen)


def _log(reader: RunReader, *, as_json: bool) -> None:
    """Print a line per second as JSON; as text, only when something has changed."""
    last = ""
    while True:
        if as_json:
            put_json(status_data(_now(reader)))
        elif (line := status_line(_now(reader))) != last:
            say(line, wrap=False)
            last = line
        if not reader.is_running:
            return
        time.sleep(_EVERY_S)
        reader.refresh()


def list_runs(directory: Path, *, tag: str | None, as_json: bool) -> int:
    """List the runs in a directory."""
    if not directory.is_dir():
        raise LimpetError(
            f"{one_line(str(directory))}: no such directory",
            hint="name the directory that holds the runs, or start a run: limpet run eval.yml",
        )
    paths = [directory] if is_run(directory) else runs_in(directory)
    if tag is not None:
        paths = [path for path in paths if tag in tags_of(layout_at(path))]
    lines = [described_at(path) for path in paths]
    lines.sort(key=lambda line: line.last_at or "", reverse=True)
    if as_json:
        for line in lines:
            put_json(line_data(line))
    elif lines:
        put(RunsTable(lines))
    else:
        tagged = "" if tag is None else f" with the tag {one_line(tag)}"
        say(f"no runs{tagged} in {one_line(str(directory))}")
    return DONE
