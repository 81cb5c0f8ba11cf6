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


# ---- How does the gateway talk to a foreman, and how does it notice that one is lost? -----------
#
# What is to be told to it goes call by call: it stays in order, and what waits travels together.
# What it says comes back by a long poll. A call that raises means that the foreman is lost.


class HiredForeman:
    """A foreman, as the gateway sees it.

    Args:
        actor: The Ray actor: a `Foreman`.
        on_news: Called with each thing that it says.
        on_lost: Called once if it is lost, with the error that said so.

    Attributes:
        actor: The Ray actor.
        name: Its node, in words.
        folder: Its working directory.
        workers: The workers that it has.
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
            SetupError: It cannot work there.
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
        """Tell it something, after all that it was told before."""
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
    """Return what an error of starting a foreman means; None: the node may just have died."""
    text, kind = text_of(error), type(error).__name__
    if "RuntimeEnv" in kind or "runtime_env" in text.lower():
        return SetupError(
            f"Ray cannot prepare the runtime_env of its workers: {_words(error)}",
            hint="check engine: {ray: {runtime_env: …}}",
        )
    if "No module named" in text or "ModuleNotFoundError" in text:
        return SetupError(
            f"Limpet cannot be imported on the nodes of Ray: {_words(error)}",
            hint="install it there, or send it: engine: {ray: {runtime_env: {pip: [limpet]}}}",
        )
    return None


def _words(error: BaseException) -> str:
    lines: Iterable[str] = (line.strip() for line in text_of(error).splitlines())
    return one_line(" ".join(line for line in lines if line)[:500])


def how_lost(error: BaseException) -> str:
    """Return how a foreman was lost, in words."""
    text = text_of(error).lower()
    # Of each actor that is killed, Ray says that the "OOM killer" may have done it.
    if "running low on memory" in text or "out_of_memory" in text:
        return "Ray ended its actor, as the memory of the node ran out"
    if "node" in text and ("node died" in text or "node has died" in text or "dead node" in text):
        return "its node is gone"
    return "its Ray actor died"
