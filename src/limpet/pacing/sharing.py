"""How do runs at the same time share one endpoint's limit?

The problem. Each pacer takes what it is given for the whole limit. Two of them on one limit search
against each other: the later one stays small, and every try for more is refused to both.

What does not work. Dividing the limit, and exchanging what each knows ten times a second: the
number in flight is then known too late to see a cap, and each process measures only its own part of
a bucket.

What we do. Every process tells the others of each call, when it starts and how it ended, in one
file (`CallLog`), and applies what the others tell to its own limits, in the order of the file and
with the time at which it happened. So each of them has the controller that a single process would
have. A newcomer begins with the last minutes of the file.

Who starts the next call? Of those that wait, the one with the fewest calls in flight, or whose last
call is the longest ago. The others leave room for it, in flight, in the rate and in a quota. Nobody
waits for a process that has no call to make.

What a process writes is also its lease: for `LEASE_S` it is there, and its calls are in flight. So
one that dies or hangs is soon forgotten. A process with a number of its own only writes: it keeps
its number, and the others see what it uses.
"""

import json
import logging
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

from limpet.pacing.adaptive import AdaptiveLimits
from limpet.pacing.limits import Limit
from limpet.pacing.memory import PaceMemory, open_private
from limpet.pacing.traffic import Sent, Traffic

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: `shared_log` says that it paces alone
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger("limpet.pacing")

LEASE_S, BEAT_S = 2.0, 0.25
"""How long a process is there after it wrote, and how often it writes while it has calls."""
POLL_S = 0.02
"""How often a process that waits looks what the others did."""
MOST_IN_FLIGHT = 1000
"""For all processes together."""

# ---- one file to which all processes append -----------------------------------------------------

MOST_BYTES = 300_000
"""Size at which a file is begun anew; the one before is kept. Two minutes at 20 calls a second."""
PATIENCE_S = 0.02
"""How long to wait for the lock. A process that was stopped while it holds it must stop nobody."""


