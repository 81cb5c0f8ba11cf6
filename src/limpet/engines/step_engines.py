"""Which engine runs each step: this process, or a crew of workers?"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from limpet.engines.crew import Crew, Taken
from limpet.engines.messages import Returned
from limpet.engines.opened_step import run_cell
from limpet.engines.packed_values import packed_argument, unpacked_error, unpacked_output
from limpet.engines.process_line import ProcessLines
from limpet.engines.ray.lines import RayLines, variables_of
from limpet.engines.returned_values import OmissionSink
from limpet.engines.sent_steps import is_plain, sent_step
from limpet.engines.spec import Engine, available_processors
from limpet.engines.staffing import OnEvent
from limpet.errors import SetupError
from limpet.evaluators.protocol import Evaluator, Scored
from limpet.fingerprints.files.audit_hook import unattributed
from limpet.pacing.observation import observe
from limpet.pacing.permits import asks_for_each_call
from limpet.shapes import Item, Output
from limpet.usage import add_receipt, plain_usage
from limpet.workflows.protocol import Workflow

_SEND_CODE = (
    "Ray's nodes lack this code: send it with engine: {ray: {runtime_env: {working_dir: .}}}"
)

_AT_ONCE = 2  # processes starting at a time, per processor

Read = Callable[[Any], Output]
"""Reads the value a step returned."""


class StepEngine(Protocol):
    """Runs one step.

    Attributes:
        name: The name of the workflow or evaluator.
        secrets: Secrets that the step declared when it was opened.
        environment: Variables that it set in a worker when it was opened.
        words: Where it runs, in words; empty: this process.
        most: How many of its cells can run at once; None: any number.
    """

    name: str
    secrets: list[str]
    environment: Mapping[str, str]

    @property
    def words(self) -> str: ...
    @property
    def most(self) -> int | None: ...
    async def open(self) -> None: ...
    async def call(self, value: Any, taken: Taken | None = None) -> Output: ...
    async def close(self) -> None: ...


class InProcess:
    """Runs a step in this process.

    Args:
        step: The workflow or the evaluator.
        who: Its name in messages.
        read: Reads the value it returns.
    """

    words, most = "", None

    def __init__(self, step: Workflow | Evaluator, who: str, read: Read) -> None:
        self.name = step.name
        self.secrets: list[str] = []
        self.environment: Mapping[str, str] = {}
        self._step: Any = step
        self._who = who
        self._read = read

    async def open(self) -> None:
        await self._step.open()

    async def call(self, value: Any, taken: Taken | None = None) -> Output:
        """Call the step with an item and read the value it returns."""
        del taken
        return await run_cell(self._who, self._step.call, value, self._read)

    async def close(self) -> None:
        await self._step.close()


class OnCrew:
    """Runs a step on a crew.

    Args:
        key: The step's name: `workflow`, or the evaluator's.
        step: The workflow or the evaluator.
        who: Its name in messages.
        omissions: Told about parts left out of results.
        crew: The crew.
    """

    def __init__(
        self, key: str, step: Any, who: str, omissions: OmissionSink, crew: "SharedCrew"
    ) -> None:
        self.name = step.name
        self.secrets: list[str] = []
        self.environment: Mapping[str, str] = {}
        self._key = key
        self._step = step
        self._who = who
        self._omissions = omissions
        self._crew = crew

    @property
    def words(self) -> str:
        return self._crew.words

    @property
    def most(self) -> int | None:
        # More would only wait for a worker, and begin after the run was told to stop.
        return self._crew.size if is_plain(self._step) else None

    async def open(self) -> None:
        with unattributed():  # we read its files here, not its set-up
            sent = sent_step(self._key, self._who, self._step, inherits=self._crew.inherits)
        try:
            self.secrets, self.environment = await self._crew.open(sent)
        except BaseException:
            await self._crew.close(self._key)
            raise

    async def call(self, value: Any, taken: Taken | None = None) -> Output:
        """Call the step with an item in a worker, which reads the value it returns."""
        returned = await self._crew.call(self._key, _named(value), packed_argument(value), taken)
        if (more := returned.more) is not None:
            if "headers" in more or "usage" in more:
                observe(headers=more.get("headers"), usage=more.get("usage"))
            if "makes_own" in more:
                asks_for_each_call()
            for what, why in more.get("omissions", ()):
                self._omissions.say(what, why)
            for receipt in more.get("receipts", ()):
                add_receipt(plain_usage(receipt))
        if returned.error is not None:
            raise unpacked_error(returned.error)
        return unpacked_output(returned.value)

    async def close(self) -> None:
        await self._crew.close(self._key)


def _named(value: Item | Scored) -> str:
    return f"item {value.id!r}" if isinstance(value, Item) else value.where


class SharedCrew:
    """The crew of an engine: starts with its first step and ends with its last."""

    def __init__(self, engine: Engine, on_event: OnEvent) -> None:
        self._engine = engine
        self._cells = 0
        self._on_event = on_event
        self._lines: ProcessLines | RayLines
        if engine.ray is None:
            self._lines = ProcessLines(engine.memory)
        else:
            self._lines = RayLines(engine.ray, engine.workers, on_event)
        self._crew: Crew | None = None
        self._open: set[str] = set()

    def add(self, step: Any, cells: int) -> None:
        """Register a step and how many cells it will run, before any step is opened."""
        self._cells += cells
        if isinstance(self._lines, RayLines):
            self._lines.needs(variables_of(step))

    @property
    def inherits(self) -> bool:
        """Whether its workers have the environment and the working directory of this process."""
        return self._engine.ray is None

    @property
    def size(self) -> int:
        """How many workers it has, or will have."""
        return self._engine.workers if self._crew is None else self._crew.size

    @property
    def words(self) -> str:
        """How many of its workers are ready, in words."""
        if self._crew is None:
            return self._engine.words
        ready, words = self._crew.ready, self._engine.words_for(self._crew.size)
        return words if ready == self._crew.size else f"{ready} of {words}"

    async def open(self, sent: Any) -> tuple[list[str], dict[str, str]]:
        is_first = not self._open
        self._open.add(sent.name)
        if is_first:
            size = await self._lines.open() or self._engine.workers
            at_once = None
            if self._engine.ray is None:
                size = max(1, min(size, self._cells))
                at_once = _AT_ONCE * available_processors()
            self._crew = Crew(size, self._lines.start, self._on_event, at_once)
        assert self._crew is not None
        try:
            return await self._crew.open(sent)
        except SetupError as error:
            if self._engine.ray is not None and "ModuleNotFoundError" in str(error):
                error.hint = _SEND_CODE
            raise

    def call(
        self, step: str, who: str, argument: bytes, taken: Taken | None
    ) -> Awaitable[Returned]:
        assert self._crew is not None
        return self._crew.call(step, who, argument, taken)

    async def close(self, step: str) -> None:
        if step not in self._open:
            return
        self._open.discard(step)
        try:
            if self._crew is not None:
                await self._crew.close_step(step)
        finally:
            if not self._open:
                await self._lines.close()


class StepEngines:
    """The engines of a session's steps.

    Args:
        engines: The engine of each step that runs outside this process, by step name.
        cells: How many cells each step will run, by step name.
        on_event: Called when workers start or are lost.
    """

    def __init__(
        self, engines: Mapping[str, Engine], cells: Mapping[str, int], on_event: OnEvent
    ) -> None:
        self._engines = engines
        self._cells = cells
        self._on_event = on_event
        self._crews: dict[Engine, SharedCrew] = {}

    def of(self, key: str, step: Any, who: str, read: Read, omissions: OmissionSink) -> StepEngine:
        """Return the engine of a step. Steps with the same engine share its workers."""
        engine = self._engines.get(key)
        if engine is None:
            return InProcess(step, who, read)
        crew = self._crews.get(engine)
        if crew is None:
            crew = self._crews[engine] = SharedCrew(engine, self._on_event)
        crew.add(step, self._cells[key])
        return OnCrew(key, step, who, omissions, crew)
