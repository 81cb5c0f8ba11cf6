"""What waits in a worker to be sent to the driver, and when is it sent?

Results wait a few milliseconds for others, and travel together. What was read is sent before them,
as they may depend on it.
"""

import asyncio
from collections.abc import Callable, Container
from typing import Any

from limpet.engines.file_reports import FileReports
from limpet.engines.messages import (
    BEGUN,
    DONE,
    LOG,
    READS,
    Message,
    NotPlainMessageError,
    packed,
)
from limpet.engines.packed_errors import packed_error
from limpet.engines.packed_values import packed_output
from limpet.types import Output

_LINGER_S = 0.001
_MOST_TOGETHER = 100


class Outbox:
    """Collects what a worker has to say.

    Args:
        send: Sends packed messages to the driver.
        reports: Which files were read.
        running: The numbers of the cells that run.
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
        """Put the news that a cell began."""
        self._begun.append(number)
        self._flush_or_linger(at_once=at_once)

    def ended(self, *ended: Any, at_once: bool) -> None:
        """Put how a cell ended: its number, its value, and the rest of `Returned`."""
        self._ended.append(ended)
        self._flush_or_linger(at_once=at_once or len(self._ended) >= _MOST_TOGETHER)

    def _flush_or_linger(self, *, at_once: bool) -> None:
        if at_once:
            self.flush()
        elif self._timer is None:
            self._timer = self._loop.call_later(_LINGER_S, self.flush)

    def say(self, message: Message) -> None:
        """Send a message at once, after all that waits."""
        self.flush(packed(message))

    def flush(self, *last: bytes) -> None:
        """Send what waits: what was read first, as the results after it may depend on it."""
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
        """Return what ended as one message; if something of it is not plain, as one for each."""
        ended, self._ended = self._ended, []
        if not ended:
            return []
        try:
            return [packed((DONE, [(cell[0], _plain(cell[1]), *cell[2:]) for cell in ended]))]
        except Exception:  # noqa: BLE001 - it is one of them, and the others go on
            return [_packed_alone(cell) for cell in ended]


def _plain(value: Output | None, *, careful: bool = False) -> Any:
    return None if value is None else packed_output(value, careful=careful)


def _packed_alone(ended: tuple[Any, ...]) -> bytes:
    number, value, *more = ended
    try:
        return packed((DONE, [(number, _plain(value), *more)]))
    except (NotPlainMessageError, RecursionError):
        return packed((DONE, [(number, _plain(value, careful=True), *more)]))
    except Exception as error:  # noqa: BLE001 - there is no memory for it, for example
        return packed((DONE, [(number, None, packed_error(error), *more[1:])]))
