"""How does the configuration's own workflow run in this process, through the installed toolkit?

As in `nat eval`, the workflow is built from the configuration once, and each item has its own
session. The `eval:` block is removed first: it may name evaluators that the toolkit does not know.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import BaseModel

from limpet.errors import ConfigError, LimpetError, PermanentError
from limpet.text import one_line, text_of
from limpet.types import Item, Output
from limpet.workflows.nat_trace import trace_of
from limpet.workflows.protocol import Workflow
from limpet.workflows.usage import usage_of_trace


def is_installed() -> bool:
    """Return whether the toolkit is installed."""
    try:
        return find_spec("nat.runtime.loader") is not None
    except (ImportError, ValueError):
        return False


def check_installed(shown: str) -> None:
    """Raise a `ConfigError` if the toolkit is not installed."""
    if not is_installed():
        raise ConfigError(
            f"{shown}: its workflow runs in the NeMo Agent Toolkit, which is not installed here",
            hint="install it: pip install nvidia-nat   or serve the workflow: nat serve "
            f"--config_file {shown}   and give its address: --endpoint http://localhost:8000",
        )


class InProcessWorkflow(Workflow):
    """The workflow of a configuration.

    Args:
        file: The configuration.
        overrides: Paths and the values that replace those of the file.
        name: The name of the workflow.
        per_input_user_id: Whether each item gets its own user.
    """

    endpoint = "workflow"

    def __init__(
        self,
        file: Path,
        overrides: tuple[tuple[str, Any], ...],
        *,
        name: str,
        per_input_user_id: bool = True,
    ) -> None:
        self.name = name
        self.fingerprint = {}  # `ConfiguredWorkflow` adds the configuration's blocks
        self._file = file
        self._overrides = overrides
        self._per_input = per_input_user_id
        self._stack = AsyncExitStack()
        self._sessions: Any = None
        self._pull: Any = None

    def seen(self, item: Item) -> Any:
        return item.input

    def check(self) -> None:
        """Let the toolkit read the configuration without building it.

        Raises:
            LimpetError: The toolkit cannot be imported, or rejects the configuration.
        """
        with self._reported():
            self._read()

    async def open(self) -> None:
        with self._reported():
            try:
                await self._build()
            except (Exception, SystemExit):
                await self._stack.aclose()
                raise

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit) as error:
            raise LimpetError(
                f"{self._file.name}: the toolkit cannot build its workflow: "
                f"{type(error).__name__}: {one_line(text_of(error))}",
                hint="nat run --config_file shows more",
            ) from error

    def _read(self) -> Any:
        loader = import_module("nat.runtime.loader")
        loader.discover_and_register_plugins(loader.PluginTypes.CONFIG_OBJECT)
        data = import_module("nat.utils.io.yaml_tools").yaml_load(self._file)
        for path, value in self._overrides:
            _put(data, path.split("."), value)
        data.pop("eval", None)
        config_of = import_module("nat.data_models.config").Config
        validate = import_module("nat.utils.data_models.schema_validator").validate_schema
        return validate(data, config_of)

    async def _build(self) -> None:
        config = self._read()
        builder_class = import_module("nat.builder.workflow_builder").WorkflowBuilder
        builder = await self._stack.enter_async_context(builder_class.from_config(config=config))
        create = import_module("nat.runtime.session").SessionManager.create
        arguments: dict[str, Any] = {"config": config, "shared_builder": builder}
        if "max_concurrency" in signature(create).parameters:
            arguments["max_concurrency"] = 0  # no limit, instead of 8: our pacer decides
        self._sessions = await create(**arguments)
        shutdown = getattr(self._sessions, "shutdown", None)
        if shutdown is not None:
            self._stack.push_async_callback(shutdown)
        self._pull = _pull_function()

    async def close(self) -> None:
        await self._stack.aclose()
        self._sessions = None

    async def call(self, item: Item) -> Output:
        user = f"nat_eval_user-{uuid4()}" if self._per_input else "nat_eval_user"
        async with (
            self._sessions.session(user_id=user) as session,
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
    trace = trace_of(steps)
    return Output(value, usage_of_trace(trace), trace)


def _put(data: Any, path: list[str], value: Any) -> None:
    for part in path[:-1]:
        if data.get(part) is None:
            data[part] = {}
        data = data[part]
    data[path[-1]] = value
