"""Which async function blocks the event loop?

An `async def` that calls a blocking client stops everything: other calls, timeouts, the table on
the screen. asyncio's debug mode would find it but costs too much. So a thread pings the loop, and
while it waits for a reply samples the stack of the loop's thread.

Cases that look alike and are not reported:

- The machine sleeps or is busy: our thread then wakes late, too, and its sample does not count.
  Nor does the time the loop waited for a processor, where the system reports it.
- Garbage collection, or C code that holds the interpreter: our thread cannot run either.
- Slow code of Limpet: no function of the user is on the stack.
- Many short steps in a row: it must be the same call in several samples.
"""

import asyncio
import functools
import inspect
import logging
import math
import os
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

from limpet.executors.threads import THREADS, ProcessorUse, begun_at, waited_for_processor_s
from limpet.fingerprints.walk.ownership import is_users_file
from limpet.journal.journal import Journal

# ---- Do plain functions compute so much that several processes would help? ----------------------
#
# They run in threads, and Python lets one thread compute at a time. That does not slow calls that
# only wait. Of those that compute, the user sees only that each is slow.

_LOOK_EVERY_S = 0.5
_LONG_S = 0.5
_LOOKS = 4  # in a row

logger = logging.getLogger("limpet.run")


class ComputingWatch:
    """Says once that several calls compute on one processor.

    Args:
        loop_thread: The thread of the event loop, by its native id: it computes for Limpet.
    """

    def __init__(self, loop_thread: int) -> None:
        self._use = ProcessorUse(but=loop_thread)
        self._looked_at = time.monotonic()
        self._looks = 0
        # Without figures per thread, the loop's work would be taken for the calls'.
        self._is_over = os.cpu_count() == 1 or not THREADS.exists()

    def look(self) -> None:
        """Check; call it often, on any thread."""
        now = time.monotonic()
        if self._is_over or now - self._looked_at < _LOOK_EVERY_S:
            return
        self._looked_at = now
        long = sum(now - at >= _LONG_S for at in begun_at())
        is_full = self._use.is_full(exactly=long > 1)
        self._looks = self._looks + 1 if long > 1 and is_full else 0
        if self._looks == _LOOKS:
            self._is_over = True
            logger.warning(
                "%d calls compute in this process, and Python lets only one run at a time: "
                "engine: processes uses all %d processors (reported once)",
                long,
                os.cpu_count(),
            )


# ---- Which async function blocks the event loop? ------------------------------------------------

_REST_S, _SAMPLE_S = 0.05, 0.02
_LATE_S = 0.03
_SAMPLES, _BLOCKED_S = 5, 0.1
_AGAIN_AND_AGAIN = 3
_LONG_BLOCK_S = 60.0
_OURS = str(Path(__file__).parents[2])
_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Blocker(NamedTuple):
    """A running call of an async function: its frame, and the line in the user's code."""

    frame: FrameType
    location: str


