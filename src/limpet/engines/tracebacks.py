"""Where in the user's code did it fail?

A traceback as Python prints it, without the frames of limpet, the standard library and installed
packages, unless there are no others: readers look for a line of their own.

It is recorded for every failure, and exceptions are hostile: recursion gives thousands of frames, a
message may be an entire response, attributes may be overridden. So everything is bounded,
attributes are read past overrides, and formatting never raises. Source lines may contain hard-coded
keys: literals that look like keys are left out. The caller masks secrets known by value.
"""

import itertools
import linecache
import logging
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from limpet.errors import LimpetError
from limpet.executors.loops import end_if_forked
from limpet.fingerprints.walk.ownership import is_users_file
from limpet.secrets.masking import by_environment, without_credentials
from limpet.text import text_of

_FIRST_FRAMES, _LAST_FRAMES = 3, 9
_MOST_WALKED = 10_000
_MOST_IN_CHAIN, _MOST_IN_GROUP, _MOST_LEVELS, _MOST_NOTES = 5, 5, 3, 5
_MOST_LINE, _MOST_MESSAGE, _MOST_CHARACTERS = 300, 500, 6_000
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_USER, _LIBRARY, _OURS = "user", "library", "ours"
_PACKAGE = str(Path(__file__).parents[1]) + os.sep
CARRIED = "__limpet_traceback__"
"""The attribute of an exception from another process that holds its traceback there, as text."""
_LITERALS = (
    # api_key="…", headers["Authorization"] = '…', ("password", "…")
    re.compile(
        r"""(?i)((?:key|token|secret|passw(?:or)?d|pwd|credential|authorization|cookie)(?!Error)\w*["']?\]?"""
        r"""\s*[=:,(]{1,2}\s*[bfru]{0,2})(["'])(?:\\.|(?!\2).)+\2"""
    ),
)

logger = logging.getLogger("limpet.run")


class logging_failure:  # noqa: N801 - used like a function; a generator would take three times as long
    """Call a user's hook in this context: an exception is logged, and no result is lost.

    Args:
        hook: The hook, or its name in the log.
    """

    __slots__ = ("_home", "_hook")

    def __init__(self, hook: Callable[..., Any] | str) -> None:
        self._hook = hook

    def __enter__(self) -> None:
        self._home = os.getpid()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if not isinstance(error, (Exception, SystemExit)):
            return False
        end_if_forked(self._home, error)
        name = getattr(self._hook, "__qualname__", type(self._hook).__name__)
        name = self._hook if isinstance(self._hook, str) else name
        logger.error("%s failed: %s", name, safe_traceback(error))
        return True


def safe_traceback(error: BaseException) -> str:
    """Return the traceback of a user's exception without secrets.

    For the log: a traceback that `logging` writes itself is not masked.
    """
    name, message = type(error).__name__, text_of(error)
    text = user_traceback(error) or (f"{name}: {message}" if message else name)
    return by_environment().certain.text(text)


def user_traceback(error: BaseException) -> str:
    """Return the traceback of an exception with its causes; empty if there are no frames."""
    if isinstance(error, LimpetError) and error.details:
        return _bounded(error.details.splitlines())
    try:
        formatter = _Formatter()
        lines = list(formatter.chain(error, _MOST_LEVELS))
    except Exception:  # noqa: BLE001 - an exception may be hostile in unforeseen ways
        return ""
    return _bounded(lines) if formatter.frames else ""


class _Formatter:
    """Formats an exception with its causes.

    Attributes:
        frames: How many frames were formatted.
    """

    def __init__(self) -> None:
        self.frames = 0
        self._seen: set[int] = set()

    def chain(self, error: BaseException, levels: int) -> Iterator[str]:
        """Yield the lines of an exception, its causes first."""
        links: list[tuple[BaseException, str]] = []
        current: BaseException | None = error
        link = ""
        while current is not None and id(current) not in self._seen:
            if len(links) == _MOST_IN_CHAIN:
                break
            self._seen.add(id(current))
            links.append((current, link))
            if _own(current, "__dict__").get(CARRIED):  # with its causes
                break
            current, link = _before(current)
        for current, link in reversed(links):
            yield from self._single(current, levels)
            if link:
                yield from ("", link, "")

    def _single(self, error: BaseException, levels: int) -> Iterator[str]:
        if carried := _own(error, "__dict__").get(CARRIED):
            self.frames += 1
            yield from str(carried).splitlines()
            return
        frames, left_out = _frames_of(error)
        self.frames += len(frames)
        if frames:
            yield "Traceback (most recent call last):"
        for number, (file, line, name, source) in enumerate(frames):
            if left_out and number == _FIRST_FRAMES:
                yield f"  … {left_out:,} more frames"
            yield f'  File "{file}", line {line}, in {name}'
            if source:
                yield f"    {source}"
        message = _shortened(text_of(error), _MOST_MESSAGE)
        yield f"{type(error).__name__}: {message}" if message else type(error).__name__
        yield from _notes(error)
        if isinstance(error, BaseExceptionGroup):
            yield from self._group(error, levels)

    def _group(self, error: BaseExceptionGroup[Any], levels: int) -> Iterator[str]:
        inner = BaseExceptionGroup.exceptions.__get__(error)
        shown = inner[:_MOST_IN_GROUP] if levels > 0 else ()
        for number, exception in enumerate(shown, 1):
            yield f"  ---- {number} of {len(inner)} ----"
            yield from (f"  {line}" for line in self.chain(exception, levels - 1))


