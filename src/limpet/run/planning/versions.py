"""Which versions of the code have results, and which of them did the user keep?

The user keeps the results of some versions for another: those of A for B. Results that a third
version makes later do not count for B until the user keeps them, too.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from limpet.fingerprints.identity import Identity
from limpet.fingerprints.keys import digest
from limpet.fingerprints.steps import DependsOn, Inspection
from limpet.fingerprints.walk.result import UNSEEN
from limpet.journal.journal import Journal
from limpet.run.planning.counting import other_versions
from limpet.run.planning.identity_file import write_identity
from limpet.run.run_file import OnChange, RunFile

# ---- What was the identity of each step when the run was planned, and what changed since? -------
#
# A step is inspected once per run, not once per cell: inspection takes up to 0.1 s.

_MOST_NAMES = 5_000
_CACHES = ".cache_parameters"  # of every function under `lru_cache`
_OF_A_THREAD = "_thread._local"


class StepIdentities:
    """The identities of the steps of a run.

    Args:
        steps: Each step by name.
        declared: Dependencies declared in addition to those of the steps, by step.
        secrets: Values that are left out.

    Attributes:
        fingerprints: By step, its fingerprint: the digest of all its parts.
    """

    def __init__(
        self,
        steps: Mapping[str, Any],
        declared: Mapping[str, DependsOn | None] | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        others, hidden = declared or {}, tuple(secrets)
        self._inspections = {
            name: Inspection(step, others.get(name), hidden) for name, step in steps.items()
        }
        self._parts = {name: dict(look.identity.parts) for name, look in self._inspections.items()}
        self.fingerprints = {name: digest(parts) for name, parts in self._parts.items()}

    def parts(self, step: str) -> dict[str, str]:
        """Return the parts of a step's identity with their digests."""
        return dict(self._parts[step])

    def fingerprint(self, step: str) -> str:
        """Return the fingerprint of a step."""
        return self.fingerprints[step]

    def identity(self, step: str) -> Identity:
        """Return the identity of a step."""
        return self._inspections[step].identity

    def write(self, journal: Journal, clean: Callable[[Any], Any]) -> None:
        """Write the identities to `identity.json`; `clean` removes secrets.

        Raises:
            JournalError: The file cannot be written.
        """
        steps = {name: (one, self.identity(name)) for name, one in self.fingerprints.items()}
        write_identity(journal, steps, clean)
        for look in self._inspections.values():
            look.forget()

    def end(self, run_file: RunFile | None, clean: Callable[[Any], Any]) -> set[str]:
        """Inspect the steps again and record their state; return the steps that may have state.

        Without a run file, the session never began.
        """
        if run_file is None:
            return set(self._inspections)
        state = {
            name: list(look.record_state())[:_MOST_NAMES]
            for name, look in self._inspections.items()
        }
        run_file.state = clean({name: names for name, names in state.items() if names})
        return {
            name
            for name in self._inspections
            if name in run_file.state or self._may_keep_unseen(name)
        }

    def _may_keep_unseen(self, step: str) -> bool:
        """Return whether a step may keep something that an inspection cannot see.

        A cached function may, or a thread-local.
        """
        left_out = self._inspections[step].identity.left_out
        return any(_CACHES in part for part in self._parts[step]) or any(
            why.endswith(_OF_A_THREAD) for why in left_out.values()
        )

    @property
    def unseen(self) -> tuple[str, ...]:
        """The names of what may matter but is not part of an identity."""
        found = (look.identity.left_out.items() for look in self._inspections.values())
        return tuple(sorted({name for left in found for name, why in left if why in UNSEEN}))

    @property
    def objects(self) -> set[str]:
        """The steps that are classes: the run makes an object, which is not inspected."""
        return {name for name, look in self._inspections.items() if look.is_class}


# ---- Which versions of the code have results, and which of them did the user keep? --------------

_MOST_VERSIONS = 10


class Version(NamedTuple):
    """A version of a function: its fingerprint, and the parts that this covers."""

    fingerprint: str
    parts: dict[str, str]


def record_choice(run_file: RunFile, now: str, others: Collection[str], choice: OnChange) -> None:
    """Record the user's decision for `now` about results of other versions."""
    if choice == "redo":
        run_file.decided[now] = []
        return
    kept = {*run_file.decided.get(now, ()), *others}
    # In this order: if two of them have a result, the one that counts now still counts later.
    run_file.decided[now] = [other for other in other_versions(run_file, now) if other in kept]


def forget_redos(run_file: RunFile) -> None:
    """Forget decisions to redo results: the code has changed since."""
    run_file.decided = {one: kept for one, kept in run_file.decided.items() if kept}


def record_latest(run_file: RunFile, now: Version) -> None:
    """Record the current version as the latest."""
    known = run_file.functions
    known.pop(now.fingerprint, None)
    known[now.fingerprint] = now.parts  # the latest comes last
    for other in list(known)[:-_MOST_VERSIONS]:
        known[other] = {}  # the fingerprint is kept: it has answers
