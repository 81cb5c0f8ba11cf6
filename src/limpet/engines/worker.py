"""What does a worker process do?

It reads the driver's messages from one pipe and answers on another. It ends when the driver does,
whatever its own code is doing: a thread watches the parent's id. That thread also shows that the
process is alive: the driver kills a process that is stopped, or whose interpreter is stuck.
"""

import asyncio
import atexit
import codecs
import contextlib
import faulthandler
import functools
import gc
import importlib
import io
import logging
import mmap
import os
import signal
import struct
import sys
import threading
import time
from collections import deque
from typing import Any, NoReturn, Protocol

from limpet.engines.messages import (
    ALIVE,
    END,
    LOG,
    TEXT,
    Frames,
    Message,
    frame,
    packed,
    unpacked_from_driver,
)
from limpet.executors.loops import ending_forked_children

ALIVE_EVERY_S = 0.5
_PARENT_EVERY_S = 0.25
_STACK_BYTES = 4 * 2**20  # the usual 8 MB count towards the limit; 2 MB overflow in 3.12, 3.13


class Served(Protocol):
    """Handles messages in a worker process: a bench, or a gateway to other machines."""

    def receive(self, message: Message) -> None: ...
    def ping(self) -> Message | None: ...
    def flush(self) -> None: ...


class Pipe:
    """Writes frames to the driver, from any thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._pid = os.getpid()
        # A finalizer may print while this thread is sending: its frame goes next.
        self._lock = threading.RLock()
        self._frames: deque[bytes] = deque()
        self._is_sending = False

    def is_ours(self) -> bool:
        """Return whether this process is the worker, and not a fork of it."""
        return os.getpid() == self._pid

    def send(self, messages: list[bytes]) -> None:
        self._frames.append(frame(messages))
        with self._lock:
            if self._is_sending:
                return
            self._is_sending = True
            try:
                while self._frames:
                    data = memoryview(self._frames.popleft())
                    while data:
                        data = data[os.write(self._fd, data) :]
            except OSError:  # the driver is gone
                end_at_once()
            finally:
                self._is_sending = False

    def show_life(self) -> None:
        """Send a sign of life, unless something is being sent."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
            self.send([packed((ALIVE,))])


def end_at_once() -> NoReturn:
    """End this process and its children."""
    with contextlib.suppress(OSError):
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


class _Down(asyncio.Protocol):
    """Receives the driver's messages."""

    def __init__(self, bench: Served, ended: asyncio.Event) -> None:
        self._frames = Frames(unpacked_from_driver)
        self._bench = bench
        self._ended = ended

    def data_received(self, data: bytes) -> None:
        for message in self._frames.feed(data):
            if message[0] == END:
                self._ended.set()
            else:
                self._bench.receive(message)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        end_at_once()


class OutputStream(io.BufferedIOBase):
    """Sends a worker's standard output or error to the driver, which prints it.

    A fork of the worker writes to the file descriptor: only the worker itself may use its pipe.

    This is no `io.BufferedWriter`: a fork would inherit its lock from a thread that is printing,
    and nothing would release it. Python handles that only for its own standard streams.
    """

    def __init__(self, name: str, pipe: Pipe, fd: int) -> None:
        super().__init__()
        self.name = f"<{name}>"
        self._stream = name
        self._pipe = pipe
        self._fd = fd
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.RLock()  # never taken in a fork

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def write(self, data: Any) -> int:
        written = bytes(data)
        if not self._pipe.is_ours():
            rest = memoryview(written)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
            return len(written)
        with self._lock:
            if text := self._decoder.decode(written):
                self._pipe.send([packed((TEXT, self._stream, text))])
        return len(written)


def stream(name: str, pipe: Pipe, fd: int) -> io.TextIOWrapper:
    """Return a worker's standard output or error."""
    output = OutputStream(name, pipe, fd)
    return io.TextIOWrapper(output, "utf-8", "backslashreplace", line_buffering=True)


