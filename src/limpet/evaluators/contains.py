"""Does the output contain the expected string?"""

from dataclasses import dataclass
from typing import ClassVar

from limpet.evaluators.builtin import BuiltIn, as_string, brief, why_no_string
from limpet.evaluators.protocol import Evaluator, Scored
from limpet.shapes import Score


def contains(
    *,
    casefold: bool = False,
    all: bool = True,  # noqa: A002 - it reads well
    name: str = "contains",
) -> Evaluator:
    """Score True if the output contains the expected string, or every string of a list.

    Args:
        casefold: Ignore upper and lower case.
        all: Whether every string of a list must be there; False: any of them.
        name: Its name.
    """
    return _Contains(name, casefold, all)


@dataclass(frozen=True)
class _Contains(BuiltIn):
    kind: ClassVar[str] = "contains"
    casefold: bool
    all: bool

    def score(self, scored: Scored) -> Score:
        expected = self._expected_strings(scored)
        if "" in expected:
            self._reject(scored, "is an empty string, which every output contains")
        output = as_string(scored.output)
        if output is None:
            return Score(value=False, explanation=why_no_string(scored.output))
        folded = self._folded(output)
        missing = [string for string in expected if self._folded(string) not in folded]
        if not missing or (not self.all and len(missing) < len(expected)):
            return Score(value=True)
        if self.all:
            return Score(value=False, explanation=f"{brief(missing[0])} is not in the output")
        return Score(value=False, explanation=f"none of {brief(expected)} is in the output")

    def _folded(self, text: str) -> str:
        return text.casefold() if self.casefold else text
