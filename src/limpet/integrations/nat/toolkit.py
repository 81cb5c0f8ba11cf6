"""What does the installed toolkit build from a configuration, and who keeps it open?

As in `nat eval`, models, tools and evaluators are built from the configuration once, for the
workflow or evaluator that needs them first. A separate task builds and closes them: some hold task
groups, which must be exited in the task that entered them.
"""

import asyncio
import inspect
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from limpet.errors import ConfigError, LimpetError
from limpet.evaluators.libraries.clients import outspoken
from limpet.evaluators.libraries.nat import ONE_ATTEMPT
from limpet.nat_trace import nat_steps
from limpet.text import one_line, text_of

# ---- How do the toolkit's evaluators get models that do not hide a refusal? ---------------------
#
# Their retries are off, and a refusal passes through every `except Exception`.

_NO_RETRIES: Mapping[str, Any] = {
    "do_auto_retry": False,
    "num_retries": 1,  # attempts, with the first one
    "max_retries": 0,
    "llm_retry_control_params": ONE_ATTEMPT,
}


class ImpatientBuilder:
    """The toolkit's builder for evaluators: its models do not retry by themselves.

    Limpet retries, and a hidden refusal would not slow it down.
    """

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._added: set[tuple[str, str]] = set()
        self._adding = asyncio.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._builder, name)

    async def get_llm(self, llm_name: str, wrapper_type: Any) -> Any:
        name = await self._add("llm", llm_name)
        return outspoken(await self._builder.get_llm(name, wrapper_type))

    async def get_llms(self, llm_names: Iterable[str], wrapper_type: Any) -> list[Any]:
        return [await self.get_llm(name, wrapper_type) for name in llm_names]

    async def get_embedder(self, embedder_name: str, wrapper_type: Any) -> Any:
        name = await self._add("embedder", embedder_name)
        return outspoken(await self._builder.get_embedder(name, wrapper_type))

    async def get_embedders(self, embedder_names: Iterable[str], wrapper_type: Any) -> list[Any]:
        return [await self.get_embedder(name, wrapper_type) for name in embedder_names]

    async def _add(self, kind: str, given: str) -> str:
        """Add a model without retries to the builder, and return its name."""
        name = f"{given} without retries"
        async with self._adding:
            if (kind, name) not in self._added:
                config = getattr(self._builder, f"get_{kind}_config")(given)
                await getattr(self._builder, f"add_{kind}")(name, without_retries(config))
                self._added.add((kind, name))
        return name


def without_retries(config: Any) -> Any:
    """Return a copy of one of the toolkit's blocks that makes no retries."""
    fields = type(config).model_fields
    update = {name: value for name, value in _NO_RETRIES.items() if name in fields}
    return config.model_copy(update=update)


# ---- What does the installed toolkit build from a configuration, and who keeps it open? ---------

logger = logging.getLogger("limpet.integrations.nat")
_left_out: set[tuple[str, int]] = set()


def is_installed() -> bool:
    """Return whether the toolkit is installed, without importing it."""
    try:
        found = find_spec("nat")
    except (ImportError, ValueError):
        return False
    folders = [] if found is None else found.submodule_search_locations or []
    return any(Path(folder, "runtime", "loader.py").exists() for folder in folders)


def check_installed(shown: str) -> None:
    """Raise a `ConfigError` if the toolkit is not installed."""
    if not is_installed():
        raise ConfigError(
            f"{shown}: its workflow runs in the NeMo Agent Toolkit, which is not installed here",
            hint="install it: pip install 'limpet[nat]'   or serve the workflow: nat serve "
            f"--config_file {shown}   and give its address: --endpoint http://localhost:8000",
        )


