"""What is different, in a few lines, for whoever is asked what to do about it?"""

import contextlib
import dataclasses
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from limpet.errors import FunctionChangedError, JournalError
from limpet.fingerprints.explaining.differences import Difference, differences
from limpet.fingerprints.files.project import Project
from limpet.journal.journal import Journal
from limpet.journal.layout import Layout
from limpet.run.planning.files_read import FilesRead
from limpet.run.planning.identity_file import KeptStep, kept_step, note_asked, read_identity
from limpet.run.planning.plan import Plan, StepPlan
from limpet.run.planning.step_identities import StepIdentities
from limpet.run.run_file import RunFile

MOST_LINES = 8


class Explainer:
    """Tells what differs between the steps as they are and what a run has of them.

    Args:
        identities: The steps as they are.
        layout: Where the run is.
        run_file: What the run knows of them.
        clean: Takes secrets out.
        project: Whose files the steps read.
    """

    def __init__(
        self,
        identities: StepIdentities,
        layout: Layout,
        run_file: RunFile,
        clean: Callable[[Any], Any],
        project: Project,
    ) -> None:
        self._identities = identities
        self._run_file = run_file
        self._clean = clean
        self._kept = read_identity(layout)
        self._layout = layout
        self.project = project
        self.files = FilesRead(layout)

    def now(self, step: str) -> KeptStep:
        """Return a step as it is."""
        version, identity = self._identities.identities[step]
        return kept_step(version, identity, self._clean)

    def since(self, step: str, before: Mapping[str, str]) -> tuple[Difference, ...]:
        """Return what differs between a step as it was, part by part, and as it is."""
        now, kept = self.now(step), self._kept.steps.get(step, KeptStep())
        return differences(before, now.parts, kept.known | now.known)

    def in_files(self, step: str, names: Collection[str]) -> tuple[Difference, ...]:
        """Return what files say now that a step read, of those names."""
        return self.files.differences(step, names, self.project, self._clean)

    def plan(self, plan: Plan) -> Plan:
        """Return a plan with the difference of each step that changed."""
        workflow = self._step(plan.workflow, self._run_file.workflow_parts)
        known = self._run_file.evaluators
        evaluators = [self._step(one, known.get(one.name, {})) for one in plan.evaluators]
        return dataclasses.replace(plan, workflow=workflow, evaluators=tuple(evaluators))

    def _step(self, step: StepPlan, before: Mapping[str, str]) -> StepPlan:
        if not step.changed:
            return step
        found = self.since(step.name, before) if before else ()
        found += self.in_files(step.name, step.changed)
        return dataclasses.replace(step, differences=found)

    def question(
        self, error: FunctionChangedError, step: str, journal: Journal | None = None
    ) -> None:
        """Add to a question what it is about, and note it for `limpet why`."""
        if journal is not None:
            with contextlib.suppress(JournalError):  # a hint
                note_asked(journal, step, *self._identities.identities[step], self._clean)
        error.differences = (*self.since(step, error.before), *self.in_files(step, error.files))
        place = self._layout.single or self._layout.home
        told = few_lines(error.differences, f"limpet why {shlex.quote(str(place))}")
        if told:
            error.add_note("\n".join(told))
        if isinstance(error.plan, Plan):
            error.plan = self.plan(error.plan)


def few_lines(found: Sequence[Difference], command: str, most: int = MOST_LINES) -> list[str]:
    """Return the lines of differences, as many as are quickly read.

    Args:
        found: What differs.
        command: What shows all of it.
        most: How many lines of difference there are at most.
    """
    told: list[str] = []
    left, unsaid = most, 0
    for number, one in enumerate(found):
        if left <= 0:
            unsaid = len(found) - number
            break
        told.append(heading(one))
        room = max(left, 1)
        told += [f"  {line}" for line in one.lines[:room]]
        if len(one.lines) > room:
            told.append(f"  … {len(one.lines) - room:,} more lines: {command}")
        left -= max(len(one.lines), 1)
    if unsaid:
        told.append(f"… and {unsaid:,} more: {command}")
    return told


def heading(one: Difference) -> str:
    """Return what a difference is about, on one line."""
    if one.change != "changed":
        return f"{one.name}: {one.change}"
    return f"{one.name}: changed; {one.why_no_lines}" if one.why_no_lines else one.name
