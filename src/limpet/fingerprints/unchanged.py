"""Is a file certainly what it was when this process imported it?

A file that did not change since before the process began is. When it changed is told by its ctime,
which nobody can set back. All that may deceive is taken for a change: then the code in memory is
compared with what the file compiles to, which takes longer.
"""

import importlib.util
import os
import stat
import time
from pathlib import Path

_TIMES_ARE_CUT = 2.0  # seconds: both are whole numbers
_CLOCK_JUMPED = 1.0
_FORKED_AND_NO_EXEC = 0x40  # PF_FORKNOEXEC: what it holds in memory may be older than it is


def _boot() -> float | None:
    """Return when the machine was started, by the clock as it is now."""
    since = getattr(time, "CLOCK_BOOTTIME", None)
    return None if since is None else time.time() - time.clock_gettime(since)


_imported, _boot_then = time.time(), _boot()


class Unchanged:
    """Tells which files are what they were; each is asked for once."""

    def __init__(self) -> None:
        self._began = _began()
        self._files: dict[str, bool] = {}
        self._folders: dict[str, bool] = {}

    def __contains__(self, file: str) -> bool:
        known = self._files.get(file)
        if known is None:
            known = self._files[file] = self._is_unchanged(file)
        return known

    def _is_unchanged(self, file: str) -> bool:
        if self._began is None or not os.path.isabs(file):  # noqa: PTH117 - a text
            return False
        try:
            found = os.lstat(file)
            changed = found.st_ctime
            if changed >= self._began or stat.S_ISLNK(found.st_mode):
                return False
            return _is_older_than_bytecode(file, changed) and self._stays(os.path.dirname(file))  # noqa: PTH120
        except (OSError, ValueError):
            return False

    def _stays(self, folder: str) -> bool:
        """Tell whether a folder is the one that it was, and those it lies in."""
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = self._is_the_same(folder)
        return known

    def _is_the_same(self, folder: str) -> bool:
        assert self._began is not None
        found = os.lstat(folder)
        # A folder that was put in the place of another, or a link that points elsewhere. What is
        # made in a folder changes both of its times.
        if found.st_ctime >= self._began and found.st_mtime != found.st_ctime:
            return False
        if found.st_ctime >= self._began and os.path.islink(folder):  # noqa: PTH114
            return False
        above = os.path.dirname(folder)  # noqa: PTH120
        return above == folder or self._stays(above)


def _is_older_than_bytecode(file: str, changed: float) -> bool:
    """Tell whether a file did not change after it was compiled.

    Python takes old bytecode for a file that was edited within a second and has as many bytes.
    """
    try:
        return os.stat(importlib.util.cache_from_source(file)).st_mtime >= changed  # noqa: PTH116
    except FileNotFoundError:
        return True
    except NotImplementedError:
        return False


def _began() -> float | None:
    """Return when this process began, by the clock as it is now; None if nobody knows."""
    boot = _boot()
    if boot is None or _boot_then is None or abs(boot - _boot_then) > _CLOCK_JUMPED:
        return None
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        booted = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text().splitlines()
            if line.startswith("btime ")
        )
        if int(fields[6]) & _FORKED_AND_NO_EXEC:
            return None
        began = booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    return min(began, _imported) - _TIMES_ARE_CUT
