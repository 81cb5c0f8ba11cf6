"""Where do a run's results go?"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

from limpet.executors.details import Call, ExecutionDetails, Finished, OutputT, Unset
from limpet.executors.inputs import Inputs, NumberedInputs


@dataclass(frozen=True, slots=True)
class Sink:
    """Where a run's results go.

    Attributes:
        take: Called with each call when its input is taken, in input order.
        finish: Called with each input that is done.
        backlog: Returns how many finished inputs have not been read yet.
    """

    take: Callable[[Call], None]
    finish: Callable[[Finished[Any, Any]], None]
    backlog: Callable[[], int]


NO_SINK = Sink(lambda _call: None, lambda _finished: None, lambda: 0)
"""For a run that is over, or whose results only its hooks see."""


class OrderedResults(Generic[OutputT]):
    """Outputs and details in input order, filled in as inputs finish.

    Args:
        inputs: The inputs.
        fallback: The output of inputs without a result.
    """

    def __init__(self, inputs: Inputs, fallback: OutputT | Unset) -> None:
        self._total = inputs.total or 0
        self._fallback = fallback
        self._outputs: list[OutputT | Unset] = []
        self._details: list[ExecutionDetails] = []
        # Only if an input's index differs from its position in the output.
        self._places: dict[int, int] | None = {} if isinstance(inputs, NumberedInputs) else None
        self.sink = Sink(self._take, self._finish, NO_SINK.backlog)

    def _take(self, call: Call) -> None:
        if self._places is not None:
            self._places[call.index] = len(self._outputs)
        self._outputs.append(self._fallback)
        self._details.append(call.details)

    def _finish(self, finished: Finished[Any, OutputT]) -> None:
        index = finished.index
        self._outputs[index if self._places is None else self._places[index]] = finished.output

    def in_order(self) -> tuple[list[OutputT | Unset], list[ExecutionDetails]]:
        """Return them, including those of inputs that were never taken."""
        for _ in range(len(self._outputs), self._total):
            self._outputs.append(self._fallback)
            self._details.append(ExecutionDetails())
        return self._outputs, self._details
