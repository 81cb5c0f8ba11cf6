"""Who shows a run that a script starts?

`limpet.report` draws on terminals, and this room cannot import it: it registers a function here
that returns a view. Without one, a script shows nothing.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from limpet.run.progress.watcher import Tally

if TYPE_CHECKING:
    from limpet.run.results.evaluation_result import EvaluationResult


class SessionView(Tally):
    """A tally that shows what it counts while a session lasts; this one shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop showing it."""

    def ended(self, result: "EvaluationResult") -> None:
        """Show what came out."""


_on_stderr: list[Callable[[], SessionView]] = []


def show_with(view: Callable[[], SessionView]) -> None:
    """Show the runs of scripts with a view from this function."""
    _on_stderr[:] = [view]


def view_on_stderr() -> SessionView | None:
    """Return a new view; None: there is none."""
    return _on_stderr[0]() if _on_stderr else None
