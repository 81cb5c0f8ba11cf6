"""Which process may write?

The one that holds `flock` on the file LOCK. The lock ends with its process, so there is no stale
lock to clean up. The file stays; its content names the last holder.
"""

import errno
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakSet

from limpet.errors import JournalError, RunLockedError
from limpet.journal.files import OwnFile, open_own, open_to_read, read_whole
from limpet.json_values import dumps
from limpet.text import one_line

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where no journal is written
    fcntl = None  # type: ignore[assignment]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")
_PATIENCE_S = 0.05  # another process's `is_held` takes the lock for a moment
_started_at = time.time()
_held: WeakSet["Lock"] = WeakSet()


class Lock:
    """The right to write, from its creation until `release`.

    Attributes:
        on_lost: Called in a forked child, which does not have the lock.

    Raises:
        RunLockedError: Another process holds it, or this one already does.
        JournalError: This system or file system has no locks.
    """

    def __init__(self, path: Path) -> None:
        if fcntl is None:
            raise JournalError(
                f"{path}: this system has no flock, so no journal can be written",
                hint="use Linux or macOS; on Windows, WSL 2",
            )
        self._fd: OwnFile | None = None
        self.on_lost: Callable[[], None] = lambda: None
        fd = _open_locked(path)
        try:
            os.ftruncate(fd, 0)
            holder = {**_this_process(), "path": str(path.resolve())}
            os.pwrite(fd, dumps(holder).encode() + b"\n", 0)
        except BaseException:
            os.close(fd)
            raise
        self._fd = OwnFile.of(fd)
        _held.add(self)

    @property
    def is_held(self) -> bool:
        """Whether we still hold it: other code may have closed its file."""
        try:
            return self._fd is not None and self._fd.size() >= 0
        except OSError:
            return False

    def release(self) -> None:
        """Let others write. The file stays: deleting it would let two processes write."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            fd.close()
            _held.discard(self)


def _open_locked(path: Path) -> int:
    """Return the open file, locked."""
    while True:
        fd = open_own(path)
        try:
            _take(fd, path)
            if _is_at(fd, path):
                return fd
        except BaseException:
            os.close(fd)
            raise
        # The last holder moved the directory: this file is the lock of another path now.
        os.close(fd)


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except FileNotFoundError:
        return False


def _take(fd: int, path: Path) -> None:
    try:
        _flock(fd)
    except BlockingIOError as error:
        raise _locked(path, holder(path)) from error
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS):
            raise
        raise JournalError(
            f"{path}: this file system has no locks ({error.strerror})",
            hint="write the journal to a local disk, and copy it afterwards",
        ) from error


def _flock(fd: int) -> None:
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
            time.sleep(_PATIENCE_S / 10)


def _locked(path: Path, who: dict[str, Any]) -> RunLockedError:
    pid, host = who.get("pid"), one_line(who.get("host", ""))
    by = f"process {pid} on {host}, started at {one_line(who.get('started', ''))}"
    if not isinstance(pid, int):
        by, hint = "another process", "wait for it to end"
    elif not is_of_this_system(who):
        hint = f"wait for it to end, or stop it on {host}: kill -INT {pid}"
    elif not shares_our_numbers(who):
        by = f"a process in another container on this machine (there {pid}, on {host})"
        hint = "wait for it to end, or stop it where it was started"
    elif pid == os.getpid():
        by, hint = "this process", "close the other journal first"
    elif not is_alive(pid):
        # It has ended, and the next holder has not yet written its name.
        by, hint = "another process", "wait for it to end"
    else:
        hint = f"wait for it to end, or stop it: kill -INT {pid}"
    return RunLockedError(f"{path.parent}: {by} is writing here", hint=hint, holder=who)


def holder(path: Path) -> dict[str, Any]:
    """Return the last holder from the lock file; empty if unknown."""
    try:
        who = json.loads(read_whole(path))
    except (OSError, ValueError, JournalError):
        return {}
    return who if isinstance(who, dict) else {}


def is_of_this_system(who: dict[str, Any]) -> bool:
    """Return whether the holder ran on this machine since its last boot."""
    if who.get("boot_id") is None and boot_id() is None:
        return who.get("host") == platform.node()
    return who.get("boot_id") == boot_id()


def shares_our_numbers(who: dict[str, Any]) -> bool:
    """Return whether the holder's process ids are ours: it runs in the same container.

    Process 1 in another container is not our process 1.
    """
    return who.get("pid_namespace") == _pid_namespace()


def is_held(path: Path) -> bool | None:
    """Return whether a process on this machine holds the lock; None: unknown.

    We take it shared for a moment; a process that wants it meanwhile tries again.
    """
    try:
        with open_to_read(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_UN)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    except (OSError, JournalError, AttributeError):
        return None
    return False


def _this_process() -> dict[str, Any]:
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(_started_at))
    return {
        "pid": os.getpid(),
        "uid": os.getuid(),
        "host": platform.node(),
        "boot_id": boot_id(),
        "pid_namespace": _pid_namespace(),
        "started": started,
    }


def is_alive(pid: int) -> bool:
    """Return whether this system has a process with this number."""
    try:
        os.kill(pid, 0)
    except PermissionError:  # another user's
        return True
    except (OSError, OverflowError):
        return False
    return True


def boot_id() -> str | None:
    """Return what tells this start of the machine from others; None: unknown."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _pid_namespace() -> str | None:
    try:
        return str(_PID_NAMESPACE.readlink())
    except OSError:
        return None


def _begin_after_fork() -> None:
    # A process that started after the time in its lock is another one with the same pid.
    global _started_at  # noqa: PLW0603 - belongs to this process, like its locks
    _started_at = time.time()
    # A forked child shares the lock, and would hold it after we end. Closing its copy does not
    # unlock ours.
    for lock in list(_held):
        lock.release()
        lock.on_lost()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_after_fork)
