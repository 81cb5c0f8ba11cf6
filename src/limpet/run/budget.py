"""How much may a run spend, and what has it spent so far, in all its sessions?"""

import json
import math
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from limpet.arguments import as_amount, as_seconds, positive_number
from limpet.errors import BudgetReachedError, JournalError
from limpet.journal.files import open_own, sync_file
from limpet.journal.lock import boot_id
from limpet.text import count, did_you_mean, money

# ---- How much may a run spend? ------------------------------------------------------------------

KINDS = ("cost", "tokens", "calls", "time")
_ALLOWED = "must map what to limit to how much: {'cost': 20, 'tokens': '5M', 'time': '2h'}"
NANO = 10**9
_UNITS = {"cost": NANO, "tokens": 1, "calls": 1, "time": 1}
"""Costs are added up in whole billionths of a dollar: sums of floats drift."""

Amounts = Mapping[str, int]
"""What one call or many use: `cost` in billionths of a dollar, `tokens` and `calls`."""


def as_budget(given: Any) -> dict[str, float]:
    """Return the option `budget` as numbers by kind; empty: no limit.

    Raises:
        TypeError: It has the wrong type.
        ValueError: A kind is unknown, or an amount is not allowed.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"budget={given!r}: {_ALLOWED}")
    if not given:
        raise ValueError("budget={}: limits nothing; " + _ALLOWED)
    return {kind: _limit(kind, amount) for kind, amount in given.items()}


def _limit(kind: Any, amount: Any) -> float:
    if kind not in KINDS:
        near = did_you_mean(kind, KINDS) if isinstance(kind, str) else ""
        raise ValueError(f"budget: {kind!r} is unknown; the kinds are {', '.join(KINDS)}{near}")
    number = as_seconds(amount) if kind == "time" else as_amount(amount)
    name = f"budget[{kind!r}]"
    try:
        number = float(number) if isinstance(number, str) else number
    except ValueError:
        units = "90s, 30m or 2h" if kind == "time" else "20, 5k or 5M"
        raise ValueError(f"{name}={amount!r}: must be a number above 0, like {units}") from None
    return positive_number(**{name: number})


def amount_words(kind: str, amount: float) -> str:
    """Return an amount in words: `$20`, `5,000 calls`, `120 min`."""
    if kind == "cost":
        return f"${money(amount)}"
    if kind == "time":
        return f"{amount / 60:,.3g} min"
    return count(round(amount), kind.removesuffix("s"))


def rounded_up(kind: str, amount: float) -> str:
    """Return an amount that is a little larger, to be typed: `24`, `5500`, `150m`."""
    amount = amount / 60 if kind == "time" else amount
    step = 10.0 ** (math.floor(math.log10(amount)) - 1)
    return f"{math.ceil(amount / step) * step:.10g}" + ("m" if kind == "time" else "")


# ---- What has a run spent so far? ---------------------------------------------------------------
#
# The numbers are in one small file, in two slots that are written in turn: whoever is killed while
# it writes one leaves the other. What was written survives `kill -9`; only a loss of power can take
# it back. Against that, the file also has a bound that is synced before it is reached: after a loss
# of power, all of it counts as spent.

_SLOT = 1024


class Ledger:
    """What all sessions of a run spent, and what calls in flight may cost at most.

    Args:
        path: The file.
        durable: Whether to keep a bound that survives a loss of power.

    Attributes:
        spent: What was spent.
        about: How much of it is a reservation of a call whose usage never came.
        reserved: The reservations of the calls in flight.
        bound: What may be spent and reserved, as written.
        covered: The bound that survives a loss of power.
        seconds: How long the sessions took.

    Raises:
        JournalError: The file is damaged, or cannot be written.
    """

    def __init__(self, path: Path, *, durable: bool) -> None:
        self._path, self._durable = path, durable
        self.spent: Counter[str] = Counter()
        self.about: Counter[str] = Counter()
        self.reserved: Counter[str] = Counter()
        self.bound: Counter[str] = Counter()
        self.covered: Counter[str] = Counter()
        self.seconds = 0.0
        self._number = 0
        earlier = read_ledger(path)
        self._boot = boot_id() or ""
        try:
            self._file = open_own(path, os.O_RDWR)
        except OSError as error:
            raise JournalError(f"{path}: {error.strerror}") from error
        if earlier is not None:
            self._take_over(earlier)

    def _take_over(self, earlier: Mapping[str, Any]) -> None:
        self._number, self.seconds = earlier["number"], earlier["seconds"]
        self.spent.update(earlier["spent"])
        self.about.update(earlier["about"])
        # Calls that were in flight when a session was killed may have cost that much.
        lost = Counter(earlier["reserved"])
        if earlier["boot"] != self._boot:  # the power went: the last numbers may be lost, too
            lost |= Counter(earlier["bound"]) - self.spent
        self.spent += lost
        self.about += lost
        self.bound += self.spent

    def reserve(self, amounts: Amounts) -> None:
        """Record that a call may start."""
        _add(self.reserved, amounts)

    def settle(self, reserved: Amounts, used: Amounts, *, about: bool) -> None:
        """Record what a call used, in place of its reservation."""
        _add(self.reserved, reserved, -1)
        _add(self.spent, used)
        if about:
            _add(self.about, used)

    def write(self) -> None:
        """Write the numbers, so that they survive the process."""
        self._number += 1
        content = json.dumps(
            self.numbers
        ).encode()  # of any size: what a server reports is not ours
        line = b"%08x %s" % (zlib.crc32(content), content)
        os.pwrite(self._file, line.ljust(_SLOT - 1) + b"\n", self._number % 2 * _SLOT)

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers, as they are written."""
        names = ("spent", "about", "reserved", "bound")
        numbers: dict[str, Any] = {name: dict(+getattr(self, name)) for name in names}
        return numbers | {"number": self._number, "seconds": self.seconds, "boot": self._boot}

    def sync(self) -> None:
        """Return when the bound survives a loss of power."""
        bound = self.bound.copy()
        if self._durable:
            sync_file(self._file)
        self.covered = bound

    def close(self) -> None:
        """Write what is known at the end of a session."""
        self.bound = self.spent + self.reserved
        with suppress(OSError):  # the disk is full, or the file was closed: what was written stays
            self.write()
            self.sync()
        with suppress(OSError):
            os.close(self._file)


