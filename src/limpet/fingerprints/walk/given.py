"""Was a value made by chance, or did somebody give it?

`self.run = run or uuid4().hex` is made by chance where nobody gives a run. The value itself tells:
an id that stands nowhere in the code and a time since this process began were given by nobody.
"""

import datetime as dt
import os
import random
import re
import sys
import time
import uuid
from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.walk.asking import is_a, text_at
from limpet.fingerprints.walk.values import contents_of

if TYPE_CHECKING:
    from limpet.fingerprints.walk.walk import Walk

_LEAVES = (str, bytes, int, float, uuid.UUID, dt.datetime, dt.date, dt.time, dt.timedelta)
_CONTAINERS = (list, tuple, dict, set, frozenset)
_CHANCE_KINDS = (object, random.Random, random.SystemRandom)
_MADE = {1, 4, 6, 7}  # versions of UUIDs that nobody computes
_ID = re.compile(
    r"(?i)[\w.:-]{0,20}?(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|(?<![0-9a-z])(?=[a-f]*[0-9])[0-9a-f]{8,})"
)
_BEGUN = time.time() - 60
_DATE = len("2026-11-15")
_MOST = 1_000
_SHORTEST = 8


def is_plain(value: Any, room: int = _MOST) -> bool:
    """Tell whether a value is a leaf, or holds nothing else: it has no code, and shows all."""
    kind = type(value)
    if is_a(value, *_LEAVES, *_CHANCE_KINDS) or issubclass(kind, PurePath):
        return True
    if is_a(value, *_CONTAINERS):
        held = contents_of(value) or []
        parts = [part for one in held for part in one] if kind is dict else held
        return len(parts) <= room and all(is_plain(one, room // 2) for one in parts)
    return (text_at(kind, "__module__") or "") == "tempfile"


def is_made(walk: "Walk", value: Any) -> bool:
    """Tell whether nobody can have given this value: it is an id, or a time of this process."""
    kind = type(value)
    if kind is uuid.UUID:
        return value.version in _MADE and not _is_written(walk, [str(value), value.hex])
    if kind is str:
        if len(value) > _DATE and _is_of_now(_time_in(value)):
            return True
        return _ID.fullmatch(value) is not None and not _is_written(walk, [value])
    if kind is bytes:
        return len(value) >= _SHORTEST and not value.isascii()
    if kind is float or kind is int:
        return any(_is_of_now(value / unit) for unit in (1, 1e3, 1e6, 1e9))
    if kind is dt.datetime:
        return _is_of_now(value.timestamp())
    return False


def _time_in(text: str) -> float:
    try:
        return dt.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def _is_of_now(seconds: float) -> bool:
    return _BEGUN <= seconds <= time.time()


def _is_written(walk: "Walk", texts: Iterable[str]) -> bool:
    outside = [*sys.argv, *os.environ.values(), *walk.users_texts]
    return any(one in each for one in texts for each in outside)


def times_set(walk: "Walk", name: str) -> int:
    """Count where the user's code sets `….name`, or names it in quotes, but for `self.name`."""
    found = re.compile(
        rf"(?<!\bself)\.{re.escape(name)}\s*(?::[^=\n]+)?[-+*/|&%]?=(?!=)"
        rf"|\bglobal\b[^\n]*\b{re.escape(name)}\b"
        rf"|\bsetattr\([^\n]*[\"']{re.escape(name)}[\"']"
        rf"|\[\s*[\"']{re.escape(name)}[\"']\s*\]\s*[-+*/|&%]?=(?!=)"
        rf"|\b(?:update|replace|_replace|patch[\w.]*)\([^)\n]*\b{re.escape(name)}\b"
    )
    return sum(len(found.findall(one)) for one in walk.users_texts)
