"""What does each step depend on, and how does it differ from the run?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from limpet.evaluators.protocol import Evaluator
from limpet.fingerprints.differences import differences
from limpet.fingerprints.identity import changed_parts
from limpet.journal.column import ColumnReader, read_failures
from limpet.journal.lines import Entry
from limpet.run.planning.changes import Explainer, StaleRecords, what_happened
from limpet.run.planning.counting import (
    Counting,
    choice_about,
    done_by_version,
    read_generations,
)
from limpet.run.planning.files_read import FilesRead
from limpet.run.planning.identity_file import KeptStep, read_identity
from limpet.run.planning.plan import Plan, StepPlan, named, quoted
from limpet.run.planning.work_items import WorkItem, WorkItems, score_task
from limpet.run.reading import RunReader
from limpet.run.reading.find_run import NoSuchItemError
from limpet.run.reading.items import WholeItem
from limpet.run.record_fields import ROW
from limpet.run.request import Request
from limpet.run.run_file import WORKFLOW, OnChange, RunFile
from limpet.shapes import Difference

# ---- Why is this item run again, or kept? -------------------------------------------------------

Verdict = Literal["kept", "runs", "runs again", "asks first"]
_FORCED = "forced by an unfinished redo, which --keep cancels"


@dataclass(frozen=True, slots=True)
class Fact:
    """What the next run does with one step of an item, and why.

    Attributes:
        step: The name of the step.
        verdict: What the next run does.
        why: The reason.
        at: When the current result was written; empty: there is none.
    """

    step: str
    verdict: Verdict
    why: str
    at: str = ""


@dataclass(frozen=True, slots=True)
class ItemStory:
    """An item in a trial, with a fact for each step, the workflow first."""

    id: str
    trial: int
    facts: tuple[Fact, ...]


class ItemStories:
    """Explains items by the current code, the current rows and the results on disk.

    With `asks`, the user is asked about answers of another version.
    """

    def __init__(self, request: Request, explainer: Explainer, *, asks: bool) -> None:
        self._undecided: Verdict = "asks first" if asks else "runs again"
        self._request = request
        self._identities = explainer.identities
        self._run_file = run_file = explainer.run_file
        layout = explainer.layout
        steps = [WORKFLOW, *(evaluator.name for evaluator in request.evaluators)]
        self._columns = {step: ColumnReader(layout.column(step)) for step in steps}
        self._stale = StaleRecords(
            explainer.files,
            explainer.project,
            self._columns,
            WORKFLOW,
            run_file,
            request.on_change,
        )
        self._failures = read_failures(layout.failures)
        redone = read_generations(layout.redone)
        self._counting = Counting(run_file.redo, redone, self._stale.needed())

    def of(self, id_: str, there: Sequence[WholeItem]) -> tuple[ItemStory, ...]:
        """Return the story of an item, once for each trial; empty if it is not in the dataset.

        `there` is what the files say about it.
        """
        request = self._request
        return tuple(
            ItemStory(id_, work_item.trial, tuple(self._facts(work_item, there)))
            for work_item in WorkItems(request.items, request.trials, request.workflow)
            if work_item.item.id == id_
        )

    def _facts(self, work_item: WorkItem, there: Sequence[WholeItem]) -> Iterator[Fact]:
        fact, entry = self._answer(work_item, there)
        yield fact
        for evaluator in self._request.evaluators:
            yield self._score(work_item, evaluator, entry, fact)

    # ---- the answer -----------------------------------------------------------------------------

    def _answer(self, work_item: WorkItem, there: Sequence[WholeItem]) -> tuple[Fact, Entry | None]:
        """Return what happens to the answer, and the answer itself if it is kept."""
        run_file, answers = self._run_file, self._columns[WORKFLOW]
        now = self._identities.fingerprint(WORKFLOW)
        here, others = done_by_version(run_file, now, lambda one: [work_item.key(one)], answers)
        fingerprint = now if here else others.get(0, "")
        entry = answers.read(work_item.key(fingerprint)) if fingerprint else None
        if entry is not None:
            return self._answered(work_item, fingerprint, entry)
        for fingerprint in (now, *reversed(run_file.functions)):
            failed = self._failed(WORKFLOW, work_item.key(fingerprint))
            if failed is not None:
                return failed, None
        return _unanswered(work_item, there), None

    def _answered(
        self, work_item: WorkItem, fingerprint: str, entry: Entry
    ) -> tuple[Fact, Entry | None]:
        key, now, stale = (
            work_item.key(fingerprint),
            self._identities.fingerprint(WORKFLOW),
            self._stale,
        )
        generation, below = self._columns[WORKFLOW].generation_of(key), stale.kept.get(key, 0)
        verdict = self._counting.verdict(WORKFLOW, key, generation, work_item.item.id, below=below)
        why, since, choices = "answered by the current code", list[str](), list[OnChange | None]()
        if fingerprint != now:
            why, since = "answered by an earlier version", [self._since(fingerprint)]
            choices.append(
                self._request.on_change or choice_about(self._run_file, now, fingerprint)
            )
        if verdict.is_redo:
            why = f"{_FORCED}; {why}: {since[0]}" if since else _FORCED
            return Fact(WORKFLOW, "runs again", why, _at(entry)), None
        if (files := stale.of_asked.get(key)) and "redo" not in choices:
            since.append(what_happened(files))
            choices.append(None if stale.undecided(key) else "redo")
        elif verdict.version:
            since.append("a file changed")
            choices.append("keep")
        why += f"; since then {' and '.join(since)}" if since else ""
        if None in choices:
            return Fact(WORKFLOW, self._undecided, why, _at(entry)), None
        if "redo" in choices:
            return Fact(
                WORKFLOW, "runs again", f"{why}, and you chose to redo it", _at(entry)
            ), None
        why += ", and you chose to keep it" if choices else ""
        return Fact(WORKFLOW, "kept", why, _at(entry)), entry

    def _since(self, fingerprint: str) -> str:
        parts = self._run_file.functions[fingerprint]
        if not parts:  # only the fingerprints of the oldest are kept
            return "the code changed (too long ago to say what)"
        return f"{quoted(changed_parts(parts, self._identities.parts(WORKFLOW)))} changed"

    # ---- scores ---------------------------------------------------------------------------------

    def _score(
        self, work_item: WorkItem, evaluator: Evaluator, answer: Entry | None, fact: Fact
    ) -> Fact:
        name = evaluator.name
        if answer is None:
            return Fact(name, fact.verdict, "depends on the answer")
        column = self._columns[name]
        key = score_task(work_item, answer, evaluator, self._identities.fingerprint(name)).cell.key
        entry = column.read(key)
        if entry is not None:
            at, files, generation = (
                _at(entry),
                self._stale.of(name).get(key),
                column.generation_of(key),
            )
            if self._counting.verdict(name, key, generation, work_item.item.id).is_redo:
                return Fact(name, "runs again", _FORCED, at)
            if files:
                return Fact(name, "runs again", f"since it was scored, {what_happened(files)}", at)
            return Fact(name, "kept", "scored by the current evaluator", at)
        failed = self._failed(name, key)
        if failed is not None:
            return failed
        before = self._run_file.evaluators.get(name)
        changed = changed_parts(before, self._identities.parts(name)) if before else []
        if changed:
            return Fact(name, "runs again", f"the evaluator changed: {quoted(changed)}")
        if (work_item.item.id, work_item.trial) in column.ids():
            return Fact(name, "runs again", "the answer, or what it reads from the row, changed")
        return Fact(name, "runs", "never scored")

    def _failed(self, step: str, key: str) -> Fact | None:
        failed = self._failures.get((step, key))
        if failed is None:
            return None
        return Fact(step, "runs again", _why_failed(failed.record.get("error")), _at(failed))


def story_on_disk(whole: WholeItem, reader: RunReader, asked: Sequence[str]) -> ItemStory:
    """Explain an item by the files alone, for the code that last ran.

    Args:
        whole: What the files say about the item.
        reader: Reads them.
        asked: The steps that changed since and that the user has not decided about.
    """
    item, facts = whole.item, [_answer_on_disk(whole, reader, asked)]
    for name in reader.evaluators:
        if name in item.redo:
            facts.append(Fact(name, "runs again", _FORCED))
        elif name in item.score_errors:
            facts.append(Fact(name, "runs again", _why_failed(item.score_errors[name])))
        elif name in item.scores:
            facts.append(Fact(name, "kept", "scored by the evaluator that last ran"))
        else:
            facts.append(Fact(name, "runs", "not scored"))
    return ItemStory(item.id, item.trial, tuple(facts))


def _answer_on_disk(whole: WholeItem, reader: RunReader, asked: Sequence[str]) -> Fact:
    item, step = whole.item, reader.step
    if step in item.redo:
        return Fact(step, "runs again", _FORCED, item.at)
    if item.is_completed:
        generation = reader.columns[step].generation_of(item.key)
        if not reader.counting.verdict(step, item.key, generation, item.id).is_done:
            return Fact(step, "runs again", "a file changed after it was answered", item.at)
        why = "answered by the code that last ran"
        if item.version:
            why = "answered by an earlier version, which was kept"
        if step in asked:
            return Fact(step, "asks first", f"{why}, which has changed since", item.at)
        return Fact(step, "kept", why, item.at)
    if item.error is not None:
        return Fact(step, "runs again", _why_failed(item.error), item.at)
    return Fact(step, "runs", f"{item.status.words}: it has no answer", item.at)


def _at(entry: Entry) -> str:
    return str(entry.facts.get("at", ""))


def _why_failed(error: Mapping[str, Any] | None) -> str:
    error = error or {}
    return f"failed with {error.get('type', 'an error')}: {error.get('message', '')}"


def _unanswered(work_item: WorkItem, there: Sequence[WholeItem]) -> Fact:
    before = _latest(work_item, there)
    if before is None:
        return Fact(WORKFLOW, "runs", "never answered")
    fields = _edited(work_item, before)
    which = f": {named(fields)}" if fields else ""
    why = f"its row was edited since it was answered{which}"
    return Fact(WORKFLOW, "runs again", why, _at(before))


def _latest(work_item: WorkItem, there: Sequence[WholeItem]) -> Entry | None:
    """Return the latest answer to an item in this trial, under any key."""
    entries = [
        entry
        for whole in there
        if whole.item.trial == work_item.trial
        for entry in (whole.item.entry, *(earlier.entry for earlier in whole.earlier))
        if entry is not None
    ]
    return max(entries, key=_at, default=None)


def _edited(work_item: WorkItem, before: Entry) -> list[str]:
    """Return the fields of the row that differ from those of the answer's record."""
    row, was = work_item.item.row, before.record.get(ROW, {})
    return sorted(name for name in {*row, *was} if row.get(name) != was.get(name))


