"""What happens to a worker in which the thread of an abandoned call keeps running?

Nothing can end a thread. This one may hold memory, locks and the interpreter for ever. So its
worker is retired: it gets no more cells and finishes those it has, a successor takes its place, and
in the end its process is closed, whatever its threads do.
"""

import asyncio
from collections.abc import Callable

from limpet.engines.crew_worker import CrewWorker

_CLOSING_S = 10.0  # how long a retired worker has to close its steps


class Retirement:
    """The retired workers of a crew.

    Args:
        most: How many may be finishing their cells while their successors already work.
        overlaps: Whether a successor starts while the retired worker still runs, not after it.
        start: Starts a successor.

    Attributes:
        workers: Those that only finish what they have.
    """

    def __init__(self, most: int, start: Callable[[CrewWorker], None], *, overlaps: bool) -> None:
        self.workers: list[CrewWorker] = []
        self._start = start
        self._overlaps = overlaps
        self._slots = asyncio.Semaphore(most)

    def add(self, worker: CrewWorker) -> None:
        """Note that a worker gets no more cells."""
        worker.idle = asyncio.get_running_loop().create_future()
        if not worker.cells:
            worker.idle.set_result(None)
        self.workers.append(worker)

    async def end(self, worker: CrewWorker, successor: CrewWorker | None) -> None:
        """Close a worker when it has no more cells; start its successor, if it has one."""
        assert worker.idle is not None
        async with self._slots:
            if successor is not None and self._overlaps:
                self._start(successor)
            await asyncio.wait({worker.idle})
            if not worker.is_lost:
                await self._close(worker)
            self.workers = [other for other in self.workers if other is not worker]
        if successor is not None and not self._overlaps:
            self._start(successor)

    async def _close(self, worker: CrewWorker) -> None:
        assert worker.line is not None
        names = {*worker.opened, *worker.opening, *worker.closing}
        closing = [worker.close_step(name) for name in names]
        if left := [future for future in closing if future is not None]:
            await asyncio.wait(left, timeout=_CLOSING_S)
        worker.is_lost = True
        worker.cancel_waits()
        await worker.line.close()
