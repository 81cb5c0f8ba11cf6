"""How does the driver reach workers on Ray without importing Ray?

Through a gateway process. The driver's crew has a line to each worker, as to a local process; its
messages pass through the gateway and a foreman, unread, and answers return the same way. So a crew
treats workers that die, hang or are to blame on Ray as it does local ones.

If the gateway dies, all workers do. The driver starts another one, and the cells run again.
"""

import asyncio
import itertools
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from limpet.engines.messages import (
    READS,
    Lost,
    Message,
    NotPlainMessageError,
    OnLost,
    OnMessage,
    packed,
    unpacked,
)
from limpet.engines.packed_values import unpacked_error
from limpet.engines.process_line import ProcessLine, ProcessLines
from limpet.engines.ray.settings import (
    CONNECT,
    CONNECTED,
    END_WORKER,
    FAILED,
    FROM,
    GONE,
    KILL,
    LOCAL,
    PASS,
    REFUSED,
    SEEN,
    START,
    STARTED,
    WAITING,
    RaySettings,
    SlowStartError,
)
from limpet.errors import SetupError
from limpet.fingerprints.identity import identity_of
from limpet.fingerprints.steps import code_of, declared_of
from limpet.fingerprints.walk.environment import is_of_the_machine
from limpet.secrets.known import is_secret_variable
from limpet.version import VERSION

# ---- What removes Ray's folder when the driver is killed? ---------------------------------------
#
# A small process that holds the other end of a pipe, like the guard of local workers. The gateway
# cannot: it is killed as well. Ray's own processes end a moment later and write logs until then, so
# it retries while the folder exists.

_PROGRAM = """
import os, shutil, sys, time
sys.stdin.read()
for _ in range(600):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    if not os.path.exists(sys.argv[1]):
        break
    time.sleep(0.1)
"""


class TempFolder:
    """A folder that is removed when it is closed, or when this process ends.

    Attributes:
        path: Its path.
    """

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="limpet-ray-")
        self._remover = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", "-c", _PROGRAM, self.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # no signal from the terminal reaches it
        )

    async def close(self) -> None:
        assert self._remover.stdin is not None
        self._remover.stdin.close()
        await asyncio.to_thread(self._remover.wait)


# ---- Which environment variables must workers on other machines have? ---------------------------
#
# Those that a step's code reads. Its results depend on their values, so they are sent. Of secrets,
# only the names are sent: values would be readable in the cluster's state and logs.

_VARIABLE = "variable "


class Variables(NamedTuple):
    """The variables that a step reads and that are set here.

    Attributes:
        values: The values of those that may be sent.
        secrets: The names of the others.
    """

    values: dict[str, str]
    secrets: list[str]


def variables_of(step: Any) -> Variables:
    """Return the environment variables that a step's code reads."""
    names = sorted({name for name in _names(step) if name in os.environ})
    secrets = [name for name in names if is_secret_variable(name)]
    values = {name: os.environ[name] for name in names if name not in secrets}
    return Variables(values, secrets)


def _names(step: Any) -> Iterator[str]:
    for thing in code_of(step).values():
        identity = identity_of(thing)
        for part in (*identity.parts, *identity.left_out):
            name = part.removeprefix(_VARIABLE)
            if name != part and (is_secret_variable(name) or not is_of_the_machine(name)):
                yield name
    if (declared := declared_of(step)) is not None:
        yield from declared.env


# ---- How does the driver reach workers on Ray? --------------------------------------------------

_START_S, _CONNECT_S = 120.0, 30.0
_AGAIN_S = 90.0  # how long to wait for a cluster that was there and restarts
_PAUSE_S = 1.0
_KILL_S = 5.0  # after this, a killed worker is lost, whatever Ray reports
_END_S = 5.0
_HELD_UP_S, _LOST_S = 3.0, 60.0  # a foreman reports on each silent worker twice a second

OnEvent = Callable[[str, dict[str, Any]], None]


