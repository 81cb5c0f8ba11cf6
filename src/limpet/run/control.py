"""How does another process give orders to a run?

A run that is being worked on listens on a Unix socket in a folder that only its user can open; the
socket's name is a digest of the run's real path. One line of JSON goes each way: the order's words,
and what was done. The answer comes when the order is done, not when it is heard.
"""

import hashlib
import json
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from limpet.errors import LimpetError
from limpet.journal import lock
from limpet.journal.journal import Journal
from limpet.journal.layout import Layout
from limpet.pacing.sharing import checked_folder, runtime_folders
from limpet.run.reading.reader import open_run
from limpet.run.run_file import RunFile
from limpet.text import harmless, one_line


def socket_name(home: Path) -> str:
    """Return the name of a run's socket."""
    digest = hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()
    return f"{digest[:24]}.ctl"


def peer_uid(connection: socket.socket) -> int:
    """Return the user of the process at the other end."""
    if hasattr(socket, "SO_PEERCRED"):
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("3i", found)[1])
    # macOS: what `getpeereid` reads, LOCAL_PEERCRED, a struct xucred.
    return int(struct.unpack("=2I", connection.getsockopt(0, 1, 76)[:8])[1])


class Control:
    """Gives orders to a run that another process, or another thread, works on.

    Each method returns what was done, in a sentence, once it is done.

    Args:
        run: The run's directory.

    Raises:
        LimpetError: The order cannot be carried out, for example because the run is not running.
            Nothing was changed.
    """

    def __init__(self, run: str | Path) -> None:
        self._run = str(run)

    def pause(self) -> str:
        """Start no more calls until `resume`, even if the run is killed and started again."""
        return self.order("pause")

    def resume(self) -> str:
        """Go on after `pause`. A paused run that is not running may go on when it is started."""
        return self.order("resume")

    def stop(self) -> str:
        """Stop in good order; return when all that finished is on disk."""
        return self.order("stop")

    def pace(self, calls: int | str, *, endpoint: str = "") -> str:
        """Keep so many calls in flight, or "auto": as many as the endpoint takes."""
        return self.order("pace", str(calls), *filter(None, [endpoint]))

    def retry(self, *ids: str) -> str:
        """Try these items again at once: those in flight, and those that failed."""
        return self.order("retry", *ids)

    def skip(self, *ids: str) -> str:
        """Leave these items unrun in this session; they count as failed."""
        return self.order("skip", *ids)

    def budget(self, **limits: object) -> str:
        """Change the run's budget."""
        return self.order("budget", *(f"{name}={limit}" for name, limit in limits.items()))

    def order(self, *words: str) -> str:
        """Give an order in the words of the command line: `order("pace", "20")`."""
        with open_run(self._run) as run:
            path, who = run.layout.lock, lock.holder(run.layout.lock)
            if lock.is_held(path) if lock.is_of_this_system(who) else run.is_running:
                return self._ask(run.layout, who, [str(word) for word in words])
            if words != ("resume",) or not run.run_file.paused:
                more = ", and is paused" if run.run_file.paused else ""
                raise LimpetError(
                    f"{self._where}: is not running{more}",
                    hint="only a run that is running takes orders: limpet list shows which are",
                )
        return _unpause(run.layout)

    @property
    def _where(self) -> str:
        return one_line(self._run)

    def _ask(self, layout: Layout, who: dict[str, Any], words: Sequence[str]) -> str:
        pid, host = who.get("pid"), who.get("host")
        if who and not lock.is_of_this_system(who):
            raise LimpetError(
                f"{self._where}: is run by a process on {one_line(host)}, not on this machine",
                hint=f"give the order there: limpet ctl {harmless(self._run)} …",
            )
        if who.get("uid", os.getuid()) != os.getuid():
            raise LimpetError(f"{self._where}: is run by process {pid} of another user")
        for folder in runtime_folders():  # it may have another environment
            with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(checked_folder(folder) / socket_name(layout.home)))
                if peer_uid(connection) == os.getuid():
                    connection.sendall(json.dumps(words).encode() + b"\n")
                    with connection.makefile() as answers:
                        return self._done(answers.readline())
        raise LimpetError(
            f"{self._where}: process {pid} takes no orders now: it is being prepared, or is ending",
            hint="try again in a moment; or it said at its start why it takes none, or it has "
            "another XDG_RUNTIME_DIR, or runs in another container",
        )

    def _done(self, line: str) -> str:
        if not line:
            raise LimpetError(
                f"{self._where}: ended before it answered",
                hint=f"see how far it is: limpet status {harmless(self._run)}",
            )
        answer = json.loads(line)
        if "error" in answer:
            raise LimpetError(answer["error"], hint=answer["hint"])
        return str(answer["done"])


def _unpause(layout: Layout) -> str:
    """Let a paused run that nobody works on go on when it is started."""
    words = "no longer paused: it goes on when it is started"
    with Journal(layout) as journal:
        run_file = RunFile.load(layout)
        run_file.paused = ""
        run_file.write(journal)
        journal.log_event("order", at_once=True, order="resume", words=words)
    return words


def control(run: str | Path) -> Control:
    """Return what gives orders to a run that is running: `control("runs/x").pause()`.

    Args:
        run: The run's directory.
    """
    return Control(run)
