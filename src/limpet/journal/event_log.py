"""Which attempts of a session started or failed, and at what pace?

No result depends on it: a line that cannot be read is skipped.
"""

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeGuard

import orjson

from limpet.errors import JournalError
from limpet.journal.files import open_to_read
from limpet.json_values import spellings

_GROUP_BYTES, _TAIL_BYTES = 2**20, 2**16
_MOST_NEEDLES = 20
_STARTED, _FAILED = b'"event":"started"', b'"event":"failed"'
_KEY = re.compile("[0-9a-f]{32}", re.ASCII | re.IGNORECASE)


class StartedAttempt(NamedTuple):
    """An attempt that started: its cell and generation, its number from 1, and when.

    It is `stalled` if it was far older than is usual for its step.
    """

    step: str
    key: str
    id: str
    attempt: int
    at: str
    generation: int = 0
    trial: int = 0
    stalled: bool = False


class EventLog:
    """The events of one session; `refresh` reads the new ones.

    Args:
        events: The file.
        start: The offset of the session's first event.
        calls: Whether to read the starts of attempts, which are most of the events.
        has_ended: Returns whether an attempt has a record; it is then forgotten, to save memory.

    Attributes:
        end: The offset after the last event that was read.
        begun: Attempts that started and did not fail, by step and key. Those without a record are
            in flight, or were when the session was interrupted.
        retries: How many attempts failed and were retried, by step.
        pace: The latest pace event of each step.
        waits: Why a step ended no cell for a minute; empty: it did.
        is_stopping: Whether the session has stopped taking work.
        is_paused: Whether it starts no calls until it is resumed.
    """

    def __init__(
        self,
        events: Path,
        start: int = 0,
        *,
        calls: bool = True,
        has_ended: Callable[[StartedAttempt], bool] | None = None,
    ) -> None:
        self.start = start
        self.calls = calls
        self._events = events
        self._has_ended = has_ended
        self.end = start
        self.begun: dict[tuple[str, str], StartedAttempt] = {}
        self.retries: Counter[str] = Counter()
        self.pace: dict[str, Mapping[str, Any]] = {}
        self.waits: dict[str, str] = {}
        self.is_stopping = self.is_paused = False

    def refresh(self) -> None:
        """Read the new events. An incomplete last line waits for the next refresh."""
        with contextlib.suppress(FileNotFoundError), open_to_read(self._events) as file:
            file.seek(self.end)
            while lines := file.readlines(_GROUP_BYTES):
                if not lines[-1].endswith(b"\n"):
                    del lines[-1]
                self.end += sum(map(len, lines))
                if not self.calls:
                    lines = [line for line in lines if _STARTED not in line]
                for event in filter(None, map(_event_of, lines)):
                    self._apply(event)
                if self._has_ended is not None:
                    self.forget(self._has_ended)

    def forget(self, has_ended: Callable[[StartedAttempt], bool]) -> None:
        """Forget the attempts that have ended."""
        begun = self.begun.items()
        self.begun = {cell: call for cell, call in begun if not has_ended(call)}

    def _apply(self, event: Mapping[str, Any]) -> None:
        # Plain comparisons, not `match`: there may be a million of these lines.
        kind, key = event.get("event"), event.get("key")
        step = event.get("step", "")
        if kind == "started" and _is_key(key):
            self.begun[step, key] = StartedAttempt(
                step,
                key,
                str(event.get("id")),
                event.get("attempt", 1),
                event.get("at", ""),
                event.get("generation", 0),
                event.get("trial", 0),
            )
        elif kind == "failed" and _is_key(key):
            self.begun.pop((step, key), None)
            self.retries[step] += "retry_in" in event
        elif kind == "pace":
            self.pace[step] = event
        elif kind == "stalled" and _is_key(key) and (step, key) in self.begun:
            self.begun[step, key] = self.begun[step, key]._replace(stalled=True)
        elif kind == "no_progress":
            self.waits[step] = str(event.get("words", ""))
        elif kind == "stopping":
            self.is_stopping = True
        elif kind == "order" and event.get("order") in ("pause", "resume"):
            self.is_paused = event["order"] == "pause"


def _is_key(value: Any) -> TypeGuard[str]:
    """Return whether a value is a key: a damaged line may contain anything."""
    return type(value) is str and _KEY.fullmatch(value) is not None


def unfinished(events: Path, start: int) -> list[StartedAttempt]:
    """Return the attempts from offset `start` that started and did not fail.

    Those without a record were in flight when the session ended: they may have been paid for.
    """
    log = EventLog(events, start)
    log.refresh()
    return list(log.begun.values())


def failed_attempts(events: Path, ids: set[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the events of failed attempts at some items, oldest first."""
    # Most lines belong to other items; they are not parsed unless `ids` is large.
    is_few = len(ids) <= _MOST_NEEDLES
    needles = [text for id_ in ids for text in spellings(id_)] if is_few else [b""]
    with contextlib.suppress(FileNotFoundError), open_to_read(events) as file:
        for text in _line_chunks(file):
            # Most chunks have no such line, and are not split.
            if _FAILED not in text or not any(needle in text for needle in needles):
                continue
            for line in text.split(b"\n"):
                if _FAILED in line and any(needle in line for needle in needles):
                    event = _event_of(line)
                    if event is not None and event.get("id") in ids:
                        yield event


def _line_chunks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the file in chunks of complete lines."""
    rest = b""
    while text := file.read(_GROUP_BYTES):
        text = rest + text
        end = text.rfind(b"\n") + 1
        yield text[:end]
        rest = text[end:]


def last_event_at(events: Path) -> str:
    """Return the time of the last event, from the last lines alone; "" if there is none."""
    return next((str(event["at"]) for event in _last_events(events) if "at" in event), "")


def last_pace(events: Path, step: str) -> Mapping[str, Any]:
    """Return the last pace event of a step, from the last lines alone; empty if there is none."""
    paces = (event for event in _last_events(events) if event.get("event") == "pace")
    return next((pace for pace in paces if pace.get("step") == step), {})


def _last_events(events: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the events of the last lines, the latest first."""
    with contextlib.suppress(OSError, JournalError), open_to_read(events) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        yield from filter(None, map(_event_of, reversed(file.read().splitlines())))


def _event_of(line: bytes) -> Mapping[str, Any] | None:
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            event = json.loads(line) if b"\\ud" in line else None  # perhaps half a character
        except ValueError:
            return None
    return event if isinstance(event, dict) else None
