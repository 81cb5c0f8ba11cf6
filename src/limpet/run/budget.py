"""How much may a run spend, and what has it spent so far, in all its sessions?"""

import asyncio
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from json import dumps, loads
from pathlib import Path
from typing import Any

from limpet.arguments import as_amount, as_seconds, positive_number
from limpet.errors import JournalError, wrong_value
from limpet.journal.files import open_own, read_whole, sync_directory, sync_file
from limpet.journal.lock import boot_id
from limpet.text import count, did_you_mean, money

# ---- How much may a run spend? ------------------------------------------------------------------

UNITS = {"cost": 10**9, "tokens": 1, "calls": 1, "time": 10**9}
"""What a dollar, a token, a call and a second are in a ledger: sums of floats drift."""
_MOST = 1e15
_ALLOWED = "must map what to limit to how much: {'cost': 20, 'tokens': '5M', 'time': '2h'}"

Amounts = Mapping[str, int]
"""What is spent, by kind, in these units."""


def as_budget(given: Any) -> dict[str, float]:
    """Return the option `budget` as numbers by kind; empty: no limit.

    Raises:
        TypeError: An amount is not a number.
        ValueError: It limits nothing, a kind is unknown, or an amount is not allowed.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not given:
        raise wrong_value("budget", _ALLOWED, given)
    return {kind: _limit(kind, amount) for kind, amount in given.items()}


def _limit(kind: Any, amount: Any) -> float:
    if kind not in UNITS:
        near = did_you_mean(kind, UNITS) if isinstance(kind, str) else ""
        raise ValueError(f"budget: {kind!r} is unknown; the kinds are {', '.join(UNITS)}{near}")
    name, units = f"budget[{kind!r}]", "90s, 30m or 2h" if kind == "time" else "20, 5k or 5M"
    number = as_amount(as_seconds(amount) if kind == "time" else amount)
    if isinstance(number, str):
        raise wrong_value(name, f"must be a number above 0, like {units}", amount)
    number = positive_number(**{name: number})
    if number > _MOST:
        raise wrong_value(name, f"must be at most {_MOST:.0e}", amount)
    if kind in ("calls", "tokens") and number % 1:
        raise wrong_value(name, "must be a whole number", amount)
    return number


def _words(kind: str, amount: int) -> str:
    """Return an amount in words: `$20`, `5,000 calls`, `90 s`, `120 min`."""
    number = amount / UNITS[kind]
    if kind == "time":
        return f"{number:,.3g} s" if number < 120 else f"{number / 60:,.3g} min"  # noqa: PLR2004 - two minutes
    return f"${money(number)}" if kind == "cost" else count(number, kind.removesuffix("s"))


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
        beside: The ledgers of the runs that share its budget.

    Attributes:
        durable: Whether it keeps such a bound.
        spent: What was spent.
        about: How much of it is a reservation of a call whose usage never came.
        reserved: The reservations of the calls in flight.
        beside: What the other runs spent.
        covered: The bound that survives a loss of power.

    Raises:
        JournalError: A file is damaged, or cannot be written.
    """

    def __init__(self, path: Path, *, durable: bool, beside: Iterable[Path] = ()) -> None:
        self.durable, self._boot = durable, boot_id()
        self.spent, self.about, self._number = read_ledger(path)
        self.reserved: Counter[str] = Counter()
        self.beside = sum((read_ledger(other)[0] for other in beside), Counter[str]())
        self.covered = self._bound = Counter[str]()
        with _telling():
            self._file = open_own(path)
            sync_directory(path.parent)

    def write(self) -> None:
        """Write the numbers, so that they survive the process."""
        self._number += 1
        numbers = {"spent": self.spent, "about": self.about, "reserved": self.reserved}
        facts = {"bound": self._bound, "number": self._number, "boot": self._boot}
        content = dumps(numbers | facts).encode()  # not orjson: numbers of any size
        line = b"%08x %s" % (zlib.crc32(content), content)
        with _telling():
            os.pwrite(self._file, line.ljust(_SLOT - 1) + b"\n", self._number % 2 * _SLOT)

    async def cover(self, bound: Counter[str]) -> None:
        """Return when a bound survives a loss of power."""
        self._bound = bound
        self.write()
        with _telling():
            await asyncio.to_thread(sync_file, self._file)
        self.covered = bound

    def close(self) -> None:
        """Write what is known at the end of a session."""
        self._bound = self.spent + self.reserved
        with suppress(OSError, JournalError):  # the disk is full: what was written before stays
            self.write()
            sync_file(self._file)
        with suppress(OSError):  # it was closed
            os.close(self._file)


@contextmanager
def _telling() -> Iterator[None]:
    """Say what could not be done."""
    try:
        yield
    except OSError as error:
        raise JournalError(
            f"spent.json: what was spent cannot be kept: {error.strerror}",
            hint="finished results are safe: run again to resume",
        ) from error


def read_ledger(path: Path) -> tuple[Counter[str], Counter[str], int]:
    """Return what a run spent, how much of it is estimated, and how often it was written.

    What was in flight when it was killed may have cost as much as was reserved.

    Raises:
        JournalError: The file is damaged.
    """
    content = b""
    with _telling(), suppress(FileNotFoundError):
        content = read_whole(path)
    slots = [_slot(content[at : at + _SLOT]) for at in (0, _SLOT)]
    newest = max(slots, key=lambda numbers: int(numbers.get("number", 0)))
    if not newest and content.strip(b"\0"):
        raise JournalError(
            f"{path}: is damaged, so what the run spent is not known",
            hint="delete it to count from zero",
        )
    spent, lost = (Counter[str](newest.get(name, {})) for name in ("spent", "reserved"))
    if newest.get("boot") != boot_id():  # the power went: the last numbers may be lost, too
        lost |= Counter[str](newest.get("bound", {})) - spent
    return spent + lost, Counter(newest.get("about")) + lost, newest.get("number", 0)


def _slot(line: bytes) -> dict[str, Any]:
    checksum, _, content = line.rstrip().partition(b" ")
    with suppress(ValueError):
        if int(checksum, 16) == zlib.crc32(content):
            return dict(loads(content))
    return {}


def in_units(budget: Mapping[str, float]) -> dict[str, int]:
    """Return amounts in the units of a ledger."""
    return {kind: round(amount * UNITS[kind]) for kind, amount in budget.items()}


def budget_facts(limits: Amounts, ledger: Ledger) -> dict[str, Any]:
    """Return what was spent: in numbers, by kind, and of each limit.

    The `words` are like `$19.98 of $20.00 (about $0.12 of it estimated)`.
    """
    total, found = ledger.spent + ledger.beside, []
    for kind, limit in limits.items():
        words = f"{_words(kind, total[kind])} of {_words(kind, limit)}"
        if unknown := ledger.about[kind]:
            words += f" (about {_words(kind, unknown)} of it estimated)"
        found.append(words)
    spent = {kind: total[kind] / unit if unit > 1 else total[kind] for kind, unit in UNITS.items()}
    return {"spent": spent, "words": "; ".join(found)}