def _before(error: BaseException) -> tuple[BaseException | None, str]:
    """Return the cause or context of an exception, and the line that introduces it."""
    if (cause := _own(error, "__cause__")) is not None:
        return cause, _CAUSE
    if _own(error, "__suppress_context__"):
        return None, ""
    return _own(error, "__context__"), _CONTEXT


def _own(error: BaseException, name: str) -> Any:
    """Read an attribute of BaseException past overrides in the exception's class."""
    return BaseException.__dict__[name].__get__(error)


def _notes(error: BaseException) -> Iterator[str]:
    notes = _own(error, "__dict__").get("__notes__")
    if isinstance(notes, list):
        for note in notes[:_MOST_NOTES]:
            if isinstance(note, str):
                yield _shortened(note, _MOST_MESSAGE)


# ---- frames --------------------------------------------------------------------------------------


class _FewFrames:
    """The first and last few frames of a traceback."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[tuple[FrameType, int]] = []
        self._last: deque[tuple[FrameType, int]] = deque(maxlen=_LAST_FRAMES)

    def add(self, frame: FrameType, line: int) -> None:
        self.count += 1
        into = self._first if len(self._first) < _FIRST_FRAMES else self._last
        into.append((frame, line))

    def shown(self) -> list[tuple[str, int, str, str]]:
        return [_source_line(frame, line) for frame, line in (*self._first, *self._last)]


def _frames_of(error: BaseException) -> tuple[list[tuple[str, int, str, str]], int]:
    """Return the frames to show, and how many are left out between them."""
    frames_by = {_USER: _FewFrames(), _LIBRARY: _FewFrames(), _OURS: _FewFrames()}
    at: TracebackType | None = _own(error, "__traceback__")
    for _ in range(_MOST_WALKED):
        if at is None:
            break
        frames_by[_whose(at.tb_frame.f_code.co_filename)].add(at.tb_frame, at.tb_lineno)
        at = at.tb_next
    few = frames_by[_USER] if frames_by[_USER].count else frames_by[_LIBRARY]
    if not few.count and not isinstance(error, LimpetError):
        few = frames_by[_OURS]
    frames = few.shown()
    return frames, few.count - len(frames)


def _whose(file: str) -> str:
    if file.startswith(_PACKAGE):
        return _OURS
    return _USER if is_users_file(file) else _LIBRARY


def _source_line(frame: FrameType, line: int) -> tuple[str, int, str, str]:
    code = frame.f_code
    try:
        source = linecache.getline(code.co_filename, line, frame.f_globals).strip()
    except Exception:  # noqa: BLE001 - a module's own loader may raise anything
        source = ""
    return (
        _relative_path(code.co_filename),
        line,
        code.co_qualname,
        _without_secrets(_shortened(source, _MOST_LINE)),
    )


def _relative_path(file: str) -> str:
    """Return a path relative to the working directory, if it is below it."""
    try:
        here = str(Path.cwd()) + os.sep
    except OSError:  # the directory was deleted
        return file
    return file.removeprefix(here)


def _without_secrets(source: str) -> str:
    for literal in _LITERALS:
        source = literal.sub(r"\1\2…\2", source)
    return without_credentials(source)[0]


# ---- bounds --------------------------------------------------------------------------------------


def _shortened(text: str, most: int) -> str:
    """Return a text shortened between words: masking would miss half a secret."""
    if len(text) <= most:
        return text
    words = re.match(r".*\s", text[:most], re.DOTALL)
    return f"{words[0].rstrip() if words else ''} …"


def _bounded(lines: list[str]) -> str:
    """Join the lines; if the text is too long, keep the first and the last of them."""
    text = "\n".join(lines)
    if len(text) <= _MOST_CHARACTERS:
        return text
    head, tail = _fitting(lines), _fitting(lines[::-1])
    return "\n".join([*head, "…", *tail[::-1]])


def _fitting(lines: list[str]) -> list[str]:
    """Return the first lines that fit into half the text."""
    ends = itertools.accumulate(len(line) + 1 for line in lines)
    return lines[: sum(end <= _MOST_CHARACTERS // 2 for end in ends)]
