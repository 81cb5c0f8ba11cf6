"""Which files are opened, and by which cell? A Python audit hook reports it.

The hook is active while a workflow is imported, set up and called. Each cell has its own context,
which ties a file to the cell that opens it. A hook cannot be removed, and Python calls it for every
audit event, so it returns at once if there are no listeners.
"""

import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, Token, copy_context
from importlib.util import source_from_cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Protocol

from limpet.fingerprints.files.file_reads import CellReads, StepReads, remember
from limpet.fingerprints.files.project import ABSENT, Project
from limpet.fingerprints.walk.ownership import holds_users_files, is_module, is_users_file

# ---- Whose code opens a file: the user's, Python's for an import, or Limpet's own? --------------
#
# The running frames tell.

_OF_PYTHON = {"importlib._bootstrap_external", "linecache", "tokenize", "inspect", "runpy"}
_OF_PYTHON |= {"zipimport", "pkgutil", "traceback"}
_LIMPET = str(Path(__file__).parents[2])
_OF_LIBRARY = (os.path.dirname(os.__file__) + os.sep, "<frozen")  # noqa: PTH120 - a string
_HOOK = "limpet.fingerprints.files.audit_hook"


def is_limpet() -> bool:
    """Return whether Limpet itself opens a file."""
    files = (frame.f_code.co_filename for frame in _frames())
    opener = next((file for file in files if not file.startswith(_OF_LIBRARY)), "")
    return opener.startswith(_LIMPET)


def is_imported(path: str) -> bool:
    """Return whether a path is code: the source of a module, or read by an import."""
    if path.endswith(".py"):
        try:  # copying ten thousand modules takes longer than checking the last ones
            return _is_of_module(path, reversed(sys.modules.values()))
        except RuntimeError:  # another thread imports a module
            return _is_of_module(path, list(sys.modules.values()))
    return os.path.isdir(path) and _is_read_by_python()  # noqa: PTH112 - a string


def _is_of_module(path: str, modules: Iterable[object]) -> bool:
    end = os.path.basename(path)  # noqa: PTH119 - a string
    files = (str(vars(module).get("__file__")) for module in modules if is_module(module))
    return any(file.endswith(end) and os.path.abspath(file) == path for file in files)  # noqa: PTH100 - strings


def is_found_by_name() -> bool:
    """Return whether a library loads a module for a user's function, by a given name.

    `pydoc.locate(name)`, `entry_point.load()`, `import_module(name)`: the code may not name the
    file, unlike an `import` statement. Modules loaded while the user's modules are imported are in
    memory when a run is planned.
    """
    is_loading = is_by_library = is_in_function = is_at_import = False
    for frame in _frames():
        code = frame.f_code
        if code.co_filename.startswith("<frozen importlib"):
            is_loading |= code.co_name == "get_code"  # otherwise the source is read for a traceback
        elif code.co_filename.startswith(_LIMPET):
            break
        elif is_users_file(code.co_filename):
            is_at_import = code.co_name == "<module>"
            is_in_function |= not is_at_import
        else:
            is_by_library |= not is_in_function
    return is_loading and is_by_library and is_in_function and not is_at_import


def _is_read_by_python() -> bool:
    """Return whether Python itself reads: for an import or a traceback."""
    for frame in _frames():
        if frame.f_globals.get("__name__") in _OF_PYTHON:
            return True
        if not frame.f_code.co_filename.startswith(_OF_LIBRARY):
            return False
    return False


def running_functions() -> frozenset[tuple[str, int]]:
    """Return the file and line of each of the user's functions that is running."""
    codes = (frame.f_code for frame in _frames())
    return frozenset(
        (code.co_filename, code.co_firstlineno)
        for code in codes
        if code.co_name != "<module>" and is_users_file(code.co_filename)
    )


def importing_module() -> str:
    """Return the name of the user's module that is being imported; empty if there is none."""
    for frame in _frames():
        if frame.f_code.co_name == "<module>" and is_users_file(frame.f_code.co_filename):
            return str(frame.f_globals.get("__name__", ""))
    return ""


