"""How does a worker run its cells?

A bench opens each step once and runs many cells concurrently on its event loop, each in its own
context, as in the run's own process. Messages to the driver wait in an outbox. The bench knows
neither where it runs nor how messages travel.
"""

import asyncio
import contextlib
import contextvars
import errno
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

from limpet.engines.messages import (
    ANSWER,
    BLOCKED,
    CANCEL,
    CELL,
    CLOSE,
    CLOSED,
    FREE,
    HUNG,
    NO_MEMORY,
    OPEN,
    OPENED,
    Message,
)
from limpet.engines.opened_step import OpenedStep, run_cell
from limpet.engines.outbox import FileReports, Outbox
from limpet.engines.packed_values import packed_error, unpacked_argument
from limpet.engines.remote_permits import Questions, RemotePacers, cell, observed
from limpet.engines.returned_values import read_output, read_scores
from limpet.engines.sent_steps import (
    MainModule,
    SentStep,
    check_same,
    import_main,
    is_plain,
    received_step,
)
from limpet.errors import LimpetError, SetupError
from limpet.executors.loops import end_if_forked
from limpet.executors.threads import abandoned
from limpet.fingerprints.files.audit_hook import attribute, listen
from limpet.foreign import readable
from limpet.pacing.observation import Observation, observe_into
from limpet.pacing.permits import Permits, use_permits
from limpet.pacing.registry import pacing_with
from limpet.text import one_line, text_of
from limpet.usage import Receipts, receipts_in

_CLOSING_S = 1.0  # how long cancelled cells have to end before their step is closed
_HUNG_S = 0.5  # how long the thread of an abandoned call may keep running
_LOOK_EVERY_S = 0.02
_SETTING_UP_S = 10.0  # how long a set-up has to end once nobody needs it


class _Step:
    """A step that is open in this worker."""

    def __init__(self, name: str, who: str, step: Any, held: OpenedStep) -> None:
        self.who = who
        self.step = step
        self.held = held
        self.read: Callable[..., Any] = (
            read_output if name == "workflow" else functools.partial(read_scores, name=name)
        )
        self.cells: set[int] = set()


