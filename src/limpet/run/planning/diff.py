"""What of an evaluation is on disk, and what is missing?

Changes nothing: `plan` passes it readers, and a run the columns of its journal.
"""

import functools
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from limpet.errors import FunctionChangedError
from limpet.evaluators.protocol import Evaluator
from limpet.fingerprints.files.project import Project
from limpet.fingerprints.identity import changed_parts
from limpet.journal.column import ColumnReader
from limpet.journal.failures import read_failures
from limpet.journal.layout import Layout
from limpet.run.executing.cells import Call, scoring_of
from limpet.run.planning.calls import Calls, Keys
from limpet.run.planning.code_change import (
    Fingerprint,
    settle_change,
    small_redo,
    took,
)
from limpet.run.planning.files_read import FilesRead
from limpet.run.planning.items_file import EARLIER_FILES, Standing
from limpet.run.planning.plan import Anew, Plan, StepPlan
from limpet.run.planning.redo import Redos, read_redone
from limpet.run.planning.stale_records import StaleRecords
from limpet.run.planning.step_identities import StepIdentities
from limpet.run.planning.work_items import WorkItem, WorkItems
from limpet.run.request import Request
from limpet.run.run_file import WORKFLOW, OnChange, RunFile

_CHUNK = 1_000
_MOST_ADDED_UP = 10_000  # beyond this, the question does not state the effort: reading takes long