# ---- What does each step depend on, and how does it differ from the run? ------------------------

Compared = Literal["now", "asked", "before", "nothing"]


@dataclass(frozen=True, slots=True)
class StepWhy:
    """What a step depends on, and how it differs.

    Attributes:
        name: The name of the step.
        covers: What its identity covers.
        state: The names of its state.
        compared: What was compared: "now", the current code with the run; "asked", the code that
            the user was last asked about with the run; "before", the last version with the one
            before it; or "nothing", if there is only one.
        differences: The differences.
        files: The files that it read.
    """

    name: str
    covers: KeptStep
    state: tuple[str, ...]
    compared: Compared
    differences: tuple[Difference, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Why:
    """An explanation of a run.

    Attributes:
        looked: Whether the current code was inspected.
        steps: Each step, the workflow first.
        item: The story of an item, once for each trial.
        remarks: What could not be read, a sentence each.
    """

    looked: bool
    steps: tuple[StepWhy, ...]
    item: tuple[ItemStory, ...] = ()
    remarks: tuple[str, ...] = ()


def why_now(request: Request, plan: Plan, explainer: Explainer, item: str | None = None) -> Why:
    """Compare the current code with a run, and explain an item by its id.

    Raises:
        NoSuchItemError: The item does not exist.
    """
    run_file, layout = explainer.run_file, explainer.layout
    known = {WORKFLOW: run_file.workflow_parts, **run_file.evaluators}
    steps = tuple(
        _now(step, known.get(step.name, {}), explainer)
        for step in (plan.workflow, *plan.evaluators)
    )
    remarks = (explainer.kept.remark,) if explainer.kept.remark and run_file.functions else ()
    story: tuple[ItemStory, ...] = ()
    if item is not None:
        with RunReader(layout.single or layout.home) as reader:
            there = reader.item(item)
        story = ItemStories(request, explainer, asks=plan.workflow.made_again is None).of(
            item, there
        )
        if not story:
            ids = (known.id for known in request.items)
            raise NoSuchItemError(layout.single or layout.home, item, ids)
    return Why(looked=True, steps=steps, item=story, remarks=remarks)


def why_on_disk(reader: RunReader, item: str | None = None) -> Why:
    """Compare the versions on disk, without the code: a script cannot be imported from here.

    Raises:
        NoSuchItemError: The item does not exist.
    """
    kept, read = read_identity(reader.layout), FilesRead(reader.layout)
    steps = tuple(
        replace(_on_disk(name, kept.steps[name], reader.run_file), files=tuple(read.names(name)))
        for name in (reader.step, *reader.evaluators)
        if name in kept.steps
    )
    story: tuple[ItemStory, ...] = ()
    if item is not None:
        trials = reader.item(item)
        if not trials:
            raise NoSuchItemError(reader.path, item, reader.ids())
        asked = [step.name for step in steps if step.compared == "asked"]
        story = tuple(story_on_disk(whole, reader, asked) for whole in trials)
    remarks = (kept.remark,) if kept.remark else ()
    return Why(looked=False, steps=steps, item=story, remarks=remarks)


def _now(step: StepPlan, before: Mapping[str, str], explainer: Explainer) -> StepWhy:
    name, now = step.name, explainer.now(step.name)
    since = explainer.since(name, before) if before else ()
    # As in the plan: a file of rows that are no longer selected is not a change.
    since += explainer.in_files(name, step.changed)
    if since or not before:
        state = _state(now, name, explainer.run_file)
        why = StepWhy(name, now, state, "now" if before else "nothing", since)
    else:
        kept = explainer.kept.steps.get(name, KeptStep())
        why = _since_before(name, now, kept, explainer.run_file)
    return replace(why, files=tuple(explainer.files.names(name)))


def _on_disk(name: str, step: KeptStep, run_file: RunFile) -> StepWhy:
    if step.asked is None:
        return _since_before(name, step, step, run_file)
    since = differences(step.parts, step.asked.parts, step.known)
    return StepWhy(name, step, _state(step, name, run_file), "asked", since)


def _since_before(name: str, now: KeptStep, kept: KeptStep, run_file: RunFile) -> StepWhy:
    state = _state(now, name, run_file)
    if kept.before is None:
        return StepWhy(name, now, state, "nothing")
    return StepWhy(
        name, now, state, "before", differences(kept.before.parts, kept.parts, kept.known)
    )


def _state(step: KeptStep, name: str, run_file: RunFile) -> tuple[str, ...]:
    return tuple(sorted({*step.state, *run_file.state.get(name, ())}))
