"""How is something redrawn on a terminal while other threads print?

Printing erases the display, prints, and redraws it below. Rich computes what to erase first and
writes later: if another thread draws in between, old rows stay on the screen. So one thread draws,
and drawing and printing share a lock.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from limpet.report.streams import is_terminal
from limpet.report.terminal import stderr_console, terminal_lock
from limpet.report.words import duration

_FRAMES_PER_S = 5
_SHOW_AFTER_S = 1.0
_drawing = threading.Lock()
"""Held by the display that is drawn: a terminal has room for one."""


def is_drawing() -> bool:
    """Return whether something is being redrawn."""
    return _drawing.locked()


class LiveDisplay:
    """Something redrawn a few times a second, and erased in the end.

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
            # What a script prints into a pipe or a file must arrive there.
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
    """A line that says what a command is doing, once that takes longer than a second."""

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
    """Show what a command is doing on a terminal, while it lasts."""
    if not stderr_console().is_terminal:
        yield
        return
    display = LiveDisplay(Waiting(what), redirect=False)  # stdout is data
    display.begin()
    try:
        yield
    finally:
        display.end()