class Lookup:
    """Compares what is asked with what the columns have.

    Args:
        request: What is asked.
        identities: The identities of the steps.
        columns: The column of each step.
        layout: The run's layout.
        run_file: The run file to update; its selections and redos include this session's.
        project: The project whose files the steps may have read.

    Attributes:
        asked: The work items that the run reports on.
        keys: The key of each work item under the workflow as it is now.
        standing: By key, the key and version of an earlier answer that counts until there is an
            answer under the key itself.
        missing: The calls that the workflow has to answer in this session.
        unscored: The calls that are answered and lack a score.
        left: Cells that failed before and are not retried, by step and key, with the generation
            in which they failed.
        redos: The forced redos.
        there: The number of done cells of each step, in the whole run.
        plan: The plan.

    Raises:
        FunctionChangedError: The workflow changed, and `on_change` does not say what to do. It
            carries the plan.
    """

    def __init__(
        self,
        request: Request,
        identities: StepIdentities,
        columns: Mapping[str, ColumnReader],
        layout: Layout,
        run_file: RunFile,
        project: Project,
    ) -> None:
        self._request = request
        self._identities = identities
        self._columns = columns
        self._answers = columns[WORKFLOW]
        self._scores = [
            (evaluator, identities.version(evaluator.name)) for evaluator in request.evaluators
        ]
        self._changed: tuple[str, ...] = ()
        self._anew: Anew | None = None
        self._in_question: list[str] = []
        places = run_file.reported(request.items)
        self._reported = len(places)
        self._selected = _selected(request, places)
        self.asked = WorkItems(request.items, request.trials, request.workflow, places)
        self._layout, self._project, self._run_file = layout, project, run_file
        self._stale = self._look_for_stale(request.on_change)
        self.redos = Redos(run_file.redo, self._stale.needed(read_redone(layout)))
        failures = {} if request.retry_failed else read_failures(layout.failures)
        self.left: dict[tuple[str, str], int] = {
            cell: failure.facts.get("generation", 0) for cell, failure in failures.items()
        }
        unasked: FunctionChangedError | None = None
        try:
            self._settle(run_file)
        except FunctionChangedError as error:
            unasked = error
            self._changed = tuple(dict.fromkeys((*self._changed, *error.files)))
        self._divide()
        self.plan = self._planned(run_file)
        if unasked is not None:
            unasked.plan = self.plan
            if len(self._in_question) <= _MOST_ADDED_UP:
                unasked.took = took(self._facts_of(self._in_question)).effort
            unasked.add_note(f"plan: {self.plan}")
            raise unasked

    @functools.cache  # noqa: B019 - one evaluation, a few fingerprints
    def _keys_under(self, fingerprint: str) -> Keys:
        return Keys(self.asked.keys(fingerprint))

    def is_selected(self, place: int) -> bool:
        """Tell whether this session selects the work item at a place."""
        return self._selected is None or place % self._reported in self._selected

    def counting(self, call: Call) -> Call:
        """Return the call whose answer counts now, which may be of an earlier version."""
        asked, cell = call
        return asked, cell._replace(key=self.counting_key(cell.key)[0])

    def counting_key(self, key: str) -> tuple[str, str]:
        """Return the key of the answer that counts, and its version; empty: the current one."""
        if self._stale.is_kept(key):
            return key, EARLIER_FILES
        if not self.standing or key in self._answers:
            return key, ""
        return self.standing.get(key, (key, ""))

    def standings(self) -> dict[int, dict[int, Standing]]:
        """Return why earlier answers count, by item and trial."""
        found: dict[int, dict[int, Standing]] = {}
        for at, key in enumerate(self.keys if self.standing or self._stale.kept else ()):
            version = self.standing.get(key, ("", ""))[1]
            below = self._stale.kept.get(key, 0)
            if version or below:
                place, trial = self.asked.place(at)
                found.setdefault(place, {})[trial] = Standing(version, below)
        return found

    @property
    def outdated(self) -> dict[str, dict[str, int]]:
        """By step and key, the required generation of records whose files changed."""
        return self._stale.needed({})

    @property
    def is_settled(self) -> bool:
        """Whether no question about answers of another version is open."""
        return self._kept_by_choice or all(key in self._answers for key in self.standing)

    def is_outdated(self) -> bool:
        """Tell whether a file that a record was made from has changed during the session."""
        return bool(self._look_for_stale(None))  # without the user's decision for earlier changes

    def _look_for_stale(self, on_change: OnChange | None) -> StaleRecords:
        read = FilesRead(self._layout)
        return StaleRecords(read, self._project, self._columns, WORKFLOW, self._run_file, on_change)

    def _exempt(self) -> set[int]:
        """Return the work items that need no decision: not selected, or run again anyway."""
        if self._selected is None and not self.redos:
            return set()
        known = self._run_file.functions
        return {
            place
            for place, work_item in enumerate(self.asked)
            if not self.is_selected(place)
            or (
                (needed := self.redos.needed(WORKFLOW, work_item.item.id, ""))
                and not any(self._answers.reaches(work_item.key(whole), needed) for whole in known)
            )
        }

    def _settle(self, run_file: RunFile) -> None:
        """Find the cells, and the answers of other versions that count in place of some."""
        parts = self._identities.parts(WORKFLOW)
        now = Fingerprint(self._identities.version(WORKFLOW), parts)
        latest = next(reversed(run_file.functions.items()), None)
        if latest is not None and latest[0] != now.whole:
            self._changed = tuple(changed_parts(latest[1], parts))

        def done_under(whole: str) -> set[int]:
            keys = enumerate(self._keys_under(whole))
            return {place for place, key in keys if key in self._answers}

        self.standing: dict[str, tuple[str, str]] = {}
        self.keys = self._keys_under(now.whole)
        exempt = self._exempt()
        stale = self._stale.of(WORKFLOW)

        def stale_under(whole: str) -> dict[int, set[str]]:
            keys = enumerate(self._keys_under(whole) if stale else ())
            undecided = ((place, self._stale.undecided(key)) for place, key in keys)
            return {place: files for place, files in undecided if files}

        settled = settle_change(
            run_file,
            now,
            done_under,
            len(self.asked),
            self._request.on_change,
            exempt,
            stale_under,
            self._small_redo,
            "workflow",
        )
        if settled.anew is not None and settled.anew.answers:
            self._anew = settled.anew
            self._changed = self._changed or tuple(settled.changed)
        chosen = enumerate(settled.fingerprints)
        others = {place: whole for place, whole in chosen if whole != now.whole}
        if others.keys() - exempt:
            self._changed = ()  # kept
        self.standing = {
            self.keys[place]: (self._keys_under(whole)[place], whole)
            for place, whole in others.items()
        }
        self._kept_by_choice = run_file.decided.get(now.whole) == "keep"

    def _small_redo(self, done: Mapping[int, str]) -> Anew | None:
        """Return the effort to make answers again; None: too much to do without asking."""
        places = [place for place in done if not self._is_left(WORKFLOW, self.keys[place], 0)]
        self._in_question = [self._keys_under(done[place])[place] for place in places]
        return small_redo(len(self._in_question), self._facts_of(self._in_question))

    def _facts_of(self, keys: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        return (entry.facts for _, entry in self._answers.read_many(keys))

    def _divide(self) -> None:
        """Divide the cells of each step into done and missing."""
        names = [evaluator.name for evaluator, _ in self._scores]
        self.there = dict.fromkeys((WORKFLOW, *names), 0)
        self._kept = dict.fromkeys((WORKFLOW, *names), 0)
        self._lacking = dict.fromkeys(names, 0)
        self._scores_forced = dict.fromkeys(names, 0)
        self._left_calls = self._forced = self._outdated = 0
        self._files_changed: dict[str, set[str]] = {name: set() for name in (WORKFLOW, *names)}
        missing, unscored = array("Q"), array("Q")
        for begin in range(0, len(self.keys), _CHUNK):
            answered: dict[str, int] = {}  # places of answers to score, by key
            for place in range(begin, min(begin + _CHUNK, len(self.keys))):
                self._look_at_answer(place, answered, missing)
            self._look_at_scores(answered, missing, unscored)
        self.missing = Calls(WORKFLOW, self.asked, self.keys, missing)
        counting = self.keys
        if self.standing:
            counting = Keys(self.counting_key(key)[0] for key in self.keys)
        self.unscored = Calls(WORKFLOW, self.asked, counting, unscored)

    def _look_at_answer(self, place: int, answered: dict[str, int], missing: "array[int]") -> None:
        key = self.keys[place]
        counting = self.counting_key(key)[0]
        needed = self._needed(place, counting)
        is_there = counting in self._answers
        if is_there and self._answers.reaches(counting, needed):
            answered[counting] = place
        elif self._is_left(WORKFLOW, key, needed):
            self._left_calls += self.is_selected(place)
            if is_there:
                answered[counting] = place
        elif self.is_selected(place):
            missing.append(place)
            outdated = self._note_outdated(WORKFLOW, counting) if is_there else False
            self._outdated += outdated
            self._forced += is_there and not outdated
        elif is_there:
            answered[counting] = place

    def _needed(self, place: int, key: str) -> int:
        return self.redos.needed(WORKFLOW, self.asked[place].item.id, key) if self.redos else 0

    def _note_outdated(self, step: str, key: str) -> bool:
        """Tell whether a record is made again because its files changed."""
        files = self._stale.of(step).get(key, ())
        self._files_changed[step].update(files)
        return bool(files)

    def _is_left(self, step: str, key: str, needed: int) -> bool:
        return self.left.get((step, key), -1) >= needed

    def _look_at_scores(
        self, answered: dict[str, int], missing: "array[int]", unscored: "array[int]"
    ) -> None:
        for key, entry in self._answers.read_many(list(answered)):
            place = answered.pop(key)
            asked, is_selected = self.asked[place], self.is_selected(place)
            if self._answers.reaches(key, self._needed(place, key)):
                self.there[WORKFLOW] += 1
                self._kept[WORKFLOW] += is_selected
            # A list, not any() alone: each evaluator must be counted.
            lacks = [
                self._lacks_score(asked, entry, *score, is_selected=is_selected)
                for score in self._scores
            ]
            if any(lacks) and is_selected:
                unscored.append(place)
        # The remaining records were damaged after the column was opened.
        missing.extend(place for place in answered.values() if self.is_selected(place))

    def _lacks_score(
        self, asked: WorkItem, entry: Any, evaluator: Evaluator, fp: str, *, is_selected: bool
    ) -> bool:
        name, column = evaluator.name, self._columns[evaluator.name]
        key = scoring_of(asked, entry, evaluator, fp).cell.key
        needed = self.redos.needed(name, asked.item.id, key)
        is_there = column.reaches(key, needed)
        lacks = not is_there and not self._is_left(name, key, needed)
        self.there[name] += is_there
        if is_selected:
            self._kept[name] += is_there
            self._lacking[name] += lacks
            if lacks and key in column:
                self._scores_forced[name] += not self._note_outdated(name, key)
        return lacks

    def _planned(self, run_file: RunFile) -> Plan:
        request, calls = self._request, len(self.missing)
        again = self._forced + self._outdated
        known = self._answers.ids() if calls > again and len(self._answers) else set()
        seen = 0
        if known:
            for asked, cell in self.missing:
                is_there = self.counting_key(cell.key)[0] in self._answers
                seen += not is_there and (asked.item.id, asked.trial) in known
        edited = 0 if self._changed else seen
        files = tuple(sorted(self._files_changed[WORKFLOW]))
        workflow = StepPlan(
            WORKFLOW,
            self._kept[WORKFLOW],
            calls - again - seen,
            edited,
            self._left_calls,
            tuple(dict.fromkeys((*(self._changed if seen else ()), *files))),
            calls,
            self._forced,
            anew=self._anew,
        )
        evaluators = []
        for one in request.evaluators:
            before = run_file.evaluators.get(one.name)
            changed = (
                ()
                if before is None
                else tuple(changed_parts(before, self._identities.parts(one.name)))
            )
            changed = (*changed, *sorted(self._files_changed[one.name]))
            missing, forced = self._lacking[one.name], self._scores_forced[one.name]
            evaluators.append(
                StepPlan(
                    one.name, self._kept[one.name], calls, 0, 0, changed, calls + missing, forced
                )
            )
        selected = self._reported if self._selected is None else len(self._selected)
        whole = len(request.items)
        return Plan(
            selected,
            request.trials,
            workflow,
            tuple(evaluators),
            whole if selected < whole else None,
        )


def _selected(request: Request, reported: Sequence[int]) -> frozenset[int] | None:
    """Return where among the items that are reported of the session's own are; None: all are."""
    wanted = request.selection.places(request.items)
    if len(wanted) == len(reported):
        return None
    at = {place: number for number, place in enumerate(reported)}
    return frozenset(at[place] for place in wanted)
