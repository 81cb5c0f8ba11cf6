"""Does a record count, which version made it, and must it be redone?

Sessions that plan and screens that read both ask here, and have no rules of their own:

    what happened                       which record counts           its version    still to do
    nothing                             that under the cell's key     current        no
    the code changed, the user keeps    the earlier one, until the    earlier code   no
                                        current code has one
    a file changed, the user keeps      that under the cell's key     earlier files  no
    a file changed                      an answer: that under the     earlier files  yes
                                        cell's key; a score: none
    a redo was forced                   that under the cell's key     current        yes
    the record of a redo was damaged    the one before it             current        yes

A record that replaces another under the same key has a higher generation. A record is still to do
if its generation is lower than needed: an interrupted redo resumes where it stopped, and nothing is
paid for twice. Until a cell is redone, its earlier record counts. The exception is a score made
from files that changed: it belongs to another version of its evaluator.

If a record of a finished redo were damaged or lost, the earlier record under its key would pass as
done. So the keys and generations of redone records are kept beside the indexes, as are those of
records whose files changed, which only a session can find out.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from limpet.errors import JournalError
from limpet.journal.column import ColumnReader
from limpet.journal.files import read_whole, replace_file
from limpet.journal.layout import Layout
from limpet.json_values import dumps
from limpet.run.run_file import WORKFLOW, OnChange, PendingRedo, RunFile

if TYPE_CHECKING:  # a reader of a run does not wait for it
    from limpet.run.planning.work_items import Keys

EARLIER_FILES = "made from files that have changed since"
"""The version of an answer that was made from earlier files, by the current code."""
Generations = Mapping[str, Mapping[str, int]]
"""By step and key, the generation that a record must have."""


class Verdict(NamedTuple):
    """Whether the record of a cell counts and is done.

    Attributes:
        counts: Whether it is shown and added up.
        is_done: Whether it need not be redone.
        is_redo: Whether it must be redone though nothing changed: by force, or to repair damage.
        needed: The generation that makes it done; 0: any.
        version: The earlier version that made it; empty: the current one.
    """

    counts: bool
    is_done: bool
    is_redo: bool
    needed: int
    version: str


_DONE = Verdict(counts=True, is_done=True, is_redo=False, needed=0, version="")
_MISSING = _DONE._replace(counts=False, is_done=False)


class Counting:
    """Decides whether a record counts.

    Args:
        redos: The forced redos that are not done.
        redone: The generations of redone records.
        outdated: The generations that records made from changed files need.
        not_retried: Cells that failed before and are not retried, by step and key, with the
            generation in which they failed.

    Attributes:
        depends_on_ids: Whether a verdict depends on the id of the item.
    """

    def __init__(
        self,
        redos: Sequence[PendingRedo] = (),
        redone: Generations | None = None,
        outdated: Generations | None = None,
        not_retried: Mapping[tuple[str, str], int] | None = None,
    ) -> None:
        self.redos = redos
        self.outdated = outdated or {}
        self._redone = redone or {}
        self._not_retried = not_retried or {}
        self._is_plain = not (redos or redone or outdated)
        self.depends_on_ids = any(redo.items is not None for redo in redos)

    @classmethod
    def load(cls, layout: Layout, run_file: RunFile) -> Self:
        """Load it from the files of a run."""
        return cls(
            run_file.redo, read_generations(layout.redone), read_generations(layout.outdated)
        )

    def __bool__(self) -> bool:
        """Return whether a record may have to be redone."""
        return not self._is_plain

    def verdict(
        self, step: str, key: str, generation: int, id_: str = "", earlier: str = "", below: int = 0
    ) -> Verdict:
        """Return the verdict on a record or a failure.

        Args:
            step: Its step.
            key: Its key.
            generation: Its generation; -1: there is none.
            id_: The id of its item; only `is_done` and `is_redo` depend on it.
            earlier: The fingerprint of the earlier code that made it; empty: the current one.
            below: The user keeps it though a file changed, while its generation is below this.
        """
        if self._is_plain and not earlier and not below:  # nearly all of a hundred thousand cells
            return _DONE if generation >= 0 else _MISSING
        forced, outdated = self._forced(step, id_, key), self._outdated(step, key)
        needed, own = max(forced, outdated), max(generation, 0)
        is_there, is_outdated = generation >= 0, own < outdated
        is_of_earlier_files = is_there and (is_outdated or generation < below)
        return Verdict(
            counts=is_there and (step == WORKFLOW or not is_outdated),
            is_done=generation >= needed,
            is_redo=own < forced,
            needed=needed,
            version=earlier or (EARLIER_FILES if is_of_earlier_files else ""),
        )

    def needed(self, step: str, id_: str, key: str) -> int:
        """Return the generation that makes a cell's record done; 0: any."""
        if self._is_plain:
            return 0
        return max(self._forced(step, id_, key), self._outdated(step, key))

    def _forced(self, step: str, id_: str, key: str) -> int:
        generations = (redo.generation for redo in self.redos if redo.covers(step, id_))
        return max(self._redone.get(step, {}).get(key, 0), *generations, 0)

    def _outdated(self, step: str, key: str) -> int:
        return self.outdated.get(step, {}).get(key, 0)

    def stays_failed(self, step: str, key: str, needed: int) -> bool:
        """Return whether a cell failed in the generation it needs, and is not retried."""
        return self._not_retried.get((step, key), -1) >= needed


