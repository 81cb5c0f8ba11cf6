"""What of an evaluation is on disk, and what is missing?

Only looks: with readers it is what `plan` needs, with a journal's own columns what a run needs.
"""

import functools
from array import array
from collections.abc import Mapping
from typing import Any

from limpet.errors import FunctionChangedError
from limpet.evaluators.protocol import Evaluator
from limpet.journal.code import changed_parts
from limpet.journal.column import ColumnReader, read_failures
from limpet.journal.fingerprint import digest
from limpet.journal.layout import Layout
from limpet.run.asked import Asked, AskedItems
from limpet.run.calls import Calls, Keys
from limpet.run.change import Fingerprint, settle_change
from limpet.run.pipeline import WORKFLOW
from limpet.run.plans import Plan, StepPlan
from limpet.run.request import Request
from limpet.run.scoring import scoring_of

_CHUNK = 1_000


class Lookup:
    """Compares what is asked with what the columns have.

    Args:
        request: What is asked.
        columns: The column of each step.
        layout: Where the failures lie.
        about: What earlier sessions left; brought up to date.

    Attributes:
        asked: Each item in each trial.
        keys: The key of each whose answer counts.
        missing: Those the workflow has to answer.
        unscored: Those that are answered, and lack a score.
        left: Steps and keys that failed before and are not to be tried again.
        plan: All of that, as a person is told.

    Raises:
        FunctionChangedError: The workflow changed, and nobody said what to do. It carries the plan.
    """

    def __init__(
        self,
        request: Request,
        columns: Mapping[str, ColumnReader],
        layout: Layout,
        about: dict[str, Any],
    ) -> None:
        self._request = request
        self._columns = columns
        self._answers = columns[WORKFLOW]
        self._scores = [(one, digest(dict(one.fingerprint))) for one in request.evaluators]
        self._changed: tuple[str, ...] = ()
        self.asked = AskedItems(request.items, request.trials, request.workflow)
        failures = {} if request.retry_failed else read_failures(layout.failures)
        self.left = frozenset(failures)
        unasked: FunctionChangedError | None = None
        try:
            self.keys = self._settle(about)
        except FunctionChangedError as error:
            unasked = error
        self._divide()
        self.plan = self._planned(about)
        if unasked is not None:
            unasked.plan = self.plan
            unasked.add_note(f"plan: {self.plan}")
            raise unasked

    @functools.cache  # noqa: B019 - one evaluation, a few fingerprints
    def _keys_under(self, fingerprint: str) -> Keys:
        return Keys(self.asked.keys(fingerprint))

    def _settle(self, about: dict[str, Any]) -> Keys:
        """Return the keys of the answers that count, each under the fingerprint that made it."""
        parts = dict(self._request.workflow.fingerprint)
        now = Fingerprint(digest(parts), parts)
        latest = next(reversed(about.get("functions", {}).items()), None)
        if latest is not None and latest[0] != now.whole:
            self._changed = tuple(changed_parts(latest[1], parts))

        def done_under(whole: str) -> set[int]:
            keys = enumerate(self._keys_under(whole))
            return {place for place, key in keys if key in self._answers}

        self.keys = self._keys_under(now.whole)  # what a redo would do, for the plan
        chosen = settle_change(about, now, done_under, len(self.asked), self._request.on_change)
        if all(whole == now.whole for whole in chosen):
            return self.keys
        self._changed = ()  # kept
        return Keys(self._keys_under(whole)[place] for place, whole in enumerate(chosen))

    def _divide(self) -> None:
        """Tell what is on disk from what is missing, for the workflow and each evaluator."""
        missing, kept, unscored = array("Q"), array("Q"), array("Q")
        self._left = 0
        for place, key in enumerate(self.keys):
            if key in self._answers:
                kept.append(place)
            elif (WORKFLOW, key) in self.left:
                self._left += 1
            else:
                missing.append(place)
        self._kept = len(kept)
        self._lacking = dict.fromkeys((one.name for one, _ in self._scores), 0)
        for at in range(0, len(kept), _CHUNK):
            by_key = {self.keys[place]: place for place in kept[at : at + _CHUNK]}
            for key, entry in self._answers.read_many(list(by_key)):
                asked = self.asked[place := by_key.pop(key)]
                # A list, and not any() alone: each evaluator counts what it lacks.
                lacks = [self._lacks_score(asked, entry, *one) for one in self._scores]
                if any(lacks):
                    unscored.append(place)
            missing.extend(by_key.values())  # damaged since it was opened
            self._kept -= len(by_key)
        self.missing = Calls(WORKFLOW, self.asked, self.keys, missing)
        self.unscored = Calls(WORKFLOW, self.asked, self.keys, unscored)

    def _lacks_score(self, asked: Asked, entry: Any, evaluator: Evaluator, fp: str) -> bool:
        key = scoring_of(asked, entry, evaluator, fp).cell.key
        left = (evaluator.name, key) in self.left
        lacks = key not in self._columns[evaluator.name] and not left
        self._lacking[evaluator.name] += lacks
        return lacks

    def _planned(self, about: Mapping[str, Any]) -> Plan:
        request, calls = self._request, len(self.missing)
        known = self._answers.ids() if self.missing and len(self._answers) else set()
        seen = sum(_is_known(asked, known) for asked, _ in self.missing) if known else 0
        edited = 0 if self._changed else seen
        workflow = StepPlan(
            WORKFLOW,
            self._kept,
            calls - seen,
            edited,
            self._left,
            self._changed if seen else (),
            calls,
        )
        evaluators = []
        for one in request.evaluators:
            before = about.get("evaluators", {}).get(one.name)
            changed = () if before is None else tuple(changed_parts(before, dict(one.fingerprint)))
            missing = self._lacking[one.name]
            kept = self._kept - missing
            evaluators.append(StepPlan(one.name, kept, calls, 0, 0, changed, calls + missing))
        return Plan(len(request.items), request.trials, workflow, tuple(evaluators))


def _is_known(asked: Asked, known: set[str]) -> bool:
    """Tell whether an item was answered before; with more trials, its id has grown."""
    return asked.public_id in known or (asked.trial == 0 and asked.item.id in known)
