"""`limpet ctl`: give an order to a run that is running."""

from limpet.cli.error_exit import DONE
from limpet.report.tables import put_json
from limpet.report.terminal import busy, say
from limpet.run.control import as_order, control


def command(run: str, order: str, *, words: tuple[str, ...], endpoint: str, as_json: bool) -> int:
    """Give an order; return when it is done."""
    as_order(order, words, endpoint)
    with busy(f"waiting until it is done: {order}"):
        done = control(run).order(order, words, endpoint)
    if as_json:
        put_json({"order": order, "done": done})
    else:
        say(done)
    return DONE
