"""`limpet verify`: are the files of a run sound?"""

import shlex

from rich.text import Text

from limpet.cli.error_exit import DONE, FAILED
from limpet.journal.verify import verify
from limpet.report.live_display import busy
from limpet.report.soundness import soundness_data, soundness_table
from limpet.report.tables import put, put_json
from limpet.report.terminal import say
from limpet.run.reading import open_run
from limpet.run.reading.find_run import choose_run, is_matrix, variants_in
from limpet.text import one_line


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
        # Only a column has an index. Repair fixes everything but its bad lines.
        if any(state.bad_lines and state.index is not None for state in report.states):
            say("run it again: it sets bad lines aside once their cells are done")
        else:
            say(f"repair it: limpet repair {shown}, or run it again")
    return FAILED
