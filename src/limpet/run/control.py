"""How does another process give orders to a run?

A run that is being worked on listens on a Unix socket in a folder that only its user can open; the
socket's name is a digest of the run's real path. One line of JSON goes each way: the order, and
what was done. The answer comes when the order is done, not when it is heard.
"""

import hashlib
import json
import os
import socket
import stat
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from limpet.errors import LimpetError
from limpet.journal import lock
from limpet.journal.journal import Journal
from limpet.journal.layout import Layout, layout_at
from limpet.pacing.sharing import checked_folder, runtime_folders
from limpet.run.reading.find_run import choose_run, is_matrix, is_run, runs_in
from limpet.run.run_file import RunFile
from limpet.text import did_you_mean, harmless, one_line

# ---- What may be ordered? -----------------------------------------------------------------------

_ALONE, _ITEMS = ("pause", "resume", "stop"), ("retry", "skip")
ORDERS = (*_ALONE, "pace", *_ITEMS, "budget")
MOST_BYTES = 64 * 1024
"""The most bytes of an order, and of its answer."""
_MOST_CALLS = 100_000


@dataclass(frozen=True, slots=True)
class Order:
    """An order to a running session.

    Attributes:
        name: One of `ORDERS`.
        words: A number or `auto`, the ids of items, or `cost=40`.
        endpoint: Whose pace changes; empty: there is only one.
    """

    name: str
    words: tuple[str, ...] = ()
    endpoint: str = ""

    @property
    def most(self) -> int | None:
        """How many calls `pace` allows at once; None: as many as the endpoint takes."""
        return None if self.words[0] == "auto" else int(self.words[0])

    @property
    def changes(self) -> Mapping[str, str]:
        """What `budget` changes."""
        return dict(word.split("=", 1) for word in self.words)


def as_order(name: Any, words: Any = (), endpoint: Any = "") -> Order:
    """Return an order.

    Raises:
        LimpetError: There is no such order, or it has the wrong words.
    """
    order = Order(str(name), tuple(map(str, words)), str(endpoint))
    number = order.words[0] if len(order.words) == 1 else ""
    if order.name not in ORDERS:
        near = did_you_mean(order.name, ORDERS)
        raise LimpetError(f"unknown order {one_line(order.name)}{near}", hint=", ".join(ORDERS))
    if order.endpoint and order.name != "pace":
        raise LimpetError(f"{order.name}: takes no endpoint, only pace does")
    if order.name in _ALONE and order.words:
        raise LimpetError(f"{order.name}: takes nothing more, and got {one_line(order.words[0])}")
    if order.name in _ITEMS and not order.words:
        raise LimpetError(f"{order.name}: which items? Name their ids")
    if order.name == "pace" and number != "auto":
        is_number = number.isascii() and number.isdigit() and len(number) < len(str(_MOST_CALLS))
        if not is_number or int(number) == 0:
            given = one_line(" ".join(order.words)) or "nothing"
            raise LimpetError(f"pace {given}: must be auto, or a number of calls, 1 or more")
    if order.name == "budget" and not (order.words and all("=" in word for word in order.words)):
        raise LimpetError("budget: must be like cost=40 or calls=5k")
    return order


# ---- Where does a run listen, and who is at the other end? --------------------------------------


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


def is_own_socket(path: Path) -> bool:
    """Return whether a path is a socket of this user, and no link to one."""
    found = path.lstat()
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid()


def read_line(connection: socket.socket) -> Any:
    """Return the JSON of the line that the other end sends; None: it sends none.

    Raises:
        ValueError: It is too long, or no JSON.
    """
    data = b""
    while not data.endswith(b"\n"):
        if not (more := connection.recv(4096)):
            return None
        data += more
        if len(data) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES:,} bytes")
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("too deep") from error


def send_line(connection: socket.socket, data: Mapping[str, Any]) -> None:
    """Send data as a line of JSON."""
    connection.sendall(json.dumps(data).encode() + b"\n")


