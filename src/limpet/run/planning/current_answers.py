"""Which answer counts for each work item?

Usually the one under the key of the current workflow. After a change, the user may keep an answer
of an earlier version, or one made from files that have changed since. Until a work item has an
answer under its own key, an earlier answer counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from limpet.errors import FunctionChangedError
from limpet.fingerprints.files.project import Project
from limpet.fingerprints.identity import changed_parts
from limpet.journal.column import ColumnReader, read_failures
from limpet.journal.layout import Layout
from limpet.run.planning.changes import StaleRecords, settle_change, small_redo, took
from limpet.run.planning.counting import Counting, earlier_version, read_generations
from limpet.run.planning.files_read import FilesRead
from limpet.run.planning.items_file import EarlierAnswer
from limpet.run.planning.plan import Effort, Plan
from limpet.run.planning.versions import StepIdentities, Version
from limpet.run.planning.work_items import AnswerTask, Keys, WorkItem, WorkItems
from limpet.run.request import Request
from limpet.run.run_file import WORKFLOW, OnChange, RunFile

_MOST_ADDED_UP = (
    10_000  # beyond this, reading them takes too long, and the question omits the effort
)


class CurrentAnswers:
    """The answers that count.

    The run file already includes the selection and redos of this session. Its versions and the
    user's decisions are updated.

    Attributes:
        work_items: The work items that the run reports on.
        reported: The number of items that the run reports on.
        keys: The key of each work item under the current workflow.
        earlier: By key, the key and fingerprint of an earlier answer that counts until the key
            itself has an answer.
        counting: Decides whether a record counts.
        stale: The records made from files that have changed.
        changed: The names of what changed in the workflow since its answers were made.
        made_again: The answers redone without asking; None: none.
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
        self._on_change = request.on_change
        self._columns, self._layout, self._project = columns, layout, project
        self._run_file = run_file
        self._answers = columns[WORKFLOW]
        positions = run_file.reported(request.items)
        self.reported = len(positions)
        self._selected = _selected(request, positions)
        self.work_items = WorkItems(request.items, request.trials, request.workflow, positions)
        self.stale = self._look_for_stale(request.on_change)
        failures = {} if request.retry_failed else read_failures(layout.failures)
        self.counting = Counting(
            run_file.redo,
            read_generations(layout.redone),
            self.stale.needed(),
            {cell: failure.facts.get("generation", 0) for cell, failure in failures.items()},
        )
        now = Version(identities.fingerprint(WORKFLOW), identities.parts(WORKFLOW))
        self._keys: dict[str, Keys] = {}
        self.keys = self._keys_under(now.fingerprint)
        self.earlier: dict[str, tuple[str, str]] = {}
        self.changed = _changed_since(run_file, now)
        self.made_again: Effort | None = None
        self._in_question: list[str] = []
        self._question: FunctionChangedError | None = None
        try:
            self._settle(now)
        except FunctionChangedError as error:
            self._question = error
            parts = changed_parts(error.before, now.parts) if error.before else ()
            self.changed = tuple(dict.fromkeys((*(self.changed or parts), *error.files)))

    def _keys_under(self, fingerprint: str) -> Keys:
        # `functools.cache` would keep every evaluation of the process in memory.
        if fingerprint not in self._keys:
            self._keys[fingerprint] = self.work_items.keys(fingerprint)
        return self._keys[fingerprint]

    @property
    def selected(self) -> int:
        """The number of items that this session selects."""
        return self.reported if self._selected is None else len(self._selected)

    def is_selected(self, position: int) -> bool:
        """Return whether this session selects the work item at a position."""
        return self._selected is None or position % self.reported in self._selected

    def counting_task(self, task: AnswerTask) -> AnswerTask:
        """Return the task whose answer counts now, perhaps of an earlier version."""
        work_item, cell = task
        return work_item, cell._replace(key=self.counting_key(cell.key))

    def counting_key(self, key: str) -> str:
        """Return the key of the answer that counts."""
        if key not in self.earlier:
            return key
        earlier_key, fingerprint = self.earlier[key]
        return (
            earlier_key if earlier_version(fingerprint, self._answers.generation_of(key)) else key
        )

    def earlier_answers(self) -> dict[int, dict[int, EarlierAnswer]]:
        """Return why earlier answers count, by item and trial."""
        earlier_answers: dict[int, dict[int, EarlierAnswer]] = {}
        for at, key in enumerate(self.keys if self.earlier or self.stale.kept else ()):
            fingerprint = self.earlier.get(key, ("", ""))[1]
            below = self.stale.kept.get(key, 0)
            if fingerprint or below:
                position, trial = self.work_items.position(at)
                earlier_answers.setdefault(position, {})[trial] = EarlierAnswer(fingerprint, below)
        return earlier_answers

    @property
    def is_settled(self) -> bool:
        """Whether no question about answers of another version is open."""
        return all(
            fingerprint in self._kept or key in self._answers
            for key, (_, fingerprint) in self.earlier.items()
        )

    def stale_now(self) -> StaleRecords:
        """Return the records made from files that have changed, including during the session."""
        return self._look_for_stale(None)  # without the user's decision for earlier changes

    def raise_question(self, plan: Plan) -> None:
        """Raise the question what to do about answers of another version, if it is open.

        Raises:
            FunctionChangedError: The workflow changed, and `on_change` does not say what to do. It
                carries the plan.
        """
        if self._question is None:
            return
        self._question.plan = plan
        if len(self._in_question) <= _MOST_ADDED_UP:
            self._question.took = str(took(self._facts_of(self._in_question)))
        self._question.add_note(f"plan: {plan}")
        raise self._question

    # ---- after a change -------------------------------------------------------------------------

    def _look_for_stale(self, on_change: OnChange | None) -> StaleRecords:
        read = FilesRead(self._layout, self._run_file.files_last)
        return StaleRecords(read, self._project, self._columns, WORKFLOW, self._run_file, on_change)

    def _settle(self, now: Version) -> None:
        """Find the answers of other versions that count."""
        exempt = self._exempt()
        settled = settle_change(
            self._run_file,
            now,
            self._keys_under,
            self._answers,
            self.stale,
            self._on_change,
            exempt,
            self._small_redo,
            "workflow",
        )
        if settled.made_again is not None and settled.made_again.answers:
            self.made_again = settled.made_again
        self.changed = self.changed or tuple(settled.changed)
        chosen = enumerate(settled.fingerprints)
        others = {
            position: fingerprint
            for position, fingerprint in chosen
            if fingerprint != now.fingerprint
        }
        if others.keys() - exempt and not settled.changed:
            self.changed = ()  # kept
        self.earlier = {
            self.keys[position]: (self._keys_under(fingerprint)[position], fingerprint)
            for position, fingerprint in others.items()
        }
        self._kept = self._run_file.decided.get(now.fingerprint, [])

    def _exempt(self) -> set[int]:
        """Return the work items that need no decision: not selected, or run again anyway."""
        if self._selected is None and not self.counting:
            return set()
        return {
            position
            for position, work_item in enumerate(self.work_items)
            if not self.is_selected(position) or self._is_forced(work_item)
        }

    def _is_forced(self, work_item: WorkItem) -> bool:
        needed = self.counting.needed(WORKFLOW, work_item.item.id, "")
        keys = (work_item.key(fingerprint) for fingerprint in self._run_file.functions)
        return needed > 0 and all(self._answers.generation_of(key) < needed for key in keys)

    def _small_redo(self, done: Mapping[int, str]) -> Effort | None:
        """Return the effort to redo answers; None: too much to do without asking."""
        self._in_question = [
            self._keys_under(fingerprint)[position]
            for position, fingerprint in done.items()
            if not self.counting.stays_failed(WORKFLOW, self.keys[position], 0)
        ]
        return small_redo(len(self._in_question), self._facts_of(self._in_question))

    def _facts_of(self, keys: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        return (entry.facts for _, entry in self._answers.read_many(keys))


def _changed_since(run_file: RunFile, now: Version) -> tuple[str, ...]:
    latest = next(reversed(run_file.functions.items()), None)
    if latest is None or latest[0] == now.fingerprint:
        return ()
    return tuple(changed_parts(latest[1], now.parts))


def _selected(request: Request, reported: Sequence[int]) -> frozenset[int] | None:
    """Return the positions of the session's items among those reported on; None: all."""
    wanted = request.selection.positions(request.items)
    if len(wanted) == len(reported):
        return None
    at = {position: number for number, position in enumerate(reported)}
    return frozenset(at[position] for position in wanted)
