"""What does an order do to a running session, and when is it done?

Orders come through a Unix socket to the session's own event loop, one at a time, so nothing changes
under them. A loop that a user's function blocks hears them late. A pause is on disk before it is
answered: a run that is killed while it is paused is still paused. `stop` is answered when the
session has ended and everything is on disk. Without a socket the run goes on.
"""

import asyncio
import logging
import os
import re
import socket
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, closing, suppress
from json import dumps, loads
from typing import Any

from limpet.engines.tracebacks import logging_failure
from limpet.errors import LimpetError
from limpet.executors.async_executor import AsyncExecutor
from limpet.journal.journal import Journal
from limpet.journal.lines import timestamp
from limpet.pacing.sharing import checked_folder, runtime_folders
from limpet.run.budget import as_budget
from limpet.run.control import peer_uid, socket_name
from limpet.run.executing.recorder import Recorder
from limpet.run.executing.step_runner import StepRunner
from limpet.run.executing.stopping import Stopping
from limpet.run.request import Request
from limpet.run.run_file import WORKFLOW, RunFile
from limpet.text import count, one_line, text_of

logger = logging.getLogger("limpet.run")
_ORDERS = "pause, resume, stop, pace N, pace auto, retry ID…, skip ID…, budget KIND=AMOUNT"
_NAMES = [[order.split(" ")[0]] for order in _ORDERS.split(", ")]
_MOST_BYTES, _PATIENCE_S = 2**20, 5.0  # of an order
_PACE = re.compile(r"auto|[1-9][0-9]{0,4}")
_MOST_NAMED = 5
_STOP = "limpet ctl stop"
_Answer = dict[str, str | None]


