"""How does the gateway talk to a foreman, and how does it notice that one is lost?

What is to be told to it goes call by call: it stays in order, and what waits travels together. What
it says comes back by a long poll. A call that raises means that the foreman is lost.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from limpet.engines.packed_errors import unpacked_error
from limpet.errors import SetupError
from limpet.text import one_line, text_of


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
