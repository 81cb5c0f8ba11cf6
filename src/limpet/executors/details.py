"""What happened to one input: its attempts, and how it ended?"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from limpet.executors.countdown import Countdown
from limpet.pacing.aimd import now
from limpet.pacing.permits import Permits
from limpet.pacing.signals import FailureKind

InputT = TypeVar("InputT")
OutputT = TypeVar("OutputT")


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


class Cancelled(Enum):
    """Why an attempt was cancelled."""

    TIMEOUT = "timeout"
    REQUEST = "request"
    AGAIN = "again"
    STOP = "stop"
    IN_VAIN = "in vain"
    """It was waiting to make a call that will not be made."""


class InputState:
    """One input on its way through the run, across all its attempts.

    Attributes:
        mistakes: Attempts that failed because of a mistake in the code.
        refusals: Refusals that are the input's own fault.
        seen_completed: How many inputs the run had completed when this one first failed; -1: it
            has not failed.
        deferred: Whether it is in its second pass.
    """

    __slots__ = (
        "deferred",
        "details",
        "index",
        "input",
        "mistakes",
        "refusals",
        "retries",
        "seen_completed",
        "timeouts",
    )

    def __init__(self, index: int, input: Any) -> None:  # noqa: A002 - the contract's word
        self.index = index
        self.input = input
        self.details = ExecutionDetails()
        self.retries = 0
        self.timeouts = 0
        self.mistakes = 0
        self.refusals = 0
        self.seen_completed = -1
        self.deferred = False


class Attempt:
    """One attempt at one input, as hooks see it. Read-only.

    Attributes:
        index: The input's index, from 0.
        input: The input.
        number: The attempt's number for this input, from 1.
        started_at: The loop's time when it started.
        seconds: How long it took; None while it runs.
        error: The exception it raised; None while it runs and after a success.
        kind: What the error means; None for a success, a timeout or a cancellation.
        retry_in: Seconds until the next attempt; None if there is none.
    """

    __slots__ = (
        "begun",
        "cancelled",
        "error",
        "grace",
        "index",
        "kind",
        "number",
        "permits",
        "retry_in",
        "seconds",
        "started_at",
        "state",
        "task",
    )

    def __init__(self, state: InputState, number: int, started_at: float, permits: Permits) -> None:
        self.state = state
        self.permits = permits
        self.index = state.index
        self.number = number
        self.started_at = started_at
        self.seconds: float | None = None
        self.error: BaseException | None = None
        self.kind: FailureKind | None = None
        self.retry_in: float | None = None
        self.cancelled: Cancelled | None = None
        self.grace: Countdown | None = None
        self.begun = False
        self.task: asyncio.Task[None] | None = None

    @property
    def input(self) -> Any:
        """The input this attempt is for."""
        return self.state.input


@dataclass(frozen=True, slots=True)
class Finished(Generic[InputT, OutputT]):
    """An input that is done: completed with an output, or failed with an error.

    Attributes:
        index: The input's index, from 0.
        input: The input.
        output: The function's return value; the fallback value if it failed.
        error: Why it failed; None if it completed.
        details: Its status, exceptions, and the seconds it ran.
    """

    index: int
    input: InputT
    output: OutputT | Unset
    error: Exception | None
    details: ExecutionDetails
