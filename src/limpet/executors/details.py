"""What happened to one input?"""

from collections.abc import Iterable
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from limpet.pacing.clock import now


class Unset(Enum):
    """The type of `UNSET`, the default fallback value."""

    UNSET = "<unset>"

    def __repr__(self) -> str:
        return self.value


UNSET = Unset.UNSET


class ExecutionStatus(Enum):
    """The status of an input when the run has ended."""

    DID_NOT_RUN = "DID NOT RUN"
    COMPLETED = "COMPLETED"
    COMPLETED_WITH_RETRIES = "COMPLETED WITH RETRIES"
    FAILED = "FAILED"


class ExecutionDetails:
    """What happened to one input: its status, exceptions, and the seconds it ran.

    `execution_seconds` is the sum over all attempts, without the waits between them.
    """

    __slots__ = ("exceptions", "execution_seconds", "status")

    def __init__(self) -> None:
        self.exceptions: list[Exception] = []
        self.status = ExecutionStatus.DID_NOT_RUN
        self.execution_seconds: float = 0

    def complete(self) -> None:
        """Mark the input as completed, with retries if an exception was logged."""
        if self.exceptions:
            self.status = ExecutionStatus.COMPLETED_WITH_RETRIES
        else:
            self.status = ExecutionStatus.COMPLETED

    def fail(self) -> None:
        """Mark the input as failed."""
        self.status = ExecutionStatus.FAILED

    def log_exception(self, exc: Exception) -> None:
        """Record why an attempt failed."""
        self.exceptions.append(exc)

    def log_runtime(self, start_time: float) -> None:
        """Add the time since `start_time`, by the loop's clock or `time.monotonic`."""
        self.execution_seconds += now() - start_time

    def __repr__(self) -> str:
        return (
            f"ExecutionDetails({self.status.name}, {len(self.exceptions)} exceptions, "
            f"{self.execution_seconds:.3f} s)"
        )


@runtime_checkable
class Executor(Protocol):
    """Runs a function over inputs. Outputs and details are in input order."""

    def run(self, inputs: Iterable[Any]) -> tuple[list[Any], list[ExecutionDetails]]:
        """Run all inputs. The output of one that failed or did not run is the fallback value."""
        ...
