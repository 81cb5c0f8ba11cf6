"""Which other versions of the code have results, and which of these did the user keep?

The user keeps the results of some versions for another: those of A for B. Results that a third
version makes later are not part of that: they do not count for B until the user keeps them, too.
"""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from limpet.journal.column import ColumnReader
from limpet.run.planning.work_items import Keys
from limpet.run.run_file import OnChange, RunFile

_MOST_VERSIONS = 10

KeysUnder = Callable[[str], Keys | list[str]]
"""Returns the keys of all inputs under a fingerprint."""


class Fingerprint(NamedTuple):
    """The fingerprint of a function: one hash, and the parts it covers."""

    whole: str
    parts: dict[str, str]


def other_versions(run_file: RunFile, now: str) -> list[str]:
    """Return the versions other than `now`, in the order in which their results count.

    First those kept for `now`; then the latest, each followed by those that were kept for it.
    """
    kept, known = run_file.decided, reversed(run_file.functions)
    order = [*kept.get(now, ())]
    for version in known:
        order += [version, *kept.get(version, ())]
    return [version for version in dict.fromkeys(order) if version != now]


def choice_about(run_file: RunFile, now: str, other: str) -> OnChange | None:
    """Return what the user decided for `now` about results of another version; None: nothing."""
    kept = run_file.decided.get(now)
    if kept == []:
        return "redo"
    return "keep" if kept and other in kept else None


def note_choice(run_file: RunFile, now: str, others: Collection[str], choice: OnChange) -> None:
    """Record what the user decided for `now` about results of other versions."""
    if choice == "redo":
        run_file.decided[now] = []
        return
    kept = {*run_file.decided.get(now, ()), *others}
    # In this order: where two of them have a result, the one that counts now still does later.
    run_file.decided[now] = [other for other in other_versions(run_file, now) if other in kept]


def forget_redos(run_file: RunFile) -> None:
    """Forget the decisions to make results again: the code has changed since."""
    run_file.decided = {version: kept for version, kept in run_file.decided.items() if kept}


def note_latest(run_file: RunFile, now: Fingerprint) -> None:
    """Record the present version, as the latest."""
    known = run_file.functions
    known.pop(now.whole, None)
    known[now.whole] = now.parts  # at the end: it is the latest
    for other in list(known)[:-_MOST_VERSIONS]:
        known[other] = {}  # the fingerprint is kept: it has answers


def done_by_version(
    run_file: RunFile, now: str, keys_under: KeysUnder, column: ColumnReader
) -> tuple[set[int], dict[int, str]]:
    """Return the inputs that `now` has done; of the others, the version whose result counts."""
    keys = keys_under(now)
    here = _done(keys, column)
    elsewhere: dict[int, str] = {}
    for version in other_versions(run_file, now) if len(here) < len(keys) else ():
        done = _done(keys_under(version), column)
        elsewhere |= dict.fromkeys(done - here - elsewhere.keys(), version)
    return here, elsewhere


def _done(keys: Iterable[str], column: ColumnReader) -> set[int]:
    return {place for place, key in enumerate(keys) if key in column}
