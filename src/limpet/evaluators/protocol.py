"""What is an evaluator?

Anything that looks at what came out of the workflow for one item and says how good it is. The
built-in ones, a user's function and a class of the user's own all look like this to the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from limpet.copies import own_copy
from limpet.types import Item, Score

Scores = Mapping[str, Score]
"""What came out, by name and in order: one called "score", or several of a dict."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What an evaluator may look at.

    Attributes:
        output: What the workflow returned.
        expected: What the item says it should be; None if it does not say.
        input: What the workflow was asked.
        item: The whole item, with its id and its row.
        trace: What happened inside the workflow, oldest first.
    """

    output: Any
    expected: Any = None
    input: Any = None
    item: Item | None = None
    trace: Sequence[Any] = ()

    def own(self) -> "Scored":
        """Return a copy that shares nothing that can be changed."""
        parts = (self.output, self.expected, self.input, self.item, self.trace)
        return Scored(*map(own_copy, parts))


@runtime_checkable
class Evaluator(Protocol):
    """Scores one output at a time."""

    @property
    def name(self) -> str:
        """What its column is called."""

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """What its scores depend on, part by part: another fingerprint, and it runs again."""

    @property
    def endpoint(self) -> str | None:
        """The provider it calls, which has a pacer of its own; None: it calls none."""

    async def call(self, scored: Scored) -> Scores:
        """Return the scores of one output.

        Raises:
            PermanentError: There is no score, and there would be none the next time.
        """
        ...  # pragma: no cover
