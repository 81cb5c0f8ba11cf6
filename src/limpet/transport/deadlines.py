"""How long may each part of a call take?"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from limpet.arguments import positive_number
from limpet.executors.countdown import Countdown
from limpet.transport.failures import TooSlowError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds; None: no limit but the executor's for the whole attempt.

    Attributes:
        connect_timeout: Until there is a connection, names looked up and TLS agreed.
        first_byte_timeout: Until the response begins, connecting included.
        between_bytes_timeout: From one piece of the response to the next.
        timeout: For all of it.
    """

    connect_timeout: float | None
    first_byte_timeout: float | None
    between_bytes_timeout: float | None
    timeout: float | None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if (seconds := getattr(self, name)) is not None:
                positive_number(**{name: seconds})


async def within(seconds: float | None, work: Awaitable[T], late: str) -> T:
    """Await something, but not for longer.

    Raises:
        TooSlowError: It took longer; `late` is the message.
    """
    if seconds is None:
        return await work
    loop = asyncio.get_running_loop()
    limit = asyncio.timeout(None)
    countdown = Countdown(seconds, lambda: limit.reschedule(loop.time()))
    try:
        async with limit:
            return await work
    except TimeoutError:
        if limit.expired():
            raise TooSlowError(f"{late} within {seconds:g} s") from None
        raise
    finally:
        countdown.cancel()
