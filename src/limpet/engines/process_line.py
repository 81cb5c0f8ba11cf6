"""How does a local process become a worker, and what ends it?

It leads its own session and process group: no signal from the terminal reaches it, and its children
can be killed with it. If the driver itself is killed, a guard process kills the groups it leaves
behind.

A worker is gone when it has exited, not when its pipe ends: one of its children may hold the pipe
open. Its messages are read to the end first, so no result that was sent is lost.
"""

import asyncio
import contextlib
import json
import logging
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from limpet.engines.messages import (
    END,
    NO_MEMORY,
    Frames,
    Lost,
    Message,
    NotPlainMessageError,
    OnLost,
    OnMessage,
    frame,
    packed_for_worker,
    unpacked,
)
from limpet.errors import SetupError
from limpet.text import text_of
from limpet.workflows.process import ProcessGuard

# ---- Which part of Python's crash report is shown? ----------------------------------------------
#
# The report has the stacks of all threads, in any order. A worker has many, and one crashed.


def crashed_thread(report: str) -> str:
    """Return the stack of the thread that crashed, and how many others there were."""
    first, *parts = report.strip().split("\n\n")
    crashed = [part for part in parts if part.startswith("Current thread")]
    if not crashed:  # not a Python thread, or the report was too long
        return report
    others = sum(part.startswith("Thread 0x") for part in parts)
    words = {0: [], 1: ["and 1 other thread"]}.get(others, [f"and {others} other threads"])
    return "\n\n".join([first, *crashed, *words])


# ---- How does a local process become a worker, and what ends it? --------------------------------

_PROGRAM = (
    "import json, sys; _, path, argv, serve, *rest = sys.argv; sys.path[:] = json.loads(path); "
    "sys.argv[:] = json.loads(argv); "
    "from limpet.engines.worker import main; main(serve, *map(int, rest))"
)
_DRAIN_S = 1.0
_EXIT_S = 2.0
_WORKING_S = 0.05  # of processor time between two looks
_MOST_CRASH_BYTES = 64 * 1024  # what a pipe holds


class ProcessLines:
    """Starts workers as processes on this machine.

    Args:
        memory: How many bytes each may use; None: any number.
        path: Their `sys.path`; None: this process's.
        argv: Their `sys.argv`; None: this process's.
        read: Reads their messages; `bytes` leaves them packed.
        serve: The class that handles messages in a worker, such as `Bench`, by name.
    """

    def __init__(
        self,
        memory: int | None = None,
        path: Sequence[str] | None = None,
        argv: Sequence[str] | None = None,
        read: Callable[[bytes], Any] = unpacked,
        serve: str = "limpet.engines.bench:Bench",
    ) -> None:
        self._memory = memory
        self._path = path
        self._argv = argv
        self._read = read
        self._serve = serve
        self._guard = ProcessGuard()

    async def open(self) -> None:
        self._guard.open()

    async def close(self) -> None:
        await self._guard.close()

    async def start(self, on_message: OnMessage, on_lost: OnLost) -> "ProcessLine":
        """Start a worker.

        Raises:
            SetupError: The system cannot start another process.
        """
        line = ProcessLine(self._memory, self._guard, on_message, on_lost)
        try:
            await line.open(self._path or sys.path, self._argv or sys.argv, self._read, self._serve)
        except OSError as error:
            raise SetupError(
                f"a worker process cannot be started: {text_of(error)}",
                hint="use fewer processes: engine: {processes: 2}",
            ) from error
        return line