class LogHandler(logging.Handler):
    """Passes log records on to the driver."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self._pipe = pipe

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
            if not self._pipe.is_ours():
                sys.stderr.write(f"{text}\n")
                return
            self._pipe.send([packed((LOG, record.name, record.levelno, text))])
        except Exception:  # noqa: BLE001 - as logging does
            self.handleError(record)


def main(
    serve: str, down: int, up: int, crash: int, begun: int, parent: int, memory: int, level: int
) -> None:
    """Serve the driver until it ends this process, or is gone.

    Args:
        serve: The class that handles the driver's messages, such as `Bench`, by name.
        down: The pipe from the driver.
        up: The pipe to the driver.
        crash: The pipe for the stacks if a signal ends this process.
        begun: A page of memory shared with the driver, for the cell that began last; -1: none.
        parent: The driver's process id.
        memory: How many bytes this process may use; 0: any number.
        level: The driver's logging level.
    """
    for fd in (down, up, crash, *([begun] if begun >= 0 else [])):
        os.set_inheritable(fd, False)  # noqa: FBT003 - its argument
    # The driver decides when to stop. Not SIG_IGN: child processes would inherit that.
    signal.signal(signal.SIGINT, lambda *_: None)
    os.set_blocking(crash, False)  # many threads fill the pipe, and nobody reads it yet
    faulthandler.enable(crash)
    atexit.register(_release_shared_memory)  # before `multiprocessing` does, so it runs after it
    pipe = Pipe(up)
    stdout, stderr = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = stream("stdout", pipe, 1), stream("stderr", pipe, 2)
    logging.getLogger().addHandler(LogHandler(pipe))
    logging.getLogger().setLevel(level)
    if memory:
        _limit_memory(memory)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(None)
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)  # as `limpet run` does
    with ending_forked_children(loop):
        served = _serve(serve, pipe, down, parent, begun, limits_memory=bool(memory))
        loop.run_until_complete(served)
    sys.stdout.flush()
    sys.stderr.flush()
    sys.stdout, sys.stderr = stdout, stderr


async def _serve(
    serve: str, pipe: Pipe, down: int, parent: int, begun: int, *, limits_memory: bool
) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    page = mmap.mmap(begun, mmap.PAGESIZE) if begun >= 0 else bytearray(8)
    mark = functools.partial(struct.pack_into, "Q", page, 0)
    module, _, name = serve.partition(":")
    bench: Served = getattr(importlib.import_module(module), name)(
        pipe.send, end_at_once, limits_memory=limits_memory, mark=mark
    )
    life = threading.Thread(target=_live, args=(pipe, parent, bench), daemon=True)
    life.start()
    reading = functools.partial(_Down, bench, ended)
    await loop.connect_read_pipe(reading, os.fdopen(down, "rb", buffering=0))
    await ended.wait()
    bench.flush()


def _live(pipe: Pipe, parent: int, bench: Served) -> None:
    """Show signs of life, report what blocks the loop, and end with the driver."""
    shown = time.monotonic()
    while True:
        time.sleep(_PARENT_EVERY_S)
        if os.getppid() != parent:
            end_at_once()
        if time.monotonic() - shown >= ALIVE_EVERY_S:
            shown = time.monotonic()
            pipe.show_life()
        if (blocked := bench.ping()) is not None:
            pipe.send([packed(blocked)])


def _release_shared_memory() -> None:
    """Have the tracker of `multiprocessing` remove shared memory that user code left.

    It would do so after this process has ended, but by then it is killed with the group.
    """
    if (trackers := sys.modules.get("multiprocessing.resource_tracker")) is not None:
        trackers._resource_tracker._stop()  # noqa: SLF001 - there is no other way


def _limit_memory(memory: int) -> None:
    """Limit this process's memory."""
    import resource  # noqa: PLC0415 - not everywhere

    threading.stack_size(_STACK_BYTES)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (memory, hard))
