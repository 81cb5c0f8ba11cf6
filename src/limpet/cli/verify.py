"""`limpet verify`: are the files of a run sound?"""

import shlex

import click
from rich.text import Text

from limpet.cli.endings import DONE, FAILED
from limpet.journal.verify import verify
from limpet.report.busy import busy
from limpet.report.jsonl import json_line
from limpet.report.soundness import soundness_data, soundness_table
from limpet.report.tables import put
from limpet.report.terminal import talk
from limpet.run.reading import open_run
from limpet.run.reading.find_run import complete_run
from limpet.text import one_line


@click.command("verify")
@click.argument("run", required=False, shell_complete=lambda _c, _p, text: complete_run(text))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")
def command(run: str | None, *, as_json: bool) -> int:
    """Check every line of RUN without changing it. Exits with 1 if something is wrong."""
    with open_run(run) as reader:
        path, is_running = reader.path, reader.is_running
    with busy("reading every line"):
        report = verify(path)
    if as_json:
        click.echo(json_line(soundness_data(report)))
    else:
        put(soundness_table(report))
    if report.is_sound:
        return DONE
    if is_running:
        talk().print(Text("it is running: the last lines may be half written"))
    else:
        shown = shlex.quote(one_line(str(path)))
        talk().print(Text("bad lines are ignored, and their cells run again"))
        # Only a column has an index. Repair fixes everything but its bad lines.
        if any(state.bad_lines and state.index is not None for state in report.states):
            talk().print(Text("run it again: it sets bad lines aside once their cells are done"))
        else:
            talk().print(Text(f"repair it: limpet repair {shown}, or run it again"))
    return FAILED
