"""`limpet repair`: mend the files of a run."""

import logging

import click
from rich.text import Text

from limpet.cli.endings import DONE
from limpet.errors import LimpetError
from limpet.journal.verify import repair
from limpet.report.busy import busy
from limpet.report.jsonl import json_line
from limpet.report.soundness import soundness_data
from limpet.report.tables import put
from limpet.report.terminal import talk
from limpet.run.reading import open_run
from limpet.run.reading.find_run import complete_run
from limpet.text import harmless, one_line


@click.command("repair")
@click.argument("run", shell_complete=lambda _c, _p, text: complete_run(text))
@click.option("--json", "as_json", is_flag=True, help="One JSON object, on stdout.")
def command(run: str, *, as_json: bool) -> int:
    """Mend the files of RUN, with a copy of each that is changed in its torn/ directory.

    A torn end is cut off, a lost line end is put back, the indexes are made anew. Bad lines of a
    column stay as they are: they count for nothing, and the next run does their cells again. No
    record that counts is changed.
    """
    with open_run(run) as reader:
        path = reader.path
    # What the journal would warn of is what we say ourselves.
    logging.getLogger("limpet.journal").addHandler(logging.NullHandler())
    said: list[str] = []
    try:
        with busy("reading every line"):
            report = repair(path, said.append)
    except OSError as error:
        raise LimpetError(
            f"{one_line(str(path))}: cannot be mended: {error.strerror} ({error.filename})",
            hint="check who may write there",
        ) from error
    if as_json:
        click.echo(json_line(soundness_data(report)))
    else:
        for line in said:
            put(Text(harmless(line)))
        bad = sum(len(state.bad_lines) for state in report.states)
        if bad:
            talk().print(Text(f"bad lines stay where they are: {bad:,}; their cells run again"))
    return DONE
