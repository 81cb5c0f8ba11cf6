"""`limpet list`: which runs are there?"""

from pathlib import Path

from limpet.cli.error_exit import DONE
from limpet.errors import LimpetError
from limpet.report.runs import line_data, line_of, runs_table
from limpet.report.tables import put, put_json
from limpet.report.terminal import say
from limpet.run.reading.find_run import is_run, runs_in
from limpet.text import one_line


def command(directory: Path, *, as_json: bool) -> int:
    """List the runs in a directory."""
    if not directory.is_dir():
        raise LimpetError(
            f"{one_line(str(directory))}: no such directory",
            hint="name the directory that holds the runs, or start a run: limpet run eval.yml",
        )
    lines = [line_of(path) for path in ([directory] if is_run(directory) else runs_in(directory))]
    lines.sort(key=lambda line: line.last_at or "", reverse=True)
    if as_json:
        for line in lines:
            put_json(line_data(line))
    elif lines:
        put(runs_table(lines))
    else:
        say(f"no runs in {one_line(str(directory))}")
    return DONE
