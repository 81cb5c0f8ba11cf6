"""Which files does a call read?

Python tells of every file that is opened, and of every folder that is listed, by an audit hook. It
is asked while a workflow is
imported, set up and called; each call runs in a context of its own, which is how a file is known to
be read by it. What is read outside of any call (at import, while setting up, in a thread of the
user's) is read for all.

What one call reads another may use: the first fills a cache. So what a call read before is shared
by all that end later, with two exceptions, each with evidence:

- a file that a later call reads again, on the same thread, is read afresh by whoever needs it;
- a file whose name comes out of the row (`docs/17.txt` for the item 17) is for rows that say so,
  where another row had another file of the same pattern.

Not seen: what code in C and what other processes read.
"""

import itertools
import os
import re
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from limpet.fingerprints.ownership import is_users_file
from limpet.fingerprints.project import Project

_LISTING = {"os.listdir", "os.scandir"}
_EVENTS = {"open", "os.rename", "os.remove", "os.truncate", *_LISTING}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OF_PYTHON = {
    "importlib._bootstrap_external",
    "linecache",
    "tokenize",
    "inspect",
    "runpy",
    "zipimport",
}
_OURS = str(Path(__file__).parents[1])
_OF_LIBRARY = (os.path.dirname(os.__file__) + os.sep, "<frozen")  # noqa: PTH120 - a text
_LONGEST_WORD = 200
_DEEPEST = 4
_MOST_READS = 1_000
_ticks = itertools.count()


class Read(NamedTuple):
    """A file that was read for the first time by a step, or said something else than before.

    Attributes:
        step: Which.
        file: What it is called.
        says: Its digest.
        pattern: Its name without what the row says, where the row says part of it.
        word: That part.
    """

    step: str
    file: str
    says: str
    pattern: str | None = None
    word: str | None = None


class Call:
    """One call, and what it reads.

    Attributes:
        files: What it read: by name, the digest.
    """

    __slots__ = ("_begun", "_step", "_values", "ended", "files")

    def __init__(self, step: "StepReads", row: Any) -> None:
        self.files: dict[str, str] = {}
        self._step = step
        self._values = row
        self._begun, self.ended = next(_ticks), -1

    @property
    def is_over(self) -> bool:
        return self.ended >= 0

    def end(self) -> None:
        self.ended = next(_ticks)

    def began_after(self, other: "Call") -> bool:
        return 0 <= other.ended < self._begun

    def words(self) -> frozenset[str]:
        """Return what the row says: its values, each as a text."""
        if not isinstance(self._values, frozenset):
            self._values = frozenset(_words(self._values, _DEEPEST))
        return self._values

    def is_of(self, step: "StepReads") -> bool:
        return self._step is step

    def read(self, name: str, says: str) -> None:
        if self.is_over:  # by a task that it left behind
            self._step.read(name, says, None)
        else:
            if len(self.files) < _MOST_READS:
                self.files.setdefault(name, says)
            self._step.read(name, says, self)


class StepReads:
    """What the calls of one step read in one session.

    Args:
        step: Its name.
        code: The functions of the user's that it is made of: file and line of each.
        known: What was read before for it in this process, and may be in a cache since.
    """

    def __init__(
        self,
        step: str,
        code: Collection[tuple[str, int]] = (),
        known: Iterable[Read] = (),
    ) -> None:
        self.step = step
        self.code = code
        self.new: list[Read] = []
        self.afresh: set[str] = set()
        self._known: dict[str, Read] = {}
        self._words: dict[str, dict[str, Read]] = {}
        self._readers: dict[tuple[str, int], Call] = {}
        for one in known:
            self._note(one)

    @property
    def known(self) -> list[Read]:
        """What a later session in this process may find in a cache."""
        return [one for one in self._known.values() if one.file not in self.afresh]

    def read(self, name: str, says: str, call: Call | None) -> None:
        """Note that a file was read, by a call or for all of them."""
        known = self._known.get(name)
        if call is not None:
            self._look_for_reader(name, call)
        if known is not None and known.says == says:
            return
        pattern, word = (None, None) if call is None else derived_from(name, call.words())
        self._note(Read(self.step, name, says, pattern, word))

    def _note(self, one: Read) -> None:
        self._known[one.file] = one
        self.new.append(one)
        if one.word is not None:
            self._words.setdefault(one.word, {})[one.file] = one

    def _look_for_reader(self, name: str, call: Call) -> None:
        if name in self.afresh:
            return
        place = (name, threading.get_native_id())
        before = self._readers.setdefault(place, call)
        if before is not call and call.began_after(before):
            self.afresh.add(name)

    def files_of(self, call: Call) -> dict[str, str]:
        """Return what a call read, and what its row names that others read before it."""
        files = dict(call.files)
        if self._words:
            for word in call.words() & self._words.keys():
                for name, one in self._words[word].items():
                    files.setdefault(name, one.says)
        return files


def derived_from(name: str, words: frozenset[str]) -> tuple[str | None, str | None]:
    """Return a file's name without what a row says, and what that is; None, None if nothing."""
    found = ""
    for word in words:
        if len(word) > len(found) and word in name and re.search(_alone(word), name):
            found = word
    return (re.sub(_alone(found), "*", name), found) if found else (None, None)


def _alone(word: str) -> str:
    """Return a pattern for a word that stands by itself in a name."""
    return rf"(?<![^\W_]){re.escape(word)}(?![^\W_])"


def _words(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, (str, int, float)):
        text = str(value)
        if 0 < len(text) <= _LONGEST_WORD:
            yield text
    elif isinstance(value, Mapping) and depth:
        for one in value.values():
            yield from _words(one, depth - 1)
    elif isinstance(value, (list, tuple)) and depth:
        for one in value:
            yield from _words(one, depth - 1)


# ---- listening ----------------------------------------------------------------------------------


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

    @contextmanager
    def calling(self, step: str, row: Any) -> Iterator[Call]:
        """Take what is read in this context for the call's."""
        call = Call(self.steps[step], row)
        token = _call.set((self, call))
        try:
            yield call
        finally:
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
        elif path not in self.read and not path.endswith((".pyc", ".py", ".so")):
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


def _is_ours() -> bool:
    """Tell whether it is our own code that opens something."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - there is no other way
    while frame is not None:
        file = frame.f_code.co_filename
        if file != __file__ and not file.startswith(_OF_LIBRARY):
            return file.startswith(_OURS)
        frame = frame.f_back
    return False


def _function_at_work() -> tuple[str, int] | None:
    """Return file and line of the user's innermost function that is running."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - there is no other way
    while frame is not None:
        code = frame.f_code
        if code.co_name != "<module>" and is_users_file(code.co_filename):
            return code.co_filename, code.co_firstlineno
        frame = frame.f_back
    return None


def _module_at_work() -> str:
    """Return the name of the user's module whose own code is running; empty if there is none."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - there is no other way
    while frame is not None:
        if frame.f_code.co_name == "<module>" and is_users_file(frame.f_code.co_filename):
            return str(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
    return ""


def _is_read_by_python() -> bool:
    """Tell whether a source file is opened to be imported, or to be shown in a traceback."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - there is no other way
    for _ in range(12):  # ours among them
        if frame is None:
            return False
        if frame.f_globals.get("__name__") in _OF_PYTHON:
            return True
        frame = frame.f_back
    return False
