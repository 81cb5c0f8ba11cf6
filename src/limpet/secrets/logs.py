"""How are secrets kept out of the log?

What we log quotes what others raise, with their tracebacks. The filters of a parent are not asked
for the records of its children, so each of our loggers has this one.
"""

import logging

from limpet.secrets.masking import by_environment

LOGGERS = tuple(
    f"limpet.{name}"
    for name in (
        *("engines", "executors", "fingerprints", "integrations.nat", "journal", "models"),
        *("nat", "pacing", "run", "view", "view.http", "workflows"),
    )
)
"""All of our loggers."""


def mask_logs() -> None:
    """Mask what our loggers say, from now on."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_masked)


def _masked(record: logging.LogRecord) -> bool:
    safe = by_environment().ours.text
    message = record.getMessage()
    if (shown := safe(message)) != message:
        record.msg, record.args = shown, ()
    if record.exc_info and record.exc_info[0] is not None:
        trace = logging.Formatter().formatException(record.exc_info)
        if (shown := safe(trace)) != trace:
            record.exc_info, record.exc_text = None, shown  # a handler would format it again
    return True


mask_logs()
