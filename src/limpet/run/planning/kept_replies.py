"""How many calls of models do missing scores take, if replies that are on disk count?"""

from collections import Counter, defaultdict

from limpet.errors import PermanentError
from limpet.evaluators.protocol import Evaluator
from limpet.evaluators.reads import calls_of, given, replies_of
from limpet.journal.column import ColumnReader
from limpet.journal.layout import Layout
from limpet.run.planning.scorings import Scoring, ballot_key
from limpet.run.record_fields import BALLOTS

_ENOUGH = 10_000


class KeptReplies:
    """The replies that a run has of models.

    Args:
        layout: The run's layout.

    Attributes:
        most: By evaluator, how many replies a missing score has on disk, at most.
    """

    def __init__(self, layout: Layout) -> None:
        self.most: dict[str, int] = {}
        self._layout = layout
        self._columns: dict[str, ColumnReader] = {}
        self._counted: defaultdict[str, Counter[int]] = defaultdict(Counter)

    def calls(self, evaluator: Evaluator, scoring: Scoring, generation: int) -> int:
        """Return how many calls a score takes at most.

        To look at a score takes a fifth of a millisecond. If ten thousand of an evaluator all take
        the same number of calls, the others are taken to be like them.

        Args:
            evaluator: The evaluator.
            scoring: What it scores.
            generation: The generation that a reply must have to count; 0: any.
        """
        counted = self._counted[evaluator.name]
        if len(counted) == 1 and counted.total() >= _ENOUGH:
            return next(iter(counted))
        calls = self._look(evaluator, scoring, generation)
        counted[calls] += 1
        return calls

    def _look(self, evaluator: Evaluator, scoring: Scoring, generation: int) -> int:
        column = self._column(evaluator.name)
        if not len(column):
            return calls_of(evaluator)
        scored = given(scoring.work_item.item, scoring.output, scoring.trace, evaluator.reads)
        try:
            replies = replies_of(evaluator, scored)
        except PermanentError:  # it lacks a value, so it fails without a call
            return 0
        if replies is None:
            return calls_of(evaluator)
        keys = [ballot_key(scoring.work_item, reply) for reply in replies]
        kept = sum(key in column and column.reaches(key, generation) for key in keys)
        self.most[evaluator.name] = max(self.most.get(evaluator.name, 0), kept)
        return len(keys) - kept

    def _column(self, name: str) -> ColumnReader:
        if name not in self._columns:
            path = self._layout.column(name + BALLOTS)
            self._columns[name] = ColumnReader(path, self._layout.index(path))
        return self._columns[name]
