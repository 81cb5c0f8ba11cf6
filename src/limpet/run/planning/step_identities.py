"""What was each step when the run was planned, and what of it changed while the run was going on?

A step is looked at once per run, not once per cell: looking takes up to a tenth of a second.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from limpet.fingerprints.declared import DependsOn
from limpet.fingerprints.identity import Identity
from limpet.fingerprints.keys import digest
from limpet.fingerprints.steps import Look
from limpet.journal.journal import Journal
from limpet.run.executing.watched_files import WatchedFiles
from limpet.run.planning.identity_file import write_identity
from limpet.run.run_file import RunFile

_MOST_NAMES = 5_000
_CACHES = ".cache_parameters"  # of every function under `lru_cache`


class StepIdentities:
    """The steps of one run.

    Args:
        steps: Each step by its name.
        declared: What was declared beside what the steps say themselves, by the step's name.
        secrets: Values that do not count.
    """

    def __init__(
        self,
        steps: Mapping[str, Any],
        declared: Mapping[str, DependsOn | None] | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        others, hidden = declared or {}, tuple(secrets)
        self._looks = {name: Look(one, others.get(name), hidden) for name, one in steps.items()}
        self._parts = {name: dict(one.identity.parts) for name, one in self._looks.items()}
        self._versions = {name: digest(parts) for name, parts in self._parts.items()}

    def parts(self, step: str) -> dict[str, str]:
        """Return what the results of a step depend on, part by part."""
        return dict(self._parts[step])

    def version(self, step: str) -> str:
        """Return all of that as one digest."""
        return self._versions[step]

    @property
    def versions(self) -> dict[str, str]:
        """The digest of each step."""
        return dict(self._versions)

    def identity(self, step: str) -> Identity:
        """Return what a step is."""
        return self._looks[step].identity

    @property
    def identities(self) -> dict[str, tuple[str, Identity]]:
        """The version of each step, and what it is made of."""
        return {name: (self._versions[name], one.identity) for name, one in self._looks.items()}

    def write(self, journal: Journal, clean: Callable[[Any], Any]) -> None:
        """Write down what each identity is made of, beside `run.json`.

        Args:
            journal: Of the run.
            clean: Takes secrets out.

        Raises:
            JournalError: It cannot be written.
        """
        write_identity(journal, self.identities, clean)
        for look in self._looks.values():
            look.forget()

    def end(
        self, run_file: RunFile | None, watched: WatchedFiles, clean: Callable[[Any], Any]
    ) -> None:
        """Look again, note what is state, and end the watch for files.

        Args:
            run_file: Brought up to date; None: the run never began.
            watched: Listens to what the steps read.
            clean: Takes secrets out.
        """
        if run_file is None:
            watched.end(self._looks)
            return
        state = {name: list(look.note_end())[:_MOST_NAMES] for name, look in self._looks.items()}
        run_file.state = clean({name: names for name, names in state.items() if names})
        changing = {
            name
            for name, parts in self._parts.items()
            if name in run_file.state or any(_CACHES in part for part in parts)
        }
        watched.end(changing)
        run_file.files_last = watched.last
