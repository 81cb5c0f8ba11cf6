"""Where do messages and data go, and how is a display redrawn while threads print?"""

import contextlib
import functools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from limpet.report.words import duration
from limpet.secrets.masking import by_environment
from limpet.text import harmless, is_terminal

# ---- Where do messages go, and where does data go? ----------------------------------------------
#
# stdout is for data, stderr for messages. Text from a dataset or a model is never read as markup,
# and `limpet.text` removes its control characters first.
# Colours are off without a terminal, and with NO_COLOR.
#
# A message that cannot be written, because the terminal is gone or the disk is full, must not end
# a run.


class _IgnoringErrors:
    """A stream that ignores errors: its reader may be gone."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            if self._stream is not None:
                try:
                    self._stream.write(text)
                except RuntimeError:  # a signal came during a write: bypass the buffer
                    os.write(self._stream.fileno(), text.encode(errors="backslashreplace"))
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            if self._stream is not None:
                self._stream.flush()

    def isatty(self) -> bool:
        return self._stream is not None and not self._stream.closed and self._stream.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


terminal_lock = threading.RLock()
"""Held while writing to the terminal."""
if hasattr(os, "register_at_fork"):  # in a child, no thread is left to release it
    os.register_at_fork(after_in_child=terminal_lock._at_fork_reinit)  # type: ignore[attr-defined]  # noqa: SLF001 - as Python's own modules do


class _Console(Console):
    """A console that never hides the cursor: after kill -9 or Ctrl-Z it would stay hidden."""

    def print(self, *objects: Any, **how: Any) -> None:
        with terminal_lock:
            super().print(*objects, **how)

    def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002, FBT001, FBT002 - rich's
        return False


@functools.cache
def stderr_console() -> Console:
    """Return the console on stderr, for people."""
    stream = _IgnoringErrors(sys.stderr)
    # Do not wrap lines in a log.
    return _Console(
        file=cast("TextIO", stream),
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=not stream.isatty(),
    )


def say(line: str, style: str = "", *, wrap: bool = True) -> None:
    """Print a line to stderr.

    Args:
        line: The line; control characters are removed.
        style: A style of rich.
        wrap: Whether to break it between words on a narrow terminal.
    """
    stderr_console().print(Text(harmless(line), style=style), soft_wrap=None if wrap else True)


@functools.cache
def stdout_console() -> Console:
    """Return the console on stdout, for results."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


@contextlib.contextmanager
def stdout_for_data() -> Iterator[TextIO]:
    """Reserve stdout for our data: meanwhile, user code that writes to it writes to stderr.

    This includes its child processes and C extensions. Yields a stream to the real stdout.
    """
    sys.stdout.flush()
    try:
        saved = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of them is closed: nothing to separate
        with contextlib.redirect_stdout(sys.stderr):
            yield cast("TextIO", sys.__stdout__)
        return
    with os.fdopen(os.dup(saved), "w", encoding="utf-8", errors="backslashreplace") as ours:
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield ours
        finally:
            with contextlib.suppress(OSError, ValueError):  # the reader is gone
                ours.flush()
            with contextlib.suppress(OSError):  # user code may have closed it
                os.dup2(saved, 1)
                os.close(saved)


class _StderrHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        # Through the console, which redraws the live table below it.
        text = by_environment().certain.text(self.format(record))  # it may hold a traceback
        say(text, "red" if record.levelno >= logging.ERROR else "yellow")


@contextlib.contextmanager
def log_to_stderr() -> Iterator[None]:
    """Print the library's warnings to stderr, but no retries or failures of single items."""
    handler, logger = _StderrHandler(logging.WARNING), logging.getLogger("limpet")
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


# ---- How is a display redrawn on a terminal while other threads print? --------------------------
#
# Printing erases the display, prints, and redraws it below. Rich computes what to erase first and
# writes later: if another thread draws in between, old rows stay on the screen. So one thread
# draws, and drawing and printing share a lock.

_FRAMES_PER_S = 5
_SHOW_AFTER_S = 1.0
_drawing = threading.Lock()
"""Held by the current display: a terminal has room for one."""


def is_drawing() -> bool:
    """Return whether a display is being redrawn."""
    return _drawing.locked()


class LiveDisplay:
    """A display redrawn a few times a second, and erased in the end.

    Args:
        draw: Returns its current content.
        redirect: Whether to print other output to stdout and stderr above it.
    """

    def __init__(self, draw: Callable[[], RenderableType], *, redirect: bool = True) -> None:
        self._live = Live(
            console=stderr_console(),
            auto_refresh=False,
            transient=True,
            get_renderable=draw,
            vertical_overflow="crop",
            # Output that a script sends to a pipe or a file must arrive there.
            redirect_stdout=redirect and is_terminal(sys.stdout),
            redirect_stderr=redirect,
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="limpet-display", daemon=True)
        self._is_drawn = False

    def begin(self) -> None:
        """Start drawing; nothing is drawn while there is another display."""
        self._is_drawn = _drawing.acquire(blocking=False)
        if not self._is_drawn:
            return
        with terminal_lock:
            self._live.start()
        self._thread.start()

    def end(self) -> None:
        """Erase it. May be called more than once."""
        if not self._is_drawn:
            return
        self._is_drawn = False
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        with terminal_lock:
            self._live.stop()
        _drawing.release()

    def _draw(self) -> None:
        while not self._over.wait(1 / _FRAMES_PER_S):
            with terminal_lock:
                self._live.refresh()


class Waiting:
    """A line that says what a command is doing, shown after a second."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = time.monotonic()

    def __call__(self) -> RenderableType:
        seconds = time.monotonic() - self._began
        if seconds < _SHOW_AFTER_S:
            return Group()  # not even an empty line
        return Text(f"{self._what} … {duration(seconds)}", "dim", no_wrap=True, overflow="ellipsis")


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Show what a command is doing, on a terminal."""
    if not stderr_console().is_terminal:
        yield
        return
    display = LiveDisplay(Waiting(what), redirect=False)  # stdout is data
    display.begin()
    try:
        yield
    finally:
        display.end()
