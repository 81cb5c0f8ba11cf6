"""Notes the totals of a large run while it runs.

A page that opens the run, or `status` after a kill, then adds up only what came later. A thread of
its own reads the columns as any reader does, so that what it notes follows from the bytes on disk.
A note is written when a tenth is new: together, all notes are ten times as long as the last one.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from limpet.fingerprints.files.audit_hook import unwatched
from limpet.run.reading import RunReader
from limpet.run.reading.growing_totals import GrowingTotals

_LEAST_CELLS = 50_000
"""Fewer are added up in half a second, which is less than the notes take."""
_LEAST_BYTES, _SHARE = 2**22, 10
_EVERY_S = 1.0

logger = logging.getLogger("limpet.run")


@contextmanager
def keeping_totals(run: Path, cells: int) -> Iterator[None]:
    """Note the totals of a run within the block, if it is large.

    Args:
        run: The run's directory.
        cells: How many cells it will have.
    """
    if cells < _LEAST_CELLS:
        yield
        return
    keeper = TotalsKeeper(run)
    thread = threading.Thread(target=keeper.run, name="limpet-totals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        keeper.over.set()
        thread.join()


class TotalsKeeper:
    """Adds up a run as it grows, and notes the totals.

    Args:
        run: The run's directory.

    Attributes:
        over: Set when the session is over.
    """

    def __init__(self, run: Path) -> None:
        self.over = threading.Event()
        self._run = run
        self._totals: GrowingTotals | None = None
        self._noted = 0

    def run(self) -> None:
        """Note the totals now and then, until it is over. Without them, readers take longer."""
        try:
            with unwatched(), RunReader(self._run) as reader:
                while not self.over.wait(_EVERY_S) and self.note(reader):
                    pass
        except Exception as error:  # noqa: BLE001 - a session must not fail because of a hint
            logger.warning("%s: the totals are not noted: %s", self._run, error)

    def note(self, reader: RunReader) -> bool:
        """Note the totals if enough is new; return False if they cannot be known."""
        size = reader.size
        if size - self._noted < max(_LEAST_BYTES, self._noted // _SHARE):
            return True
        reader.refresh()
        reader.read_events()  # before the columns: a call that began may have its record by then
        totals, is_over = self._totals, self.over.is_set
        if totals is None or not totals.is_of(reader.results) or not totals.add_new(is_over):
            totals = self._totals = reader.growing_totals(is_over)
        if totals is not None and not is_over():
            reader.note_totals(totals)
            reader.note_events(totals)
            self._noted = size
        return totals is not None
