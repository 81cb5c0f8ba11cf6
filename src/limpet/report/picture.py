"""How is a live picture redrawn on a terminal while other threads print?

Printing erases the picture, prints, and redraws it below. Rich computes what to erase first and
writes later: if another thread draws in between, old rows stay on the screen. So one thread draws,
and drawing and printing share a lock.
"""

import threading
from collections.abc import Callable

from rich.console import RenderableType
from rich.live import Live

from limpet.report.terminal import talk, talking

_FRAMES_PER_S = 5


class Picture:
    """Something redrawn a few times a second, and erased in the end.

    Args:
        draw: Returns its current content.
        redirect: Whether to print other output to stdout and stderr above it.
    """

    def __init__(self, draw: Callable[[], RenderableType], *, redirect: bool = True) -> None:
        self._live = Live(
            console=talk(),
            auto_refresh=False,
            transient=True,
            get_renderable=draw,
            vertical_overflow="crop",
            redirect_stdout=redirect,
            redirect_stderr=redirect,
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="limpet-picture", daemon=True)

    def begin(self) -> None:
        """Start drawing."""
        with talking:
            self._live.start()
        self._thread.start()

    def end(self) -> None:
        """Erase it. May be called more than once."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        with talking:
            self._live.stop()

    def _draw(self) -> None:
        while not self._over.wait(1 / _FRAMES_PER_S):
            with talking:
                self._live.refresh()
