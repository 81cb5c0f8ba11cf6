"""What was paid for a cell, until it is done?

A reply is paid for whatever becomes of it: the attempt may fail after it, or another vote. So each
reply is noted the moment it is there, for its cell, across all attempts. Only an attempt that ends
well says itself what it used.
"""

from dataclasses import dataclass, field, replace

from limpet.types import Output, Usage
from limpet.usage import Plain, Receipts, plain_usage, receipts_in, total_usage, usage_of


@dataclass(slots=True)
class _Bill:
    """What was paid for one cell.

    Attributes:
        attempts: The replies of each attempt that are not kept.
        kept: What each ballot used, by its key. The next attempt finds it on disk.
    """

    attempts: list[Receipts] = field(default_factory=list)
    kept: dict[str, Plain | None] = field(default_factory=dict)


class Paid:
    """What was paid for the cells of a step that are not done, by their keys."""

    def __init__(self) -> None:
        self._bills: dict[str, _Bill] = {}

    def attempt(self, key: str) -> receipts_in:
        """Return a block for an attempt of a cell, in which its replies are noted."""
        receipts: Receipts = []
        self._bills.setdefault(key, _Bill()).attempts.append(receipts)
        return receipts_in(receipts)

    def ballots(self, key: str) -> dict[str, Plain | None]:
        """Return what the ballots of a cell used, for the attempt to fill in."""
        return self._bills[key].kept

    def settle(self, key: str, output: Output | None) -> Usage | None:
        """Return what a cell that is done used in all; None if nothing is known.

        Args:
            key: The cell's key.
            output: What its last attempt returned; None if it failed.
        """
        bill = self._bills.pop(key, _Bill())
        attempts = bill.attempts
        told = None if output is None else output.usage
        if told is not None:
            attempts = attempts[:-1]
        kept = bill.kept.values() if output is None else ()
        receipts = [*kept, *(receipt for attempt in attempts for receipt in attempt)]
        if isinstance(told, Usage) and not receipts:
            return told
        usage, _ = usage_of(total_usage([*receipts, plain_usage(told)]))
        return replace(usage, times=told.times) if usage and isinstance(told, Usage) else usage
