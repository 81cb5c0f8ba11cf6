"""Who opens which file? Python tells, by an audit hook.

It is asked while a workflow is imported, set up and called; each call runs in a context of its own,
which is how a file is known to be read by it. A hook stays for the life of the process, and Python
calls it for whatever happens: while nobody listens it costs next to nothing.
"""

import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from importlib.util import source_from_cache
from pathlib import Path
from types import FrameType
from typing import Any

from limpet.fingerprints.files.file_reads import Call, StepReads
from limpet.fingerprints.files.project import ABSENT, Project
from limpet.fingerprints.walk.ownership import is_module, is_users_file

_LISTING = {"os.listdir", "os.scandir"}
_EVENTS = {"open", "os.rename", "os.remove", "os.truncate", "os.mkdir", "os.rmdir", *_LISTING}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OF_PYTHON = {"importlib._bootstrap_external", "linecache", "tokenize", "inspect", "runpy"}
_OF_PYTHON |= {"zipimport", "pkgutil", "traceback"}
_MOST_IN_PROCESS = 10_000
Readers = frozenset[tuple[str, int]] | None
_OURS = str(Path(__file__).parents[2])
_OF_LIBRARY = (os.path.dirname(os.__file__) + os.sep, "<frozen")  # noqa: PTH120 - a text


class Watch:
    """Listens to what is opened, for one session.

    Args:
        project: Whose files count.
        steps: Whose reads are noted.

    Attributes:
        written: Files that were opened to be written, too, with what they said before.
    """

    def __init__(self, project: Project, steps: Iterable[StepReads]) -> None:
        self.project = project
        self.steps = {reads.step: reads for reads in steps}
        self.written: dict[str, str] = {}

    def begin(self, step: str, row: Any) -> "tuple[Call, Token[Any]]":
        """Take what is read in this context for a call's, until its `end`."""
        call = Call(self.steps[step], row)
        return call, _call.set((self, call))

    def end(self, call: Call, token: "Token[Any]") -> None:
        """The call has ended."""
        call.end()
        _call.reset(token)

    @contextmanager
    def setting_up(self, step: str) -> Iterator[None]:
        """Take what is read in this context as read for all calls of a step."""
        call = Call(self.steps[step], ())
        call.end()
        token = _call.set((self, call))
        try:
            yield
        finally:
            _call.reset(token)

    def heard(self, path: str, call: Call | None, *, writes: bool, by: Readers) -> None:
        """Take note of a file that is being opened.

        Args:
            path: The file.
            call: Who opens it, if it is a call of this session.
            writes: Whether it may be changed.
            by: The functions at work; None: nobody knows.
        """
        name = self.project.name_of(path)
        if name is None:
            return
        if writes:
            self.written.setdefault(name, self.project.content(path) or ABSENT)
            return
        says = self.project.content(path)
        if says is None or _is_imported(name, path):
            return
        if call is not None:
            call.read(name, says)
        for step in self.steps.values():
            # Whoever uses a function that reads it may find it in a cache.
            if by is None:
                step.read(name, says, None)
            elif not (call and call.is_of(step)) and not by.isdisjoint(step.code):
                step.read_elsewhere(name, says)


class Early:
    """What was read while the user's modules were imported: before there is a session.

    Attributes:
        read: By path: what the file said, and the module that was being imported.
        written: Paths of files that were written meanwhile.
    """

    def __init__(self) -> None:
        self.read: dict[str, tuple[str, str]] = {}
        self.written: set[str] = set()
        self._project = Project([])

    def heard(self, path: str, call: Call | None, *, writes: bool, by: Readers) -> None:
        del call, by
        if not is_users_file(path):
            return
        if writes:
            self.written.add(path)
        elif path not in self.read and not _is_imported(path, path):
            says = self._project.content(path)
            if says is not None:
                self.read[path] = (says, _module_at_work())


_call: ContextVar[tuple[Watch, Call] | tuple[()] | None] = ContextVar("limpet_call", default=None)
_listening: list[Watch | Early] = []
_own = threading.local()
_is_hooked = False
missed: deque[str] = deque(maxlen=100)
"""What was opened and could not be noted, and why: whoever listens says so."""
early = Early()
"""What was read while modules were imported under `importing`."""


@contextmanager
def importing() -> Iterator[None]:
    """Note what is read meanwhile: modules of the user's are being imported."""
    listen(early)
    try:
        yield
    finally:
        _listening.remove(early)


@contextmanager
def for_nobody() -> Iterator[None]:
    """Take what is read in this context as read for no call: by a hook that looks on."""
    token = _call.set(())
    try:
        yield
    finally:
        _call.reset(token)


def stop_listening(watch: Watch) -> None:
    """Listen no more."""
    if watch in _listening:
        _listening.remove(watch)


def listen(listener: Watch | Early) -> None:
    """Begin to listen."""
    global _is_hooked  # noqa: PLW0603 - a hook stays for the life of the process
    if not _is_hooked:
        sys.addaudithook(_hear)
        _is_hooked = True
    _listening.append(listener)


