"""Which records were made from files that have changed since?

A stale record is made again: its next record needs a higher generation, as for a forced redo, and
until it exists the old record counts. For the workflow's records the user is asked, once per
content of a file; scores are simply made again, as when an evaluator is edited.
"""

from collections.abc import Callable, Mapping

from limpet.fingerprints.files.project import Project
from limpet.journal.column import ColumnReader
from limpet.run.planning.files_read import FilesRead
from limpet.run.run_file import OnChange, RunFile


class StaleRecords:
    """The records made from files that have changed.

    Args:
        files: The files that were read before.
        project: The project of the files.
        columns: The column of each step.
        asked_about: The step about whose records the user is asked.
        run_file: The run file to update with the user's decision.
        on_change: What to do with the records of that step; None: as decided before.

    Attributes:
        kept: By key, records kept though a file changed, as long as their generation is below
            this number.
    """

    def __init__(
        self,
        files: FilesRead,
        project: Project,
        columns: Mapping[str, ColumnReader],
        asked_about: str,
        run_file: RunFile,
        on_change: OnChange | None,
    ) -> None:
        self.project = project
        self._columns = columns
        self._asked_about = asked_about
        self._decided = run_file.files_decided
        self.kept: dict[str, int] = {}
        self._found: dict[str, dict[str, set[str]]] = {}
        for step, column in columns.items():
            changed = files.changed(step, project, run_file.files_last)
            found = {}
            if changed:
                read = column.read_many(column.every_key())
                records = {key: entry.facts for key, entry in read}
                changed.learn(records.values())
                found = {key: {*changed.among(facts)} for key, facts in records.items()}
            if step == asked_about:
                found = self._without_kept(found, changed.says, on_change)
            self._found[step] = {key: names for key, names in found.items() if names}

    def _without_kept(
        self,
        found: dict[str, set[str]],
        says: Callable[[str], str],
        on_change: OnChange | None,
    ) -> dict[str, set[str]]:
        now = {name: says(name) for names in found.values() for name in names}
        if on_change is not None:
            self._decided.update({name: {content: on_change} for name, content in now.items()})
        choices = {name: self._decided.get(name, {}).get(content) for name, content in now.items()}
        self._undecided = {name for name, choice in choices.items() if choice is None}
        kept = {name for name, choice in choices.items() if choice == "keep"}
        column = self._columns[self._asked_about]
        self.kept = {
            key: column.next_generation(key)
            for key, names in found.items()
            if names and names <= kept
        }
        return {key: names - kept for key, names in found.items()}

    def __bool__(self) -> bool:
        return any(self._found.values())

    def of(self, step: str) -> Mapping[str, set[str]]:
        """Return the keys of a step's stale records, with the changed files."""
        return self._found[step]

    @property
    def of_asked(self) -> Mapping[str, set[str]]:
        """The stale records of the step about whose records the user is asked."""
        return self._found[self._asked_about]

    def is_kept(self, key: str) -> bool:
        """Tell whether the user decided to keep a record though a file changed."""
        needed = self.kept.get(key)
        return needed is not None and not self._columns[self._asked_about].reaches(key, needed)

    def undecided(self, key: str) -> set[str]:
        """Return the changed files of a record that the user has not decided about."""
        return self.of_asked.get(key, set()) & self._undecided

    def needed(self, redone: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
        """Return the required generation of each stale record, and of those in `redone`."""
        every = {step: dict(keys) for step, keys in redone.items()}
        for step, keys in self._found.items():
            column = self._columns[step]
            for key in keys:
                every.setdefault(step, {})[key] = column.next_generation(key)
        return every
