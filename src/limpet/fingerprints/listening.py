"""Who opens which file? Python tells, by an audit hook.

It is asked while a workflow is imported, set up and called; each call runs in a context of its own,
which is how a file is known to be read by it. A hook stays for the life of the process, and Python
calls it for whatever happens: while nobody listens it costs next to nothing.
"""

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from pathlib import Path
from types import FrameType
from typing import Any

from limpet.fingerprints.ownership import is_users_file
from limpet.fingerprints.project import Project
from limpet.fingerprints.reads import Call, StepReads

_LISTING = {"os.listdir", "os.scandir"}
_EVENTS = {"open", "os.rename", "os.remove", "os.truncate", *_LISTING}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OF_PYTHON = {"importlib._bootstrap_external", "linecache", "tokenize", "inspect", "runpy"}
_OF_PYTHON |= {"zipimport", "pkgutil", "traceback"}
_OURS = str(Path(__file__).parents[1])
_OF_LIBRARY = (os.path.dirname(os.__file__) + os.sep, "<frozen")  # noqa: PTH120 - a text


class Watch:
    """Listens to what is opened, for one session.

    Args:
        project: Whose files count.
        steps: Whose reads are noted.

    Attributes:
        written: Files that were written, too: what they say is the run's own doing.
    """

    def __init__(self, project: Project, steps: Iterable[StepReads]) -> None:
        self.project = project
        self.steps = {one.step: one for one in steps}
        self.written: set[str] = set()

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

    def heard(self, path: str, call: Call | None, *, writes: bool) -> None:
        """Take note of a file that is being opened, by a call or by nobody knows whom."""
        name = self.project.name_of(path)
        if name is None:
            return
        if writes:
            self.written |= {name, f"{name.rpartition('/')[0]}/"}  # its folder has other names now
            return
        says = self.project.content(path)
        is_pythons = name.endswith((".py", "/")) and _is_read_by_python()
        if says is None or is_pythons:
            return
        if call is not None:
            call.read(name, says)
        reader = None if call is None else _function_at_work()
        for step in self.steps.values():
            # Whoever uses the function that reads it may find it in a cache.
            if call is None or (not call.is_of(step) and reader in step.code):
                step.read(name, says, None)


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

    def heard(self, path: str, _: Call | None, *, writes: bool) -> None:
        if not is_users_file(path):
            return
        if writes:
            self.written.add(path)
        elif path not in self.read and not _is_read_by_python():
            says = self._project.content(path)
            if says is not None:
                self.read[path] = (says, _module_at_work())


_call: ContextVar[tuple[Watch, Call] | tuple[()] | None] = ContextVar("limpet_call", default=None)
_listening: list[Watch | Early] = []
_own = threading.local()
_is_hooked = False
early = Early()
"""What was read while modules were imported under `importing`."""


@contextmanager
def importing() -> Iterator[None]:
    """Note what is read meanwhile: modules of the user's are being imported."""
    _listen(early)
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


def listen(watch: Watch) -> None:
    """Begin to listen."""
    _listen(watch)


def stop_listening(watch: Watch) -> None:
    """Listen no more."""
    if watch in _listening:
        _listening.remove(watch)


def _listen(one: Watch | Early) -> None:
    global _is_hooked  # noqa: PLW0603 - a hook stays for the life of the process
    if not _is_hooked:
        sys.addaudithook(_hear)
        _is_hooked = True
    _listening.append(one)


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
    except Exception:  # noqa: BLE001, S110 - whoever opens a file must not fail because we look on
        pass


def _heard(event: str, args: tuple[Any, ...]) -> None:
    current = _call.get()
    if not current and _is_ours():
        return
    if event in _LISTING:
        writes, paths = False, (args[0] or ".",)
    elif event == "open":
        _, mode, flags = args
        writes = any(one in mode for one in "wax+") if mode else bool(flags & _WRITING)
        paths = args[:1]
    else:
        writes, paths = True, args[: 2 if event == "os.rename" else 1]
    for path in paths:
        if isinstance(path, int):
            continue
        whole = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - a text in, a text out
        for one in _listening:
            if current is None or isinstance(one, Early) or (writes and not current):
                one.heard(whole, None, writes=writes)
            elif current and current[0] is one:
                one.heard(whole, current[1], writes=writes)


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
    return next((one for one in files if not one.startswith(_OF_LIBRARY)), "").startswith(_OURS)


def _is_read_by_python() -> bool:
    """Tell whether Python itself reads: to import something, or to show it in a traceback."""
    for frame in _frames():
        if frame.f_globals.get("__name__") in _OF_PYTHON:
            return True
        if not frame.f_code.co_filename.startswith(_OF_LIBRARY):
            return False
    return False


def _function_at_work() -> tuple[str, int] | None:
    """Return file and line of the user's innermost function that is running."""
    codes = (frame.f_code for frame in _frames())
    users = (one for one in codes if one.co_name != "<module>" and is_users_file(one.co_filename))
    return next(((one.co_filename, one.co_firstlineno) for one in users), None)


def _module_at_work() -> str:
    """Return the name of the user's module whose own code is running; empty if there is none."""
    for frame in _frames():
        if frame.f_code.co_name == "<module>" and is_users_file(frame.f_code.co_filename):
            return str(frame.f_globals.get("__name__", ""))
    return ""
