"""What does the end of a program mean: an answer, or which failure?"""

import signal

from limpet.errors import LimpetError, PermanentError, TransientError
from limpet.text import size
from limpet.workflows.process import Ended

_TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h
_MOST_LINE, _MOST_DETAILS = 500, 5_000


def failure_of(ended: Ended, stderr: str, where: str, max_bytes: int) -> LimpetError | None:
    """Return the error that a program's end means; None: it wrote an answer.

    A program ended by a signal, like one without memory, may work the next time, and so may one
    that says so with exit status 75. Any other status but 0 is a failure for good.

    Args:
        ended: How the program ended.
        stderr: What it wrote to stderr.
        where: The program, for the message.
        max_bytes: How much it was allowed to write to stdout.
    """
    error = _failure(ended, _last_line(stderr), where, max_bytes)
    if error is not None and stderr:
        error.details = f"stderr:\n{_end_of(stderr)}"
    return error


def _failure(ended: Ended, said: str, where: str, max_bytes: int) -> LimpetError | None:
    if ended.status is None:
        return PermanentError(
            f"{where}: wrote more than {size(max_bytes)} to stdout, and was killed",
            hint="raise max_output_mb, or write less",
        )
    if ended.status < 0:
        return TransientError(f"{where}: was ended by {_signal_name(-ended.status)}{said}")
    if ended.status == _TRY_AGAIN:
        return TransientError(f"{where}: exit status 75, try again{said}")
    if ended.status:
        return PermanentError(f"{where}: exit status {ended.status}{said}")
    if ended.is_held_open:
        return PermanentError(
            f"{where}: exited, but a process that it started still held its stdout open, so the "
            "answer may not be whole",
            hint="let it wait for its processes, or redirect their output",
        )
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _last_line(stderr: str) -> str:
    """Return the last line of stderr for a message: mostly, it says why."""
    line = next((line for line in reversed(stderr.splitlines()) if line.strip()), "")
    return f": {line.strip()[:_MOST_LINE]}" if line else ", with nothing on stderr"


def _end_of(stderr: str) -> str:
    """Return the last lines of stderr; whole ones: masking misses half a secret."""
    if len(stderr) <= _MOST_DETAILS:
        return stderr.rstrip("\n")
    end = stderr[-_MOST_DETAILS:]
    return f"…\n{end.partition(chr(10))[2] or end}".rstrip("\n")
