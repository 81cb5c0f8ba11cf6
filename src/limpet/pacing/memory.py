"""What did earlier runs learn about an endpoint?

A limit that was found should not be searched for again at every start. What a pacer learned is
plain JSON (`save_memory`), and a later one starts from it (`restore_memory`). `PaceMemory` keeps it
for the user from run to run, for a day. It is a first guess, never a fact: refusals measure as
usual, and a server that only queues is tried with few calls before many are in flight.

The file names endpoints and models. Accounts are told apart by an HMAC of their key with a salt
that never leaves the folder; neither keys nor anything of a call are in it.
"""

import hashlib
import hmac
import json
import math
import os
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from limpet.pacing.adaptive import AdaptiveLimits
from limpet.pacing.estimates import FULL_SPEED, Ceiling
from limpet.pacing.known_limits import QUOTA_PLATEAU_S, SLOWER
from limpet.pacing.limits import number

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: two runs at once may forget what one learned
    fcntl = None  # type: ignore[assignment]

# ---- of one pacer -------------------------------------------------------------------------------

MEMORY_VERSION = 1


def save_memory(limits: AdaptiveLimits) -> dict[str, Any]:
    """Return what the limits learned, as plain JSON."""
    tops = {name: ceiling.top for name, ceiling in _ceilings(limits).items() if ceiling.known}
    return {
        "version": MEMORY_VERSION,
        **tops,
        "latency_s": limits.steady_latency_s,
        "mean_cost": limits.mean_cost,
        "chance": limits.chance.share,
        "steady_rate": limits.throughput.rate,
        "window": limits.rounds.steady_window,
        "found": limits.rounds.found,
        "idle_s": limits.rounds.idle_s,
        "by_headers": bool(limits.mirrors),  # for people only
    }


def restore_memory(limits: AdaptiveLimits, learned: Mapping[str, Any]) -> None:
    """Start from what was learned. Invalid values and other versions are ignored."""
    if learned.get("version") != MEMORY_VERSION:
        return
    now = limits.clock()
    limits.latency_s = limits.steady_latency_s = _within(learned, "latency_s", 1e-3, 3600.0)
    limits.mean_cost = _within(learned, "mean_cost", 1e-3, 1e9)
    limits.throughput.remembered = number(learned.get("steady_rate")) or 0.0
    for name, ceiling in _ceilings(limits).items():
        top = number(learned.get(name))
        # Less than one call in ten minutes is not a plausible ceiling.
        if top and top >= limits.mean_cost / 600:
            if ceiling is limits.quota:
                ceiling.lower_to(top, now, FULL_SPEED / SLOWER, QUOTA_PLATEAU_S, dip=0.0)
            else:
                ceiling.lower_to(top, now, math.inf)
    if limits.in_flight_cap.known:
        limits.expect_cap()
    if share := number(learned.get("chance")):
        limits.chance.believe(round(100 * min(share, 1.0)), 100)  # and its probation begins
    window = min(number(learned.get("window")) or 0.0, float(limits.max_in_flight))
    if any(name in learned for name in _ceilings(limits)):  # it refuses what is too much
        limits.rounds.window = max(limits.rounds.window, window)
    elif idle_s := number(learned.get("idle_s")):
        limits.rounds.expect(window, idle_s, found=learned.get("found") is True)
    limits.rounds.open(now)


def _within(learned: Mapping[str, Any], name: str, least: float, most: float) -> float:
    value = number(learned.get(name))
    return 1.0 if value is None else min(max(value, least), most)


def _ceilings(limits: AdaptiveLimits) -> dict[str, Ceiling]:
    return {"rate": limits.rate, "in_flight": limits.in_flight_cap, "per_minute": limits.quota}


# ---- of all pacers, from run to run -------------------------------------------------------------

A_DAY_S = 86_400.0
MOST_BYTES, MOST_ENDPOINTS = 1_000_000, 500
_SALT_BYTES = 32
_TRIES, _TRY_AGAIN_S = 10, 0.005
_FOUND = {"rate", "in_flight", "per_minute"}
_SECRETS = re.compile(r"(?<=://)[^/@\s]*@|[?#]\S*")
"""Parts of an address that may be secret."""
OFF = "LIMPET_REMEMBER_PACE"


