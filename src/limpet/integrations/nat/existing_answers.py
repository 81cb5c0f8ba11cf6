"""What stands in for the workflow when it is not to be called?"""

from collections.abc import Iterable, Mapping
from typing import Any

from limpet.errors import PermanentError
from limpet.fingerprints.keys import digest
from limpet.integrations.nat.wanted import Structure
from limpet.types import Item, Output
from limpet.workflows.nat_trace import trace_of
from limpet.workflows.protocol import Workflow

_HINT = "run it without --skip-workflow to have it answered"


def is_answer(value: Any) -> bool:
    """Tell an answer from what the toolkit writes where there is none: null, or an empty text."""
    return value is not None and not (isinstance(value, str) and not value.strip())


class KeptAnswers(Workflow):
    """Has the answers that are in the run's column, and no others.

    Args:
        fingerprint: That of the workflow that made them.
    """

    name = "recorded"
    endpoint = None

    def __init__(self, fingerprint: Mapping[str, str]) -> None:
        self.fingerprint = fingerprint

    def seen(self, item: Item) -> Any:
        return item.input

    async def call(self, item: Item) -> Output:
        raise PermanentError(f"{item.id}: this run holds no answer of it", hint=_HINT)


class RowAnswers(Workflow):
    """Has the answers that stand in the rows of the dataset.

    Args:
        structure: What the columns are called.
        items: The items: what their rows hold is what makes these answers what they are, so that
            another file of answers is another workflow, and `KeptAnswers` finds these again.
    """

    name = "recorded"
    endpoint = None

    def __init__(self, structure: Structure, items: Iterable[Item]) -> None:
        self._structure = structure
        answers = [self._recorded(item) for item in items]
        self.fingerprint = {"recorded": digest(answers)}

    def seen(self, item: Item) -> Any:
        return item.input

    def _recorded(self, item: Item) -> list[Any]:
        columns = self._structure
        return [item.row.get(columns.generated_answer), item.row.get(columns.trajectory)]

    async def call(self, item: Item) -> Output:
        answer, steps = self._recorded(item)
        if not is_answer(answer):
            column = self._structure.generated_answer
            raise PermanentError(f"{item.id}: its row has no answer in {column!r}", hint=_HINT)
        return Output(answer, trace=trace_of(steps))
