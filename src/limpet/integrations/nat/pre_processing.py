"""What does `custom_pre_eval_process_function` do to an answer before it is scored?

The answer on disk stays as the workflow returned it. Each evaluator sees what the function returns,
and has the function's code in its fingerprint: after an edit of the function, it scores again.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from pydantic import BaseModel

from limpet.errors import PermanentError
from limpet.evaluators.protocol import Evaluator, Scored, Scores
from limpet.fingerprints.declared import DependsOn
from limpet.fingerprints.steps import CodeStep, code_of, declared_of, described_by, stated_by
from limpet.integrations.nat.toolkit import is_installed, toolkit_steps
from limpet.nat_trace import nat_steps, trace_of
from limpet.text import one_line
from limpet.types import Output


@dataclass
class EvalInputItem:
    """The function's argument where the toolkit is not installed, with its names."""

    id: Any
    input_obj: Any
    expected_output_obj: Any
    output_obj: Any = None
    expected_trajectory: list[Any] = field(default_factory=list)
    trajectory: list[Any] = field(default_factory=list)
    full_dataset_entry: Any = None

    def copy_with_updates(self, **updates: Any) -> "EvalInputItem":
        """Return a copy with some values replaced."""
        return replace(self, **updates)


class PreProcessed(CodeStep, Evaluator):
    """An evaluator that sees the answer as a function returns it.

    Args:
        inner: The evaluator.
        function: Called before it, with each answer.
        expected_steps: The column of the expected steps.
    """

    def __init__(
        self, inner: Evaluator, function: Callable[[Any], Any], expected_steps: str
    ) -> None:
        self.name = inner.name
        self.endpoint = inner.endpoint
        self._inner = inner
        self._function = function
        self._expected_steps = expected_steps
        self._is_toolkit_there = is_installed()

    def __repr__(self) -> str:
        return f"<evaluator {self.name}: {self._inner!r} after {self._function!r}>"

    @property
    def code(self) -> Mapping[str, Any]:
        return {**code_of(self._inner), "before scoring: ": self._function}

    @property
    def depends_on(self) -> DependsOn | None:
        return declared_of(self._inner)

    @property
    def stated(self) -> Mapping[str, str]:
        return stated_by(self._inner)

    @property
    def described(self) -> Mapping[str, Any]:
        return described_by(self._inner)

    @property
    def secrets(self) -> Iterable[str]:  # type: ignore[override]  # only read
        return self._inner.secrets

    async def open(self) -> None:
        await self._inner.open()

    async def close(self) -> None:
        await self._inner.close()

    async def call(self, scored: Scored) -> Scores | Output:
        item = self._item(scored)
        given = list(item.trajectory)
        changed = await asyncio.to_thread(self._function, item)
        if not hasattr(changed, "output_obj"):
            raise PermanentError(
                f"custom_pre_eval_process_function returned {one_line(changed)}, not an item",
                hint="return the item with its output_obj changed",
            )
        steps = getattr(changed, "trajectory", given)
        return await self._inner.call(
            replace(
                scored,
                output=changed.output_obj,
                expected=getattr(changed, "expected_output_obj", scored.expected),
                input=getattr(changed, "input_obj", scored.input),
                trace=scored.trace if steps == given else trace_of([*map(_plain_step, steps)]),
            )
        )

    def _item(self, scored: Scored) -> Any:
        row = {} if scored.item is None else dict(scored.item.row)
        id_ = None if scored.item is None else scored.item.id
        item: Any = EvalInputItem
        steps = nat_steps(scored.trace)
        if self._is_toolkit_there:  # its steps are objects
            item = import_module("nat.data_models.evaluator").EvalInputItem
            steps = toolkit_steps(scored.trace, str(id_))
        return item(
            id=id_,
            input_obj=scored.input,
            expected_output_obj=scored.expected,
            output_obj=scored.output,
            expected_trajectory=row.get(self._expected_steps) or [],
            trajectory=steps,
            full_dataset_entry=row,
        )


def _plain_step(step: Any) -> Any:
    return step.model_dump(mode="json") if isinstance(step, BaseModel) else step