class CallLog:
    """What the processes of a user tell each other about one endpoint, in order.

    Args:
        path: The file; only this user may change its folder.
        boot: What tells this start of the machine from others. Times of another one are void.
    """

    def __init__(self, path: Path, boot: str) -> None:
        self._path, self._old = path, path.with_suffix(".old")
        self._head = json.dumps(["boot", boot]).encode() + b"\n"
        self._file = self._read = self._lock = -1
        self._held = self._stuck = False
        self._lock = open_private(path.with_suffix(".lock"), os.O_CREAT)

    def history(self) -> list[bytes]:
        """Begin to read. Returns the lines of the last minutes."""
        with self.locked():
            before = self._new_lines() if self._begin(self._old) else []
            if not self._begin(self._path):
                self._create()
            return before + self._new_lines()

    def news(self) -> list[bytes]:
        """Return the lines since the last time."""
        lines = self._new_lines()
        with suppress(FileNotFoundError):  # it is just being begun anew
            if self._path.stat().st_ino != os.fstat(self._file).st_ino:
                if self._begin(self._path):
                    lines += self._new_lines()
                elif self._path.stat().st_ino == os.fstat(self._file).st_ino:
                    raise OSError("another machine, or another boot, began the log anew")
        return lines

    def append(self, line: str) -> None:
        """Add a line, within `locked`."""
        os.write(self._file, line.encode() + b"\n")
        found = os.fstat(self._file)
        if self._held and (found.st_size > MOST_BYTES or not found.st_nlink):  # somebody removed it
            self._create()

    def discard(self) -> None:
        """Remove what is there: it is damaged."""
        for path in (self._path, self._old):
            path.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the others from appending, for the order; if the lock can be had soon."""
        until = time.monotonic() + (0.0 if self._stuck else PATIENCE_S)
        while not self._held:
            with suppress(BlockingIOError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._held = True
            if not self._held:
                if time.monotonic() >= until:
                    break
                time.sleep(PATIENCE_S / 40)
        self._stuck = not self._held
        try:
            yield
        finally:
            if self._held:
                self._held = False
                fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _begin(self, path: Path) -> bool:
        """Read this file from now on. Returns whether it is there, and of this boot."""
        try:
            file = open_private(path, os.O_APPEND)
        except FileNotFoundError:
            return False
        if self._file >= 0:
            os.close(self._file)
        self._file, self._read = file, len(self._head)
        return os.pread(file, len(self._head), 0) == self._head

    def _create(self) -> None:
        new = self._path.with_suffix(f".{secrets.token_hex(4)}")
        file = open_private(new, os.O_CREAT)
        os.write(file, self._head)
        os.close(file)
        if self._held:
            with suppress(FileNotFoundError):
                self._path.replace(self._old)
        with suppress(FileExistsError):  # another process was faster
            os.link(new, self._path)
        new.unlink()
        self._begin(self._path)

    def _new_lines(self) -> list[bytes]:
        data = b""
        while more := os.pread(self._file, 1 << 16, self._read + len(data)):
            data += more
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.splitlines()

    def __del__(self) -> None:
        for file in (self._file, self._lock):
            if file >= 0:
                os.close(file)


def shared_log(endpoint: str, account: bytes) -> CallLog:
    """Return the log of an endpoint and account.

    Raises:
        OSError: It cannot be shared here.
    """
    if fcntl is None:  # pragma: no cover
        raise OSError("this system has no file locks")
    folder = checked_folder(runtime_folders()[0])
    name = PaceMemory(folder).name_of(endpoint, account)
    return CallLog(folder / f"{name[:32]}.calls", _boot())


def runtime_folders() -> list[Path]:
    """Return where processes of this user meet, and where one with another environment may be."""
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    usual = [runtime / "limpet"] if runtime.is_absolute() else []
    temporary = Path(tempfile.gettempdir(), f"limpet-{os.getuid()}")
    return [*usual, temporary, Path(f"/run/user/{os.getuid()}/limpet")]


def checked_folder(folder: Path) -> Path:
    """Return a folder that only this user can open; it is made if it is not there.

    Raises:
        OSError: It cannot be made, or others could open it.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a folder that only you can open")
    return folder


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return str(round((time.time() - time.monotonic()) / 60))  # to a minute: clocks are corrected


# ---- limits that know the calls of all processes ------------------------------------------------


class _Other:
    """Another process: when it wrote last, whether it waits, its last call, and those in flight."""

    def __init__(self) -> None:
        self.at = self.sent_at = 0.0
        self.waits = False
        self.calls: dict[int, Sent] = {}


