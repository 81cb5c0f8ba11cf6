"""How did one input fare?"""

from collections.abc import Iterable
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from limpet.pacing.clock import now


class Unset(Enum):
    """The type of `UNSET`, which stands where no fallback value was given."""

    UNSET = "<unset>"

    def __repr__(self) -> str:
        return self.value


UNSET = Unset.UNSET


class ExecutionStatus(Enum):
    """Where an input stands when the run has ended."""

    DID_NOT_RUN = "DID NOT RUN"
    COMPLETED = "COMPLETED"
    COMPLETED_WITH_RETRIES = "COMPLETED WITH RETRIES"
    FAILED = "FAILED"


class ExecutionDetails:
    """What happened to one input: its status, every exception, and the seconds it ran.

    `execution_seconds` adds up the attempts; waiting between them does not count.
    """

    __slots__ = ("exceptions", "execution_seconds", "status")

    def __init__(self) -> None:
        self.exceptions: list[Exception] = []
        self.status = ExecutionStatus.DID_NOT_RUN
        self.execution_seconds: float = 0

    def complete(self) -> None:
        """Mark the input as completed; with retries, if any exception was logged before."""
        if self.exceptions:
            self.status = ExecutionStatus.COMPLETED_WITH_RETRIES
        else:
            self.status = ExecutionStatus.COMPLETED

    def fail(self) -> None:
        """Mark the input as failed."""
        self.status = ExecutionStatus.FAILED

    def log_exception(self, exc: Exception) -> None:
        """Remember why an attempt failed."""
        self.exceptions.append(exc)

    def log_runtime(self, start_time: float) -> None:
        """Add the time since `start_time`, by the loop's clock or else `time.monotonic`."""
        self.execution_seconds += now() - start_time

    def __repr__(self) -> str:
        return (
            f"ExecutionDetails({self.status.name}, {len(self.exceptions)} exceptions, "
            f"{self.execution_seconds:.3f} s)"
        )


@runtime_checkable
class Executor(Protocol):
    """Runs a function over inputs; outputs and details come back in input order."""

    def run(self, inputs: Iterable[Any]) -> tuple[list[Any], list[ExecutionDetails]]:
        """Run them all. A failed or never-run input holds the fallback value."""
        ...
