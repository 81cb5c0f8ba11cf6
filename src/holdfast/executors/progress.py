"""What does a person see while it runs?

With a bar, messages go through the bar so that they never cut across it; without one they go to
the log, where nobody sees a retry unless they asked for INFO.
"""

import logging
import sys
from typing import Any

from holdfast.errors import HoldfastError, InterruptedRunError
from holdfast.executors.attempts import Attempt, Call

logger = logging.getLogger("holdfast.executors")

_MESSAGE_LIMIT = 300


class Progress:
    """A tqdm bar, or none where `bar_format` is None."""

    def __init__(self, bar_format: str | None, total: int | None) -> None:
        self._bar: Any = None
        if bar_format is not None:
            from tqdm.auto import tqdm  # noqa: PLC0415 - a fifth of our import time, seldom needed

            self._bar = tqdm(total=total, bar_format=bar_format)

    def advance(self) -> None:
        """One more input is done."""
        if self._bar is not None:
            self._bar.update()

    def say_retry(self, call: Call, error: Exception, wait_s: float) -> None:
        """An attempt failed, and there will be another."""
        self._say(
            logging.INFO,
            "input %s failed (attempt %s): %s; trying again in %s s",
            call.index,
            len(call.details.exceptions),
            error,
            f"{wait_s:.2f}",
        )

    def say_failed(self, call: Call, error: Exception) -> None:
        """An input failed for good."""
        attempts = len(call.details.exceptions)
        self._say(
            logging.WARNING, "input %s failed after %s attempts: %s", call.index, attempts, error
        )

    def say_abandoned(self, attempt: Attempt) -> None:
        """A call would not end."""
        self._say(
            logging.WARNING,
            "the call for input %s ignores its cancellation: it is left behind",
            attempt.index,
        )

    def say_stop(self, reason: Exception, in_flight: int) -> None:
        """The run stops early."""
        if isinstance(reason, InterruptedRunError):
            self._say(
                logging.WARNING,
                "stopping: %s in flight, signal again to stop now",
                f"{in_flight} call{'' if in_flight == 1 else 's'}",
            )
        elif isinstance(reason, HoldfastError) and reason.hint is not None:
            self._say(logging.WARNING, "stopping: %s; %s", str(reason), reason.hint)

    def _say(self, level: int, message: str, *values: object) -> None:
        if self._bar is None:
            if logger.isEnabledFor(level):
                logger.log(level, message, *(one_line(value) for value in values))
            return
        text = message % tuple(one_line(value) for value in values)
        self._bar.write(text, file=sys.stderr)

    def close(self) -> None:
        """Leave the bar as it is and end it."""
        if self._bar is not None:
            self._bar.close()


def one_line(value: object) -> str:
    """Show a value on one line of bounded length, with nothing a terminal would obey."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except Exception as error:  # noqa: BLE001 - a foreign __repr__ may raise anything
        text = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    if len(text) > _MESSAGE_LIMIT:
        text = text[:_MESSAGE_LIMIT] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