class SharedLimits(AdaptiveLimits):
    """The limits of an endpoint that other processes call too.

    Args:
        clock: Returns the time in seconds; the same for all processes.
        max_in_flight: Maximum calls of this process in flight.
        log: What the processes tell each other.
        waits: Returns whether calls of this process wait.
        fixed: Whether so many are always in flight.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        max_in_flight: int,
        log: CallLog,
        waits: Callable[[], object],
        *,
        fixed: bool = False,
    ) -> None:
        self._real_clock = clock
        self._then: float | None = None
        self._others: dict[str, _Other] = {}
        super().__init__(self._time, max_in_flight, fixed=fixed)
        self._log: CallLog | None = log
        self._waits = waits
        # In the order of coming; those with a number last, as they know nothing of the limit.
        self._me = f"{'~' * fixed}{clock():015.3f}-{secrets.token_hex(8)}"
        self._looked_at = self._own_sent_at = -1.0
        self._numbers: dict[Sent, int] = {}  # of our calls in flight
        self._number = 0
        self._own_traffic = Traffic()
        self._begin()

    @property
    def max_in_flight(self) -> int:
        """Maximum calls in flight, of all processes."""
        return MOST_IN_FLIGHT if self._others else self._most

    @max_in_flight.setter
    def max_in_flight(self, most: int) -> None:
        self._most = most

    @property
    def own_in_flight(self) -> int:
        """Calls of this process in flight."""
        return len(self._numbers)

    @property
    def others(self) -> int:
        """How many other processes call the endpoint."""
        return len(self._others)

    @property
    def is_told(self) -> bool:
        """Whether another process tells what it knows of the limit."""
        return any(not who.startswith("~") for who in self._others)

    def change(self, most: int, *, fixed: bool) -> None:
        """Hold another number of calls in flight, whatever the others do, or share the limit."""
        while fixed and self._others:
            self._forget(self._others.popitem()[1].calls.values())
        super().change(most, fixed=fixed)

    def calls_per_s(self) -> float:
        """Return our calls started per second over the last minute, or since the first."""
        return self._own_traffic.requests_per_s_of_the_minute(self.clock())

    # ---- our calls ------------------------------------------------------------------------

    def wait_s(self, cost: float, costs: Mapping[str, float]) -> float | None:
        """Return the seconds until it is worth checking again."""
        self._look()
        self.ahead = 0
        if self.fixed or not self._others:
            return super().wait_s(cost, costs)
        if self.own_in_flight >= self._most:
            return None
        recently = self.clock() - 1.5 * BEAT_S
        waiting = [other for other in self._others.values() if other.waits and other.at > recently]
        free = self.limit() - self.in_flight
        if free > len(waiting):  # what all wait for is the rate
            self.ahead = sum(other.sent_at < self._own_sent_at for other in waiting)
        elif not self.blocked:
            mine = self.own_in_flight, self._own_sent_at
            if 0 < free <= sum((len(other.calls), other.sent_at) < mine for other in waiting):
                return POLL_S
        wait = super().wait_s(cost, costs)
        return POLL_S if wait is None else min(wait, POLL_S)

    def send(self, cost: float, costs: Mapping[str, float], owner: object) -> Sent:
        """Record that a call starts now."""
        self._number += 1
        with self._telling("sent", self._number, cost, dict(costs), hash(owner)):
            sent = super().send(cost, costs, owner)
        self._numbers[sent] = self._number
        self._own_sent_at = sent.at
        self._own_traffic.add(Sent(sent.at, 1.0, 0, None))
        return sent

    def unsend(self, sent: Sent) -> None:
        """Remove a call that was never made."""
        self._end("unsent", sent)

    def ok(self, sent: Sent, limits: Iterable[Limit] = (), used: Any = None) -> None:
        """The call was answered."""
        self._end("ok", sent, [astuple(limit) for limit in limits], used)

    def refused(
        self,
        sent: Sent,
        retry_after_s: float,
        limits: Iterable[Limit] = (),
        *,
        at_once: bool = False,
    ) -> bool:
        """The call was refused. Returns whether only this call has to wait."""
        plain = [astuple(limit) for limit in limits]
        return bool(self._end("refused", sent, retry_after_s, plain, at_once))

    def failed(self, sent: Sent, *, timeout: bool) -> bool:
        """The call failed or timed out. Returns whether that is its own fault."""
        return bool(self._end("failed", sent, timeout))

    def _end(self, how: str, sent: Sent, *details: Any) -> object:
        with self._telling(how, self._numbers.pop(sent), *details):
            return self._ended(how, sent, *details)

    def _ended(self, how: str, sent: Sent, *details: Any) -> object:
        if how == "ok":
            return super().ok(sent, [Limit(*limit) for limit in details[0]], details[1])
        if how == "refused":
            wait_s, plain, at_once = details
            return super().refused(sent, wait_s, [Limit(*one) for one in plain], at_once=at_once)
        return super().failed(sent, timeout=details[0]) if how == "failed" else super().unsend(sent)

    def beat(self) -> None:
        """Tell the others that we are there."""
        with self._telling("here", 0):
            pass

    @contextmanager
    def _telling(self, what: str, number: int, *details: Any) -> Iterator[None]:
        """Tell what happens in the block, after what the others told before."""
        now = self._real_clock()
        if self._log is not None:
            try:
                with self._log.locked():
                    self._apply(self._log.news())
                    now = self._real_clock()
                    if what == "here":
                        oldest = next(iter(self._numbers.values()), self._number + 1)
                        details = (oldest, self.state if self._is_eldest() else None)
                    waits = not self.fixed and self.own_in_flight < self._most and self._waits()
                    told = [self._me, now, bool(waits), what, number, *details]
                    self._log.append(json.dumps(told))
            except (OSError, ValueError, RecursionError) as error:
                self._leave(error)
        with self._at(now):
            yield

    def _is_eldest(self) -> bool:
        return not self.fixed and all(self._me < other for other in self._others)

    # ---- the others' calls ----------------------------------------------------------------

    def _begin(self) -> None:
        assert self._log is not None
        try:
            history = self._log.history()
            # Without anybody there, it tells of other times: see `memory`.
            if history and self._real_clock() - _time_of(history[-1]) < LEASE_S:
                self.rounds.open(_time_of(history[0]))
                self._apply(history)
        except (OSError, ValueError, RecursionError) as error:
            self._leave(error)

    def _look(self) -> None:
        if self._log is None or self.fixed:
            return
        try:
            self._apply(self._log.news())
        except (OSError, ValueError, RecursionError) as error:
            self._leave(error)
        self._forget_the_gone(self._real_clock())

    def _apply(self, lines: Iterable[bytes]) -> None:
        mine = f'["{self._me}"'.encode()
        for line in lines:
            if self.fixed or line.startswith(mine):
                continue
            try:
                who, at, waits, what, number, *details = json.loads(line)
                self._others.setdefault(who, _Other()).waits = bool(waits)
                with self._at(self._checked(at)):
                    self._apply_one(who, what, number, details)
                self._forget_the_gone(float(at))
            except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
                raise ValueError(f"a damaged line: {line[:100]!r}") from error

    def _checked(self, at: Any) -> float:
        if not float(at) <= self._real_clock() + LEASE_S:
            raise ValueError("of another clock")
        return float(at)

    def _apply_one(self, who: str, what: str, number: int, details: list[Any]) -> None:
        other, now = self._others[who], self.clock()
        other.at = now
        if what == "here":
            oldest, state = details
            self._forget([other.calls.pop(one) for one in list(other.calls) if one < oldest])
            if state is not None and who < self._me:
                self.restore(state)
            return
        if what == "sent":
            cost, costs, owner = details
            other.calls[number] = super().send(cost, costs, (who, owner))
            other.sent_at = now
            return
        sent = other.calls.pop(number, None)
        if sent is None:  # sent before we came
            return
        self._ended(what, sent, *details)

    def _forget_the_gone(self, now: float) -> None:
        if now - self._looked_at < LEASE_S / 4:
            return
        self._looked_at = now
        for who, other in list(self._others.items()):
            if now - other.at > LEASE_S:
                self._forget(self._others.pop(who).calls.values())

    def _forget(self, calls: Iterable[Sent]) -> None:
        """These calls are no longer in flight; how they ended is not known."""
        for sent in calls:
            self.in_flight -= 1
            if sent is self.breaker.probe:
                self.breaker.probe = None

    def _leave(self, error: Exception) -> None:
        """Go on alone."""
        logger.warning("the pace is not shared with other runs: %s", error)
        log, self._log = self._log, None
        if log is not None and not isinstance(error, OSError):  # the next run can share again
            log.discard()
        while self._others:
            self._forget(self._others.popitem()[1].calls.values())

    # ---- the time at which something happened ---------------------------------------------

    def _time(self) -> float:
        return self._real_clock() if self._then is None else self._then

    @contextmanager
    def _at(self, time_s: float) -> Iterator[None]:
        before, self._then = self._then, time_s
        try:
            yield
        finally:
            self._then = before


def _time_of(line: bytes) -> float:
    try:
        return float(json.loads(line)[1])
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise ValueError(f"a damaged line: {line[:100]!r}") from error
