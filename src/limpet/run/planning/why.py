"""What does each step's identity cover, and what is different from what a run has?"""

from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from typing import Literal

from limpet.errors import LimpetError
from limpet.fingerprints.explaining.differences import Difference, differences
from limpet.journal.column import ColumnReader
from limpet.journal.layout import Layout
from limpet.run.planning.explanation import Explainer
from limpet.run.planning.files_read import FilesRead
from limpet.run.planning.identity_file import KeptIdentity, KeptStep, read_identity
from limpet.run.planning.item_story import ItemStories, ItemStory, story_on_disk
from limpet.run.planning.plan import Plan
from limpet.run.planning.stale_records import StaleRecords
from limpet.run.planning.step_identities import StepIdentities
from limpet.run.reading import RunReader
from limpet.run.request import Request
from limpet.run.run_file import WORKFLOW, RunFile
from limpet.text import one_line

_MOST_IDS = 20_000
Compared = Literal["now", "asked", "before", "nothing"]


@dataclass(frozen=True, slots=True)
class StepWhy:
    """One step.

    Attributes:
        name: Which.
        covers: What its identity is made of.
        state: What is state.
        compared: What was compared: the code as it is "now" with what the run has; the code that
            somebody was last "asked" about with it; the last identity with the one "before" it;
            or "nothing", for there is only one.
        differences: What differs.
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
    """What there is to say of a run.

    Attributes:
        looked: Whether the code as it is now was looked at.
        steps: Each step, the workflow first.
        item: The story of the item that was asked about, once for each trial.
        remarks: What could not be read, in words.
    """

    looked: bool
    steps: tuple[StepWhy, ...]
    item: tuple[ItemStory, ...] = ()
    remarks: tuple[str, ...] = ()


def why_now(
    request: Request,
    identities: StepIdentities,
    plan: Plan,
    layout: Layout,
    run_file: RunFile,
    explaining: Explainer,
    item: str | None = None,
) -> Why:
    """Compare the code as it is now with what a run has.

    Raises:
        LimpetError: There is no such item.
    """
    kept = read_identity(layout)
    columns = {name: ColumnReader(layout.column(name)) for name in identities.versions}
    stale = StaleRecords(
        explaining.files, explaining.project, columns, WORKFLOW, run_file, request.on_change
    )
    known = {WORKFLOW: run_file.workflow_parts, **run_file.evaluators}
    planned = {one.name: one for one in (plan.workflow, *plan.evaluators)}
    steps = []
    for name in identities.versions:
        now, was = explaining.now(name), known.get(name)
        state = _state(now, name, run_file)
        found = explaining.since(name, was) if was else ()
        # As the plan says: a file that only rows of before were made of is no change.
        found += explaining.in_files(name, planned[name].changed)
        if found or not was:
            one = StepWhy(name, now, state, "now" if was else "nothing", found)
        else:
            one = _since_before(name, now, kept.steps.get(name, KeptStep()), state)
        steps.append(replace(one, files=tuple(explaining.files.names(name))))
    remarks = (kept.remark,) if kept.remark and run_file.functions else ()
    if item is None:
        return Why(looked=True, steps=tuple(steps), remarks=remarks)
    with RunReader(layout.single or layout.home) as reader:
        there = reader.item(item)
    asks = plan.workflow.anew is None
    stories = ItemStories(request, identities, layout, run_file, stale, asks=asks)
    story = stories.of(item, there)
    if not story:
        raise _no_item(item, layout, stories.ids)
    return Why(looked=True, steps=tuple(steps), item=story, remarks=remarks)


def why_on_disk(reader: RunReader, item: str | None = None) -> Why:
    """Compare the last two identities that are on disk: nobody can look at a script from here.

    Raises:
        LimpetError: There is no such item.
    """
    kept, read = read_identity(reader.layout), FilesRead(reader.layout)
    steps = tuple(
        replace(_on_disk(name, kept, reader.run_file), files=tuple(read.names(name)))
        for name in (reader.step, *reader.evaluators)
        if name in kept.steps
    )
    story: tuple[ItemStory, ...] = ()
    if item is not None:
        found = reader.item(item)
        if not found:
            raise _no_item(item, reader.layout, list(islice(reader.ids(), _MOST_IDS)))
        asked = [step.name for step in steps if step.compared == "asked"]
        story = tuple(story_on_disk(one, reader.evaluators, reader.step, asked) for one in found)
    remarks = (kept.remark,) if kept.remark else ()
    return Why(looked=False, steps=steps, item=story, remarks=remarks)


def _on_disk(name: str, kept: KeptIdentity, run_file: RunFile) -> StepWhy:
    step = kept.steps[name]
    state = _state(step, name, run_file)
    if step.asked:
        known = {(n, step.parts_asked[n]): one for n, one in step.shown_asked.items()}
        found = differences(step.parts, step.parts_asked, step.known | known)
        return StepWhy(name, step, state, "asked", found)
    return _since_before(name, step, step, state)


def _since_before(name: str, now: KeptStep, kept: KeptStep, state: tuple[str, ...]) -> StepWhy:
    if not kept.before:
        return StepWhy(name, now, state, "nothing")
    found = differences(kept.parts_before, kept.parts, kept.known)
    return StepWhy(name, now, state, "before", found)


def _state(step: KeptStep, name: str, run_file: RunFile) -> tuple[str, ...]:
    return tuple(sorted({*step.state, *run_file.state.get(name, ())}))


def _no_item(id_: str, layout: Layout, ids: list[str]) -> LimpetError:
    near = get_close_matches(id_, ids[:_MOST_IDS], n=3, cutoff=0.5)
    names = " or ".join(map(one_line, near))
    return LimpetError(
        f"{one_line(str(layout.single or layout.home))}: there is no item {one_line(id_)}",
        hint=f"did you mean {names}?" if near else "see the ids with: limpet show RUN",
    )
