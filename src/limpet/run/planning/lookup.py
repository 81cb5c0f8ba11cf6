"""Which results of an evaluation are on disk, and which are missing?

It changes no file: `plan` passes readers, and a run the columns of its journal.
"""

import functools
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from limpet.evaluators.protocol import Evaluator
from limpet.evaluators.reads import calls_of
from limpet.fingerprints.files.project import Project
from limpet.fingerprints.identity import changed_parts
from limpet.journal.column import ColumnReader, read_failures
from limpet.journal.layout import Layout
from limpet.journal.lines import KEY_BYTES, Entry
from limpet.run.planning.current_answers import CurrentAnswers
from limpet.run.planning.files_read import LOST
from limpet.run.planning.plan import Plan, StepPlan
from limpet.run.planning.versions import StepIdentities
from limpet.run.planning.work_items import AnswerTasks, KeptReplies, Keys, WorkItem, score_task
from limpet.run.request import Request
from limpet.run.run_file import WORKFLOW, RunFile

_CHUNK = 1_000


@dataclass(slots=True)
class _Count:
    """The cells of a step.

    Attributes:
        done: The cells done in the run.
        kept: The done cells that this session selects.
        missing: The scores to make in this session, besides those of new answers.
        model_calls: The most calls that these take.
        forced: The missing cells that a redo forces.
        outdated: The missing cells that run again because a file changed.
        not_retried: The cells that failed before and are not retried.
        files: The files that changed.
    """

    done: int = 0
    kept: int = 0
    missing: int = 0
    model_calls: int = 0
    forced: int = 0
    outdated: int = 0
    not_retried: int = 0
    files: set[str] = field(default_factory=set)


