"""How does a driver use Ray without importing it? Through this process, the only one that does.

Ray can end or hang a process that imports it: when its central service dies, when a cluster
restarts, or at a wrong address. If that happens here, the driver starts another gateway and runs
the cells again.

Messages between the driver and the workers pass through unread.
"""

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from limpet.engines.messages import Message, packed
from limpet.engines.packed_values import packed_error
from limpet.engines.ray.connecting import connect
from limpet.engines.ray.settings import CONNECT, CONNECTED, END_WORKER, KILL, PASS, REFUSED, START
from limpet.engines.ray.slots import Slots
from limpet.errors import LimpetError

STUCK_S = 20.0
"""How long Ray may block this process."""


class Gateway:
    """Carries out the driver's instructions through Ray.

    Args:
        send: Sends packed messages to the driver.
        end: Ends this process at once.
        options: Ignored: only a bench needs them.
    """

    def __init__(
        self, send: Callable[[list[bytes]], None], end: Callable[[], None], **options: Any
    ) -> None:
        del options
        self._send = send
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._connected: Slots | None = None
        self._pinged_at: float | None = None

    def receive(self, message: Message) -> None:
        match message:
            case (str(kind), int(worker), list(messages)) if kind == PASS:
                self._slots.pass_on(worker, messages)
            case (str(kind), int(worker)) if kind == START:
                self._slots.start(worker)
            case (str(kind), int(worker), str(why)) if kind == KILL:
                self._slots.tell(worker, KILL, why)
            case (str(kind), int(worker)) if kind == END_WORKER:
                self._slots.end(worker)
            case (str(kind), dict(settings)) if kind == CONNECT:
                self._connect(settings)

    @property
    def _slots(self) -> Slots:
        assert self._connected is not None, "not connected"
        return self._connected

    def _connect(self, settings: dict[str, Any]) -> None:
        _be_quiet(settings["log"])
        try:
            ray = connect(settings)  # on this thread: Ray's processes end with it
            self._connected = Slots(ray, settings, self.say)
            workers = self._connected.size()
        except LimpetError as error:
            self.say(REFUSED, packed_error(error))
            return
        self.say(CONNECTED, workers)
        self._pinged_at = 0.0

    def say(self, *message: Any) -> None:
        self._send([packed(message)])

    def flush(self) -> None:
        """Disconnect from Ray before this process ends. No messages are waiting."""
        if self._connected is not None:
            self._connected.close()

    def ping(self) -> Message | None:
        """End this process if Ray blocks its loop; called by another thread."""
        if self._pinged_at is None:  # not yet connected: the driver has a time limit for that
            return None
        now = time.monotonic()
        if self._pinged_at == 0.0:
            self._pinged_at = now
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._pong)
        elif now - self._pinged_at > STUCK_S:
            self._end()
        return None

    def _pong(self) -> None:
        self._pinged_at = 0.0


def _be_quiet(log: str) -> None:
    """Redirect Ray's output and logs to a file, away from the driver's output."""
    into = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(into, 1)
    os.dup2(into, 2)
    os.close(into)
    sys.stdout = sys.stderr = os.fdopen(2, "w", buffering=1, errors="replace", closefd=False)
    logging.getLogger().handlers = [logging.StreamHandler(sys.stderr)]