def _frames() -> Iterator[FrameType]:
    """Yield the frames that were running when the hook was called, innermost first."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - no public alternative
    # Not by `f_code`: reading that is itself an audit event.
    while frame is not None and frame.f_globals.get("__name__") != _HOOK:
        frame = frame.f_back  # skip the recorder's own frames
    while frame is not None:
        if frame.f_globals.get("__name__") != _HOOK:
            yield frame
        frame = frame.f_back


# ---- Which files are opened, and by which cell? A Python audit hook reports it. -----------------

_LISTING = {"os.listdir", "os.scandir"}
_EVENTS = {"open", "os.rename", "os.remove", "os.truncate", "os.mkdir", "os.rmdir", *_LISTING}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_WRITING_MODES = frozenset("wax+")
Readers = frozenset[tuple[str, int]] | None


class Watch:
    """Records the files that are opened in a session.

    Args:
        project: The project whose files count.
        steps: The steps whose reads are recorded.

    Attributes:
        written: Files that were opened for writing, with their earlier digests.
    """

    def __init__(self, project: Project, steps: Iterable[StepReads]) -> None:
        self.project = project
        self.steps = {reads.step: reads for reads in steps}
        self.written: dict[str, str] = {}

    def begin(self, step: str, row: Any) -> "tuple[CellReads, Token[Any]]":
        """Attribute reads in this context to a cell, until `end`."""
        cell = CellReads(self.steps[step], row)
        return cell, _cell.set((self, cell))

    def end(self, cell: CellReads, token: "Token[Any]") -> None:
        """End a cell."""
        cell.end()
        _cell.reset(token)

    @contextmanager
    def setting_up(self, step: str) -> Iterator[None]:
        """Attribute reads in this context to all cells of a step."""
        cell = CellReads(self.steps[step], ())
        cell.end()
        token = _cell.set((self, cell))
        try:
            yield
        finally:
            _cell.reset(token)

    def record(
        self,
        path: str,
        cell: CellReads | None,
        *,
        writes: bool,
        by: Readers,
        is_module: bool,
        digest: str | None = None,
        thread: object = None,
    ) -> None:
        """Record a file that is being opened.

        Args:
            path: The file.
            cell: The cell that opens it, if it belongs to this session.
            writes: Whether it is opened for writing.
            by: The functions that are running; None if unknown.
            is_module: Whether a library imports it for a cell.
            digest: The digest that another process saw; None: the current one.
            thread: The thread of another process that opens it; None: this thread.
        """
        name = self.project.name_of(path)
        if name is None:
            return
        digest = self.project.digest_at(path) if digest is None else digest
        if writes:
            self.written.setdefault(name, digest or ABSENT)
        if writes or digest is None:
            return
        source = path if is_module else None
        if cell is not None and not cell.has_code(source):
            cell.read(name, digest, thread)
        for step in self.steps.values():
            if source in step.sources:
                continue
            if source is not None:
                step.modules.add(name)
            # Another step that uses the reading function may find it in a cache.
            if by is None:
                step.read(name, digest, None)
            elif not (cell and cell.is_of(step)) and not by.isdisjoint(step.code):
                step.read_elsewhere(name, digest)


class ReadElsewhere(NamedTuple):
    """A file that another process opened.

    Attributes:
        path: Its path, absolute.
        digest: The digest of its content then; None: it is a folder.
        writes: Whether it was opened for writing.
        by: The functions that were running, by file and line; None if unknown.
        thread: The thread.
        is_module: Whether a library imported it for a cell.
    """

    path: str
    digest: str | None
    writes: bool
    by: tuple[tuple[str, int], ...] | None
    thread: object
    is_module: bool


class Early:
    """Files that were read while the user's modules were imported, before any session.

    Attributes:
        read: The digest of each file and the module that was being imported, by path.
        written: Paths of files that were written meanwhile.
    """

    def __init__(self) -> None:
        self.read: dict[str, tuple[str, str]] = {}
        self.written: set[str] = set()
        self._project = Project([])

    def record(
        self, path: str, cell: CellReads | None, *, writes: bool, by: Readers, is_module: bool
    ) -> None:
        del cell, by
        if not is_users_file(path):
            return
        if writes:
            self.written.add(path)
        elif path not in self.read and not is_module:
            digest = self._project.digest_at(path)
            if digest is not None:
                self.read[path] = (digest, importing_module())


_cell: ContextVar[tuple[Watch, CellReads] | tuple[()] | None] = ContextVar(
    "limpet_cell", default=None
)
_listening: list[Any] = []
_own = threading.local()
_is_hooked = False
# Importing a large library opens thousands of files, below hundreds of frames, so only their folder
# is checked. A set, since calling a cached function would take 5% of such an import.
_of_libraries: set[str] = set()
missed: deque[str] = deque(maxlen=100)
"""Files that could not be recorded, with the reasons, for the session to log."""
early = Early()
"""Files that were read under `importing`."""


@contextmanager
def importing() -> Iterator[None]:
    """Record the files that the user's modules read during their import."""
    listen(early)
    try:
        yield
    finally:
        _listening.remove(early)


class Listener(Protocol):
    """Is notified of opened files."""

    def record(
        self, path: str, cell: Any, *, writes: bool, by: Readers, is_module: bool
    ) -> None: ...


