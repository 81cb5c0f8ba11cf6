"""Is what was expected somewhere in the output?"""

from dataclasses import dataclass
from typing import ClassVar

from limpet.evaluators.builtin import BuiltIn
from limpet.evaluators.expectation import brief, expected_texts, no_text, text_of, unusable
from limpet.evaluators.protocol import Evaluator, Scored
from limpet.types import Score


def contains(
    *,
    casefold: bool = False,
    all: bool = True,  # noqa: A002 - it reads as what it does
    name: str = "contains",
) -> Evaluator:
    """Score True if the expected text, or each of a list of them, is in the output.

    Args:
        casefold: Ignore the difference between capital and small letters.
        all: Whether each of the list has to be there; False: one is enough.
        name: What to call it.
    """
    return _Contains(name, casefold, all)


@dataclass(frozen=True)
class _Contains(BuiltIn):
    kind: ClassVar[str] = "contains"
    casefold: bool
    all: bool

    def score(self, scored: Scored) -> Score:
        wanted = expected_texts(scored)
        if "" in wanted:
            unusable(scored, "is an empty text, which is in every output")
        output = text_of(scored.output)
        if output is None:
            return Score(value=False, explanation=f"{no_text(scored.output)}, not a text")
        missing = [one for one in wanted if self._folded(one) not in self._folded(output)]
        if not missing or (not self.all and len(missing) < len(wanted)):
            return Score(value=True)
        if self.all:
            return Score(value=False, explanation=f"{brief(missing[0])} is not in the output")
        return Score(value=False, explanation=f"none of {brief(wanted)} is in the output")

    def _folded(self, text: str) -> str:
        return text.casefold() if self.casefold else text
