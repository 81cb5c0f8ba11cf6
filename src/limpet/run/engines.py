"""On which engine does each step of a run run?"""

from collections.abc import Mapping, Sequence
from typing import Any

from limpet.engines.ray.settings import check_installed
from limpet.engines.sent_steps import pickled_step
from limpet.engines.spec import Engine, as_engine, runs_user_code
from limpet.evaluators.protocol import Evaluator
from limpet.run.run_file import WORKFLOW
from limpet.text import one_line
from limpet.workflows.protocol import Workflow


def engines_of(
    workflow: Workflow,
    evaluators: Sequence[Evaluator],
    engine: Any,
    step_engines: Mapping[str, Any],
) -> dict[str, Engine]:
    """Return the engine of each step that runs elsewhere, by the step's name.

    Args:
        workflow: The workflow.
        evaluators: The evaluators.
        engine: The engine of all steps that are the user's own Python; None: this process.
        step_engines: The engines of single steps, by name.

    Raises:
        LimpetError: A step cannot be sent to another process, or Ray is not installed.
    """
    of_all = as_engine(engine)
    chosen: dict[str, Engine] = {}
    steps: list[tuple[str, str, Any]] = [(WORKFLOW, "the workflow", workflow)]
    steps += [(step.name, f"the evaluator {one_line(step.name)}", step) for step in evaluators]
    for name, who, step in steps:
        own = as_engine(step_engines.get(name)) or (of_all if runs_user_code(step) else None)
        if own is not None:
            if own.ray is not None:
                check_installed()
            pickled_step(who, step)  # before anything is spent
            chosen[name] = own
    return chosen
