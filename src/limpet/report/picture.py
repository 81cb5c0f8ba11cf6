"""How is a picture drawn anew on a terminal, a few times a second, while others print?

Whoever prints wipes the picture away, prints, and draws it below. Rich works out what to wipe first
and writes later: if somebody else draws in between, rows of an old picture stay for good. So here
one thread draws, and drawing and printing wait for each other.
"""

import threading
from collections.abc import Callable

from rich.console import RenderableType
from rich.live import Live

from limpet.report.terminal import talk, talking

_FRAMES_PER_S = 5


class Picture:
    """Something that is drawn again and again; nothing is left of it.

    Args:
        draw: Returns it as it is now.
        redirect: Whether what others write to stdout and stderr is printed above it.
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
        """Draw it from now on."""
        with talking:
            self._live.start()
        self._thread.start()

    def end(self) -> None:
        """Wipe it away. More than once does no harm."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        with talking:
            self._live.stop()

    def _draw(self) -> None:
        while not self._over.wait(1 / _FRAMES_PER_S):
            with talking:
                self._live.refresh()