def _add(total: Counter[str], amounts: Amounts, sign: int = 1) -> None:
    """Add amounts: `Counter.update` takes five times as long, for each call."""
    for kind, amount in amounts.items():
        total[kind] += sign * amount


def read_ledger(path: Path) -> dict[str, Any] | None:
    """Return the numbers in a ledger's file; None: it has none.

    Raises:
        JournalError: It is damaged.
    """
    try:
        with path.open("rb") as file:
            content = file.read(2 * _SLOT)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror}") from error
    slots = filter(None, (_slot(content[at : at + _SLOT]) for at in (0, _SLOT)))
    newest = max(slots, key=lambda numbers: int(numbers["number"]), default=None)
    if newest is None and content.strip(b"\0"):
        raise JournalError(
            f"{path}: is damaged, so what the run spent is not known",
            hint="delete it to count from zero",
        )
    return newest


def _slot(line: bytes) -> dict[str, Any] | None:
    checksum, _, content = line.rstrip().partition(b" ")
    try:
        if int(checksum, 16) == zlib.crc32(content):
            numbers: dict[str, Any] = json.loads(content)
            return numbers
    except ValueError:
        return None
    return None


def spent_words(limits: Mapping[str, float], numbers: Mapping[str, Any]) -> str:
    """Return what was spent of each limit: `$19.98 of $20.00 (about $0.12 of it estimated)`.

    Args:
        limits: The limits by kind.
        numbers: The numbers of a ledger.
    """
    found = []
    for kind, limit in limits.items():
        words = f"{amount_words(kind, amount_in(numbers, kind))} of {amount_words(kind, limit)}"
        if unknown := numbers["about"].get(kind, 0) / _UNITS[kind]:
            words += f" (about {amount_words(kind, unknown)} of it estimated)"
        found.append(words)
    return "; ".join(found)


def amount_in(numbers: Mapping[str, Any], kind: str) -> float:
    """Return how much of a kind was spent."""
    if kind == "time":
        return float(numbers["seconds"])
    return float(numbers["spent"].get(kind, 0)) / _UNITS[kind]


def left_for(limits: Mapping[str, float], others: Iterable[Path]) -> dict[str, float]:
    """Return what other runs leave of a budget that they share; `others`: their ledgers.

    Raises:
        BudgetReachedError: They leave nothing.
        JournalError: A ledger is damaged.
    """
    known = [numbers for path in others if (numbers := read_ledger(path)) is not None]
    left = dict(limits)
    for kind in limits:
        left[kind] -= math.fsum(amount_in(numbers, kind) for numbers in known)
        if left[kind] <= 0:
            words = amount_words(kind, limits[kind])
            raise BudgetReachedError(
                f"the other variants have used the budget of {words}",
                hint="run again with a larger budget to go on",
            )
    return left
