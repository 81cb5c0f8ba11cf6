"""Did the workflow call the tools that were expected?"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar, Literal

from limpet.errors import PermanentError
from limpet.evaluators.builtin import BuiltIn, one_among, several_texts
from limpet.evaluators.expectation import brief, item_of, text_of
from limpet.evaluators.protocol import Evaluator, Scored
from limpet.json_values import NotPlainError, to_plain
from limpet.trace import events_in
from limpet.types import Score

Mode = Literal["exact", "in_order", "any_order"]


def trajectory(
    *,
    mode: Mode = "exact",
    key: str = "name",
    kinds: tuple[str, ...] | list[str] | None = ("tool",),
    expected_column: str = "expected_intermediate_steps",
    name: str = "trajectory",
) -> Evaluator:
    """Score the events of the trace against those that the item expects, by their names.

    Args:
        mode: "exact": True if they are the same, one by one. "in_order" and "any_order": the share
            of the expected events that are there, in their order or in any; others do not count.
        key: Where an event's name stands.
        kinds: Which kinds count, of events that have one: "tool", "model", "agent", "other"; None:
            all. What only says that something began never counts.
        expected_column: The dataset's column of expected events. Without it the item's expected
            value is taken, if that is a list.
        name: What to call it.

    Raises:
        TypeError: `kinds` is no list of texts.
        ValueError: There is no such mode, or `kinds` is empty.
    """
    one_among(("exact", "in_order", "any_order"), mode=mode)
    # Which kinds count is a set: in another order it is the same.
    counted = None if kinds is None else tuple(sorted(set(several_texts(kinds=kinds))))
    if counted == ():
        raise ValueError("kinds=(): no event would count; give None for all of them")
    return _Trajectory(name, mode, key, counted, expected_column)


@dataclass(frozen=True)
class _Trajectory(BuiltIn):
    kind: ClassVar[str] = "trajectory"
    mode: str
    key: str
    kinds: tuple[str, ...] | None
    expected_column: str

    def _reads(self) -> frozenset[str]:
        return frozenset({"trace", "expected", f"row.{self.expected_column}"})

    def score(self, scored: Scored) -> Score:
        expected = self._expected(scored)
        taken = self._names(scored.trace or (), "the trace")
        if self.mode == "exact":
            reason = _first_difference(taken, expected)
            return Score(value=reason is None, explanation=reason)
        missing = (_not_in_order if self.mode == "in_order" else _not_there)(taken, expected)
        reason = f"{brief(missing[0])} is missing" if missing else None
        return Score((len(expected) - len(missing)) / len(expected), explanation=reason)

    def _expected(self, scored: Scored) -> list[str]:
        trace = _expected_trace(scored, self.expected_column)
        names = self._names(trace, f"{item_of(scored)}, expected")
        if trace and not names:
            raise PermanentError(f"{item_of(scored)}: no expected event is of kinds={self.kinds}")
        if not names and self.mode != "exact":
            raise PermanentError(
                f"{item_of(scored)} has no expected value to take a share of: its list of events "
                "is empty",
                hint='with mode="exact", an empty list expects that nothing is called',
            )
        return names

    def _names(self, trace: Sequence[Any], where: str) -> list[str]:
        names = []
        for number, entry in enumerate(trace, 1):
            for event in events_in(_plain(entry), self.key):
                kind = event.get("kind")
                is_counted = self.kinds is None or kind is None or kind in self.kinds
                if not is_counted or event.get("phase") == "start":
                    continue
                name = text_of(event.get(self.key))
                if name is None:
                    raise PermanentError(
                        f"{where}: event {number}, {brief(entry)}, has no {self.key!r}"
                    )
                names.append(name)
        return names


def _plain(entry: Any) -> Any:
    if isinstance(entry, (str, Mapping)):
        return entry
    try:
        return to_plain(entry)
    except NotPlainError:
        return None


def _expected_trace(scored: Scored, column: str) -> list[Any]:
    """Return the events that the item expects: those in the column, or else its expected list."""
    trace = None if scored.item is None else scored.item.row.get(column)
    if isinstance(trace, str):
        trace = _read(trace, scored, column)
    if trace is None:
        trace = scored.expected
    if not isinstance(trace, (list, tuple)):
        raise PermanentError(
            f"{item_of(scored)} has no expected value that lists events: it has no column "
            f"{column!r}, and its expected value is {brief(scored.expected)}",
            hint="give the names in a column, and name that with expected_column=…",
        )
    return list(trace)


def _read(text: str, scored: Scored, column: str) -> Any:
    """Read events out of a table's cell, which can only be text."""
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise PermanentError(
            f"{item_of(scored)}: its column {column!r} is no JSON list, but {brief(text)}: {error}"
        ) from None


def _first_difference(taken: Sequence[str], expected: Sequence[str]) -> str | None:
    for number, (got, wanted) in enumerate(zip_longest(taken, expected), 1):
        if wanted is None:
            return f"event {number}: got {brief(got)}, which is not expected"
        if got is None:
            return f"event {number}: {brief(wanted)} is missing"
        if got != wanted:
            return f"event {number}: got {brief(got)}, expected {brief(wanted)}"
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
    """Return what is not in the longest common subsequence: one event too early costs one."""
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