class Lookup:
    """Compares the request with the columns.

    Attributes:
        answers: The answers that count.
        missing: What the workflow has to answer in this session.
        unscored: The answers that lack a score.
        plan: The plan.
        in_doubt: The evaluators with kept scores whose files are unknown.

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
        self.answers = CurrentAnswers(request, identities, columns, layout, run_file, project)
        self._request, self._identities = request, identities
        self._columns, self._column = columns, columns[WORKFLOW]
        self._layout, self._run_file = layout, run_file
        self._counts = {step: _Count() for step in columns}
        self._calls_each = {step.name: calls_of(step) for step in request.evaluators}
        self._replies = KeptReplies(layout)
        self._missing, self._unscored = array("Q"), array("Q")
        self._scored = {step.name: bytearray() for step in request.evaluators}
        self.in_doubt: set[str] = set()
        self._divide()
        self.plan = self._planned()
        self.answers.raise_question(self.plan)

    @property
    def done(self) -> dict[str, int]:
        """The number of done cells of each step in the run."""
        return {step: count.done for step, count in self._counts.items()}

    def lacking(self, position: int) -> tuple[AnswerTasks, AnswerTasks]:
        """Return what an item lacks: the answers to make, and the answers to score.

        Args:
            position: The item's position among those that the run reports on.
        """
        none: array[int] = array("Q")
        missing, kept = (by_item.get(position, none) for by_item in self._by_item)
        return self.missing.at(missing), self.unscored.at(kept)

    def kept_answers(self) -> Iterator[tuple[WorkItem, Entry]]:
        """Yield the answers on disk that this session does not redo."""
        keys, missing = self.answers.keys, set(self._missing)
        for begin in range(0, len(keys), _CHUNK):
            positions = {
                self.answers.counting_key(keys[position]): position
                for position in range(begin, min(begin + _CHUNK, len(keys)))
                if position not in missing
            }
            for key, entry in self._column.read_many(positions):
                yield self.answers.work_items[positions[key]], entry

    def kept_scores(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the scores on disk that this session keeps, each after its step."""
        for step, keys in self._scored.items():
            texts = keys.hex(" ", KEY_BYTES).split()
            yield from ((step, entry.record) for _, entry in self._columns[step].read_many(texts))

    @functools.cached_property
    def _by_item(self) -> tuple[dict[int, "array[int]"], dict[int, "array[int]"]]:
        reported = self.answers.reported
        missing: dict[int, array[int]] = {}
        unscored: dict[int, array[int]] = {}
        for positions, by_item in ((self._missing, missing), (self._unscored, unscored)):
            for position in sorted(positions):
                by_item.setdefault(position % reported, array("Q")).append(position)
        return missing, unscored

    def _divide(self) -> None:
        """Divide the cells of each step into done and missing."""
        keys = counting = self.answers.keys
        for begin in range(0, len(keys), _CHUNK):
            to_score: dict[str, tuple[int, bool]] = {}  # by key: position, is done
            for position in range(begin, min(begin + _CHUNK, len(keys))):
                self._look_at_answer(position, to_score)
            self._look_at_scores(to_score)
        if self.answers.earlier:
            counting = Keys(bytes.fromhex(self.answers.counting_key(key)) for key in keys)
        self.missing = AnswerTasks(self.answers.work_items, keys, self._missing)
        self.unscored = AnswerTasks(self.answers.work_items, counting, self._unscored)

    def _look_at_answer(self, position: int, to_score: dict[str, tuple[int, bool]]) -> None:
        key, rules = self.answers.keys[position], self.answers.counting
        counting = self.answers.counting_key(key)
        id_ = self.answers.work_items[position].item.id if rules.depends_on_ids else ""
        verdict = rules.verdict(WORKFLOW, counting, self._column.generation_of(counting), id_)
        is_selected = self.answers.is_selected(position)
        stays_failed = not verdict.is_done and rules.stays_failed(WORKFLOW, key, verdict.needed)
        if is_selected and not verdict.is_done and not stays_failed:
            self._missing.append(position)
            if verdict.counts:
                self._count_again(WORKFLOW, counting)
            return
        self._counts[WORKFLOW].not_retried += stays_failed and is_selected
        if verdict.counts:
            to_score[counting] = position, verdict.is_done

    def _count_again(self, step: str, key: str) -> None:
        """Count a record to redo, because its files changed or a redo forces it."""
        count, files = self._counts[step], self.answers.stale.of(step).get(key, ())
        count.files.update({*files} - {LOST})
        if files:
            count.outdated += 1
        else:
            count.forced += 1

    def _look_at_scores(self, to_score: dict[str, tuple[int, bool]]) -> None:
        count = self._counts[WORKFLOW]
        for key, entry in self._column.read_many(list(to_score)):
            position, is_done = to_score.pop(key)
            work_item, is_selected = (
                self.answers.work_items[position],
                self.answers.is_selected(position),
            )
            count.done += is_done
            count.kept += is_done and is_selected
            # A list, as any() alone would not count every evaluator.
            lacks = [
                self._lacks_score(work_item, entry, evaluator, is_selected=is_selected)
                for evaluator in self._request.evaluators
            ]
            if any(lacks) and is_selected:
                self._unscored.append(position)
        # The remaining records were damaged after the column was opened.
        left = (position for position, _ in to_score.values())
        self._missing.extend(filter(self.answers.is_selected, left))

    def _lacks_score(
        self, work_item: WorkItem, entry: Entry, evaluator: Evaluator, *, is_selected: bool
    ) -> bool:
        name = evaluator.name
        column, count = self._columns[name], self._counts[name]
        task = score_task(work_item, entry, evaluator, self._identities.fingerprint(name))
        key = task.cell.key
        rules, generation = self.answers.counting, column.generation_of(key)
        verdict = rules.verdict(name, key, generation, work_item.item.id)
        is_done, needed = verdict.is_done, verdict.needed
        lacks = not is_done and not rules.stays_failed(name, key, needed)
        count.done += is_done
        if is_done and key in self.answers.stale.in_doubt[name]:
            self.in_doubt.add(name)
        if is_selected:
            count.kept += is_done
            self._scored[name] += bytes.fromhex(key) if is_done else b""
            count.missing += lacks
            if lacks:
                count.model_calls += self._replies.calls(evaluator, task, needed)
            if lacks and generation >= 0:
                self._count_again(name, key)
        return lacks

    # ---- the plan -------------------------------------------------------------------------------

    def _planned(self) -> Plan:
        request, selected, total = self._request, self.answers.selected, len(self._request.items)
        evaluators = [self._evaluator_plan(evaluator.name) for evaluator in request.evaluators]
        of = total if selected < total else None
        return Plan(selected, request.trials, self._workflow_plan(), tuple(evaluators), of)

    def _workflow_plan(self) -> StepPlan:
        count, calls, changed = self._counts[WORKFLOW], len(self.missing), self.answers.changed
        again = count.forced + count.outdated
        answered, failed = self._tried_before() if calls > again else (0, 0)
        files = sorted(count.files)
        return StepPlan(
            WORKFLOW,
            count.kept,
            new=calls - again - answered - failed,
            edited=0 if changed else answered,
            failed=count.not_retried,
            retried=failed,
            earlier=answered if changed else 0,
            changed=tuple(dict.fromkeys((*(changed if answered else ()), *files))),
            calls=calls,
            forced=count.forced,
            made_again=self.answers.made_again,
        )

    def _tried_before(self) -> tuple[int, int]:
        """Return how many missing answers exist only under another key, and how many failed."""
        known = self._column.ids() if len(self._column) else set()
        failures = read_failures(self._layout.failures).items()
        failed_ids = {
            (str(entry.facts.get("id", "")), entry.facts.get("trial", 0))
            for (step, _), entry in failures
            if step == WORKFLOW
        }
        answered = failed = 0
        for work_item, cell in self.missing if known or failed_ids else ():
            if self.answers.counting_key(cell.key) not in self._column:
                id_ = (work_item.item.id, work_item.trial)
                answered += id_ in known
                failed += id_ in failed_ids and id_ not in known
        return answered, failed

    def _evaluator_plan(self, name: str) -> StepPlan:
        count, calls, before = (
            self._counts[name],
            len(self.missing),
            self._run_file.evaluators.get(name),
        )
        changed = changed_parts(before, self._identities.parts(name)) if before is not None else []
        calls_each = self._calls_each[name]
        return StepPlan(
            name,
            count.kept,
            new=calls,
            changed=(*changed, *sorted(count.files)),
            calls=calls + count.missing,
            asks=calls * calls_each + count.model_calls,
            forced=count.forced,
        )
