"""Where does a command talk, and where does its data go?

stdout is data, stderr is talk. Nothing from a dataset or a model is taken for markup, and nothing
in it is obeyed by the terminal: whoever prints passes it through `holdfast.text` first. Colours
are left out where nobody sees them, and where NO_COLOR asks for it.
"""

import functools
import sys

from rich.console import Console


@functools.cache
def talk() -> Console:
    """Return the console on stderr, for people."""
    # In a log, a line is a line, however long.
    wraps = sys.stderr is not None and sys.stderr.isatty()
    return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=not wraps)


@functools.cache
def data() -> Console:
    """Return the console on stdout, for results."""
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
