"""Which task opens a step, holds it open while it is called, and closes it?

One and the same. What a set-up enters and leaves open, such as a task group or a cancel scope of
anyio, belongs to the task that entered it: it can be left in no other, and where something in it
fails it is that task which is cancelled.
"""

import asyncio
import logging
from collections.abc import Callable

from limpet.errors import LimpetError, SetupError
from limpet.evaluators.protocol import Evaluator
from limpet.run.executing.tracebacks import safe_traceback
from limpet.text import one_line, text_of
from limpet.workflows.protocol import Workflow

logger = logging.getLogger("limpet.run")


class OpenedStep:
    """A workflow or an evaluator, and the task that it belongs to from opening to closing.

    Args:
        step: The workflow, or the evaluator.
        who: What messages call it.
        on_broken: Called when what its set-up started has failed, before it is closed for that.
    """

    def __init__(self, step: Workflow | Evaluator, who: str, on_broken: Callable[[], None]) -> None:
        self._step = step
        self._who = who
        self._on_broken = on_broken
        self._task: asyncio.Task[None] | None = None
        self._is_opening = False
        self._enough = asyncio.Event()

    async def open(self) -> None:
        """Open it.

        Raises:
            asyncio.CancelledError: It was given up meanwhile, and closed again.
            SetupError: Its opening raised, and what.
        """
        opened = asyncio.get_running_loop().create_future()
        self._is_opening = True
        self._task = asyncio.create_task(self._hold(opened))
        try:
            await asyncio.wait((self._task, opened), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.give_up_opening()
            self._enough.set()
            await self._task
            raise
        if not opened.done():
            await self._task  # it says why

    def give_up_opening(self) -> None:
        """Cancel its opening; once that is over, do nothing."""
        if self._is_opening and self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Close it. What that raises is logged: it takes nothing from what is finished."""
        self._enough.set()
        if self._task is None:
            return
        try:
            await self._task
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            self._say_unclosed(error)  # its own: of a task that it cancelled and awaited, say

    async def _hold(self, opened: asyncio.Future[None]) -> None:
        try:
            await self._open()
        except asyncio.CancelledError:
            await self._close_after_cancellation()
            raise
        opened.set_result(None)
        try:
            await self._enough.wait()
        except asyncio.CancelledError:
            if self._enough.is_set():  # whoever waits for the end was cancelled
                await self._close_after_cancellation()
                raise
            self._on_broken()
            await self._close_after_cancellation()
        else:
            await self._close()

    async def _open(self) -> None:
        try:
            await self._step.open()
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, LimpetError):
            raise
        except BaseException as error:  # in a task, SystemExit would end the event loop
            raise SetupError(
                f"{self._step.name} could not be set up: "
                f"{type(error).__name__}: {one_line(text_of(error))}",
                hint="the traceback says where; what is finished stays",
            ) from error
        finally:
            self._is_opening = False

    async def _close_after_cancellation(self) -> None:
        task = asyncio.current_task()
        while task is not None and task.cancelling():
            task.uncancel()  # else time limits and task groups in its closing take it for theirs
        await self._close()

    async def _close(self) -> None:
        try:
            await self._step.close()
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - in a task, SystemExit would end the event loop
            self._say_unclosed(error)

    def _say_unclosed(self, error: BaseException) -> None:
        said = "%s failed as it was closed; what is finished stays: %s"
        logger.error(said, self._who, safe_traceback(error))


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
