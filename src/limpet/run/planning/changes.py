"""What changed since results were made, and does the user want them made again?

Results may come from another version of the code. The user decides whether to redo or keep them. A
few cheap answers of a workflow are redone without asking: the question would cost more.

Results may also be stale: made from files that have changed since. A stale record is redone: its
next record needs a higher generation, as in a forced redo, and until then the old record counts,
marked as an earlier version. For answers, the user is asked once per content of a file; scores no
longer count and are redone, as when an evaluator is edited.

If `files.jsonl` is damaged, the user edited nothing: nothing is redone without asking.
"""

import contextlib
import dataclasses
import math
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from limpet.errors import FunctionChangedError, JournalError
from limpet.fingerprints.differences import differences as compare
from limpet.fingerprints.files.project import Project
from limpet.fingerprints.identity import Identity, changed_parts
from limpet.journal.column import ColumnReader
from limpet.journal.journal import Journal
from limpet.journal.layout import Layout
from limpet.run.planning.counting import KeysUnder, choice_about, done_by_version
from limpet.run.planning.files_read import LOST, FilesRead
from limpet.run.planning.identity_file import KeptStep, kept_step, read_identity, record_question
from limpet.run.planning.plan import Effort, Plan, StepPlan, quoted
from limpet.run.planning.versions import (
    StepIdentities,
    Version,
    forget_redos,
    record_choice,
    record_latest,
)
from limpet.run.run_file import OnChange, RunFile
from limpet.shapes import Difference

# ---- What changed, in a few lines, for plans and questions? -------------------------------------

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
        return self.identities.fingerprint(step), self.identities.identity(step)

    def since(self, step: str, before: Mapping[str, str]) -> tuple[Difference, ...]:
        """Return the differences between a step's earlier parts and its parts now."""
        now, kept = self.now(step), self.kept.steps.get(step, KeptStep())
        return compare(before, now.parts, kept.known | now.known)

    def in_files(self, step: str, names: Collection[str]) -> tuple[Difference, ...]:
        """Return the differences in these files that a step read."""
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
                record_question(journal, step, *self._identity(step), self._clean)
        error.differences = (*self.since(step, error.before), *self.in_files(step, error.files))
        path = self.layout.single or self.layout.home
        lines = few_lines(error.differences, f"limpet why {shlex.quote(str(path))}")
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


# ---- What changed since results were made, and does the user want them made again? --------------

MOST_ANSWERS = 100
MOST_SECONDS = 300.0
MOST_COST = 1.0
_WORDS = {"workflow": ("answers", "items"), "function": ("results", "inputs")}


class StaleRecords:
    """The records made from files that have changed.

    Args:
        files: The files that were read before.
        project: The project of the files.
        columns: The column of each step.
        asked_about: The step whose records the user is asked about.
        run_file: The run file to update with the user's decision.
        on_change: What to do with the records of that step; None: as decided before.

    Attributes:
        kept: By key, records kept though a file changed, while their generation is below this
            number.
        in_doubt: By step, the keys of records whose files are unknown. Unless the user is asked
            about the step, they are kept.
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
        self.in_doubt: dict[str, set[str]] = {}
        self._stale: dict[str, dict[str, set[str]]] = {}
        for step, column in columns.items():
            changed = files.changed(step, project)
            stale = {}
            if changed:
                read = column.read_many(column.every_key())
                records = {key: entry.facts for key, entry in read}
                changed.learn(records.values())
                stale = {key: {*changed.among(facts)} for key, facts in records.items()}
            self.in_doubt[step] = {key for key, names in stale.items() if LOST in names}
            if step == asked_about:
                stale = self._without_kept(stale, changed.digest, on_change)
            else:
                stale = {key: names - {LOST} for key, names in stale.items()}
            self._stale[step] = {key: names for key, names in stale.items() if names}

    def _without_kept(
        self,
        stale: dict[str, set[str]],
        digest_of: Callable[[str], str],
        on_change: OnChange | None,
    ) -> dict[str, set[str]]:
        now = {name: digest_of(name) for names in stale.values() for name in names}
        for name, content in now.items():
            if content not in self._decided.get(name, {}):
                # The decision was about another content of the file.
                self._decided.pop(name, None)
        if on_change is not None:
            self._decided.update({name: {content: on_change} for name, content in now.items()})
        choices = {name: self._decided.get(name, {}).get(content) for name, content in now.items()}
        self._undecided = {name for name, choice in choices.items() if choice is None}
        kept = {name for name, choice in choices.items() if choice == "keep"}
        column = self._columns[self._asked_about]
        self.kept = {
            key: column.next_generation(key)
            for key, names in stale.items()
            if names and names <= kept
        }
        return {key: names - kept for key, names in stale.items()}

    def __bool__(self) -> bool:
        return any(self._stale.values())

    def of(self, step: str) -> Mapping[str, set[str]]:
        """Return the keys of a step's stale records, with the changed files."""
        return self._stale[step]

    def more_than(self, before: "StaleRecords") -> list[str]:
        """Return the files of records that were not stale before."""
        return sorted(
            {
                name
                for step, stale in self._stale.items()
                for key, names in stale.items()
                if key not in before.of(step)
                for name in names
            }
        )

    @property
    def of_asked(self) -> Mapping[str, set[str]]:
        """The stale records that the user is asked about."""
        return self._stale[self._asked_about]

    def undecided(self, key: str) -> set[str]:
        """Return the changed files of a record that the user has not decided about."""
        return self.of_asked.get(key, set()) & self._undecided

    def needed(self) -> dict[str, dict[str, int]]:
        """Return the generation that each stale record needs, by step and key."""
        return {
            step: {key: self._columns[step].next_generation(key) for key in keys}
            for step, keys in self._stale.items()
            if keys
        }


