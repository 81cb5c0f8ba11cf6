"""A Ray actor that has the workers of one node. It runs no user code, so none can end it.

It passes on what it is told to its workers, and what they say to the gateway: a long poll returns
all that there is. It imports nothing of Ray.
"""

import asyncio
import functools
import logging
import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from limpet.engines.line import Lost
from limpet.engines.packed_errors import packed_error
from limpet.engines.process_line import ProcessLine, ProcessLines
from limpet.engines.ray.words import (
    END_WORKER,
    FAILED,
    FROM,
    GONE,
    KILL,
    PASS,
    SEEN,
    START,
    STARTED,
)
from limpet.errors import LimpetError, SetupError
from limpet.version import VERSION

_LOOK_EVERY_S = 0.5
_QUIET_S = 1.0
_LONGEST_POLL_S = 5.0
_MOST_BYTES = 4 * 2**20  # of one answer; what is more waits for the next

News = tuple[Any, ...]


class Foreman:
    """The workers of a node, as the gateway sees them."""

    def __init__(self) -> None:
        self._lines: dict[int, ProcessLine] = {}
        self._heard_at: dict[int, float] = {}
        self._news: list[News] = []
        self._some = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self, setting: dict[str, Any]) -> tuple[Any, str, str]:
        """Prepare for workers.

        Args:
            setting: The driver's version, whether it started this Ray, its folder, path, level of
                logging, variables, and the names of secrets that must be here.

        Returns:
            Why that is impossible, packed, or None; the name of this node; and its folder.
        """
        try:
            path = _prepare(setting)
        except LimpetError as error:
            return packed_error(error), "", ""
        self._starting = ProcessLines(path=path, argv=setting["argv"], read=bytes)
        await self._starting.open()
        self._watch = asyncio.create_task(self._look())
        return None, socket.gethostname(), str(Path.cwd())

    # ---- what the gateway says ------------------------------------------------------------------

    async def tell(self, told: Sequence[News]) -> None:
        """Do what the driver says."""
        for kind, worker, *more in told:
            if kind == START:
                self._begin(self._start(worker))
                continue
            line = self._lines.get(worker)
            if line is None:
                continue  # it is gone, and that was said
            if kind == PASS:
                line.pass_on(more[0])
            elif kind == KILL:
                line.kill(more[0])
            elif kind == END_WORKER:
                self._begin(self._close(worker, line))

    async def _start(self, worker: int) -> None:
        try:
            line = await self._starting.start(
                functools.partial(self._heard, worker),
                functools.partial(self._lost, worker),
            )
        except SetupError as error:
            self._say(FAILED, worker, packed_error(error))
            return
        self._heard_at[worker] = time.monotonic()
        self._lines[worker] = line
        self._say(STARTED, worker, line.name.rpartition(":")[2])

    async def _close(self, worker: int, line: ProcessLine) -> None:
        await line.close()
        if self._lines.pop(worker, None) is not None:
            self._say(GONE, worker, *Lost("was ended"))

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- what workers say -----------------------------------------------------------------------

    async def news(self) -> list[News]:
        """Wait until there is something to say, and return all of it."""
        if not self._news:
            self._some.clear()
            try:
                async with asyncio.timeout(_LONGEST_POLL_S):
                    await self._some.wait()
            except TimeoutError:
                pass
        size = count = 0
        for news in self._news:
            count += 1
            if (size := size + (len(news[2]) if news[0] == FROM else 0)) > _MOST_BYTES:
                break
        told, self._news = self._news[:count], self._news[count:]
        return told

    def _say(self, *news: Any) -> None:
        self._news.append(news)
        self._some.set()

    def _heard(self, worker: int, message: bytes) -> None:
        self._heard_at[worker] = time.monotonic()
        self._say(FROM, worker, message)

    def _lost(self, worker: int, lost: Lost) -> None:
        self._lines.pop(worker, None)
        self._heard_at.pop(worker, None)
        self._say(GONE, worker, *lost)

    async def _look(self) -> None:
        """Tell what is seen of workers that say nothing."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            quiet_since = time.monotonic() - _QUIET_S
            for worker, line in list(self._lines.items()):
                is_working = line.is_working()
                if self._heard_at[worker] < quiet_since:
                    self._say(SEEN, worker, is_working, line.last_begun())


def _prepare(setting: dict[str, Any]) -> list[str]:
    """Make this process, and the workers that it starts, see what the driver sees.

    Returns:
        The workers' `sys.path`.

    Raises:
        SetupError: Something is missing here.
    """
    host = socket.gethostname()
    if setting["version"] != VERSION:
        raise SetupError(
            f"Limpet is {VERSION} on the node {host} of Ray, and {setting['version']} here",
            hint="install the same version on all nodes",
        )
    path = sys.path
    if setting["folder"] is not None:
        if Path(setting["folder"]).is_dir():
            os.chdir(setting["folder"])
        path = [*filter(os.path.isdir, setting["path"]), *sys.path]
    if setting["is_local"]:
        os.environ.pop("RAY_AUTH_TOKEN", None)  # of a Ray that no user code is to find
    os.environ.update(setting["variables"])
    if missing := [name for name in setting["secrets"] if name not in os.environ]:
        raise SetupError(
            f"{', '.join(missing)}: set here, but not on the node {host} of Ray, and the code "
            "reads it there",
            hint="set it in the environment of the nodes: secrets are not sent to them",
        )
    logging.getLogger().setLevel(setting["level"])
    return path
