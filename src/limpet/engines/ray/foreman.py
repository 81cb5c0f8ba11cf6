"""How are the workers of one node started, and connected to the gateway?

A foreman is a Ray actor that starts the workers of its node and forwards messages: the gateway's to
the workers, and the workers' to the gateway, by a long poll. It runs no user code, so none can end
it, and it imports nothing from Ray.
"""

import asyncio
import functools
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from limpet.engines.messages import Lost
from limpet.engines.packed_values import packed_error, unpacked_error
from limpet.engines.process_line import ProcessLine, ProcessLines
from limpet.engines.ray.settings import (
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
from limpet.text import one_line, text_of
from limpet.version import VERSION

_LOOK_EVERY_S = 0.5
_QUIET_S = 1.0
_LONGEST_POLL_S = 5.0
_MOST_BYTES = 4 * 2**20  # of one answer; the rest waits for the next

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
            setting: The driver's version, whether it started this Ray, its folder, path, logging
                level, variables, and the names of secrets that this node must have.

        Returns:
            The error if that is impossible, packed, or None; this node's name; and its folder.
        """
        try:
            path = _prepare(setting)
        except LimpetError as error:
            return packed_error(error), "", ""
        self._starting = ProcessLines(path=path, argv=setting["argv"], read=bytes)
        await self._starting.open()
        self._watch = asyncio.create_task(self._look())
        return None, socket.gethostname(), str(Path.cwd())

    # ---- from the gateway -----------------------------------------------------------------------

    async def tell(self, told: Sequence[News]) -> None:
        """Carry out the driver's instructions."""
        for kind, worker, *more in told:
            if kind == START:
                self._begin(self._start(worker))
                continue
            line = self._lines.get(worker)
            if line is None:
                continue  # it is gone, and that was reported
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

    # ---- from the workers -----------------------------------------------------------------------

    async def news(self) -> list[News]:
        """Wait until there is news, and return it."""
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
        """Report on workers that are silent."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            quiet_since = time.monotonic() - _QUIET_S
            for worker, line in list(self._lines.items()):
                is_working = line.is_working()
                if self._heard_at[worker] < quiet_since:
                    self._say(SEEN, worker, is_working, line.last_begun())


def _prepare(setting: dict[str, Any]) -> list[str]:
    """Give this process, and the workers it starts, the driver's folder, path and variables.

    Returns:
        The workers' `sys.path`.

    Raises:
        SetupError: The version differs, or a secret is missing here.
    """
    host = socket.gethostname()
    if setting["version"] != VERSION:
        raise SetupError(
            f"Limpet is {VERSION} on Ray's node {host}, and {setting['version']} here",
            hint="install the same version on all nodes",
        )
    path = sys.path
    if setting["folder"] is not None:
        if Path(setting["folder"]).is_dir():
            os.chdir(setting["folder"])
        path = [*filter(os.path.isdir, setting["path"]), *sys.path]
    if setting["is_local"]:
        os.environ.pop("RAY_AUTH_TOKEN", None)  # user code must not find our own Ray
    os.environ.update(setting["variables"])
    if missing := [name for name in setting["secrets"] if name not in os.environ]:
        raise SetupError(
            f"{', '.join(missing)}: set here, but not on Ray's node {host}, where code reads it",
            hint="set it in the nodes' environment: secrets are not sent to them",
        )
    logging.getLogger().setLevel(setting["level"])
    return path


# ---- How does the gateway talk to a foreman, and how does it notice that one is lost? -----------
#
# Messages to it go one batch at a time: they stay in order, and waiting ones travel together. Its
# news comes back by a long poll. If a remote call raises, the foreman is lost.


class HiredForeman:
    """A foreman, as the gateway sees it.

    Args:
        actor: The Ray actor: a `Foreman`.
        on_news: Called with each piece of its news.
        on_lost: Called once if it is lost, with the error that showed it.

    Attributes:
        actor: The Ray actor.
        name: Its node, in words.
        folder: Its working directory.
        workers: Its workers.
        is_lost: Whether it is lost.
    """

    def __init__(
        self,
        actor: Any,
        on_news: Callable[["HiredForeman", tuple[Any, ...]], None],
        on_lost: Callable[["HiredForeman", BaseException], None],
    ) -> None:
        self.actor = actor
        self.name = self.folder = ""
        self.workers: set[int] = set()
        self.is_lost = False
        self._on_news = on_news
        self._on_lost = on_lost
        self._to_tell: list[tuple[Any, ...]] = []
        self._telling: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None

    async def begin(self, setting: dict[str, Any], node: str) -> None:
        """Let it prepare for workers, then listen to it.

        Raises:
            SetupError: It cannot run workers on its node.
        """
        try:
            error, host, folder = await self.actor.begin.remote(setting)
        except Exception as failure:
            if (meant := _meaning(failure)) is not None:
                raise meant from None
            raise
        if error is not None:
            raise unpacked_error(error)
        self.name, self.folder = f"{host}/{node[:6]}", folder
        self._listening = asyncio.create_task(self._listen())

    def tell(self, told: tuple[Any, ...]) -> None:
        """Send it a message, in order."""
        self._to_tell.append(told)
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell_all())

    async def _tell_all(self) -> None:
        try:
            while self._to_tell and not self.is_lost:
                told, self._to_tell = self._to_tell, []
                await self.actor.tell.remote(told)
        except Exception as error:  # noqa: BLE001 - whatever Ray raises, it is lost
            self._lose(error)
        finally:
            self._telling = None

    async def _listen(self) -> None:
        try:
            while not self.is_lost:
                for news in await self.actor.news.remote():
                    self._on_news(self, news)
        except Exception as error:  # noqa: BLE001 - as above
            self._lose(error)

    def _lose(self, error: BaseException) -> None:
        if not self.is_lost:
            self.is_lost = True
            self._on_lost(self, error)


def _meaning(error: BaseException) -> SetupError | None:
    """Return the SetupError for a foreman that did not start; None: the node may have died."""
    text, kind = text_of(error), type(error).__name__
    if "RuntimeEnv" in kind or "runtime_env" in text.lower():
        return SetupError(
            f"Ray cannot prepare the runtime_env of its workers: {_words(error)}",
            hint="check engine: {ray: {runtime_env: …}}",
        )
    if "No module named" in text or "ModuleNotFoundError" in text:
        return SetupError(
            f"Limpet cannot be imported on Ray's nodes: {_words(error)}",
            hint="install it there, or send it: engine: {ray: {runtime_env: {pip: [limpet]}}}",
        )
    return None


def _words(error: BaseException) -> str:
    lines: Iterable[str] = (line.strip() for line in text_of(error).splitlines())
    return one_line(" ".join(line for line in lines if line)[:500])


def how_lost(error: BaseException) -> str:
    """Return how a foreman was lost, in words."""
    text = text_of(error).lower()
    # Ray blames the "OOM killer" for every actor that is killed.
    if "running low on memory" in text or "out_of_memory" in text:
        return "Ray ended its actor, because the node ran out of memory"
    if "node" in text and ("node died" in text or "node has died" in text or "dead node" in text):
        return "its node is gone"
    return "its Ray actor died"