class RayLines:
    """Starts workers on Ray.

    Args:
        settings: Which Ray, and what each worker needs.
        workers: How many workers a Ray started here has room for.
        on_event: Called when a run waits for workers.
    """

    def __init__(self, settings: RaySettings, workers: int, on_event: OnEvent) -> None:
        self._settings = settings
        self._workers = workers
        self._on_event = on_event
        self._numbers = itertools.count(1)
        self._gateways = ProcessLines(serve="limpet.engines.ray.gateway:Gateway")
        self._gateway: ProcessLine | None = None
        self._connecting = asyncio.Lock()
        self._answer: asyncio.Future[int] | None = None
        self._lines: dict[int, RayLine] = {}
        self._starting: dict[int, asyncio.Future[None]] = {}
        self._was_there = False
        self._room = 0
        self._variables: dict[str, str] = {}
        self._secrets: list[str] = []

    def needs(self, variables: Variables) -> None:
        """Register the environment variables that a step reads."""
        self._variables |= variables.values
        self._secrets += [name for name in variables.secrets if name not in self._secrets]

    @property
    def sent_folder(self) -> Path | None:
        """The folder that Ray copies to the workers; None: it copies no local folder."""
        given = json.loads(self._settings.runtime_env).get("working_dir")
        return Path(given).absolute() if isinstance(given, str) and Path(given).is_dir() else None

    async def open(self) -> int:
        """Connect to Ray, or start one; return how many workers there will be.

        Raises:
            SetupError: Ray cannot be reached or started.
        """
        self._temp = TempFolder()
        await self._gateways.open()
        await self._connected()
        return self._room

    async def close(self) -> None:
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            await gateway.close(_END_S)
        await self._gateways.close()
        await self._temp.close()

    # ---- the gateway ----------------------------------------------------------------------------

    async def _connect(self) -> None:
        where = self._settings.where
        is_local = where == LOCAL
        self._answer = asyncio.get_running_loop().create_future()
        gateway = await self._gateways.start(self._heard, self._gateway_lost)
        gateway.send([(CONNECT, self._said(where))])
        limit_s = _START_S if is_local else _CONNECT_S
        try:
            async with asyncio.timeout(limit_s):
                self._room = await self._answer
        except BaseException as error:
            self._answer = None
            await gateway.close(0.0)  # its loss must not be mistaken for the next one's
            if isinstance(error, TimeoutError):
                what = "a local Ray did not start" if is_local else f"Ray at {where} did not answer"
                raise SetupError(
                    f"{what} within {limit_s:g} s", hint="check it with `ray status`"
                ) from None
            raise
        self._answer = None
        self._gateway, self._was_there = gateway, True

    def _said(self, where: str) -> dict[str, Any]:
        """Return the settings for the gateway."""
        runtime_env = self._settings.runtime_env
        sends_code = '"working_dir"' in runtime_env or '"py_modules"' in runtime_env
        workers = self._settings.workers or (self._workers if where == LOCAL else None)
        return {
            "where": where,
            "workers": workers,
            "resources": dict(self._settings.resources),
            "runtime_env": runtime_env,
            "temp": self._temp.path,
            "log": str(Path(self._temp.path) / "gateway.log"),
            "setting": {
                "version": VERSION,
                "is_local": where == LOCAL,
                "folder": None if sends_code else str(Path.cwd()),
                "path": [entry or str(Path.cwd()) for entry in sys.path],
                "argv": sys.argv,
                "level": logging.getLogger().level,
                "variables": self._variables,
                "secrets": self._secrets,
            },
        }

    async def _connected(self) -> ProcessLine:
        """Return the gateway; start one if there is none, or if it was lost."""
        async with self._connecting:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + (_AGAIN_S if self._was_there else _START_S)
            while self._gateway is None:
                try:
                    await self._connect()
                except SetupError as error:
                    may_help = self._was_there or isinstance(error, SlowStartError)
                    if not may_help or loop.time() > deadline:
                        raise
                    await asyncio.sleep(_PAUSE_S)
            return self._gateway

    def _gateway_lost(self, lost: Lost) -> None:
        self._gateway = None
        if self._answer is not None and not self._answer.done():
            error = SetupError(f"the gateway to Ray {lost.why}", hint="run again")
            self._answer.set_exception(error)
        for starting in list(self._starting.values()):
            if not starting.done():
                starting.cancel()
        why = f"was lost: the gateway to Ray {lost.why}"
        for line in list(self._lines.values()):
            line.is_gone(Lost(why, blames_nobody=True))

    def tell(self, message: Message) -> None:
        if self._gateway is not None:
            self._gateway.send([message])

    # ---- workers --------------------------------------------------------------------------------

    async def start(self, on_message: OnMessage, on_lost: OnLost) -> "RayLine":
        """Start a worker; wait until there is room for it.

        Raises:
            SetupError: It cannot be started.
        """
        while True:
            gateway = await self._connected()
            worker = next(self._numbers)
            line = RayLine(worker, self, on_message, on_lost)
            starting = self._starting[worker] = asyncio.get_running_loop().create_future()
            self._lines[worker] = line
            gateway.send([(START, worker)])
            try:
                await asyncio.wait({starting})
            except asyncio.CancelledError:
                self.tell((END_WORKER, worker))
                self.forget(worker)
                raise
            finally:
                del self._starting[worker]
            if not starting.cancelled():  # otherwise it was lost: try again
                starting.result()
                return line
            self.forget(worker)

    def forget(self, worker: int) -> None:
        self._lines.pop(worker, None)

    def _heard(self, message: Message) -> None:
        kind, *said = message
        if kind in (CONNECTED, REFUSED):
            if self._answer is not None and not self._answer.done():
                _settle(self._answer, said[0], kind == REFUSED)
        elif kind == WAITING:
            self._on_event("waiting_for_workers", {"waiting": said[0], "workers": said[1]})
        elif said and (line := self._lines.get(said[0])) is not None:
            self._of_worker(kind, line, *said)

    def _of_worker(self, kind: str, line: "RayLine", worker: int, *said: Any) -> None:
        if kind == FROM:
            line.heard(*said)
        elif kind == SEEN:
            line.seen(*said)
        elif (starting := self._starting.get(worker)) is None or starting.done():
            if kind == GONE:
                line.is_gone(Lost(*said))
        elif kind == GONE:
            starting.cancel()  # it is started again
        else:
            if kind == STARTED:
                line.name, line.folder = said
            _settle(starting, said[0], kind == FAILED)


