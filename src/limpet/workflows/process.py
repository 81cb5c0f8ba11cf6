"""How is a process kept from hanging, flooding or outliving its call?

The problem. A program may ignore its input, write without end, ignore SIGTERM, and leave processes
that hold its pipes open. `communicate()` waits for the pipes, so a forgotten background process
would hang the call; and killing only the program leaves its children.

What we do. The process leads its own session, and so its own process group. The call ends when the
process exits, even if its pipes are open; the rest of the group is then killed. A call cancelled by
a timeout or a stop sends SIGTERM to the group and soon SIGKILL. Output beyond the limit is dropped,
and ends the call.

Still open. A process that starts its own group or session leaves the group, and is not killed.
"""

import asyncio
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

from limpet.executors.countdown import wait

TERM_GRACE_S = 0.5
"""How long a group has to end after SIGTERM. A cancelled call itself has a second."""
_KILLED_S = 0.3
_OVER_S = 10.0
_STDOUT_GRACE_S = 2.0  # how long others may hold stdout open after the program exited
_STDERR_GRACE_S = 0.2
MOST_STDERR = 64 * 1024
"""How many bytes of stderr are kept, from the end."""


class ProcessExit(NamedTuple):
    """How a process ended.

    Attributes:
        status: Its exit status; negative: the signal that ended it; None: it was killed for its
            output.
        stdout: Its stdout; empty if it was too long.
        stderr: The end of its stderr.
        stderr_bytes: The total length of its stderr.
        is_held_open: Whether another process still held its stdout open.
    """

    status: int | None
    stdout: bytes
    stderr: bytes
    stderr_bytes: int
    is_held_open: bool


class Groups:
    """The process groups that are running.

    Args:
        started: Called with each group that starts.
        ended: Called with each group that was killed or is empty.
    """

    def __init__(self, started: Callable[[int], None], ended: Callable[[int], None]) -> None:
        self._running: set[int] = set()
        self._ends: set[asyncio.Future[None]] = set()  # of those that are not over yet
        self._is_closed = False
        self._started = started
        self._ended = ended

    def open(self) -> None:
        self._is_closed = False

    def add(self, group: int, over: "asyncio.Future[None]") -> None:
        """Add a group that started, and when its leader is over; after `close`, kill it."""
        self._running.add(group)
        self._ends.add(over)
        over.add_done_callback(self._ends.discard)
        self._started(group)
        if self._is_closed:
            self.end(group)

    def signal(self, group: int, signum: signal.Signals) -> None:
        """Send a signal to a group that has not been killed yet."""
        # Once the group is empty, its number may be reused. So it is killed only once, as soon as
        # its leader was reaped, or while another member exists.
        if group in self._running:
            _kill(group, signum)

    def end(self, group: int) -> None:
        """Kill the rest of a group."""
        self.signal(group, signal.SIGKILL)
        if group in self._running:
            self._running.remove(group)
            self._ended(group)

    async def close(self) -> None:
        """Kill all groups, including those about to start, and wait until they are over."""
        self._is_closed = True
        for group in list(self._running):
            self.end(group)
        loop = asyncio.get_running_loop()
        # One that was killed may take a while on a busy machine.
        if ends := [over for over in self._ends if over.get_loop() is loop]:
            await asyncio.wait(ends, timeout=_OVER_S)


def _kill(group: int, signum: signal.Signals) -> None:
    # ESRCH: it is empty. EPERM: it became another user's, as with sudo.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signum)


class _Process(asyncio.SubprocessProtocol):
    """Collects the output of a process.

    Attributes:
        done: Set when it exited, or wrote too much.
        exited: Set when it exited.
        stdout_ended: Set when no process holds its stdout open.
        closed: Set when it exited, and no process holds its pipes open.
    """

    def __init__(self, max_stdout: int) -> None:
        self.transport: Any = None
        self._max_stdout = max_stdout
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.stderr_bytes = 0
        self.is_too_large = False
        loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = loop.create_future()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.stdout_ended: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:  # noqa: PLR2004 - stderr
            self.stderr_bytes += len(data)
            self.stderr += data
            del self.stderr[:-MOST_STDERR]
        elif self.is_too_large or len(self.stdout) + len(data) > self._max_stdout:
            self.is_too_large = True
            self.stdout.clear()
            _settle(self.done)
        else:
            self.stdout += data

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        if fd == 1:
            _settle(self.stdout_ended)

    def process_exited(self) -> None:
        _settle(self.exited)
        _settle(self.done)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.transport.close()
        _settle(self.closed)

    def close(self) -> None:
        """Close its pipes. Its transport is closed only after the exit: earlier would reap it."""
        for fd in (1, 2):
            if pipe := self.transport.get_pipe_transport(fd):
                pipe.close()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done() and not future.get_loop().is_closed():
        future.set_result(None)


