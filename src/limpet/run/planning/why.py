"""What does each step depend on, and how does it differ from the run?"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from limpet.fingerprints.explaining.differences import Difference, differences
from limpet.run.planning.explanation import Explainer
from limpet.run.planning.files_read import FilesRead
from limpet.run.planning.identity_file import KeptStep, read_identity
from limpet.run.planning.item_story import ItemStories, ItemStory, story_on_disk
from limpet.run.planning.plan import Plan, StepPlan
from limpet.run.reading import RunReader
from limpet.run.reading.find_run import NoSuchItemError
from limpet.run.request import Request
from limpet.run.run_file import WORKFLOW, RunFile

Compared = Literal["now", "asked", "before", "nothing"]


@dataclass(frozen=True, slots=True)
class StepWhy:
    """What a step depends on, and how it differs.

    Attributes:
        name: The name of the step.
        covers: What its identity covers.
        state: The names of what is state.
        compared: Which versions were compared: "now", the current code with the run; "asked", the
            code that the user was last asked about with the run; "before", the last version with
            the one before it; or "nothing", if there is only one.
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
        remarks: What could not be read.
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
        story = tuple(
            story_on_disk(whole, reader.evaluators, reader.step, asked) for whole in trials
        )
    remarks = (kept.remark,) if kept.remark else ()
    return Why(looked=False, steps=steps, item=story, remarks=remarks)


def _now(step: StepPlan, before: Mapping[str, str], explainer: Explainer) -> StepWhy:
    name, now = step.name, explainer.now(step.name)
    since = explainer.since(name, before) if before else ()
    # As the plan says: a file of rows that are no longer asked for is not a change.
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