@contextmanager
def unheard() -> Iterator[None]:
    """Let what is opened here, by ourselves, go unheard."""
    was, _own.is_busy = getattr(_own, "is_busy", False), True
    try:
        yield
    finally:
        _own.is_busy = was


def _hear(event: str, args: tuple[Any, ...]) -> None:
    # Python calls this for whatever happens: the first line is all that most of it costs.
    if event not in _EVENTS or not _listening or getattr(_own, "is_busy", False):
        return
    try:
        with unheard():
            _heard(event, args)
    except Exception as error:  # noqa: BLE001 - who opens a file must not fail because we look on
        missed.append(f"{event} {args[:1]}: {error!r}")


def _heard(event: str, args: tuple[Any, ...]) -> None:
    current = _call.get()
    if not current and _is_ours():
        return
    paths, kinds = _opened(event, args)
    by = None if current is None else _functions_at_work()
    for path in paths:
        if isinstance(path, int):
            continue
        whole = _source_of(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100 - texts
        if False in kinds and by is not None:
            _note_in_process(whole, by)
        for listener, writes in itertools.product(list(_listening), kinds):
            if current == () and not writes:
                continue
            call = current[1] if current and current[0] is listener else None
            listener.heard(whole, call, writes=writes, by=by)


def _opened(event: str, args: tuple[Any, ...]) -> tuple[Sequence[Any], Sequence[bool]]:
    """Return what is opened, and how: False to be read, True to be written, or both in turn."""
    if event in _LISTING:
        return (args[0] or ".",), (False,)
    if event != "open":
        return args[: 2 if event == "os.rename" else 1], (True,)
    path, mode, flags = args
    if mode:
        writes, both = any(letter in mode for letter in "wax+"), "+" in mode
    else:
        writes, both = bool(flags & _WRITING), bool(flags & os.O_RDWR)
    return (path,), (False, True) if both else (writes,)


def _source_of(path: str) -> str:
    """Return the source that bytecode was made of: that is what a user edits."""
    if path.endswith(".pyc"):
        with suppress(ValueError):
            return source_from_cache(path)
    return path


_read_in_process: dict[str, tuple[str, set[tuple[str, int]]]] = {}
_contents = Project([])


def _note_in_process(path: str, by: frozenset[tuple[str, int]]) -> None:
    """Remember what was read in this process, and by which functions: a cache may hold it."""
    if not is_users_file(path) or len(_read_in_process) >= _MOST_IN_PROCESS:
        return
    says = _contents.content(path)
    if says is not None:
        _, readers = _read_in_process.get(path, ("", set()))
        _read_in_process[path] = (says, readers | by)


def read_by(code: Collection[tuple[str, int]]) -> list[tuple[str, str]]:
    """Return paths that functions have read in this process, with what they said."""
    there = list(_read_in_process.items())
    return [(path, says) for path, (says, readers) in there if not readers.isdisjoint(code)]


# ---- who is at work -----------------------------------------------------------------------------


def _frames() -> Iterator[FrameType]:
    """Yield the frames that are running, the innermost first, without those of this file."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - there is no other way
    while frame is not None:
        if frame.f_code.co_filename != __file__:
            yield frame
        frame = frame.f_back


def _is_ours() -> bool:
    """Tell whether it is our own code that opens something."""
    files = (frame.f_code.co_filename for frame in _frames())
    return next((file for file in files if not file.startswith(_OF_LIBRARY)), "").startswith(_OURS)


def _is_imported(name: str, path: str) -> bool:
    """Tell whether it is a module's source, which counts as code, or looked for by an import."""
    if name.endswith(".py"):
        files = (
            vars(module).get("__file__")
            for module in list(sys.modules.values())
            if is_module(module)
        )
        return any(file and os.path.abspath(file) == path for file in files)  # noqa: PTH100 - texts
    return os.path.isdir(path) and _is_read_by_python()  # noqa: PTH112 - a text


def _is_read_by_python() -> bool:
    """Tell whether Python itself reads: to import something, or to show it in a traceback."""
    for frame in _frames():
        if frame.f_globals.get("__name__") in _OF_PYTHON:
            return True
        if not frame.f_code.co_filename.startswith(_OF_LIBRARY):
            return False
    return False


def _functions_at_work() -> frozenset[tuple[str, int]]:
    """Return file and line of each function of the user's that is running."""
    codes = (frame.f_code for frame in _frames())
    return frozenset(
        (code.co_filename, code.co_firstlineno)
        for code in codes
        if code.co_name != "<module>" and is_users_file(code.co_filename)
    )


def _module_at_work() -> str:
    """Return the name of the user's module whose own code is running; empty if there is none."""
    for frame in _frames():
        if frame.f_code.co_name == "<module>" and is_users_file(frame.f_code.co_filename):
            return str(frame.f_globals.get("__name__", ""))
    return ""
