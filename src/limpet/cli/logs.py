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
        # Through the console, so that a live table is not torn.
        style = "red" if record.levelno >= logging.ERROR else "yellow"
        text = by_environment().certain.text(self.format(record))  # it may hold a traceback
        talk().print(Text(harmless(text), style=style))


@contextmanager
def log_to_talk() -> Iterator[None]:
    """Print warnings of the library on stderr meanwhile, and no retry or failure of an item."""
    handler, logger = _TalkHandler(logging.WARNING), logging.getLogger("limpet")
    # Each item that fails is counted in the table and told in failures.jsonl: a thousand of them
    # must not scroll everything else away.
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
