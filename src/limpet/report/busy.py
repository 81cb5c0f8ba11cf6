"""What is a command doing when it takes long and has nothing to count?"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.text import Text

from limpet.report.picture import Picture
from limpet.report.terminal import talk
from limpet.report.words import duration

_MOMENT_S = 1.0


class Waiting:
    """A line that says what a command is doing, once that takes longer than a second.

    Args:
        what: The activity, as shown to the user.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = time.monotonic()

    def __call__(self) -> RenderableType:
        seconds = time.monotonic() - self._began
        if seconds < _MOMENT_S:
            return Group()  # not even an empty line
        return Text(f"{self._what} … {duration(seconds)}", "dim", no_wrap=True, overflow="ellipsis")


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Show an activity on a terminal while it lasts.

    Args:
        what: The activity, as shown to the user.
    """
    if not talk().is_terminal:
        yield
        return
    picture = Picture(Waiting(what), redirect=False)  # stdout is data
    picture.begin()
    try:
        yield
    finally:
        picture.end()
