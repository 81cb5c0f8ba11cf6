"""The result of a map."""

from dataclasses import dataclass, field
from html import escape
from typing import Any, Generic

from limpet.errors import LimpetError
from limpet.executors.details import (
    ExecutionDetails,
    ExecutionStatus,
    Finished,
    InputT,
    OutputT,
    Unset,
)
from limpet.secrets.masking import by_environment
from limpet.text import count, one_line, table_html

_MOST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class MapResult(Generic[InputT, OutputT]):
    """The outputs of a map in the order of its inputs, and how each input ended.

    Attributes:
        outputs: What the function returned; the fallback value where it has no result.
        details: Status, exceptions and seconds of each input.
        failures: The inputs that failed, with their errors.
        kept: The number of results that were already on disk.
        stop_reason: Why it stopped before all inputs were done; None if it did not.
    """

    outputs: list[OutputT | Unset]
    details: list[ExecutionDetails]
    failures: list[Finished[InputT, Any]] = field(default_factory=list)
    kept: int = 0
    stop_reason: Exception | None = None

    @property
    def ran(self) -> int:
        """The number of inputs that ran this time, successfully or not."""
        return len(self.details) - self.kept - self.not_run

    @property
    def not_run(self) -> int:
        """The number of inputs that did not run because the map stopped."""
        return sum(detail.status is ExecutionStatus.DID_NOT_RUN for detail in self.details)

    def raise_for_failures(self) -> None:
        """Raise if inputs failed, for a script that must not continue without them.

        Raises:
            LimpetError: Some failed: it says how many, and the first; its `result` is this.
        """
        if not self.failures:
            return
        first = self.failures[0]
        why = f"{type(first.error).__name__}: {one_line(str(first.error))}"
        error = LimpetError(
            f"{len(self.failures):,} of {count(len(self.details), 'input')} failed; the first, "
            f"input {first.index}: {why}",
            hint="`result.failures` has them all; run it again to try them again",
        )
        error.result = self
        raise error from first.error

    def _repr_html_(self) -> str:
        counts = {"inputs": len(self.details), "kept": self.kept, "ran": self.ran}
        counts |= {"failed": len(self.failures), "not run": self.not_run}
        rows = [[f"{number:,}" for number in counts.values()]]
        shown = [
            [
                f"{call.index:,}",
                escape(one_line(call.input)),
                escape(by_environment().ours.shown(str(call.error))),
            ]
            for call in self.failures[:_MOST_SHOWN]
        ]
        failures = table_html(("input", "", "failed because"), shown) if shown else ""
        return table_html(list(counts), rows) + failures

    def __repr__(self) -> str:
        parts = [f"{len(self.details):,} inputs", f"{self.kept:,} kept", f"{self.ran:,} ran"]
        if self.failures:
            parts.append(f"{len(self.failures):,} failed")
        if self.not_run:
            parts.append(f"{self.not_run:,} not run")
        if self.stop_reason is not None:
            parts.append(f"stopped: {self.stop_reason}")
        return f"<MapResult: {', '.join(parts)}>"