# ---- What is kept beside the indexes. -----------------------------------------------------------


def record_redone(layout: Layout, columns: Mapping[str, ColumnReader]) -> None:
    """Record which records were redone, so that the next session notices a lost one."""
    redone = {step: column.generations for step, column in columns.items()}
    redone = {step: keys for step, keys in redone.items() if keys}
    if redone:
        replace_file(layout.redone, [dumps(redone).encode()])


def record_outdated(layout: Layout, outdated: Generations) -> None:
    """Record which records must be redone because a file changed, for readers."""
    if outdated:
        replace_file(layout.outdated, [dumps(outdated).encode()])
    else:
        layout.outdated.unlink(missing_ok=True)


def read_generations(path: Path) -> dict[str, dict[str, int]]:
    """Return what was recorded, by step and key; empty if the file is unreadable."""
    try:
        recorded = json.loads(read_whole(path))
        return {
            str(step): {str(k): int(n) for k, n in keys.items()} for step, keys in recorded.items()
        }
    except (OSError, ValueError, TypeError, AttributeError, JournalError):
        return {}


# ---- Which version made the record that counts? -------------------------------------------------
#
# The user keeps the results of some versions for another: those of A for B. Results that a third
# version makes later do not count for B until the user keeps them, too.

KeysUnder = Callable[[str], "Keys | list[str]"]
"""Returns the keys of all inputs under a fingerprint."""


def earlier_version(kept: str, own: int) -> str:
    """Return the earlier version whose answer counts for a cell; empty: the current one.

    Args:
        kept: The version whose answer the user keeps; empty: none.
        own: The generation of the current code's answer; -1: there is none.
    """
    return kept if own < 0 else ""


def other_versions(run_file: RunFile, now: str) -> list[str]:
    """Return the versions other than `now`, in the order in which their results count.

    First those kept for `now`; then the latest, each followed by those that were kept for it.
    """
    kept, known = run_file.decided, reversed(run_file.functions)
    order = [*kept.get(now, ())]
    for fingerprint in known:
        order += [fingerprint, *kept.get(fingerprint, ())]
    return [fingerprint for fingerprint in dict.fromkeys(order) if fingerprint != now]


def choice_about(run_file: RunFile, now: str, other: str) -> OnChange | None:
    """Return what the user decided for `now` about results of another version; None: nothing."""
    kept = run_file.decided.get(now)
    if kept == []:
        return "redo"
    return "keep" if kept and other in kept else None


def done_by_version(
    run_file: RunFile, now: str, keys_under: KeysUnder, column: ColumnReader
) -> tuple[set[int], dict[int, str]]:
    """Return the inputs that `now` has done, and for the others the version that counts."""
    keys = keys_under(now)
    here = _done(keys, column)
    elsewhere: dict[int, str] = {}
    for fingerprint in other_versions(run_file, now) if len(here) < len(keys) else ():
        done = _done(keys_under(fingerprint), column)
        elsewhere |= dict.fromkeys(done - here - elsewhere.keys(), fingerprint)
    return here, elsewhere


def _done(keys: Iterable[str], column: ColumnReader) -> set[int]:
    return {position for position, key in enumerate(keys) if key in column}