@dataclass(frozen=True, slots=True)
class Built:
    """What the toolkit built.

    Attributes:
        config: The configuration as the toolkit read it.
        builder: The toolkit's builder.
        evaluators: The toolkit's evaluators, by name.
        variables: The context variables set while building.
    """

    config: Any
    builder: Any
    evaluators: Mapping[str, Any]
    variables: Mapping[ContextVar[Any], Any]

    @contextmanager
    def context(self) -> Iterator[None]:
        """Set the context variables that building set.

        Tracing is one: without it, models and tools would leave no trace.
        """
        tokens = [(variable, variable.set(value)) for variable, value in self.variables.items()]
        try:
            yield
        finally:
            for variable, token in tokens:
                variable.reset(token)


@dataclass(slots=True)
class _Opened:
    """Something that is open, or is being opened."""

    ready: asyncio.Future[Built]
    close: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    users: int = 0


class Toolkit:
    """The toolkit's view of a configuration. Nothing is imported before `read`.

    Args:
        file: The configuration.
        overrides: Paths and the values that replace those of the file.
        general: What evaluators may read from `eval.general`: `max_concurrency`, `output_dir`.
        evaluators: The blocks of the toolkit's evaluators, by name.
        runs_workflow: Whether the workflow runs in this process.

    Attributes:
        evaluators: As given.
        runs_workflow: As given.
    """

    def __init__(
        self,
        file: Path,
        overrides: tuple[tuple[str, Any], ...] = (),
        *,
        general: Mapping[str, Any] | None = None,
        evaluators: Mapping[str, Any] | None = None,
        runs_workflow: bool = True,
    ) -> None:
        self._file = file
        self._overrides = overrides
        self._general = dict(general or {})
        self.evaluators = dict(evaluators or {})
        self.runs_workflow = runs_workflow
        self._config: Any = None
        self._defaults: Any = None
        self._opened: _Opened | None = None

    @property
    def is_needed(self) -> bool:
        """Whether a run needs the toolkit, and it is installed."""
        return (self.runs_workflow or bool(self.evaluators)) and is_installed()

    # ---- the configuration ----------------------------------------------------------------------

    def read(self) -> Any:
        """Let the toolkit read the configuration, once, without building anything.

        The `eval:` block is reduced first: Limpet reads it, and it may name evaluators that only
        Limpet has.

        Raises:
            LimpetError: The toolkit cannot be imported, or rejects the configuration.
        """
        if self._config is None:
            with self._reported():
                self._config = self._read()
            # Now: evaluators will put their own objects into it.
            self._defaults = self._config.model_dump(mode="json")
        return self._config

    def with_defaults(self) -> Any:
        """Return the configuration as plain data, with the toolkit's defaults and with secrets.

        Raises:
            LimpetError: As `read`.
        """
        self.read()
        return self._defaults

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # a SystemExit, or a refusal while an evaluator is built
            raise LimpetError(
                f"{self._file.name}: the toolkit cannot build its workflow: "
                f"{type(error).__name__}: {one_line(text_of(error))}",
                hint="install the package that registers what it names; "
                "nat run --config_file shows more",
            ) from error

    def _read(self) -> Any:
        discover_plugins()
        data = import_module("nat.utils.io.yaml_tools").yaml_load(self._file)
        for path, value in self._overrides:
            _put(data, path.split("."), value)
        theirs = (data.pop("eval", None) or {}).get("evaluators") or {}
        if self.evaluators:
            evaluators = {name: theirs[name] for name in self.evaluators}
            data["eval"] = {"general": self._general, "evaluators": evaluators}
        config_of = import_module("nat.data_models.config").Config
        validate = import_module("nat.utils.data_models.schema_validator").validate_schema
        return validate(data, config_of)

    # ---- what is built from it ------------------------------------------------------------------

    async def acquire(self) -> Built:
        """Build everything, unless already built. Each `acquire` needs a `release`.

        Raises:
            LimpetError: The toolkit cannot build it.
        """
        opened = self._opened
        if opened is None:
            opened = self._opened = _Opened(asyncio.get_running_loop().create_future())
            opened.task = asyncio.create_task(self._own(opened))
        opened.users += 1
        try:
            return await asyncio.shield(opened.ready)
        except BaseException:
            await self.release()
            raise

    async def release(self) -> None:
        """Close everything, unless somebody else needs it."""
        opened = self._opened
        assert opened is not None
        opened.users -= 1
        if opened.users == 0:
            self._opened = None
            opened.close.set()
            assert opened.task is not None
            if not opened.ready.done():
                opened.task.cancel()  # it may never be built
            await opened.task

    async def _own(self, opened: _Opened) -> None:
        try:
            with self._reported():
                config = self.read()
                stack = AsyncExitStack()
                before = dict(copy_context())
                try:
                    builder, evaluators = await self._build(config, stack)
                except BaseException:
                    await stack.aclose()
                    raise
        except LimpetError as error:
            opened.ready.set_exception(error)
            return
        except asyncio.CancelledError:
            if not opened.close.is_set():  # a plug-in's own
                text = f"{self._file.name}: the toolkit cancelled building its workflow"
                opened.ready.set_exception(LimpetError(text))
            return
        after = copy_context()
        variables = {name: after[name] for name in after if after[name] is not before.get(name)}
        opened.ready.set_result(Built(config, builder, evaluators, variables))
        await opened.close.wait()
        await stack.aclose()

    async def _build(self, config: Any, stack: AsyncExitStack) -> tuple[Any, dict[str, Any]]:
        if not self.evaluators:
            builder_class = import_module("nat.builder.workflow_builder").WorkflowBuilder
            builder = await stack.enter_async_context(builder_class.from_config(config=config))
            return builder, {}
        builder_class = import_module("nat.plugins.eval.runtime.builder").WorkflowEvalBuilder
        builder = await stack.enter_async_context(
            builder_class(config.general, config.eval.general)
        )
        blocks, config.eval.evaluators = config.eval.evaluators, {}  # they are built below
        try:
            await builder.populate_builder(config, skip_workflow=not self.runs_workflow)
        finally:
            config.eval.evaluators = blocks
        impatient = ImpatientBuilder(builder)
        evaluators = {}
        for name, block in blocks.items():
            build = registry().get_evaluator(type(block)).build_fn
            context = build(without_retries(block), impatient)
            evaluators[name] = await stack.enter_async_context(context)
        return builder, evaluators


