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
    """Time limits in seconds; None: only the executor's limit for the whole attempt.

    Attributes:
        connect_timeout: For connecting, including DNS and TLS.
        first_byte_timeout: Until the response begins, including connecting.
        between_bytes_timeout: Between two pieces of the response.
        timeout: For the whole call.
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
    """Await `work` for at most `seconds`.

    Raises:
        TooSlowError: It took longer; `late` begins the message.
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
