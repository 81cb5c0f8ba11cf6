"""`limpet ctl`: give an order to a run that is running."""

from limpet.cli.error_exit import DONE
from limpet.report.tables import put_json
from limpet.report.terminal import busy, say
from limpet.run.control import control


def command(run: str, *, words: tuple[str, ...], endpoint: str, as_json: bool) -> int:
    """Give an order; return when it is done."""
    with busy(f"waiting until it is done: {words[0]}"):
        done = control(run).order(*words, *filter(None, [endpoint]))
    if as_json:
        put_json({"order": words[0], "done": done})
    else:
        say(done)
    return DONE
