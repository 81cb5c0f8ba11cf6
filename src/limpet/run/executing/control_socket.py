"""How do orders from other processes reach a session?

A thread accepts connections, and each order has a thread of its own: the event loop may be blocked,
and the answer to `stop` comes when the session has ended. Without a socket the run goes on.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from limpet.errors import LimpetError
from limpet.pacing.sharing import checked_folder, runtime_folders
from limpet.run.control import (
    Order,
    as_order,
    is_own_socket,
    peer_uid,
    read_line,
    send_line,
    socket_name,
)
from limpet.text import text_of

logger = logging.getLogger("limpet.run")
_PATIENCE_S = 5.0  # for the line of an order
_FAREWELL_S = 2.0
_MOST = 16  # orders at a time


class ControlSocket:
    """Listens for orders to the run in a directory, whose lock this process holds.

    Args:
        home: The directory.
        obey: Carries an order out, and returns what was done.
    """

    def __init__(self, home: Path, obey: Callable[[Order], str]) -> None:
        self._obey = obey
        self._path: Path | None = None
        self._listening: socket.socket | None = None
        self._free = threading.Semaphore(_MOST)
        self._threads: list[threading.Thread] = []
        self._pid = os.getpid()
        try:
            folder = checked_folder(runtime_folders()[0])
            self._listen(folder / socket_name(home))
        except OSError as error:
            logger.warning("limpet ctl cannot reach this run: %s", error)

    def _listen(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            if not is_own_socket(path):
                raise PermissionError(f"{path} is not a socket of yours")
            path.unlink()  # of a session that was killed: we hold the lock
        listening = socket.socket(socket.AF_UNIX)
        try:
            listening.bind(str(path))
            listening.listen(_MOST)
        except OSError as error:
            listening.close()
            raise OSError(f"{path}: {error}") from error
        self._path, self._listening = path, listening
        accepting = threading.Thread(target=self._accept, name="limpet-control", daemon=True)
        self._threads.append(accepting)
        accepting.start()

    def _accept(self) -> None:
        listening = self._listening
        assert listening is not None
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:  # closed
                return
            self._free.acquire()
            thread = threading.Thread(target=self._answer, args=(connection,), daemon=True)
            self._threads = [one for one in self._threads if one.is_alive()] + [thread]
            thread.start()

    def _answer(self, connection: socket.socket) -> None:
        # A peer that is gone, or is not ours, gets no answer.
        try:
            with connection, suppress(OSError):
                connection.settimeout(_PATIENCE_S)
                if peer_uid(connection) == os.getuid():
                    send_line(connection, self._answer_to(connection))
        finally:
            self._free.release()

    def _answer_to(self, connection: socket.socket) -> dict[str, str | None]:
        try:
            given = read_line(connection)
            if not isinstance(given, dict) or not isinstance(given.get("words", []), list):
                raise LimpetError("an order is a line of JSON")  # noqa: TRY301 - answered below
            order = as_order(given.get("name"), given.get("words", ()), given.get("endpoint", ""))
            return {"done": self._obey(order)}
        except (LimpetError, ValueError) as error:
            return {"error": text_of(error), "hint": getattr(error, "hint", None)}
        except Exception as error:
            logger.exception("an order failed")
            return {"error": f"{type(error).__name__}: {text_of(error)}", "hint": None}

    def close(self) -> None:
        """Take no more orders. Call it before the run's lock is released."""
        listening, self._listening = self._listening, None
        if listening is None or os.getpid() != self._pid:
            return
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        listening.close()

    def wait(self) -> None:
        """Return when the orders that came are answered."""
        for thread in self._threads:
            thread.join(_FAREWELL_S)