async def run_process(
    argv: Sequence[str],
    stdin: bytes,
    groups: Groups,
    *,
    env: Mapping[str, str],
    cwd: str,
    max_stdout: int,
) -> ProcessExit:
    """Run a program until it exits.

    Args:
        argv: The program and its arguments.
        stdin: Its input. It may ignore it.
        groups: The groups that are running; this one is added.
        env: Its entire environment.
        cwd: Its working directory.
        max_stdout: How many bytes it may write to stdout.

    Raises:
        OSError: It cannot be started.
        ValueError: An argument contains a NUL.
    """
    loop = asyncio.get_running_loop()
    process, input_fd = await _start(argv, env, cwd, max_stdout, groups)
    group = process.transport.get_pid()
    groups.add(group, process.closed)
    written = None
    try:
        written = await _Input.write(input_fd, stdin)
        await process.done
        if not process.is_too_large:
            await wait({process.stdout_ended}, _STDOUT_GRACE_S)
            await wait({process.closed}, _STDERR_GRACE_S)
        is_held_open = not process.stdout_ended.done()
        groups.end(group)
        await asyncio.wait({process.exited}, timeout=_KILLED_S)
        process.close()
        await asyncio.wait({process.closed}, timeout=_KILLED_S)
    except asyncio.CancelledError:
        groups.signal(group, signal.SIGTERM)
        await asyncio.wait({process.closed}, timeout=TERM_GRACE_S)
        groups.end(group)
        await asyncio.wait({process.exited}, timeout=_KILLED_S)
        raise
    finally:
        # Without waiting: an abandoned run, or a second cancellation, ends here.
        groups.end(group)
        if not loop.is_closed():
            process.close()
            if written is not None:
                written.close()
    status = None if process.is_too_large else process.transport.get_returncode()
    stdout, stderr = bytes(process.stdout), bytes(process.stderr)
    return ProcessExit(status, stdout, stderr, process.stderr_bytes, is_held_open)


async def _start(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, max_stdout: int, groups: Groups
) -> tuple[_Process, int]:
    """Start a process; return it, and the descriptor to write its input to."""
    loop = asyncio.get_running_loop()
    # A pipe of our own: asyncio may use a socket, which /dev/stdin cannot open.
    read_fd, write_fd = os.pipe()
    starting = loop.create_task(
        loop.subprocess_exec(
            lambda: _Process(max_stdout),
            *argv,
            stdin=read_fd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    )
    # Not earlier: a cancelled call may end before its process starts.
    starting.add_done_callback(lambda _: os.close(read_fd))
    try:
        _, process = await asyncio.shield(starting)
    except BaseException as error:
        os.close(write_fd)
        if isinstance(error, asyncio.CancelledError):
            starting.add_done_callback(functools.partial(_kill_started, groups))
        raise
    return process, write_fd


def _kill_started(groups: Groups, starting: asyncio.Task[Any]) -> None:
    """Kill a process that started after its call was cancelled."""
    if not starting.cancelled() and starting.exception() is None:
        transport, process = starting.result()
        groups.add(transport.get_pid(), process.closed)
        groups.end(transport.get_pid())
        process.close()


class _Input(asyncio.BaseProtocol):
    """The input of a process, written in the background, then closed."""

    def __init__(self) -> None:
        self._pipe: Any = None

    @classmethod
    async def write(cls, fd: int, data: bytes) -> Self:
        loop = asyncio.get_running_loop()
        pipe, self = await loop.connect_write_pipe(cls, os.fdopen(fd, "wb", buffering=0))
        pipe.write(data)
        pipe.close()
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pipe = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._pipe = None  # everything is written, or the process does not read it, which is fine

    def close(self) -> None:
        if self._pipe is not None:
            self._pipe.abort()


# ---- Who ends the processes if Limpet itself is killed? -----------------------------------------
#
# A process killed with SIGKILL cannot clean up, and its children live on: they would work, and
# spend, for a run that is resumed elsewhere. So a small separate process has the list of running
# groups and the other end of a pipe. When the pipe closes, it kills them and exits.
#
# Still open. A process started a moment before Limpet was killed may not be on the list yet.

_PROGRAM = """
import os, signal, sys
groups = set()
for line in sys.stdin.buffer:
    (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class ProcessGuard:
    """A process that kills the listed groups when this one dies."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # no signal from the terminal reaches it
        )

    def started(self, group: int) -> None:
        self._send(f"+{group}\n")

    def ended(self, group: int) -> None:
        self._send(f"-{group}\n")

    def _send(self, line: str) -> None:
        # Fewer bytes than PIPE_BUF are written atomically. If the guard was killed, we still kill
        # the groups.
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError):
                os.write(self._process.stdin.fileno(), line.encode())

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()
            await asyncio.to_thread(process.wait)