class RayLine:
    """The connection to one worker on Ray."""

    def __init__(
        self, worker: int, lines: RayLines, on_message: OnMessage, on_lost: OnLost
    ) -> None:
        self.name = self.folder = ""
        self._worker = worker
        self._lines = lines
        self._on_message = on_message
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._is_closing = self._is_working = False
        self._last_begun = 0
        self._told_at = self._loop.time()

    def send(self, messages: Sequence[Message]) -> None:
        self._lines.tell((PASS, self._worker, [packed(message) for message in messages]))

    def heard(self, said: bytes) -> None:
        self._told_at = self._loop.time()
        try:
            message = unpacked(said)
        except NotPlainMessageError as error:
            self.kill(f"was killed because it sent something other than messages: {error}")
            return
        self._on_message(self._as_here(message) if message[0] == READS else message)

    def _as_here(self, message: Message) -> Message:
        """Return a message about files read, with their paths here: Ray copied them from here."""
        home = self._lines.sent_folder
        if home is None:
            return message

        def here(path: str) -> str:
            inside = path.removeprefix(self.folder + "/")
            return path if inside == path else str(home / inside)

        kind, of, reads = message
        return (
            kind,
            of,
            [
                (
                    here(path),
                    digest,
                    writes,
                    by and tuple((here(file), at) for file, at in by),
                    *rest,
                )
                for path, digest, writes, by, *rest in reads
            ],
        )

    def seen(self, is_working: bool, last_begun: int) -> None:  # noqa: FBT001 - as it came
        """Record its foreman's report on it while it is silent."""
        self._is_working, self._last_begun = is_working, last_begun
        self._told_at = self._loop.time()

    def is_working(self) -> bool:
        # If its foreman is silent too, something between here and there is blocked.
        if _HELD_UP_S < self._loop.time() - self._told_at < _LOST_S:
            return True
        is_working, self._is_working = self._is_working, False
        return is_working

    def last_begun(self) -> int:
        return self._last_begun

    def kill(self, why: str) -> None:
        self._lines.tell((KILL, self._worker, why))
        self._loop.call_later(_KILL_S, self.is_gone, Lost(why))

    def is_gone(self, lost: Lost) -> None:
        if self._gone.done():
            return
        self._gone.set_result(None)
        self._lines.forget(self._worker)
        if not self._is_closing:
            self._on_lost(lost)

    async def close(self) -> None:
        self._is_closing = True
        if not self._gone.done():
            self._lines.tell((END_WORKER, self._worker))
            await asyncio.wait({self._gone}, timeout=_END_S)
        self._lines.forget(self._worker)


def _settle(future: "asyncio.Future[Any]", value: Any, is_error: bool) -> None:  # noqa: FBT001 - as said
    if not is_error:
        future.set_result(value)
        return
    error = unpacked_error(value)
    future.set_exception(error if isinstance(error, SetupError) else SetupError(str(error)))
