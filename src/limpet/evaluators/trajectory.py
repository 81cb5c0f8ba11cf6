"""Did the workflow take the steps that were expected?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar, Literal

from limpet.errors import PermanentError
from limpet.evaluators.builtin import BuiltIn, one_among, several_texts
from limpet.evaluators.expectation import brief, item_of
from limpet.evaluators.protocol import Evaluator, Scored
from limpet.evaluators.steps import expected_steps, names_of
from limpet.types import Score

Mode = Literal["exact", "in_order", "any_order"]


def trajectory(
    *,
    mode: Mode = "exact",
    key: str = "name",
    types: tuple[str, ...] | list[str] | None = ("TOOL_END",),
    expected_column: str = "expected_intermediate_steps",
    name: str = "trajectory",
) -> Evaluator:
    """Score the steps on the way against those that the item expects, by their names.

    Args:
        mode: "exact": True if they are the same, one by one. "in_order" and "any_order": the share
            of the expected steps that were taken, in their order or in any; others do not count.
        key: Where a step's name stands.
        types: Which event types count, of steps that have one; None: all.
        expected_column: The dataset's column of expected steps. Without it the item's expected
            value is taken, if that is a list.
        name: What to call it.

    Raises:
        TypeError: `types` is no list of texts.
        ValueError: There is no such mode, or `types` is empty.
    """
    one_among(("exact", "in_order", "any_order"), mode=mode)
    # Which types count is a set: in another order it is the same.
    counted = None if types is None else tuple(sorted(set(several_texts(types=types))))
    if counted == ():
        raise ValueError("types=(): no step would count; give None for all of them")
    return _Trajectory(name, mode, key, counted, expected_column)


@dataclass(frozen=True)
class _Trajectory(BuiltIn):
    kind: ClassVar[str] = "trajectory"
    mode: str
    key: str
    types: tuple[str, ...] | None
    expected_column: str

    def _reads(self) -> frozenset[str]:
        return frozenset({"trace", "expected", f"row.{self.expected_column}"})

    def score(self, scored: Scored) -> Score:
        expected = self._expected(scored)
        taken = names_of(scored.trace or (), self.key, self.types, "the output")
        if self.mode == "exact":
            reason = _first_difference(taken, expected)
            return Score(value=reason is None, explanation=reason)
        missing = (_not_in_order if self.mode == "in_order" else _not_there)(taken, expected)
        reason = f"{brief(missing[0])} is missing" if missing else None
        return Score((len(expected) - len(missing)) / len(expected), explanation=reason)

    def _expected(self, scored: Scored) -> list[str]:
        steps = expected_steps(scored, self.expected_column)
        names = names_of(steps, self.key, self.types, f"{item_of(scored)}, expected")
        if steps and not names:
            raise PermanentError(f"{item_of(scored)}: no expected step is of types={self.types}")
        if not names and self.mode != "exact":
            raise PermanentError(
                f"{item_of(scored)} has no expected value to take a share of: its list of steps "
                "is empty",
                hint='with mode="exact", an empty list expects that no step is taken',
            )
        return names


def _first_difference(taken: Sequence[str], expected: Sequence[str]) -> str | None:
    for number, (one, other) in enumerate(zip_longest(taken, expected), 1):
        if other is None:
            return f"step {number}: got {brief(one)}, which is not expected"
        if one is None:
            return f"step {number}: {brief(other)} is missing"
        if one != other:
            return f"step {number}: got {brief(one)}, expected {brief(other)}"
    return None


def _not_there(taken: Sequence[str], expected: Sequence[str]) -> list[str]:
    left, missing = Counter(taken), []
    for name in expected:
        if left[name]:
            left[name] -= 1
        else:
            missing.append(name)
    return missing


def _not_in_order(taken: Sequence[str], expected: Sequence[str]) -> list[str]:
    """Return what is not in the longest common subsequence: one step too early costs one step."""
    longest = [[0] * (len(taken) + 1) for _ in range(len(expected) + 1)]
    for i in reversed(range(len(expected))):
        for j in reversed(range(len(taken))):
            longest[i][j] = (
                longest[i + 1][j + 1] + 1
                if expected[i] == taken[j]
                else max(longest[i + 1][j], longest[i][j + 1])
            )
    missing, j = [], 0
    for i, name in enumerate(expected):
        if longest[i][j] == longest[i + 1][j]:
            missing.append(name)  # the best way does without it
        else:
            j = taken.index(name, j) + 1
    return missing
