"""How does the configuration's workflow run in this process, through the installed toolkit?

As in `nat eval`, the workflow is built from the configuration once, and each item has its own
session.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from enum import Enum
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import BaseModel

from limpet.errors import LimpetError, PermanentError
from limpet.evaluators.protocol import Evaluator, Scored, Scores
from limpet.fingerprints.steps import CodeStep
from limpet.integrations.nat.toolkit import (
    Built,
    Toolkit,
    functions_of,
    is_installed,
    toolkit_steps,
)
from limpet.integrations.nat.workflow import AroundStep
from limpet.nat_trace import nat_steps, trace_of
from limpet.shapes import Item, Output
from limpet.text import one_line
from limpet.usage import usage_of_trace
from limpet.workflows.protocol import Workflow

_USER = "nat_eval_user"
_EXPORT_S = 60.0  # the toolkit's own limit

logger = logging.getLogger("limpet.integrations.nat")


class InProcessWorkflow(CodeStep, Workflow):
    """The workflow of a configuration. Its code is that of the plug-ins that build it.

    Args:
        toolkit: Reads and builds the configuration.
        name: The name of the workflow.
        user_id: The user of every session; None: the toolkit's users for an evaluation.
        per_input_user_id: Whether each item gets its own user.
    """

    endpoint = "workflow"

    def __init__(
        self,
        toolkit: Toolkit,
        *,
        name: str,
        user_id: str | None = None,
        per_input_user_id: bool = True,
    ) -> None:
        self.name = name
        self._toolkit = toolkit
        self._user_id = user_id
        self._per_input = per_input_user_id
        self._stack = AsyncExitStack()
        self._built: Built | None = None
        self._sessions: Any = None
        self._pull: Any = None

    @property
    def code(self) -> Mapping[str, Any]:
        functions = functions_of(self._toolkit.read())
        return {f"{name}: ": function for name, function in functions.items()}

    def seen(self, item: Item) -> Any:
        return item.input

    async def open(self) -> None:
        self._built = await self._toolkit.acquire()
        self._stack.push_async_callback(self._toolkit.release)
        try:
            await self._start_sessions(self._built)
        except BaseException:
            await self._stack.aclose()
            raise

    async def _start_sessions(self, built: Built) -> None:
        create = import_module("nat.runtime.session").SessionManager.create
        arguments: dict[str, Any] = {"config": built.config, "shared_builder": built.builder}
        if "max_concurrency" in signature(create).parameters:
            arguments["max_concurrency"] = 0  # no limit, instead of 8: our pacer decides
        self._sessions = await create(**arguments)
        shutdown = getattr(self._sessions, "shutdown", None)
        if shutdown is not None:
            self._stack.push_async_callback(shutdown)
        self._pull = _pull_function()

    async def close(self) -> None:
        if self._sessions is not None:
            await _wait_for_exports()
        await self._stack.aclose()
        self._sessions = None

    async def call(self, item: Item) -> Output:
        assert self._built is not None
        with self._built.context():
            return await self._answer(item)

    async def _answer(self, item: Item) -> Output:
        async with (
            self._sessions.session(user_id=self._user()) as session,
            session.run(item.input) as runner,
        ):
            if not session.workflow.has_single_output:
                raise PermanentError(
                    "the workflow streams several outputs: only a single output is supported"
                )
            steps_task = asyncio.ensure_future(self._pull())
            try:
                value = await runner.result()
                steps = await steps_task
            finally:
                steps_task.cancel()
            return _output(runner, value, steps)

    def _user(self) -> str:
        if self._user_id is not None:
            return self._user_id
        name = f"{_USER}-{uuid4()}" if self._per_input else _USER
        try:
            users = import_module("nat.data_models.user_info")
        except ImportError:  # before 1.6 a name was enough
            return name
        user = users.BasicUserInfo(username=name, password=_USER)
        return str(users.UserInfo(basic_user=user).get_user_id())


async def _wait_for_exports() -> None:
    """Wait until the exporters of traces have sent their data.

    Each session has its own exporters, which forget their tasks when it ends. So the tasks are
    found by their code.
    """
    exporters = sys.modules.get("nat.observability.exporter")
    if exporters is None:  # nobody exports
        return
    folder = str(Path(exporters.__path__[0]))
    tasks = [task for task in asyncio.all_tasks() if _file_of(task).startswith(folder)]
    if not tasks:
        return
    _, left = await asyncio.wait(tasks, timeout=_EXPORT_S)
    if left:
        logger.warning("%d trace exports did not finish within %d s", len(left), _EXPORT_S)


def _file_of(task: asyncio.Task[Any]) -> str:
    code = getattr(task.get_coro(), "cr_code", None)
    return "" if code is None else str(code.co_filename)


def _pull_function() -> Any:
    for name in ("nat.builder.runtime_event_subscriber", "nat.eval.runtime_event_subscriber"):
        try:
            return import_module(name).pull_intermediate
        except ImportError:
            continue
    raise LimpetError("this version of the toolkit does not provide intermediate steps")


def _output(runner: Any, value: Any, steps: list[Any]) -> Output:
    try:
        value = runner.convert(value, to_type=str)
    except ValueError:
        if isinstance(value, BaseModel):
            value = value.model_dump_json(indent=2)  # what `nat eval` scores
    value, metadata = _plain(value)
    trace = trace_of(_without_members(steps))
    return Output(value, usage_of_trace(trace), trace, metadata)


def _without_members(value: Any) -> Any:
    """Return steps with the names of enum members, as the toolkit writes and shows them."""
    if isinstance(value, dict):
        return {key: _without_members(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_members(part) for part in value]
    return str(value) if isinstance(value, Enum) and not isinstance(value, (str, int)) else value


def _plain(value: Any) -> tuple[Any, Any]:
    """Return a value as the toolkit writes it, and its class if it has no JSON form."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
    else:
        return value, None
    try:
        return json.loads(json.dumps(value, default=str)), {"class": kind}
    except (TypeError, ValueError):  # its keys have none either
        return str(value), {"class": kind}


# ---- What does `custom_pre_eval_process_function` do to an answer before it is scored? ----------
#
# The answer on disk stays as the workflow returned it. Each evaluator sees the function's result,
# and has the function's code in its fingerprint: after an edit of the function, it scores again.


@dataclass
class EvalInputItem:
    """The function's argument if the toolkit is not installed, with the same fields."""

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


class PreProcessed(AroundStep[Evaluator], Evaluator):
    """An evaluator that sees the answer a function returns.

    Args:
        inner: The evaluator.
        function: Called with each answer before it is scored.
        expected_steps: The column of the expected steps.
    """

    def __init__(
        self, inner: Evaluator, function: Callable[[Any], Any], expected_steps: str
    ) -> None:
        super().__init__(inner)
        self._function = function
        self._expected_steps = expected_steps
        self._is_toolkit_there = is_installed()

    def __repr__(self) -> str:
        return f"<evaluator {self.name}: {self._inner!r} after {self._function!r}>"

    @property
    def code(self) -> Mapping[str, Any]:
        return {**super().code, "before scoring: ": self._function}

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
