"""The process between a driver and Ray: the only one that imports it.

Ray can end or hang a process that imports it: when its central service dies, when a cluster
restarts, or at a wrong address. If that happens here, the driver starts another gateway and gives
out the cells again.

What the driver and the workers say to each other passes through unread.
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
"""How long Ray may hold up this process."""


class Gateway:
    """Does what the driver says, by Ray.

    Args:
        send: Sends packed messages to the driver.
        end: Ends this process at once.
        options: What only a bench needs.
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

    def hear(self, message: Message) -> None:
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
            ray = connect(settings)  # on this thread, as Ray's processes end with it
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
        """Leave Ray, before this process ends. Nothing waits to be sent."""
        if self._connected is not None:
            self._connected.close()

    def ping(self) -> Message | None:
        """End this process if Ray holds up its loop; called by another thread."""
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
    """Have what Ray prints and logs go to a file: the driver's output is not Ray's."""
    into = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(into, 1)
    os.dup2(into, 2)
    os.close(into)
    sys.stdout = sys.stderr = os.fdopen(2, "w", buffering=1, errors="replace", closefd=False)
    logging.getLogger().handlers = [logging.StreamHandler(sys.stderr)]
