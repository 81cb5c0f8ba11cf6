"""The work items of a run: every item in every trial, with its key.

They are created on access, so that a million cells take little memory.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, overload

from limpet.errors import PermanentError
from limpet.evaluators.protocol import Evaluator
from limpet.evaluators.reads import calls_of, given, replies_of
from limpet.fingerprints.keys import (
    Occurrences,
    digest,
    item_identity,
    output_key,
    score_key,
    seen_digest,
)
from limpet.journal.column import ColumnReader
from limpet.journal.layout import Layout
from limpet.journal.lines import KEY_BYTES, Entry
from limpet.run.planning.items_file import Content, Contents
from limpet.run.record_fields import (
    BALLOTS,
    FINGERPRINT,
    MASKED,
    OF,
    SAW,
    SAW_MASKED,
    answer_and_trace,
    output_digest,
)
from limpet.run.run_file import WORKFLOW
from limpet.shapes import Cell, Item
from limpet.workflows.protocol import Workflow


class WorkItem(NamedTuple):
    """An item in a trial.

    Attributes:
        item: The item.
        trial: The trial, counted from 0.
        content: What the workflow sees of the item.
    """

    item: Item
    trial: int
    content: Content

    @property
    def identity(self) -> bytes:
        """The item's identity, independent of its id and of fields the workflow does not see."""
        return item_identity(*self.content)

    def key(self, fingerprint: str) -> str:
        """Return the key of the workflow's cell under this fingerprint."""
        return output_key(self.content.seen, fingerprint, self.trial, self.content.occurrence)


AnswerTask = tuple[WorkItem, Cell]
"""A work item for the workflow to answer, and the cell of its answer."""


class WorkItems:
    """All work items, trial by trial, in the order of the dataset.

    Args:
        items: All items of the dataset: occurrences do not depend on the selection.
        trials: The number of trials.
        workflow: The workflow, which determines what it sees of an item.
        positions: The positions of the selected items; None: all.

    Attributes:
        contents: The content behind the keys of all items.
    """

    def __init__(
        self,
        items: Sequence[Item],
        trials: int,
        workflow: Workflow,
        positions: Sequence[int] | None = None,
    ) -> None:
        self._items = items
        self._trials = trials
        self._positions = range(len(items)) if positions is None else positions
        occurrences, seen, repeated = Occurrences(), bytearray(), {}
        for position, item in enumerate(items):
            content = digest(workflow.seen(item))
            seen += bytes.fromhex(content)
            if number := occurrences.number(content):
                repeated[position] = number
        self.contents = Contents(bytes(seen), repeated)

    def __len__(self) -> int:
        return len(self._positions) * self._trials

    def __getitem__(self, at: int) -> WorkItem:
        position, trial = self.position(at)
        return WorkItem(self._items[position], trial, self.contents[position])

    def __iter__(self) -> Iterator[WorkItem]:
        return map(self.__getitem__, range(len(self)))

    def position(self, at: int) -> tuple[int, int]:
        """Return the position in the dataset and the trial of a work item."""
        trial, at = divmod(at, len(self._positions))
        return self._positions[at], trial

    def keys(self, fingerprint: str) -> "Keys":
        """Return the keys of the workflow's cells under this fingerprint."""
        return Keys(
            key
            for trial in range(self._trials)
            for key in self.contents.keys(fingerprint, trial, self._positions)
        )


