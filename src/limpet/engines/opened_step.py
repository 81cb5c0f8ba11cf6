"""How is a step opened and closed in a single task?

A set-up may leave something open, for example a task group or an anyio cancel scope. It belongs to
the task that entered it: only that task can exit it, and it is that task that is cancelled when
something in it fails.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from limpet.engines.tracebacks import safe_traceback
from limpet.errors import LimpetError, PermanentError, SetupError
from limpet.foreign import is_interrupt, readable
from limpet.text import one_line, text_of

logger = logging.getLogger("limpet.run")


class Openable(Protocol):
    """A workflow, an evaluator, or the engine that runs one."""

    name: str

    async def open(self) -> None: ...
    async def close(self) -> None: ...


class OpenedStep:
    """A workflow or an evaluator, and the task that opens and closes it.

    Args:
        step: The workflow, or the evaluator.
        who: The step's name in messages.
        on_broken: Called when a task its set-up started has failed, before the step is closed.
    """

    def __init__(self, step: Openable, who: str, on_broken: Callable[[], None]) -> None:
        self._step = step
        self._who = who
        self._on_broken = on_broken
        self._task: asyncio.Task[None] | None = None
        self._is_opening = self._is_given_up = False
        self._closing = asyncio.Event()

    async def open(self) -> None:
        """Open the step.

        Raises:
            asyncio.CancelledError: Opening was cancelled, and the step was closed again.
            SetupError: Opening raised an exception.
        """
        opened = asyncio.get_running_loop().create_future()
        self._is_opening = True
        self._task = asyncio.create_task(self._hold(opened))
        try:
            await asyncio.wait((self._task, opened), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.give_up_opening()
            self._closing.set()
            await self._task
            raise
        if not opened.done():
            await self._task  # raises the reason

    def give_up_opening(self) -> None:
        """Cancel opening; do nothing if the step is already open."""
        if self._is_opening and self._task is not None:
            self._task.cancel()

    def give_up_closing(self) -> None:
        """Cancel closing, and log it: the step may leave resources open."""
        if self._closing.is_set() and self._task is not None and not self._task.done():
            message = "%s: tear-down was abandoned; finished results are kept"
            logger.warning(message, self._who)
            self._is_given_up = True
            self._task.cancel()

    async def close(self) -> None:
        """Close the step. An exception is logged: finished results are not affected."""
        self._closing.set()
        if self._task is None:
            return
        try:
            await self._task
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            if not self._is_given_up:
                self._log_close_failure(error)  # the step's own, e.g. from a task it cancelled

    async def _hold(self, opened: asyncio.Future[None]) -> None:
        try:
            await self._open()
        except asyncio.CancelledError:
            await self._close_after_cancellation()
            raise
        opened.set_result(None)
        try:
            await self._closing.wait()
        except asyncio.CancelledError:
            if self._closing.is_set():  # the caller of `close` was cancelled
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
                hint="the traceback says where; finished results are kept",
            ) from error
        finally:
            self._is_opening = False

    async def _close_after_cancellation(self) -> None:
        task = asyncio.current_task()
        while task is not None and task.cancelling():
            task.uncancel()  # or time limits and task groups in `close` would see a cancellation
        await self._close()

    async def _close(self) -> None:
        try:
            await self._step.close()
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - in a task, SystemExit would end the event loop
            self._log_close_failure(error)

    def _log_close_failure(self, error: BaseException) -> None:
        message = "%s failed while closing; finished results are kept: %s"
        logger.error(message, self._who, safe_traceback(error))


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


# ---- How is a cell's function called, and its value read? ---------------------------------------

InputT = TypeVar("InputT")
OutputT = TypeVar("OutputT")


async def run_cell(
    who: str,
    call: Callable[[InputT], Awaitable[Any]],
    value: InputT,
    read: Callable[[Any], OutputT],
) -> OutputT:
    """Call a cell's function and read the value it returns.

    Every call of a workflow or an evaluator goes through this function, in any process.

    Args:
        who: The step's name in messages.
        call: The `call` of a workflow or an evaluator.
        value: The argument, a copy of the caller's.
        read: Reads the returned value at once, before other code can change it.

    Raises:
        PermanentError: The function tried to end the process; only its cell fails.
    """
    try:
        return read(await call(value))
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        if is_interrupt(error):
            raise
        why = f"{type(error).__name__}: {text_of(error)}"
        raise PermanentError(f"{who} raised {why}") from readable(error)
