"""Where does a command talk, and where does its data go?

stdout is data, stderr is talk. Nothing from a dataset or a model is taken for markup, and nothing
in it is obeyed by the terminal: whoever prints passes it through `limpet.text` first. Colours
are left out where nobody sees them, and where NO_COLOR asks for it.

Talk that nobody hears, because the terminal is gone or the log is full, must not end a run.
"""

import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from rich.console import Console


class _Unheard:
    """A stream that goes on when nobody can hear it any more."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            if self._stream is not None:
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            if self._stream is not None:
                self._stream.flush()

    def isatty(self) -> bool:
        return self._stream is not None and not self._stream.closed and self._stream.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Talk(Console):
    """A console that never hides the cursor: after kill -9 or Ctrl-Z nobody could show it again."""

    def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002, FBT001, FBT002 - rich's
        return False


@functools.cache
def talk() -> Console:
    """Return the console on stderr, for people."""
    heard = _Unheard(sys.stderr)
    # In a log, a line is a line, however long.
    return _Talk(
        file=cast("TextIO", heard),
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=not heard.isatty(),
    )


@functools.cache
def data() -> Console:
    """Return the console on stdout, for results."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


@contextlib.contextmanager
def stdout_for_data() -> Iterator[TextIO]:
    """Keep stdout for ourselves: what user code writes to it goes to stderr meanwhile.

    Also what its child processes write, and what is written past Python. Yields the stream that
    leads to the true stdout.
    """
    sys.stdout.flush()
    try:
        kept = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of them is closed: there is nothing to keep apart
        with contextlib.redirect_stdout(sys.stderr):
            yield cast("TextIO", sys.__stdout__)
        return
    with os.fdopen(os.dup(kept), "w", encoding="utf-8", errors="backslashreplace") as ours:
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield ours
        finally:
            with contextlib.suppress(OSError, ValueError):  # of a reader that has gone
                ours.flush()
            with contextlib.suppress(OSError):  # user code may have closed all it could
                os.dup2(kept, 1)
                os.close(kept)