class Keys:
    """Keys of 32 hex digits, stored in 16 bytes each."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self._raw = b"".join(keys)

    def __len__(self) -> int:
        return len(self._raw) // KEY_BYTES

    def __getitem__(self, position: int) -> str:
        begin = position * KEY_BYTES
        return self._raw[begin : begin + KEY_BYTES].hex()

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))


class AnswerTasks(Sequence[AnswerTask]):
    """The tasks of the work items at these positions; there is a key for every work item."""

    def __init__(self, work_items: WorkItems, keys: Keys, positions: "array[int]") -> None:
        self._work_items = work_items
        self._keys = keys
        self._positions = positions

    def at(self, positions: "array[int]") -> "AnswerTasks":
        """Return the tasks of the work items at other positions."""
        return AnswerTasks(self._work_items, self._keys, positions)

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, at: int) -> AnswerTask: ...

    @overload
    def __getitem__(self, at: slice) -> "AnswerTasks": ...

    def __getitem__(self, at: int | slice) -> "AnswerTask | AnswerTasks":
        if isinstance(at, slice):
            return AnswerTasks(self._work_items, self._keys, self._positions[at])
        return self._task_at(self._positions[at])

    def __iter__(self) -> Iterator[AnswerTask]:
        return map(self._task_at, self._positions)

    def _task_at(self, position: int) -> AnswerTask:
        work_item = self._work_items[position]
        return work_item, Cell(WORKFLOW, work_item.item.id, work_item.trial, self._keys[position])


# ---- What must an evaluator score, and under which key is the score kept? -----------------------


class ScoreTask(NamedTuple):
    """An output for an evaluator to score.

    Attributes:
        work_item: The work item.
        cell: The cell of the score.
        output: The output.
        trace: The output's trace.
        facts: The facts that identify the output and the evaluator.
    """

    work_item: WorkItem
    cell: Cell
    output: Any
    trace: Any
    facts: dict[str, Any]


def score_task(
    work_item: WorkItem, entry: Entry, evaluator: Evaluator, fingerprint: str
) -> ScoreTask:
    """Return what an evaluator has to score for an answer on disk."""
    output = output_digest(entry, evaluator.reads)
    seen = seen_digest(work_item.item, evaluator.reads)
    key = score_key(output, seen, fingerprint, work_item.trial, work_item.identity)
    cell = Cell(evaluator.name, work_item.item.id, work_item.trial, key)
    facts: dict[str, Any] = {OF: output, FINGERPRINT: fingerprint, SAW: seen}
    if entry.facts.get(MASKED):
        facts[SAW_MASKED] = True
    return ScoreTask(work_item, cell, *answer_and_trace(entry), facts)


def ballot_key(work_item: WorkItem, identity: Any) -> str:
    """Return the key of a model's reply, given what it depends on."""
    return digest("ballot", identity, work_item.trial, work_item.identity.hex())


# ---- How many model calls do missing scores take, given the replies on disk? --------------------

_ENOUGH = 10_000


class KeptReplies:
    """The replies of models on disk.

    Args:
        layout: The run's layout.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._columns: dict[str, ColumnReader] = {}
        self._counted: defaultdict[str, Counter[int]] = defaultdict(Counter)

    def calls(self, evaluator: Evaluator, task: ScoreTask, generation: int) -> int:
        """Return the most calls that a score takes.

        Looking at a score takes 0.2 ms. If ten thousand scores of an evaluator all take the same
        number of calls, the others are assumed to be alike.

        Args:
            evaluator: The evaluator.
            task: What it scores.
            generation: The lowest generation of a usable reply; 0: any.
        """
        counted = self._counted[evaluator.name]
        if len(counted) == 1 and counted.total() >= _ENOUGH:
            return next(iter(counted))
        calls = self._look(evaluator, task, generation)
        counted[calls] += 1
        return calls

    def _look(self, evaluator: Evaluator, task: ScoreTask, generation: int) -> int:
        column = self._column(evaluator.name)
        if not len(column):
            return calls_of(evaluator)
        scored = given(task.work_item.item, task.output, task.trace, evaluator.reads)
        try:
            replies = replies_of(evaluator, scored)
        except PermanentError:  # a value is missing: it fails without a call
            return 0
        if replies is None:
            return calls_of(evaluator)
        keys = [ballot_key(task.work_item, reply) for reply in replies]
        kept = sum(column.generation_of(key) >= generation for key in keys)
        return len(keys) - kept

    def _column(self, name: str) -> ColumnReader:
        if name not in self._columns:
            path = self._layout.column(name + BALLOTS)
            self._columns[name] = ColumnReader(path, self._layout.index(path))
        return self._columns[name]
