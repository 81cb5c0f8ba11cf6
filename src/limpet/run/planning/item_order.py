"""In which order does a session with `stop_when` take the items?

In a random one: where it stops, what it has done must be a sample of all, whatever the order of the
dataset. Each item has a rank, a hash of the seed and its id, and is taken in the order of the
ranks. So a resumed session takes the same order, rows that are added or removed move no other, and
two runs of one dataset that stop early have mostly the same items.
"""

from collections.abc import Mapping
from dataclasses import replace

from limpet.datasets.selection import rank
from limpet.journal.column import ColumnReader
from limpet.run.request import Request
from limpet.run.run_file import RandomOrder, RunFile


def begin_order(
    run_file: RunFile, request: Request, columns: Mapping[str, ColumnReader]
) -> RandomOrder:
    """Return the order of a session that begins, and record it in the run file.

    The seed is that of the first such session. An item that another selection began counts only
    when it is reached.
    """
    order = run_file.order or RandomOrder(request.selection.seed, request.selection)
    if order.selection != request.selection:
        order = RandomOrder(order.seed, request.selection)
    elif (until := _cut_off_at(run_file, order, columns)) > order.until:
        order = replace(order, until=until)
    run_file.order = order
    return order


def _cut_off_at(run_file: RunFile, order: RandomOrder, columns: Mapping[str, ColumnReader]) -> str:
    """Return how far a session got that was cut off, by its records; empty: no session was."""
    last = run_file.session
    if last is None or last.ended or not last.stop_when:
        return ""
    ids = {
        id_
        for step, began in last.steps.items()
        if step in columns
        for id_, _ in columns[step].ids(began.bytes_at)
    }
    return max((rank(order.seed, id_).hex() for id_ in ids), default="")