# ---- Order something of a run -------------------------------------------------------------------


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
        self._home = choose_run(str(run))

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
        return self.order("pace", [str(calls)], endpoint)

    def retry(self, *ids: str) -> str:
        """Give up the calls of these items that are in flight, and try them again at once."""
        return self.order("retry", ids)

    def skip(self, *ids: str) -> str:
        """Leave these items unrun in this session; they count as failed."""
        return self.order("skip", ids)

    def budget(self, **limits: object) -> str:
        """Change the run's budget."""
        return self.order("budget", [f"{name}={limit}" for name, limit in limits.items()])

    def order(self, name: str, words: Sequence[str] = (), endpoint: str = "") -> str:
        """Give an order by its name."""
        order = as_order(name, words, endpoint)
        if is_matrix(self._home):
            first = next((f": {one_line(str(path))}" for path in runs_in(self._home)), "")
            raise LimpetError(f"{self._where}: is a matrix, name one of its runs{first}")
        layout = layout_at(self._home)
        if not is_run(self._home):
            is_new = layout.lock.exists() and lock.is_held(layout.lock)
            what = "is only being prepared: wait a moment" if is_new else "there is no run here"
            raise LimpetError(f"{self._where}: {what}")
        session = RunFile.load(layout).session
        is_here = lock.is_of_this_system(lock.holder(layout.lock))
        if not lock.is_held(layout.lock) and (is_here or session is None or session.ended):
            return self._order_unstarted(order, layout)
        with self._connected(layout) as connection:
            answer = self._answer(connection, order)
        if "error" in answer:
            raise LimpetError(str(answer["error"]), hint=answer.get("hint"))
        return str(answer.get("done"))

    @property
    def _where(self) -> str:
        return one_line(str(self._home))

    def _answer(self, connection: socket.socket, order: Order) -> Mapping[str, Any]:
        try:
            send_line(connection, asdict(order))
            answer = read_line(connection)
        except (OSError, ValueError) as error:
            raise LimpetError(f"{self._where}: gave no answer: {error}") from error
        if not isinstance(answer, dict):
            raise LimpetError(
                f"{self._where}: ended before it answered",
                hint=f"see how far it is: limpet status {harmless(str(self._home))}",
            )
        return answer

    def _order_unstarted(self, order: Order, layout: Layout) -> str:
        """Let a paused run that nobody works on go on when it is started."""
        run_file = RunFile.load(layout)
        if order.name != "resume" or not run_file.paused:
            more = ", and is paused" if run_file.paused else ""
            raise LimpetError(
                f"{self._where}: is not running{more}",
                hint="only a run that is running takes orders: limpet list shows which are",
            )
        with Journal(layout) as journal:
            run_file = RunFile.load(layout)
            run_file.paused = ""
            run_file.write(journal)
            words = "no longer paused: it goes on when it is started"
            journal.log_event("order", at_once=True, order="resume", words=words, by=os.getpid())
        return words

    def _connected(self, layout: Layout) -> socket.socket:
        who = lock.holder(layout.lock)
        pid, host = who.get("pid"), one_line(str(who.get("host", "another machine")))
        if not lock.is_of_this_system(who):
            raise LimpetError(
                f"{self._where}: is run by a process on {host}, not on this machine",
                hint=f"give the order there: limpet ctl {harmless(str(self._home))} …",
            )
        for path in self._sockets():
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(str(path))
                if peer_uid(connection) == os.getuid():
                    return connection
            except OSError:
                pass
            connection.close()
        if _user_of(pid if lock.shares_our_numbers(who) else None, layout) != os.getuid():
            raise LimpetError(f"{self._where}: is run by process {pid} of another user")
        raise LimpetError(
            f"{self._where}: process {pid} takes no orders",
            hint="it said why when it started; perhaps it runs in another container, or has "
            "another XDG_RUNTIME_DIR",
        )

    def _sockets(self) -> list[Path]:
        """Return where its socket may be: it may have another environment than this process."""
        folders = [*runtime_folders(), Path(f"/run/user/{os.getuid()}/limpet")]
        found = []
        for folder in dict.fromkeys(folders):
            with suppress(OSError):
                path = folder / socket_name(self._home)
                if folder.is_dir() and is_own_socket(path):
                    checked_folder(folder)
                    found.append(path)
        return found


def _user_of(pid: object, layout: Layout) -> int | None:
    for path in (Path(f"/proc/{pid}"), layout.lock):
        with suppress(OSError):
            return path.stat().st_uid
    return None


def control(run: str | Path) -> Control:
    """Return what gives orders to a run that is running: `control("runs/x").pause()`.

    Args:
        run: The run's directory.
    """
    return Control(run)