class Hand:
    """Takes orders and carries them out.

    Args:
        request: What the session does.
        journal: The run's journal.
        run_file: Records that the run is paused.
        runner: Has the executors of the steps.
        stopping: Stops them.
    """

    def __init__(
        self,
        request: Request,
        journal: Journal,
        run_file: RunFile,
        runner: StepRunner,
        stopping: Stopping,
    ) -> None:
        self._request = request
        self._journal = journal
        self._run_file = run_file
        self._runner = runner
        self._stopping = stopping
        self._one_at_a_time = asyncio.Lock()
        self._is_over = False
        self._stopped: list[socket.socket] = []  # they wait for the end of the session

    # ---- the socket -----------------------------------------------------------------------------

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Take orders within the block; at its end none is being carried out."""
        server = None
        if self._request.run is not None:  # else nobody knows its directory
            folder = runtime_folders()[0]
            try:
                path = checked_folder(folder) / socket_name(self._journal.layout.home)
                # It replaces a socket: we hold the lock, so a killed session left it.
                server = await asyncio.start_unix_server(self._hear, path, limit=_MOST_BYTES)
            except OSError as error:
                why = f"{error.strerror}: {folder}" if error.strerror else error
                logger.warning("limpet ctl cannot reach this run: %s", why)
        try:
            yield
        finally:
            if server is not None:
                path.unlink(missing_ok=True)
                server.close()
            async with self._one_at_a_time:
                self._is_over = True

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer an order. A peer that is silent, is gone, or is another user gets no answer."""
        peer: socket.socket = writer.get_extra_info("socket")
        # Some Pythons log the cancellation of an idle peer when the event loop ends.
        with closing(writer), suppress(OSError, asyncio.CancelledError):
            if peer_uid(peer) != os.getuid():
                return
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    words = _words_in(await reader.readline())
                async with self._one_at_a_time:
                    answer: _Answer = {"done": await self._obey(words)}
                if words == ["stop"]:  # the answer comes when there is no event loop any more
                    self._stopped.append(socket.socket(fileno=os.dup(peer.fileno())))
                    return
            except (LimpetError, ValueError) as error:
                answer = {"error": text_of(error), "hint": getattr(error, "hint", None)}
            writer.write(_line(answer))

    def close(self) -> None:
        """The session has ended, and everything is on disk: answer those who wait for that."""
        for peer in self._stopped:
            with peer, suppress(OSError):
                peer.sendall(_line({"done": self._how_far()}))

    def _how_far(self) -> str:
        session = self._run_file.sessions[-1]
        have, total = session.steps[WORKFLOW].have, (session.items or 0) * session.trials
        known = "" if have is None else f"{have:,} of {count(total, 'answer')} on disk; "
        return f"stopped: {known}run it again to go on"

    # ---- the orders -----------------------------------------------------------------------------

    async def _obey(self, words: Sequence[str]) -> str:
        """Carry out an order, and return what was done.

        Raises:
            LimpetError: It cannot be carried out, and nothing was changed.
            ValueError: It is a budget that is not allowed.
        """
        is_stopping = self._stopping.reason is not None and words[:1] not in (["stop"], ["skip"])
        if self._is_over or is_stopping:
            raise LimpetError("the run is stopping", hint="it takes stop and skip, until it ends")
        done = await self._carry_out(words)
        self._journal.log_event("order", at_once=True, order=words[0], words=done)
        if (watcher := self._request.watcher) is not None:
            with logging_failure(watcher.ordered):
                watcher.ordered(words[0], done)
        return done

    async def _carry_out(self, words: Sequence[str]) -> str:
        match words:
            case ["pause"]:
                await self._record_paused(timestamp())
                self._runner.pause()
                calls = sum(len(executor.attempts()) for _, executor in self._executors)
                return f"paused: {count(calls, 'call')} in flight may end"
            case ["resume"]:
                await self._record_paused("")
                self._runner.resume()
                return "resumed"
            case ["stop"]:
                if self._run_file.paused:
                    await self._record_paused("")
                self._stopping.stop(LimpetError(_STOP, hint="run it again to go on"))
                return "stopping"
            case ["pace", most, *endpoint] if _PACE.fullmatch(most) and len(endpoint) <= 1:
                return self._runner.change_pace(None if most == "auto" else int(most), *endpoint)
            case ["retry", *ids] if ids:
                return self._retry(list(dict.fromkeys(ids)))
            case ["skip", *ids] if ids:
                return self._skip(list(dict.fromkeys(ids)))
            case ["budget", *limits] if limits:
                return self._runner.spending.change(
                    as_budget(dict(one.partition("=")[::2] for one in ",".join(limits).split(",")))
                )
        what = "is not written like this" if words[:1] in _NAMES else "is not an order"
        raise LimpetError(f"{one_line(' '.join(words))}: {what}", hint=f"the orders: {_ORDERS}")

    async def _record_paused(self, at: str) -> None:
        before, self._run_file.paused = self._run_file.paused, at
        try:
            await asyncio.to_thread(self._run_file.write, self._journal)
        except LimpetError:
            self._run_file.paused = before
            raise

    def _retry(self, ids: Collection[str]) -> str:
        self._check(ids)
        found = [
            (id_, executor, index)
            for recorder, executor in self._executors
            for index, value in {**executor.failed, **executor.inputs_in_progress()}.items()
            if (id_ := recorder.step.cell_of(index, value).id) in ids
        ]
        known = {id_ for id_, *_ in found}
        if idle := [id_ for id_ in ids if id_ not in known]:
            raise LimpetError(
                f"{_named(idle)}: not in flight, nor failed in a step that still runs",
                hint="what failed before is tried again by the next session",
            )
        self._runner.skipped.difference_update(ids)
        for _, executor, index in found:
            executor.retry(index)
        return f"tried again: {_named(ids)}"

    def _skip(self, ids: Collection[str]) -> str:
        self._check(ids)
        self._runner.skipped.update(ids)  # what has not begun
        calls = 0
        for recorder, executor in self._executors:
            for index, value in executor.inputs_in_progress().items():
                if (refusal := self._runner.refusal(recorder.step, value)) is not None:
                    calls += executor.cancel(index, refusal)
        return f"skipped: {_named(ids)}; {count(calls, 'call')} given up"

    def _check(self, ids: Collection[str]) -> None:
        items = self._request.items
        known = {items[at].id for at in self._run_file.reported(items)}
        if unknown := [id_ for id_ in ids if id_ not in known]:
            raise LimpetError(f"{_named(unknown)}: no such item in this run")

    @property
    def _executors(self) -> Collection[tuple[Recorder, AsyncExecutor[Any, Any]]]:
        return self._runner.executors.values()


def _words_in(line: bytes) -> list[str]:
    try:
        words = loads(line)
    except RecursionError as error:
        raise ValueError("an order is not so deep") from error
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError("an order is a list of words")
    return words


def _line(answer: _Answer) -> bytes:
    return dumps(answer).encode() + b"\n"


def _named(ids: Collection[str]) -> str:
    """Name the first few items."""
    every = [one_line(id_) for id_ in ids]
    more = len(every) - _MOST_NAMED
    return ", ".join(every[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
