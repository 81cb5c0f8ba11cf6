"""Why would this item be run again, or kept?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from limpet.evaluators.protocol import Evaluator
from limpet.fingerprints.identity import changed_parts
from limpet.journal.column import ColumnReader
from limpet.journal.failures import read_failures
from limpet.journal.layout import Layout
from limpet.journal.lines import Entry
from limpet.run.executing.cells import ANSWER, METADATA, TRACE, scoring_of
from limpet.run.planning.plan import named
from limpet.run.planning.redo import Redos, read_redone
from limpet.run.planning.stale_records import StaleRecords
from limpet.run.planning.step_identities import StepIdentities
from limpet.run.planning.work_items import WorkItem, WorkItems
from limpet.run.reading.item_history import WholeItem
from limpet.run.request import Request
from limpet.run.run_file import WORKFLOW, RunFile

Verdict = Literal["kept", "runs", "runs again", "you are asked", "not seen"]


@dataclass(frozen=True, slots=True)
class Fact:
    """What becomes of one step of an item, and why.

    Attributes:
        step: Which step.
        verdict: What the next run does.
        why: Because of what.
        at: When what is there was written; empty: nothing is there.
    """

    step: str
    verdict: Verdict
    why: str
    at: str = ""


@dataclass(frozen=True, slots=True)
class ItemStory:
    """One item in one trial: what becomes of each step, the workflow first."""

    id: str
    trial: int
    facts: tuple[Fact, ...]


class ItemStories:
    """Tells the stories of items by the code, the rows and the results as they are now.

    Args:
        request: What would be asked.
        identities: The steps as they are.
        layout: Where the run is.
        run_file: What the run knows of itself.
        stale: What was made of files that say something else now.
        asks: Whether a person is asked about answers of another version.
    """

    def __init__(
        self,
        request: Request,
        identities: StepIdentities,
        layout: Layout,
        run_file: RunFile,
        stale: StaleRecords,
        *,
        asks: bool,
    ) -> None:
        self._stale = stale
        self._undecided: Verdict = "you are asked" if asks else "runs again"
        self._request = request
        self._identities = identities
        self._run_file = run_file
        steps = [WORKFLOW, *(one.name for one in request.evaluators)]
        self._columns = {step: ColumnReader(layout.column(step)) for step in steps}
        self._failures = read_failures(layout.failures)
        self._redos = Redos(run_file.redo, read_redone(layout))
        self._work_items = WorkItems(request.items, request.trials, request.workflow)
        self._versions = run_file.functions

    @property
    def ids(self) -> list[str]:
        """The ids of all items."""
        return [one.id for one in self._request.items]

    def of(self, id_: str, there: Sequence[WholeItem]) -> tuple[ItemStory, ...]:
        """Return the story of an item, once for each trial; empty if it is not asked for.

        Args:
            id_: Its id.
            there: What the files say of it.
        """
        return tuple(
            ItemStory(one.item.id, one.trial, tuple(self._facts(one, there)))
            for one in self._work_items
            if one.item.id == id_
        )

    def _facts(self, work_item: WorkItem, there: Sequence[WholeItem]) -> Iterator[Fact]:
        fact, entry = self._answer(work_item, there)
        yield fact
        for evaluator in self._request.evaluators:
            yield self._score(work_item, evaluator, entry, fact)

    # ---- the answer -----------------------------------------------------------------------------

    def _answer(self, work_item: WorkItem, there: Sequence[WholeItem]) -> tuple[Fact, Entry | None]:
        """Return what becomes of the answer, and the one that stays if one does."""
        answers, now = self._columns[WORKFLOW], self._identities.version(WORKFLOW)
        key = work_item.key(now)
        forced = self._redos.needed(WORKFLOW, work_item.item.id, key)
        entry = answers.read(key)
        if entry is not None:
            at = str(entry.facts.get("at", ""))
            if answers.reaches(key, forced):
                return self._answered(key, entry, at)
            return Fact(WORKFLOW, "runs again", "forced by a redo that is not done", at), None
        for version in reversed(list(self._versions)):
            entry = answers.read(work_item.key(version))
            if version != now and entry is not None:
                return self._other(version, entry, forced)
        for version in (now, *reversed(list(self._versions))):
            failed = self._failed(WORKFLOW, work_item.key(version))
            if failed is not None:
                return failed, None
        return self._unanswered(work_item, there), None

    def _answered(self, key: str, entry: Entry, at: str) -> tuple[Fact, Entry | None]:
        files = self._stale.of(WORKFLOW).get(key)
        if files:
            why = f"answered by the code as it is; since then {named(sorted(files))} changed"
            if self._stale.undecided(key):
                return Fact(WORKFLOW, self._undecided, why, at), None
            return Fact(WORKFLOW, "runs again", f"{why}, and you chose to redo it", at), None
        why = "answered by the code as it is"
        if self._stale.is_kept(key):
            why += "; a file changed since, and you chose to keep it"
        return Fact(WORKFLOW, "kept", why, at), entry

    def _other(self, version: str, entry: Entry, forced: int) -> tuple[Fact, Entry | None]:
        at, told = str(entry.facts.get("at", "")), self._since(version)
        choice = self._run_file.decided.get(self._identities.version(WORKFLOW))
        if forced:
            why = f"forced by a redo that is not done; answered by an earlier version: {told}"
            return Fact(WORKFLOW, "runs again", why, at), None
        why = f"answered by an earlier version; since then {told}"
        if choice == "keep":
            return Fact(WORKFLOW, "kept", f"{why}, and you chose to keep it", at), entry
        if choice == "redo":
            return Fact(WORKFLOW, "runs again", f"{why}, and you chose to redo it", at), None
        return Fact(WORKFLOW, self._undecided, why, at), None

    def _since(self, version: str) -> str:
        parts = self._versions[version]
        if not parts:  # of the oldest, only the digest is kept
            return "the code changed (too long ago to say what)"
        return f"{named(changed_parts(parts, self._identities.parts(WORKFLOW)))} changed"

    def _unanswered(self, work_item: WorkItem, there: Sequence[WholeItem]) -> Fact:
        before = _latest(work_item, there)
        if before is None:
            return Fact(WORKFLOW, "runs", "never answered")
        fields = _edited(work_item, before)
        told = f": {named(fields)}" if fields else ""
        at = str(before.facts.get("at", ""))
        return Fact(WORKFLOW, "runs again", f"its row was edited since it was answered{told}", at)

    # ---- scores ---------------------------------------------------------------------------------

    def _score(
        self, work_item: WorkItem, evaluator: Evaluator, answer: Entry | None, fact: Fact
    ) -> Fact:
        name = evaluator.name
        if answer is None:
            return Fact(name, fact.verdict, "follows the answer")
        column = self._columns[name]
        key = scoring_of(work_item, answer, evaluator, self._identities.version(name)).cell.key
        entry = column.read(key)
        if entry is not None:
            at = str(entry.facts.get("at", ""))
            files = self._stale.of(name).get(key)
            if files:
                why = f"since it was scored, {named(sorted(files))} changed"
                return Fact(name, "runs again", why, at)
            if column.reaches(key, self._redos.needed(name, work_item.item.id, key)):
                return Fact(name, "kept", "scored by the evaluator as it is", at)
            return Fact(name, "runs again", "forced by a redo that is not done", at)
        failed = self._failed(name, key)
        if failed is not None:
            return failed
        before = self._run_file.evaluators.get(name)
        changed = changed_parts(before, self._identities.parts(name)) if before else []
        if changed:
            return Fact(name, "runs again", f"the evaluator changed: {named(changed)}")
        if (work_item.item.id, work_item.trial) in column.ids():
            return Fact(name, "runs again", "the answer, or what it reads of the row, changed")
        return Fact(name, "runs", "never scored")

    def _failed(self, step: str, key: str) -> Fact | None:
        failed = self._failures.get((step, key))
        if failed is None:
            return None
        error = failed.record.get("error") or {}
        said = str(error.get("message", ""))
        why = f"it failed ({error.get('type', 'an error')}: {said}), and is tried again"
        return Fact(step, "runs again", why, str(failed.facts.get("at", "")))


def story_on_disk(
    whole: WholeItem, evaluators: Sequence[str], step: str, asked: Sequence[str] = ()
) -> ItemStory:
    """Return the story of an item as the files alone tell it: of the code as it last ran.

    Args:
        whole: What the files say of it.
        evaluators: The names of the evaluators.
        step: The step that answers.
        asked: The steps that changed since, of which nobody said what to do.
    """
    item = whole.item
    if item.is_completed:
        answer = _kept(whole)
    elif item.error is not None:
        answer = _failed_before(whole)
    else:
        answer = Fact(step, "runs", f"{item.status.words}: it has no answer")
    facts = [Fact(step, answer.verdict, answer.why, item.at)]
    if step in asked and answer.verdict == "kept":
        facts = [Fact(step, "you are asked", f"{answer.why}, which changed since", item.at)]
    if step in item.redo:
        facts = [Fact(step, "runs again", "forced by a redo that is not done", item.at)]
    for name in evaluators:
        if name in item.redo:
            facts.append(Fact(name, "runs again", "forced by a redo that is not done"))
        elif name in item.score_errors:
            error = item.score_errors[name]
            told = f"it failed ({error.get('type')}: {error.get('message')}), and is tried again"
            facts.append(Fact(name, "runs again", told))
        elif name in item.scores:
            facts.append(Fact(name, "kept", "scored by the evaluator as it last ran"))
        else:
            facts.append(Fact(name, "runs", "not scored"))
    return ItemStory(item.id, item.trial, tuple(facts))


def _kept(whole: WholeItem) -> Fact:
    if whole.item.version:
        return Fact("", "kept", "answered by an earlier version, which was kept")
    return Fact("", "kept", "answered by the code as it last ran")


def _failed_before(whole: WholeItem) -> Fact:
    error = whole.item.error or {}
    told = f"it failed ({error.get('type')}: {error.get('message')}), and is tried again"
    return Fact("", "runs again", told)


def _latest(work_item: WorkItem, there: Sequence[WholeItem]) -> Entry | None:
    """Return the latest answer to an item in this trial, under whatever key."""
    entries = [
        entry
        for whole in there
        if whole.item.trial == work_item.trial
        for entry in (whole.item.entry, *(earlier.entry for earlier in whole.earlier))
        if entry is not None
    ]
    return max(entries, key=lambda one: str(one.facts.get("at", "")), default=None)


def _edited(work_item: WorkItem, before: Entry) -> list[str]:
    """Name the fields of a row that differ from those that were answered."""
    row, record = dict(work_item.item.row), before.record
    ours = (ANSWER, TRACE, METADATA, "id")
    was = {name: value for name, value in record.items() if name not in ours}
    row.pop("id", None)
    return sorted(name for name in {*row, *was} if row.get(name) != was.get(name))