def functions_of(config: Any) -> dict[str, Any]:
    """Return the registered functions that build a workflow, by the names of blocks."""
    blocks = {"workflow": config.workflow}
    blocks |= {f"functions.{name}": block for name, block in config.functions.items()}
    found = {}
    for name, block in blocks.items():
        with suppress(KeyError):  # an empty workflow
            found[name] = inspect.unwrap(registry().get_function(type(block)).build_fn)
    return found


def toolkit_steps(trace: Sequence[Any], id_: str) -> list[Any]:
    """Return a trace as steps of the toolkit's own class.

    As in `nat eval`, a rejected step is left out, with a line in the log.

    Args:
        trace: The trace.
        id_: The item's id, for the log.
    """
    step_class = import_module("nat.data_models.intermediate_step").IntermediateStep
    steps = []
    for number, step in enumerate(nat_steps(trace), 1):
        try:
            steps.append(step_class.model_validate(step))
        except ValueError as error:
            if (id_, number) not in _left_out:  # each evaluator asks
                _left_out.add((id_, number))
                told = "%s: step %d is left out: the toolkit rejects it: %s"
                logger.warning(told, one_line(id_), number, one_line(text_of(error)))
    return steps


def discover_plugins() -> None:
    """Let the toolkit import its plug-ins, the user's among them."""
    loader = import_module("nat.runtime.loader")
    loader.discover_and_register_plugins(loader.PluginTypes.CONFIG_OBJECT)


def registry() -> Any:
    """Return the toolkit's registry of plug-ins."""
    return import_module("nat.cli.type_registry").GlobalTypeRegistry.get()


def _put(data: Any, path: list[str], value: Any) -> None:
    for part in path[:-1]:
        if data.get(part) is None:
            data[part] = {}
        data = data[part]
    data[path[-1]] = value
