"""What is a configuration: an eval.yml, or a file of another tool?"""
# ruff: noqa: ARG002 - an eval.yml needs none of the arguments of these defaults

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

from limpet.run.api import Arguments
from limpet.run.evaluation_result import EvaluationResult

Say = Callable[[str], None]
"""Called with a line for each action."""


class Configuration(Protocol):
    """A checked file that can be prepared and finished; nothing that it names is imported yet.

    Attributes:
        path: The file, absolute.
        name: The name of the evaluation.
        run: The run's directory, absolute.
        remarks: Remarks on the file, a line each; `prepare` may add some.
        is_named: Whether the run's directory comes from the name: another name is another run.
        shares_run: Whether another tool uses the run's directory, too. Then `begin` may move
            existing files, so a run begins only once, and `finish` is called at its end.
    """

    path: Path
    name: str
    run: Path
    remarks: Sequence[str] = ()
    is_named: bool = False
    shares_run: bool = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {self.path}>"

    def prepare(self) -> Arguments:
        """Import what the file names, and check it.

        Raises:
            ConfigError: Something cannot be imported, or is of the wrong kind.
            DatasetError: The dataset cannot be read, where that is done here.
        """
        ...

    def to_plan(self, prepared: Arguments) -> AbstractContextManager[Arguments]:
        """Return the arguments of a run, without changing its directory."""
        return nullcontext(prepared)

    def begin(self, prepared: Arguments, say: Say) -> None:
        """Prepare the run's directory for a run."""
        return

    def make_room(self, say: Say) -> None:
        """Prepare the run's directory for imported answers."""
        return

    def finish(self, result: EvaluationResult, say: Say, *, stopped: bool) -> bool:
        """Do what the file requests after the results are on disk; return whether it succeeded.

        If the run was stopped before its end, do only what needs no more results.
        """
        return True

    def next_steps(self, file: str, run: str) -> list[str]:
        """Return what to do after a run that is done, a line each; `file` and `run` as shown."""
        return []
