"""`limpet list`: which runs are there?"""

from pathlib import Path

from limpet.cli.error_exit import DONE
from limpet.errors import LimpetError
from limpet.journal.layout import layout_at
from limpet.report.runs import RunsTable, line_data, line_of
from limpet.report.tables import put, put_json
from limpet.report.terminal import say
from limpet.run.housekeeping import tags_of
from limpet.run.reading.find_run import is_run, runs_in
from limpet.text import one_line


def command(directory: Path, *, tag: str | None, as_json: bool) -> int:
    """List the runs in a directory."""
    if not directory.is_dir():
        raise LimpetError(
            f"{one_line(str(directory))}: no such directory",
            hint="name the directory that holds the runs, or start a run: limpet run eval.yml",
        )
    paths = [directory] if is_run(directory) else runs_in(directory)
    if tag is not None:
        paths = [path for path in paths if tag in tags_of(layout_at(path))]
    lines = [line_of(path) for path in paths]
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