class _CollectedOmissions:
    """Collects the parts left out of a result."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def say(self, what: str, why: str) -> None:
        self.said.append((what, why))


class Bench:
    """Runs cells in this process.

    Args:
        send: Sends packed messages to the driver.
        end: Ends this process at once.
        mark: Records the number of the cell that begins, in memory shared with the driver.
        limits_memory: Whether a `MemoryError`, or the like, means that its limit is reached.
    """

    def __init__(
        self,
        send: Callable[[list[bytes]], None],
        end: Callable[[], None],
        *,
        limits_memory: bool = False,
        mark: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._mark = mark
        self._end = end
        self._limits_memory = limits_memory
        self._loop = asyncio.get_running_loop()
        self._home = os.getpid()
        self._environment = dict(os.environ)
        self._steps: dict[str, _Step] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._cells: dict[int, asyncio.Task[None]] = {}
        self._reports = FileReports()
        self._outbox = Outbox(send, self._reports, running=self._cells)
        self._questions = Questions(self._outbox.say)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_answered = True
        self._is_blocked, self._blocker = False, 0
        self._is_hung = False
        listen(self._reports)
        with pacing_with(RemotePacers(self._questions)):  # type: ignore[arg-type]  # as one sees it
            self._context = contextvars.copy_context()

    # ---- messages -------------------------------------------------------------------------------

    def receive(self, message: Message) -> None:
        """Handle a message from the driver."""
        if message[0] == CELL:
            self._start(*message[1:])
            return
        match message:
            case (str(kind), int(number)) if kind == CANCEL:
                if (task := self._cells.get(number)) is not None:
                    task.add_done_callback(lambda _: self._cancelled(number))
                    task.cancel()
                else:  # it ended already, or never began
                    self.flush()
            case (str(kind), int(question), granted) if kind == ANSWER:
                self._questions.answered(question, granted)
            case (str(kind), str(name), str(who), bytes(step), main, dict(parts)) if kind == OPEN:
                script = None if main is None else MainModule(*main)
                opening = self._begin(self._open(SentStep(name, who, step, script, parts)))
                self._opening[name] = opening
            case (str(kind), str(name), bool(gives_up)) if kind == CLOSE:
                self._begin(self._close(name, gives_up=gives_up))

    def _begin(self, work: Any) -> asyncio.Task[None]:
        task = self._loop.create_task(work, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def flush(self) -> None:
        """Send waiting messages, before this process ends."""
        self._outbox.flush()

    def ping(self) -> Message | None:
        """Return a message about a problem here, if any; called by another thread.

        If threads of abandoned calls keep running, this worker must be replaced. If a cell blocks
        the event loop, the clocks of its neighbours must stop: they cannot help it.
        """
        if not self._is_hung and (threads := abandoned(_HUNG_S)):
            self._is_hung = True
            return (HUNG, threads)
        if not self._is_answered:
            running = asyncio.current_task(self._loop)
            numbers = (number for number, task in list(self._cells.items()) if task is running)
            number = next(numbers, 0)
            is_known = self._is_blocked and number == self._blocker
            self._is_blocked, self._blocker = True, number
            return None if is_known else (BLOCKED, number)
        self._is_answered = False
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._pong)
        return None

    def _pong(self) -> None:
        self._is_answered = True
        if self._is_blocked:
            self._is_blocked = False
            self._outbox.say((FREE,))

    # ---- steps ----------------------------------------------------------------------------------

    async def _open(self, sent: SentStep) -> None:
        try:
            step = await self._opened(sent)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the driver raises it
            self._say_opened(sent.name, error, ())
            return
        self._steps[sent.name] = step
        secrets = step.step.secrets if not isinstance(step.step.secrets, str) else ()
        self._say_opened(sent.name, None, [text for text in secrets if type(text) is str])

    async def _opened(self, sent: SentStep) -> _Step:
        try:
            if sent.main is not None:
                import_main(sent.main)
            thing = received_step(sent)
            check_same(sent, thing)
        except LimpetError:
            raise
        except BaseException as error:  # noqa: BLE001 - as in `OpenedStep`
            raise SetupError(
                f"{sent.who} cannot be loaded in a worker: "
                f"{type(error).__name__}: {one_line(text_of(error))}",
                hint="the traceback says where; finished results are kept",
            ) from readable(error)
        attribute(self._reports, sent.name)
        held = OpenedStep(thing, sent.who, self._end)
        await held.open()
        return _Step(sent.name, sent.who, thing, held)

    def _say_opened(self, name: str, error: BaseException | None, secrets: Any) -> None:
        set_since = {
            name: value
            for name, value in os.environ.items()
            if self._environment.get(name) != value
        }
        told = None if error is None else packed_error(error)
        self._outbox.say((OPENED, name, told, list(secrets), set_since))

    async def _close(self, name: str, *, gives_up: bool) -> None:
        if (opening := self._opening.pop(name, None)) is not None:
            if gives_up:
                opening.cancel()  # as in one process, when its set-up is interrupted
            await asyncio.wait([opening], timeout=_SETTING_UP_S)  # then it can be torn down
        step = self._steps.pop(name, None)
        if step is not None:
            if left := [self._cells[cell] for cell in step.cells if cell in self._cells]:
                await asyncio.wait(left, timeout=_CLOSING_S)
            await step.held.close()
        self._outbox.say((CLOSED, name))

    # ---- cells ----------------------------------------------------------------------------------

    def _start(self, number: int, name: str, argument: bytes, suspect: bool) -> None:  # noqa: FBT001 - as sent
        step = self._steps.get(name)
        if step is None:
            return  # the step is being closed: the driver has given up the cell
        task = self._loop.create_task(
            self._run(number, step, argument, suspect=suspect), context=self._context.copy()
        )
        self._cells[number] = task
        step.cells.add(number)

    def _cancelled(self, number: int) -> None:
        """Report a cell that was cancelled before it began."""
        if self._cells.pop(number, None) is not None:
            error = packed_error(asyncio.CancelledError())
            self._outbox.ended(number, None, error, None, 0.0, at_once=not self._cells)

    async def _run(self, number: int, step: _Step, argument: bytes, *, suspect: bool) -> None:
        try:
            self._mark(number)
            self._outbox.begun(number, at_once=suspect)  # a suspect may end this process
            cell.set(number)
            attribute(self._reports, number)
            observation, permits, omissions = Observation(), Permits(), _CollectedOmissions()
            receipts: Receipts = []
            observe_into(observation)
            use_permits(permits)
            value, error = None, None
            begun_at = self._loop.time()
            try:
                item = unpacked_argument(argument)
                read = functools.partial(step.read, omissions=omissions)
                with receipts_in(receipts):
                    value = await run_cell(step.who, step.step.call, item, read)
            except BaseException as raised:  # noqa: BLE001 - the driver raises it
                error = readable(raised)
            end_if_forked(self._home, error)
            if isinstance(error, asyncio.CancelledError) and is_plain(step.step):
                # The next cell would share the interpreter with its thread.
                while abandoned(0.0) and not self._is_hung:  # noqa: ASYNC110 - a thread's end
                    await asyncio.sleep(_LOOK_EVERY_S)
            if self._limits_memory and _is_memory_error(error):
                self._give_up(number)
                return
            more, now = _more(observation, permits, omissions, receipts), self._loop.time()
            own_s = now - begun_at - permits.waited_s(now)
            ended = (value, None if error is None else packed_error(error), more, own_s)
            del self._cells[number]
            # The next plain function waits for this one to end.
            self._outbox.ended(number, *ended, at_once=is_plain(step.step))
        finally:
            step.cells.discard(number)
            self._reports.forget(number)
            self._cancelled(number)

    def _give_up(self, number: int) -> None:
        """End this worker: its memory is exhausted, and the responsible cell is unknown."""
        self._outbox.say((NO_MEMORY, number))
        self._end()


def _more(
    observation: Observation, permits: Permits, omissions: _CollectedOmissions, receipts: Receipts
) -> Mapping[str, Any] | None:
    more: dict[str, Any] = {}
    if observation.headers is not None or observation.usage is not None:
        headers, usage = observed(observation)
        if headers is not None:
            more["headers"] = headers
        if usage is not None:
            more["usage"] = usage
    if permits.makes_own:
        more["makes_own"] = True
    if omissions.said:
        more["omissions"] = omissions.said
    if receipts:
        more["receipts"] = receipts
    return more or None


def _is_memory_error(error: BaseException | None) -> bool:
    for _ in range(20):
        if error is None:
            return False
        if isinstance(error, MemoryError):
            return True
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            return True  # a program cannot be started, for example
        if type(error) is RuntimeError and error.args == ("can't start new thread",):
            return True  # there is no memory for its stack
        error = error.__cause__ or error.__context__
    return False