# ---- another version of the code ----------------------------------------------------------------


class Settled(NamedTuple):
    """Which results count after a change.

    Attributes:
        fingerprints: For each input, the fingerprint of the function whose result counts.
        made_again: The answers redone without asking; None: none.
        changed: The names of what changed since the results to redo were made.
    """

    fingerprints: list[str]
    made_again: Effort | None
    changed: list[str]


def small_redo(answers: int, read: Iterable[Mapping[str, Any]]) -> Effort | None:
    """Return the effort to redo answers; None: too much to do without asking.

    If there are too many answers, their facts are not read.
    """
    if answers > MOST_ANSWERS:
        return None
    effort = took(read)
    return None if effort.seconds > MOST_SECONDS or effort.cost > MOST_COST else effort


def took(read: Iterable[Mapping[str, Any]]) -> Effort:
    """Return the effort that answers took. An unknown cost counts as nothing."""
    answers = list(read)
    seconds = round(math.fsum(facts.get("seconds") or 0.0 for facts in answers), 6)
    costs = ((facts.get("usage") or {}).get("cost") or 0.0 for facts in answers)
    return Effort(len(answers), seconds, math.fsum(costs))


def settle_change(
    run_file: RunFile,
    now: Version,
    keys_under: KeysUnder,
    column: ColumnReader,
    stale: StaleRecords,
    on_change: OnChange | None,
    exempt: Collection[int] = (),
    small: Callable[[Mapping[int, str]], Effort | None] = lambda _: None,
    what: Literal["workflow", "function"] = "function",
) -> Settled:
    """Find, for each input, the fingerprint of the function whose result counts.

    Args:
        run_file: The run file to update.
        now: The function as it is now.
        keys_under: Returns the keys of all inputs under a fingerprint.
        column: The results.
        stale: The results made from files that changed.
        on_change: What to do with results of another version.
        exempt: Inputs that need no decision now: any result of theirs counts.
        small: Returns the effort to redo the given inputs, each with the fingerprint of its
            result; None: too much to do without asking.
        what: What changed, for messages.

    Raises:
        FunctionChangedError: Some inputs have only results of another version, and `on_change` was
            never given.
    """
    inputs = len(keys_under(now.fingerprint))
    here, elsewhere = done_by_version(run_file, now.fingerprint, keys_under, column)
    in_question = {
        position: other for position, other in elsewhere.items() if position not in exempt
    }
    choices: dict[str, OnChange | None] = {
        other: on_change or choice_about(run_file, now.fingerprint, other)
        for other in set(in_question.values())
    }
    undecided = {
        position: other for position, other in in_question.items() if choices[other] is None
    }
    is_other = bool(undecided)
    made_by = [other for other in in_question.values() if choices[other] != "keep"]
    before = run_file.functions[made_by[-1]] if made_by else now.parts
    files: set[str] = set()
    if on_change is None and stale.of_asked:
        counting = dict.fromkeys(here.difference(exempt), now.fingerprint)
        counting |= {
            position: other for position, other in in_question.items() if choices[other] != "redo"
        }
        for position, names in _stale(counting, keys_under, stale).items():
            undecided[position] = counting[position]
            files |= names
    # Without parts, the version is too old to compare.
    changed = [*(changed_parts(before, now.parts) if before else ()), *sorted(files)]
    made_again = small(undecided) if undecided and LOST not in files else None
    if undecided and made_again is None:
        named = changed if is_other else sorted(files)
        error = _question(is_other, named, len(undecided), inputs - len(exempt), what)
        error.files, error.before = sorted(files - {LOST}), before
        raise error
    if in_question and (on_change is not None or is_other):
        forget_redos(run_file)
    if in_question and on_change is not None:
        # An interrupted run resumes with this decision.
        record_choice(run_file, now.fingerprint, in_question.values(), on_change)
    record_latest(run_file, now)
    fingerprints = [
        other
        if (other := elsewhere.get(position)) and (position in exempt or choices[other] == "keep")
        else now.fingerprint
        for position in range(inputs)
    ]
    return Settled(fingerprints, made_again, changed)


def what_happened(files: Collection[str]) -> str:
    """Return what happened to files that were read."""
    names = quoted(sorted({*files} - {LOST}))
    damage = ["files.jsonl was damaged"] if LOST in files else []
    return " and ".join([*([f"{names} changed"] if names else []), *damage])


def _stale(
    counting: Mapping[int, str],
    keys_under: KeysUnder,
    stale: StaleRecords,
) -> dict[int, set[str]]:
    """Return the positions whose results were made from changed files without a decision."""
    return {
        position: files
        for fingerprint in set(counting.values())
        for position, key in enumerate(keys_under(fingerprint))
        if counting.get(position) == fingerprint and (files := stale.undecided(key))
    }


def _question(
    is_other: bool,  # noqa: FBT001 - whether the code changed, or only files did
    changed: Sequence[str],
    done: int,
    inputs_in_all: int,
    what: str,
) -> FunctionChangedError:
    results, inputs = _WORDS[what]
    those = f"the {results} of {done:,} of {inputs_in_all:,} {inputs}"
    names = quoted([name for name in changed if name != LOST])
    text = f"{names} changed after {those} were made"
    if is_other:
        text = f"the {what} changed after {those} were made" + (f": {names}" if names else "")
    if LOST in changed:
        text = (
            f"{text}; files.jsonl is damaged, too"
            if is_other or names
            else f"files.jsonl is damaged: the files that {those} were made from are unknown"
        )
    return FunctionChangedError(
        text,
        hint='on_change="redo" redoes them (the old results stay in the file); '
        'on_change="keep" keeps them and runs only what is missing',
    )
