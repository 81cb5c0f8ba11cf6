"""Is a file certainly unchanged since this process imported it?

It is if its ctime is older than the process: a ctime cannot be set back. Anything uncertain is
treated as a change. Then the code in memory is compared with the compiled file, which is slower.
"""

import importlib.util
import os
import stat
import time
from pathlib import Path

_TIMES_ARE_CUT = 2.0  # seconds, because both times are rounded
_CLOCK_JUMPED = 1.0
_FORKED_AND_NO_EXEC = 0x40  # PF_FORKNOEXEC: its memory may be older than the process


def _boot() -> float | None:
    """Return when the machine booted, by the current clock."""
    since = getattr(time, "CLOCK_BOOTTIME", None)
    return None if since is None else time.time() - time.clock_gettime(since)


_imported, _boot_then = time.time(), _boot()


class Unchanged:
    """The files that are unchanged; each is checked once."""

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
        if self._began is None or not os.path.isabs(file):  # noqa: PTH117 - a string
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
        """Return whether a folder and its parents are still the same folders."""
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = self._is_the_same(folder)
        return known

    def _is_the_same(self, folder: str) -> bool:
        assert self._began is not None
        found = os.lstat(folder)
        # Detects a replaced folder and a changed link. A new file in a folder changes both times.
        if found.st_ctime >= self._began and found.st_mtime != found.st_ctime:
            return False
        if found.st_ctime >= self._began and os.path.islink(folder):  # noqa: PTH114
            return False
        above = os.path.dirname(folder)  # noqa: PTH120
        return above == folder or self._stays(above)


def _is_older_than_bytecode(file: str, changed: float) -> bool:
    """Return whether a file is unchanged since it was compiled.

    Python uses stale bytecode if a file is edited within a second and keeps its size.
    """
    try:
        return os.stat(importlib.util.cache_from_source(file)).st_mtime >= changed  # noqa: PTH116
    except FileNotFoundError:
        return True
    except NotImplementedError:
        return False


def _began() -> float | None:
    """Return when this process started, by the current clock; None if unknown."""
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
