"""Is a stream a terminal? Light: `import rich` takes longer than the rest of a script's start."""

import contextlib
from typing import TextIO


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal: not closed, nor replaced by something else."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return stream is not None and stream.isatty()
    return False
