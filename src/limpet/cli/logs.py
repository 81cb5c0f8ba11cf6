"""Where do the library's warnings go while a command runs?"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from rich.text import Text

from limpet.report.terminal import talk
from limpet.secrets.masking import by_environment
from limpet.text import harmless


class _TalkHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        # Through the console, which redraws the live table below it.
        style = "red" if record.levelno >= logging.ERROR else "yellow"
        text = by_environment().certain.text(self.format(record))  # it may hold a traceback
        talk().print(Text(harmless(text), style=style))


@contextmanager
def log_to_talk() -> Iterator[None]:
    """Print the library's warnings to stderr, but no retries or failures of single items."""
    handler, logger = _TalkHandler(logging.WARNING), logging.getLogger("limpet")
    # The table counts failed items and failures.jsonl lists them: a thousand of them must not
    # scroll everything else away.
    executors = logging.getLogger("limpet.executors")
    level, propagate = executors.level, logger.propagate
    executors.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        executors.setLevel(level)
        logger.propagate = propagate
