"""Calls the function of one cell, and reads what it returns."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from limpet.errors import PermanentError
from limpet.foreign import is_interrupt, readable
from limpet.text import text_of

InputT = TypeVar("InputT")
OutputT = TypeVar("OutputT")


async def run_cell(
    who: str,
    call: Callable[[InputT], Awaitable[Any]],
    value: InputT,
    read: Callable[[Any], OutputT],
) -> OutputT:
    """Call the function of a cell, and read what it returns.

    Every call of a workflow or an evaluator goes through this function, in whichever process.

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
