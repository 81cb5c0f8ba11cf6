"""Where is the syntax of this code?

A file may have been edited since its import, so its text is used only if it compiles to the code in
memory. Otherwise the bytecode counts.
"""

import __future__

import ast
import functools
import importlib.util
import linecache
import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

from limpet.fingerprints.code.bytecode import shape
from limpet.fingerprints.code.parsed import Definition, Parsed, lines_of, parsed
from limpet.fingerprints.walk.safe_access import text_at

# ---- Is a file certainly unchanged since this process imported it? ------------------------------
#
# It is if its ctime is older than the process: a ctime cannot be set back. If that is uncertain,
# the code in memory is compared with the compiled file, which is slower.

_ROUNDING_S = 2.0  # both times are rounded
_CLOCK_JUMPED = 1.0
_FORKED_AND_NO_EXEC = 0x40  # PF_FORKNOEXEC: its memory may be older than the process


def _boot() -> float | None:
    """Return the boot time of the machine, by the current clock."""
    since = getattr(time, "CLOCK_BOOTTIME", None)
    return None if since is None else time.time() - time.clock_gettime(since)


_imported, _boot_then = time.time(), _boot()


class Unchanged:
    """The files that are unchanged; each is checked once."""

    def __init__(self) -> None:
        self._began = _began()
        self._is_known = functools.cache(self._is_unchanged)
        self._stays = functools.cache(self._is_the_same)

    def __contains__(self, file: str) -> bool:
        return self._is_known(file)

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

    def _is_the_same(self, folder: str) -> bool:
        """Return whether a folder and its parents are still the same folders."""
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
    """Return the start time of this process, by the current clock; None if unknown."""
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
    return min(began, _imported) - _ROUNDING_S


# ---- Where is the syntax of this code? ----------------------------------------------------------

_FUTURE = functools.reduce(
    lambda flags, name: flags | getattr(__future__, name).compiler_flag,
    __future__.all_feature_names,
    0,
)
_MOST_KEPT = 10_000
# The text from which code in memory was compiled, by file. It stays valid if the file is edited but
# not imported again.
_believed: dict[str, str] = {}
# The same for modules: an object that every import creates anew, and the text.
_imported_module: dict[str, tuple[Any, str]] = {}


class Sources:
    """The source files, read once per walk."""

    def __init__(self) -> None:
        self._unchanged = Unchanged()
        self._as_read: dict[str, Parsed | None] = {}
        self._current: dict[str, Parsed | None] = {}
        self._earlier: dict[str, Parsed | None] = {}
        self._home: dict[int, Parsed] = {}

    def definition_of(self, code: CodeType) -> Definition | None:
        """Return the syntax of a function; None if no source certainly matches."""
        file = code.co_filename
        for read in (self._read, self.current_file, self._believed):
            found = read(file)
            node = None if found is None else self._definition(code, found)
            if found is not None and node is not None:
                if len(_believed) < _MOST_KEPT:
                    _believed[file] = found.text
                self._home[id(node)] = found
                return node
        return None

    def _definition(self, code: CodeType, file: Parsed) -> Definition | None:
        found = file.at_line(code.co_firstlineno, code.co_name)
        found = [pair for pair in found if _fits(pair[1], code)]
        if len(found) == 1 and code.co_filename in self._unchanged:
            return found[0][1]
        for statement, node in found:
            shapes = file.shapes_in(statement, code.co_flags & _FUTURE)
            if shape(code) in shapes.get(code.co_qualname, ()):
                return node
        return None

    def class_statement(self, cls: type, scope: Mapping[str, Any], file: str | None) -> Any:
        """Return the syntax of a class; None if its module does not define it."""
        found = self.module(scope)
        if found is None and file is not None:
            found = self._read(file)
        return None if found is None else found.class_named(text_at(cls, "__qualname__") or "")

    def module(self, scope: Mapping[str, Any]) -> Parsed | None:
        """Return the syntax of a module as it was at the first walk after its import."""
        file = scope.get("__file__")
        if type(file) is not str:
            return None
        now = self.current_file(file)
        import_mark = scope.get("__spec__") or scope
        known = _imported_module.get(file)
        if known is None or known[0] is not import_mark:
            if now is not None:
                _imported_module[file] = import_mark, now.text
            return now
        return now if now is not None and now.text == known[1] else self._before(file, known[1])

    def current_file(self, file: str) -> Parsed | None:
        """Return the current syntax of a file."""
        if file not in self._current:
            before = self._read(file)
        if file not in self._current:
            linecache.checkcache(file)
            text = text_of_file(file)
            same = before is not None and before.text == text
            self._current[file] = before if same else parsed(text)
        return self._current[file]

    def _read(self, file: str) -> Parsed | None:
        """Return a file as Python last read it, which may be older than the file."""
        if file not in self._as_read:
            is_new = file not in linecache.cache
            found = self._as_read[file] = parsed(text_of_file(file))
            if is_new:  # it was read just now
                self._current[file] = found
        return self._as_read[file]

    def _believed(self, file: str) -> Parsed | None:
        return self._before(file, _believed.get(file, ""))

    def _before(self, file: str, text: str) -> Parsed | None:
        known = self._earlier.get(file)
        if known is None or known.text != text:
            known = self._earlier[file] = parsed(text)
        return known

    def text_of(self, node: Definition) -> Callable[[], str]:
        """Return a callable that gives the source of a function, including comments."""
        return functools.partial(self._home[id(node)].text_between, *lines_of(node))


def _fits(node: Definition, code: CodeType) -> bool:
    if not isinstance(node, ast.Lambda):
        return node.name == code.co_name
    # A line may hold several lambdas: the position of the body distinguishes them.
    positions = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    return code.co_name == "<lambda>" and (
        not positions or (node.body.lineno, node.body.col_offset) <= min(positions)
    )


def text_of_file(file: str) -> str:
    """Return the text of a file as Python last read it; an empty string if it cannot be read."""
    text = "".join(linecache.getlines(file))
    if text or len(linecache.cache.get(file, ())) <= 1:  # one element: it may be read later
        return text
    return "\n"  # it is empty
