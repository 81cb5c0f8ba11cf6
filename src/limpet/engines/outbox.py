"""Which messages wait in a worker, and when are they sent to the driver?

Results wait briefly for others, and travel together. File reads are sent before them, because they
may depend on them.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Container
from typing import Any

from limpet.engines.messages import BEGUN, DONE, LOG, READS, Message, NotPlainMessageError, packed
from limpet.engines.packed_values import packed_error, packed_output
from limpet.fingerprints.files.audit_hook import ReadElsewhere, Readers, missed
from limpet.fingerprints.files.project import ABSENT, Project
from limpet.fingerprints.walk.ownership import is_users_file
from limpet.shapes import Output

# ---- Which files do the cells in this worker open? ----------------------------------------------
#
# The driver is told, because results depend on them. A cell may use data that an earlier cell read
# and kept, so a read is sent before any result that ends after it.

_MOST_OF_A_CELL = 1_001  # the driver lists one less, and records that there are more


class FileReports:
    """Collects which cells open which files."""

    def __init__(self) -> None:
        self._project = Project([])
        self._new: deque[tuple[int | str, tuple[Any, ...]]] = deque()
        self._seen: dict[int | str, set[tuple[Any, ...]]] = {}

    def record(self, path: str, call: Any, *, writes: bool, by: Readers, is_module: bool) -> None:
        """Record a file that is being opened; called by the audit hook, in any thread.

        Args:
            path: The file.
            call: The number of the cell, or the name of the step that is being opened; None:
                neither, for example an import.
            writes: Whether it is opened for writing.
            by: The functions that are running; None if unknown.
            is_module: Whether a library imports it for a cell.
        """
        if not is_users_file(path) or (is_module and call is None):
            return
        digest = None if os.path.isdir(path) else self._project.digest_at(path)  # noqa: PTH112
        if not writes and digest is None and not os.path.isdir(path):  # noqa: PTH112
            return
        number = call or ""
        running = None if by is None else tuple(by)
        thread = (os.getpid(), threading.get_native_id())
        kept = digest or (ABSENT if writes else digest)
        read = (path, kept, writes, running, thread, is_module)
        seen = self._seen.setdefault(number, set())
        if read not in seen and len(seen) < _MOST_OF_A_CELL:
            seen.add(read)
            self._new.append((number, read))

    def forget(self, number: int) -> None:
        """Forget a cell that ended."""
        self._seen.pop(number, None)

    def take(self) -> dict[int | str, list[tuple[Any, ...]]]:
        """Return the new reads, by cell or step."""
        taken: dict[int | str, list[tuple[Any, ...]]] = {}
        while self._new:
            number, read = self._new.popleft()
            taken.setdefault(number, []).append(read)
        return taken

    @staticmethod
    def missed() -> list[str]:
        """Return the files that could not be recorded, and why."""
        names: list[str] = []
        while missed:
            names.append(missed.popleft())
        return names


def as_reads(reported: list[Any]) -> list[ReadElsewhere]:
    """Return a worker's report as reads, in the driver."""
    return [ReadElsewhere(*read) for read in reported]


# ---- Which messages wait in a worker, and when are they sent? -----------------------------------

_LINGER_S = 0.0005
_MOST_TOGETHER = 100


class Outbox:
    """Collects a worker's messages.

    Args:
        send: Sends packed messages to the driver.
        reports: The files that were read.
        running: The numbers of the running cells.
    """

    def __init__(
        self,
        send: Callable[[list[bytes]], None],
        reports: FileReports,
        running: Container[int],
    ) -> None:
        self._send = send
        self._reports = reports
        self._running = running
        self._loop = asyncio.get_running_loop()
        self._begun: list[int] = []
        self._ended: list[tuple[Any, ...]] = []
        self._timer: asyncio.TimerHandle | None = None

    def begun(self, number: int, *, at_once: bool) -> None:
        """Add that a cell began."""
        self._begun.append(number)
        self._flush_or_linger(at_once=at_once)

    def ended(self, *ended: Any, at_once: bool) -> None:
        """Add how a cell ended: its number, then the values of `Returned`."""
        self._ended.append(ended)
        self._flush_or_linger(at_once=at_once or len(self._ended) >= _MOST_TOGETHER)

    def _flush_or_linger(self, *, at_once: bool) -> None:
        if at_once:
            self.flush()
        elif self._timer is None:
            self._timer = self._loop.call_later(_LINGER_S, self.flush)

    def say(self, message: Message) -> None:
        """Send a message at once, after all that are waiting."""
        self.flush(packed(message))

    def flush(self, *last: bytes) -> None:
        """Send all waiting messages: reads first, because results may depend on them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        messages = [
            packed((READS, number, reads)) for number, reads in self._reports.take().items()
        ]
        messages += [
            packed((LOG, "limpet.run", 30, f"a file that was read could not be recorded: {what}"))
            for what in self._reports.missed()
        ]
        if begun := [number for number in self._begun if number in self._running]:
            messages.append(packed((BEGUN, begun)))
        self._begun.clear()
        messages += self._packed_ended()
        messages += last
        if messages:
            self._send(messages)

    def _packed_ended(self) -> list[bytes]:
        """Return the ended cells as one message; if a value is not plain, as one for each."""
        ended, self._ended = self._ended, []
        if not ended:
            return []
        try:
            return [packed((DONE, [(cell[0], _plain(cell[1]), *cell[2:]) for cell in ended]))]
        except Exception:  # noqa: BLE001 - one of them is at fault; the others are sent
            return [_packed_alone(cell) for cell in ended]


def _plain(value: Output | None, *, careful: bool = False) -> Any:
    return None if value is None else packed_output(value, careful=careful)


def _packed_alone(ended: tuple[Any, ...]) -> bytes:
    number, value, *more = ended
    try:
        return packed((DONE, [(number, _plain(value), *more)]))
    except (NotPlainMessageError, RecursionError):
        return packed((DONE, [(number, _plain(value, careful=True), *more)]))
    except Exception as error:  # noqa: BLE001 - for example, out of memory
        return packed((DONE, [(number, None, packed_error(error), *more[1:])]))