class LoopWatch:
    """Watches the running event loop, and reports once which function blocks it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._blocks: Counter[CodeType] = Counter()
        self._is_alive = True
        self._alive_at = 0.0
        self._seen: Blocker | None = None
        self._samples = 0
        self._since = self._waited_before = 0.0
        self._counted: FrameType | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="limpet-watch", daemon=True)

    def start(self) -> None:
        """Start watching; call it on the loop."""
        self._loop = asyncio.get_running_loop()
        self._ident, self._native = threading.get_ident(), threading.get_native_id()
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        pause_s, woke = _REST_S, time.monotonic()
        computing = ComputingWatch(self._native)
        while not self._over.wait(pause_s):
            computing.look()
            late_s = time.monotonic() - woke - pause_s
            if self._is_alive:
                self._forget()
                self._counted = None
                self._alive_at = time.monotonic()
                self._is_alive = False
                self._loop.call_soon_threadsafe(self._live)
                pause_s = _REST_S
            else:
                self._forget() if late_s > _LATE_S else self._sample()
                self._look_for_long_block()
                pause_s = _SAMPLE_S
            woke = time.monotonic()

    def _live(self) -> None:
        self._is_alive = True

    def _forget(self) -> None:
        self._seen, self._samples = None, 0

    def _sample(self) -> None:
        blocker = at_work(sys._current_frames().get(self._ident))  # noqa: SLF001 - it is documented
        if blocker is None:
            self._forget()
            return
        if self._seen is None or self._seen.frame is not blocker.frame:
            # The frame is kept until the next sample, so no other call can have the same id.
            self._seen, self._samples = blocker, 0
            self._since = time.monotonic()
            self._waited_before = waited_for_processor_s(self._native)
        self._samples += 1
        # After a late sample, a block may be seen again: it is counted once.
        if self._samples >= _SAMPLES and self._counted is not blocker.frame:
            waited_s = waited_for_processor_s(self._native) - self._waited_before
            if time.monotonic() - self._since - waited_s > _BLOCKED_S:
                self._counted = blocker.frame
                self._count(blocker)

    def _count(self, blocker: Blocker) -> None:
        code = blocker.frame.f_code
        self._blocks[code] += 1
        if self._blocks[code] == _AGAIN_AND_AGAIN:
            self._say(code.co_qualname.rpartition("<locals>.")[2], blocker.location)

    def _look_for_long_block(self) -> None:
        """Say where the loop's thread stands, once for each block of a minute."""
        if time.monotonic() - self._alive_at < _LONG_BLOCK_S:
            return
        self._alive_at = math.inf
        frame = sys._current_frames().get(self._ident)  # noqa: SLF001 - it is documented
        stack = users_stack(frame) or "code that is not yours"
        words = f"the event loop is blocked for a minute, by {stack}"
        logger.warning("no progress: %s", words)
        self._journal.log_event("no_progress", at_once=True, step="", words=words)

    def _say(self, name: str, location: str) -> None:
        # On this thread: the loop is blocked, and a hundred calls may be waiting to block it.
        logger.warning(
            "%s repeatedly blocks the event loop for more than 0.1 s, at %s: meanwhile, no other "
            "call makes progress. Make it a plain def, which runs in threads, or use "
            "asyncio.to_thread or an async client (reported once)",
            name,
            location,
        )
        tell = functools.partial(
            self._journal.log_event, "blocking", function=name, at_line=location
        )
        self._loop.call_soon_threadsafe(tell)


def at_work(frame: FrameType | None) -> Blocker | None:
    """Return the user's async function that is running, given a thread's innermost frame."""
    innermost: FrameType | None = None
    outermost: FrameType | None = None
    while frame is not None and not frame.f_code.co_filename.startswith(_OURS):
        if _is_users(frame.f_code.co_filename):
            innermost, outermost = innermost or frame, frame
        frame = frame.f_back
    if frame is None or innermost is None or outermost is None:
        return None  # not called by Limpet, or no code of the user
    if not outermost.f_code.co_flags & _ASYNC:
        return None
    return Blocker(outermost, f"{_shown(innermost.f_code.co_filename)}:{innermost.f_lineno}")


def users_stack(frame: FrameType | None) -> str:
    """Return where the user's code stands, innermost first; empty: none of it is on the stack."""
    frames = traceback.walk_stack(frame) if frame is not None else ()
    return " ← ".join(filter(None, (users_line(one) for one, _ in frames)))


def users_line(frame: FrameType) -> str:
    """Return where a frame of the user's code stands; empty: it is not the user's."""
    code = frame.f_code
    if not _is_users(code.co_filename) or Path(code.co_filename).name == _COMMAND:
        return ""
    name = code.co_qualname.rpartition("<locals>.")[2]
    return f"{_shown(code.co_filename)}:{frame.f_lineno} in {name}"


_COMMAND = "limpet"
"""The script of the command line."""


@functools.lru_cache(maxsize=1024)
def _is_users(file: str) -> bool:
    return is_users_file(file)


def _shown(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
