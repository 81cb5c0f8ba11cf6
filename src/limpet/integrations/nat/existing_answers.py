"""Which answers are scored when the workflow is not called?"""

from collections.abc import Iterable, Mapping
from typing import Any

from limpet.datasets.rows import is_nan
from limpet.errors import PermanentError
from limpet.fingerprints.keys import digest
from limpet.integrations.nat.eval_block import Structure
from limpet.nat_trace import trace_of
from limpet.types import Item, Output
from limpet.workflows.protocol import Workflow

_HINT = "run without --skip-workflow to get an answer"


def is_answer(value: Any) -> bool:
    """Return whether a value is an answer.

    The toolkit writes null or "" where a call failed, and NaN after it has read that null.
    """
    return value is not None and not is_nan(value) and not _is_blank(value)


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


class RecordedAnswers(Workflow):
    """Provides only the answers that the run already has.

    Args:
        fingerprint: The fingerprint of the workflow that made them.
    """

    name = "recorded"
    endpoint = None

    def __init__(self, fingerprint: Mapping[str, str]) -> None:
        self.fingerprint = fingerprint

    def seen(self, item: Item) -> Any:
        return item.input

    async def call(self, item: Item) -> Output:
        raise PermanentError(f"{item.id}: this run has no answer for it", hint=_HINT)


class RowAnswers(Workflow):
    """Returns the answers in the rows of the dataset.

    Args:
        structure: The names of the columns.
        items: The items. Their answers are the fingerprint, so that another file of answers counts
            as another workflow, and `RecordedAnswers` finds these again.
    """

    name = "recorded"
    endpoint = None

    def __init__(self, structure: Structure, items: Iterable[Item]) -> None:
        self._structure = structure
        self.fingerprint = {"recorded": digest([self._recorded(item) for item in items])}

    def seen(self, item: Item) -> Any:
        return item.input

    def _recorded(self, item: Item) -> list[Any]:
        columns = self._structure
        return [item.row.get(columns.generated_answer_key), item.row.get(columns.trajectory_key)]

    async def call(self, item: Item) -> Output:
        answer, steps = self._recorded(item)
        if not is_answer(answer):
            column = self._structure.generated_answer_key
            raise PermanentError(f"{item.id}: its row has no answer in {column!r}", hint=_HINT)
        return Output(answer, trace=trace_of(steps))