class PaceMemory:
    """What runs of this user learned, in a folder of its own.

    Whatever is wrong with the file, a run starts without it: it saves seconds, no results.

    Args:
        folder: The folder; it is created when something is saved.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "pace.json"

    def learned(self, endpoint: str, account: bytes) -> Mapping[str, Any]:
        """Return what was learned of an endpoint within a day; empty if nothing."""
        entries = self.entries()
        # Without entries, no name is needed, nor a salt, which would be written.
        entry = entries.get(self.name_of(endpoint, account)) if entries else None
        return {} if entry is None else dict(entry["learned"])

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return the entries of the last day by their name: `endpoint`, `at` and `learned`."""
        now = time.time()
        return {
            name: entry
            for name, entry in (self._found() or {}).items()
            if isinstance(entry, dict)
            and isinstance(entry.get("endpoint"), str)
            and isinstance(entry.get("learned"), dict)
            and isinstance(entry.get("at"), (int, float))
            and 0 <= now - (number(entry.get("at")) or 0.0) < A_DAY_S
        }

    @property
    def is_damaged(self) -> bool:
        """Whether the file makes no sense. The next run that learns something replaces it."""
        return self._found() is None

    def _found(self) -> dict[str, Any] | None:
        try:
            with os.fdopen(open_private(self.path), "rb") as file:
                found = json.loads(file.read(MOST_BYTES))
        except OSError:
            return {}
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def save(self, learned: Iterable[tuple[str, bytes, Mapping[str, Any]]]) -> None:
        """Add what was learned of endpoints and accounts, if the folder can be written."""
        # A short run learns nothing: what an earlier one learned stays, with its age.
        news = [one for one in learned if one[2].keys() & _FOUND or one[2].get("idle_s")]
        if not news:
            return
        with suppress(OSError), self._changing() as entries:
            for endpoint, account, one in news:
                name = self.name_of(endpoint, account)
                entries.pop(name, None)  # the newest last
                shown = _SECRETS.sub("", endpoint)
                entries[name] = {"endpoint": shown, "at": time.time(), "learned": dict(one)}

    def forget(self, endpoint: str = "") -> int:
        """Remove what was learned of endpoints that begin so. Returns how many."""
        with self._changing() as entries:
            names = [
                name for name, entry in entries.items() if entry["endpoint"].startswith(endpoint)
            ]
            for name in names:
                del entries[name]
        return len(names)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, dict[str, Any]]]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = open_private(self.path.with_name("pace.lock"), os.O_CREAT)
        new = ""
        try:
            _take(lock)
            entries = self.entries()
            yield entries
            kept = dict(list(entries.items())[-MOST_ENDPOINTS:])
            with tempfile.NamedTemporaryFile(  # 0600
                "w", encoding="utf-8", dir=self.path.parent, prefix=".pace", delete=False
            ) as file:
                new = file.name
                json.dump(kept, file, indent=1)
            Path(new).replace(self.path)
        except BaseException:
            if new:
                Path(new).unlink(missing_ok=True)
            raise
        finally:
            os.close(lock)

    def name_of(self, endpoint: str, account: bytes) -> str:
        return hmac.new(self._salt(), endpoint.encode() + b"\0" + account, "sha256").hexdigest()

    def _salt(self) -> bytes:
        path = self.path.with_name("salt")
        if (salt := _read_salt(path)) is not None:
            return salt
        salt = secrets.token_bytes(_SALT_BYTES)
        new = path.with_suffix(f".{secrets.token_hex(4)}")
        with suppress(OSError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(open_private(new, os.O_CREAT), "wb") as file:
                file.write(salt)
            with suppress(FileExistsError):  # another process was faster
                os.link(new, path)
        with suppress(OSError):
            new.unlink(missing_ok=True)
        return _read_salt(path) or salt


def _read_salt(path: Path) -> bytes | None:
    try:
        with os.fdopen(open_private(path), "rb") as file:
            salt = file.read(_SALT_BYTES + 1)
    except OSError:
        return None
    if len(salt) == _SALT_BYTES:
        return salt
    with suppress(OSError):  # damaged
        path.unlink()
    return None


def _take(lock: int) -> None:
    """Take the lock soon, or not at all: a process that was stopped must stop nobody.

    Raises:
        BlockingIOError: Another process holds it.
    """
    for tries_left in range(_TRIES, -1, -1):
        try:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not tries_left:
                raise
            time.sleep(_TRY_AGAIN_S)
        else:
            return


def open_private(path: Path, flags: int = 0) -> int:
    """Open a regular file of this user, never through a link.

    Raises:
        OSError: It cannot be opened, or is something else.
    """
    flags |= os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    file = os.open(path, flags, 0o600)
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
        os.close(file)
        raise PermissionError(f"{path} is not a file of yours")
    return file


def of_the_user() -> PaceMemory | None:
    """Return the memory of this user; None: it is turned off, or there is no home."""
    if os.environ.get(OFF) == "0":
        return None
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        base = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return PaceMemory(base / "limpet")


def digest_of(key: str) -> bytes:
    """Return what tells an API key from others, in memory only."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