def attribute(listener: Listener, cell: object) -> None:
    """Attribute further reads in this context to one of this listener's cells."""
    _cell.set((listener, cell))  # type: ignore[arg-type]  # it is passed back to its listener


def replay(reads: Iterable[ReadElsewhere]) -> None:
    """Record files that another process opened, for the cell of this context."""
    current = _cell.get()
    with unwatched():
        for read in reads:
            if current == () and not read.writes:
                continue
            if current is None and early.read.get(read.path, ("",))[0] == read.digest:
                continue  # the same import here has recorded it
            for listener in _listening:
                if isinstance(listener, Watch):
                    listener.record(
                        read.path,
                        current[1] if current and current[0] is listener else None,
                        writes=read.writes,
                        by=None if read.by is None else frozenset(read.by),
                        is_module=read.is_module,
                        digest=read.digest,
                        thread=read.thread,
                    )


class unattributed:  # noqa: N801 - used like a function; a generator would take three times as long
    """Attribute reads in this context to no cell, for observers."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _cell.set(())

    def __exit__(self, *_: object) -> None:
        _cell.reset(self._token)


def unattributed_context() -> Context:
    """Return a copy of this context in which reads are attributed to no cell."""
    context = copy_context()
    context.run(_cell.set, ())
    return context


def stop_listening(watch: Watch) -> None:
    """Stop recording."""
    if watch in _listening:
        _listening.remove(watch)


def listen(listener: "Watch | Early | Listener") -> None:
    """Start recording."""
    global _is_hooked  # noqa: PLW0603 - a hook lives as long as the process
    if not _is_hooked:
        sys.addaudithook(_audit)
        _is_hooked = True
    _listening.append(listener)


@contextmanager
def unwatched() -> Iterator[None]:
    """Ignore files that Limpet itself opens here."""
    was, _own.is_busy = getattr(_own, "is_busy", False), True
    try:
        yield
    finally:
        _own.is_busy = was


def _audit(event: str, args: tuple[Any, ...]) -> None:
    # Python calls this for every audit event: most return on the first line.
    if event not in _EVENTS or not _listening or getattr(_own, "is_busy", False):
        return
    is_named = event == "open" and type(args[0]) is str
    if is_named and args[0].rpartition(os.sep)[0] in _of_libraries:
        return
    try:
        with unwatched():
            _handle(event, args)
    except Exception as error:  # noqa: BLE001 - recording must never break the code that opens a file
        missed.append(f"{event} {args[:1]}: {error!r}")


def _handle(event: str, args: tuple[Any, ...]) -> None:
    paths, kinds = _opened(event, args)
    users = [path for path in paths if not _is_librarys(path, event)]
    if not users or (not _cell.get() and is_limpet()):
        return
    for path in users:
        if not isinstance(path, int):
            opened = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - strings
            _tell(opened if True in kinds else _source_of(opened), kinds)  # Python writes bytecode


def _is_librarys(path: Any, event: str) -> bool:
    """Return whether a path is a library's, by its folder."""
    if type(path) is not str or not path.startswith(os.sep):
        return False  # rare: the listeners check it
    folder = path if event in _LISTING else path.rpartition(os.sep)[0]
    if not holds_users_files(folder):
        _of_libraries.add(folder)
    return folder in _of_libraries


def _tell(path: str, kinds: Sequence[bool]) -> None:
    is_module = False in kinds and is_imported(path)
    if is_module and not is_found_by_name():  # it is code
        kinds = [writes for writes in kinds if writes]
    if not kinds:
        return
    current = _cell.get()
    by = None if current is None else running_functions()
    if False in kinds and by is not None:
        remember(path, by)
    for listener, writes in itertools.product(list(_listening), kinds):
        if current == () and not writes:
            continue
        cell = current[1] if current and current[0] is listener else None
        listener.record(path, cell, writes=writes, by=by, is_module=is_module and not writes)


def _opened(event: str, args: tuple[Any, ...]) -> tuple[Sequence[Any], Sequence[bool]]:
    """Return the opened paths, and how: False for reading, True for writing, or both."""
    if event in _LISTING:
        return (args[0] or ".",), (False,)
    if event != "open":
        return args[: 2 if event == "os.rename" else 1], (True,)
    path, mode, flags = args
    if mode:
        writes, both = not _WRITING_MODES.isdisjoint(mode), "+" in mode
    else:
        writes, both = bool(flags & _WRITING), bool(flags & os.O_RDWR)
    return (path,), (False, True) if both else (writes,)


def _source_of(path: str) -> str:
    """Return the source file of a bytecode file: users edit the source."""
    if path.endswith(".pyc"):
        with suppress(ValueError):
            return source_from_cache(path)
    return path
