"""Is a process working on this run?

Only the lock itself knows for sure, and trying it has a price: a reader holds it for a moment, and
a writer that starts in that moment has to try again. `/proc/locks` can be read without that, but
names a file by a device number that differs from the file's own on btrfs and overlays. So we trust
the lock's text, which says who took it last. That process is alive if this machine has a process
with its pid, has not been restarted since, and the process is no younger than the text says: else
the pid was given to another process. Only for a process in another container, whose pid means
nothing here, we try the lock itself.

A process that is alive may have released the lock; then `run.json` says that its session ended.
"""

import os
import platform
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limpet.journal.lock import holder as text_of_lock
from limpet.journal.lock import is_alive, is_held, is_of_this_system, shares_our_numbers
from limpet.run.reading.progress import seconds_of

_PROC = Path("/proc")
_SLACK_S = 2.0  # the lock's text counts whole seconds, the system ticks


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that took a run's lock last.

    Attributes:
        pid: Its pid.
        host: Its machine.
        started: When it started.
        is_alive: Whether it still runs; None: on another machine, so not known.
    """

    pid: int
    host: str
    started: str
    is_alive: bool | None


def holder_of(lock: Path) -> Holder | None:
    """Return who took a lock last; None if it was never taken. The lock is not touched."""
    who = text_of_lock(lock)
    pid = who.get("pid")
    if not isinstance(pid, int):
        return None
    started = str(who.get("started", ""))
    host = str(who.get("host", ""))
    if is_of_this_system(who) and not shares_our_numbers(who):
        # In a container, where its path may differ, too.
        return Holder(pid, host, started, is_held(lock))
    if who.get("path", str(lock.resolve())) != str(lock.resolve()):
        return None  # the run was copied or moved: this lock is not held
    return Holder(pid, host, started, _is_alive(pid, who, started))


def _is_alive(pid: int, who: dict[str, Any], started: str) -> bool | None:
    if who.get("host") != platform.node():
        return None
    if not is_of_this_system(who) or not is_alive(pid):
        return False
    born, claimed = _born_at(pid), seconds_of(started)
    return born is None or claimed is None or born <= claimed + _SLACK_S


def _born_at(pid: int) -> float | None:
    """Return when a process started; None where the system does not say."""
    stat = _read(_PROC / str(pid) / "stat")
    with suppress(IndexError, ValueError):
        # After the name, which may contain anything: the state is field 3, the start field 22.
        fields = stat.rpartition(")")[2].split()
        if fields[0] == "Z":  # a zombie: its lock is released
            return float("inf")
        ticks = int(fields[19])
        up_s = float(_read(_PROC / "uptime").split()[0])
        return time.time() - up_s + ticks / os.sysconf("SC_CLK_TCK")
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