class ProcessLine:
    """The connection to one local process."""

    def __init__(
        self, memory: int | None, guard: ProcessGuard, on_message: OnMessage, on_lost: OnLost
    ) -> None:
        self._memory = memory
        self._guard = guard
        self._on_message = on_message
        self._on_lost = on_lost
        self._process: subprocess.Popen[bytes] | None = None
        self._down: Any = None
        self._up: Any = None
        self._crash = -1
        self._why: str | None = None
        self._is_out_of_memory = False
        self._waiting: list[bytes] = []
        self._is_closing = False
        self._cpu_s = 0.0
        self.name = ""

    async def open(
        self, path: Sequence[str], argv: Sequence[str], read: Callable[[bytes], Any], serve: str
    ) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._gone: asyncio.Future[None] = loop.create_future()
        self._read_all: asyncio.Future[None] = loop.create_future()
        down_read, down_write = os.pipe()
        up_read, up_write = os.pipe()
        self._crash, crash_write = os.pipe()
        begun = _memory_page()
        theirs = (down_read, up_write, crash_write, *([begun] if begun >= 0 else []))
        level = logging.getLogger().level
        numbers = (
            *(down_read, up_write, crash_write, begun),
            *(os.getpid(), self._memory or 0, level),
        )
        command = [
            sys.executable,
            *subprocess._args_from_interpreter_flags(),  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing does
            "-c",
            _PROGRAM,
            json.dumps(_import_path(path)),
            json.dumps(argv),
            serve,
            *map(str, numbers),
        ]
        try:
            self._process = subprocess.Popen(  # noqa: S603, ASYNC220 - it takes a millisecond
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=theirs,
                start_new_session=True,
            )
        except OSError:
            for fd in (down_write, up_read, self._crash):
                os.close(fd)
            raise
        finally:
            self._page = None if begun < 0 else mmap.mmap(begun, mmap.PAGESIZE)
            for fd in theirs:
                os.close(fd)
        self.name = f"{socket.gethostname()}:{self._process.pid}"
        self._guard.started(self._process.pid)
        self._finalizer = weakref.finalize(self, _kill_group, self._process)
        watch = threading.Thread(target=self._wait, name="limpet-worker", daemon=True)
        watch.start()
        self._up, _ = await loop.connect_read_pipe(
            lambda: _Up(self._heard, self._read_all, self.kill, read),
            os.fdopen(up_read, "rb", buffering=0),
        )
        self._down, _ = await loop.connect_write_pipe(
            asyncio.BaseProtocol, os.fdopen(down_write, "wb", buffering=0)
        )

    # ---- messages -------------------------------------------------------------------------------

    def send(self, messages: Sequence[Message]) -> None:
        self.pass_on([packed_for_worker(message) for message in messages])

    def pass_on(self, messages: Sequence[bytes]) -> None:
        """Send messages that are already packed."""
        # Messages sent in one turn of the loop travel together.
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting += messages

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting and self._down is not None and not self._down.is_closing():
            self._down.write(frame(waiting))

    def _heard(self, message: Message) -> None:
        if message[0] == NO_MEMORY:
            self._is_out_of_memory = True
        self._on_message(message)

    def is_working(self) -> bool:
        # Code that holds the interpreter, such as a long regular expression, silences a worker.
        used_s = _cpu_s(self._process)
        before_s, self._cpu_s = self._cpu_s, used_s
        return used_s - before_s > _WORKING_S

    def last_begun(self) -> int:
        return 0 if self._page is None else int(struct.unpack_from("Q", self._page, 0)[0])

    # ---- its end --------------------------------------------------------------------------------

    def kill(self, why: str) -> None:
        self._why = self._why or why
        _signal_group(self._process)

    async def close(self, patience_s: float = _EXIT_S) -> None:
        self._is_closing = True
        if not self._gone.done():
            self.send([(END,)])
            await asyncio.wait({self._gone}, timeout=patience_s)
        if not self._gone.done():
            _signal_group(self._process)
            await asyncio.wait({self._gone}, timeout=_EXIT_S)

    def _wait(self) -> None:
        """Wait on a thread until the process exits, then kill the rest of its group."""
        process = self._process
        assert process is not None
        with contextlib.suppress(ChildProcessError):  # other code waited for it
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        _signal_group(process)  # before it is reaped: afterwards its id may be reused
        process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._exited)

    def _exited(self) -> None:
        assert self._process is not None
        self._finalizer.detach()
        self._guard.ended(self._process.pid)
        self._draining = self._loop.create_task(self._drain())  # the loop itself keeps no tasks

    async def _drain(self) -> None:
        """Read the worker's last messages, then report that it is lost."""
        await asyncio.wait({self._read_all}, timeout=_DRAIN_S)
        for pipe in (self._up, self._down):
            if pipe is not None and not pipe.is_closing():
                pipe.close() if pipe is self._up else pipe.abort()
        details = self._crash_report()
        if self._page is not None:
            self._page.close()  # it would hold a descriptor until garbage collection
            self._page = None
        if not self._gone.done():
            self._gone.set_result(None)
        if not self._is_closing:
            self._on_lost(Lost(self._words(), details))

    def _crash_report(self) -> str:
        """Return the stack of a process that a signal ended."""
        os.set_blocking(self._crash, False)
        try:
            report = os.read(self._crash, _MOST_CRASH_BYTES).decode(errors="replace")
            return crashed_thread(report)
        except BlockingIOError:
            return ""
        finally:
            os.close(self._crash)

    def _words(self) -> str:
        assert self._process is not None
        if self._why is not None:
            return self._why
        if self._is_out_of_memory:
            return f"reached its memory limit of {_size(self._memory or 0)}"
        status = self._process.returncode
        if status is None or status >= 0:
            return f"exited with status {status}"
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return f"was killed by {name}"


class _Up(asyncio.Protocol):
    """Receives a worker's messages."""

    def __init__(
        self,
        heard: OnMessage,
        read_all: asyncio.Future[None],
        kill: Callable[[str], None],
        read: Callable[[bytes], Any],
    ) -> None:
        self._frames = Frames(read)
        self._heard = heard
        self._kill = kill
        self._read_all = read_all

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._frames.feed(data):
                self._heard(message)
        except NotPlainMessageError as error:
            self._kill(f"was killed because it sent something other than messages: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if not self._read_all.done():
            self._read_all.set_result(None)


def _import_path(path: Sequence[Any]) -> list[str]:
    # Python skips entries that are not strings, such as an appended `Path`.
    entries = [entry for entry in path if isinstance(entry, str)]
    return [entry or os.getcwd() for entry in entries]  # noqa: PTH109 - strings


def _signal_group(process: "subprocess.Popen[bytes] | None") -> None:
    if process is None or process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    """End a worker whose crew was dropped without being closed, or whose driver exits."""
    _signal_group(process)


def _memory_page() -> int:
    """Return the descriptor of a page of shared memory; -1 where the system has none."""
    if not hasattr(os, "memfd_create"):
        return -1
    fd = os.memfd_create("limpet")
    os.truncate(fd, mmap.PAGESIZE)
    return fd


def _cpu_s(process: "subprocess.Popen[bytes] | None") -> float:
    """Return the processor time of a process; 0 where the system does not report it."""
    try:
        assert process is not None
        stat = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8", errors="replace")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return 0.0


def _size(count: int) -> str:
    return f"{count / 1e9:g} GB" if count >= 1e9 else f"{count / 1e6:g} MB"  # noqa: PLR2004 - units
