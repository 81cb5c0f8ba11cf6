"""What changed, in a few lines, for a plan and for the question what to do about it."""

import contextlib
import dataclasses
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from limpet.errors import FunctionChangedError, JournalError
from limpet.fingerprints.explaining.differences import Difference
from limpet.fingerprints.explaining.differences import differences as compare
from limpet.fingerprints.files.project import Project
from limpet.fingerprints.identity import Identity
from limpet.journal.journal import Journal
from limpet.journal.layout import Layout
from limpet.run.planning.files_read import FilesRead
from limpet.run.planning.identity_file import KeptStep, kept_step, note_question, read_identity
from limpet.run.planning.plan import Plan, StepPlan
from limpet.run.planning.step_identities import StepIdentities
from limpet.run.run_file import RunFile

_MOST_LINES = 8


class Explainer:
    """Compares the steps as they are now with those of a run; `clean` removes secrets.

    Attributes:
        kept: The steps as they were, from `identity.json`.
        files: The files that they read.
    """

    def __init__(
        self,
        identities: StepIdentities,
        layout: Layout,
        run_file: RunFile,
        clean: Callable[[Any], Any],
        project: Project,
    ) -> None:
        self.identities = identities
        self.layout = layout
        self.run_file = run_file
        self.project = project
        self.kept = read_identity(layout)
        self.files = FilesRead(layout, run_file.files_last)
        self._clean = clean

    def now(self, step: str) -> KeptStep:
        """Return a step as it is now."""
        return kept_step(*self._identity(step), self._clean)

    def _identity(self, step: str) -> tuple[str, Identity]:
        return self.identities.version(step), self.identities.identity(step)

    def since(self, step: str, before: Mapping[str, str]) -> tuple[Difference, ...]:
        """Return the differences between a step's earlier parts and its parts now."""
        now, kept = self.now(step), self.kept.steps.get(step, KeptStep())
        return compare(before, now.parts, kept.known | now.known)

    def in_files(self, step: str, names: Collection[str]) -> tuple[Difference, ...]:
        """Return the differences in files that a step read, for these names."""
        return self.files.differences(step, names, self.project, self._clean)

    def plan(self, plan: Plan) -> Plan:
        """Return the plan with the differences of each step that changed."""
        workflow = self._step(plan.workflow, self.run_file.workflow_parts)
        known = self.run_file.evaluators
        evaluators = [self._step(step, known.get(step.name, {})) for step in plan.evaluators]
        return dataclasses.replace(plan, workflow=workflow, evaluators=tuple(evaluators))

    def _step(self, step: StepPlan, before: Mapping[str, str]) -> StepPlan:
        if not step.changed:
            return step
        in_code = self.since(step.name, before) if before else ()
        in_files = self.in_files(step.name, step.changed)
        return dataclasses.replace(step, differences=in_code + in_files)

    def question(
        self, error: FunctionChangedError, step: str, journal: Journal | None = None
    ) -> None:
        """Add the differences to a question, and record it for `limpet why`."""
        if journal is not None:
            with contextlib.suppress(JournalError):  # a hint
                note_question(journal, step, *self._identity(step), self._clean)
        error.differences = (*self.since(step, error.before), *self.in_files(step, error.files))
        place = self.layout.single or self.layout.home
        lines = few_lines(error.differences, f"limpet why {shlex.quote(str(place))}")
        if lines:
            error.add_note("\n".join(lines))
        if error.plan is not None:
            error.plan = self.plan(error.plan)


def few_lines(differences: Sequence[Difference], command: str) -> list[str]:
    """Return the first lines of the differences, and the command that shows all of them."""
    shown: list[str] = []
    left = _MOST_LINES
    for number, difference in enumerate(differences):
        if left <= 0:
            shown.append(f"… and {len(differences) - number:,} more: {command}")
            break
        shown.append(heading(difference))
        shown += [f"  {line}" for line in difference.lines[:left]]
        if len(difference.lines) > left:
            shown.append(f"  … {len(difference.lines) - left:,} more lines: {command}")
        left -= max(len(difference.lines), 1)
    return shown


def heading(difference: Difference) -> str:
    """Return the heading of a difference."""
    name, why = difference.name, difference.why_no_lines
    if difference.change != "changed":
        return f"{name}: {difference.change}"
    return f"{name}: changed; {why}" if why else name
