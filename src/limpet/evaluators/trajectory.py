"""Did the workflow call the expected tools?"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar, Literal

from limpet import arguments
from limpet.errors import PermanentError, wrong_value
from limpet.evaluators.builtin import (
    BuiltIn,
    as_read_back,
    as_string,
    brief,
    check_choice,
    item_name,
    set_of_strings,
)
from limpet.evaluators.protocol import Evaluator, Scored
from limpet.json_values import is_deep_text
from limpet.shapes import Score
from limpet.text import did_you_mean
from limpet.trace import KINDS, events_in

Mode = Literal["exact", "in_order", "any_order"]


def trajectory(
    *,
    mode: Mode = "exact",
    key: str = "name",
    kinds: tuple[str, ...] | list[str] | None = ("tool",),
    expected_column: str = "expected_trace",
    name: str = "trajectory",
) -> Evaluator:
    """Compare the events of the trace with those that the item expects, by their names.

    Args:
        mode: "exact": True if they are the same, in the same order. "in_order" and "any_order": the
            share of the expected events that occur, in order or in any order; others are ignored.
        key: The key of an event's name.
        kinds: The kinds to compare: "tool", "model", "agent", "other"; None: all. Events without a
            kind are always compared; those that only mark a beginning never are.
        expected_column: The dataset's column with the expected events. Without it, the item's
            expected value is used if it is a list.
        name: Its name.

    Raises:
        TypeError: `kinds` is not a list of strings, or a key or column not a string.
        ValueError: The mode or a kind is unknown, or `kinds` is empty.
    """
    check_choice(("exact", "in_order", "any_order"), mode=mode)
    counted = None if kinds is None else set_of_strings(kinds=kinds)
    if counted == ():
        raise wrong_value("kinds", "must name at least one kind, or be None for all", kinds)
    if unknown := [kind for kind in counted or () if kind not in KINDS]:
        raise wrong_value(
            "kinds",
            f"unknown kind {unknown[0]!r}; the kinds are {', '.join(KINDS)}"
            f"{did_you_mean(unknown[0], KINDS)}",
        )
    column = arguments.string(expected_column=expected_column)
    return _Trajectory(name, mode, arguments.string(key=key), counted, column)


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
        expected = self._expected_names(scored)
        got = self._names(scored.trace or (), "the trace")
        if self.mode == "exact":
            why = _first_difference(got, expected)
            return Score(value=why is None, explanation=why)
        missing = (_missing_in_order if self.mode == "in_order" else _missing)(got, expected)
        why = f"{brief(missing[0])} is missing" if missing else None
        return Score((len(expected) - len(missing)) / len(expected), explanation=why)

    def _expected_names(self, scored: Scored) -> list[str]:
        trace = _expected_trace(scored, self.expected_column)
        names = self._names(trace, f"{item_name(scored)}, expected")
        if trace and not names:
            raise PermanentError(f"{item_name(scored)}: no expected event is of kinds={self.kinds}")
        if not names and self.mode != "exact":
            raise PermanentError(
                f"{item_name(scored)} has no expected value to score against: its list of events "
                "is empty",
                hint='with mode "exact", an empty list means that nothing may be called',
            )
        return names

    def _names(self, trace: Sequence[Any], where: str) -> list[str]:
        names = []
        for number, entry in enumerate(trace, 1):
            whole = entry if isinstance(entry, Mapping) else as_read_back(entry)
            for event in events_in(whole, self.key):
                kind = event.get("kind")
                is_counted = self.kinds is None or kind is None or kind in self.kinds
                if not is_counted or event.get("phase") == "start":
                    continue
                name = as_string(event.get(self.key))
                if name is None:
                    raise PermanentError(
                        f"{where}: event {number}, {brief(entry)}, has no {self.key!r}"
                    )
                names.append(name)
        return names


def _expected_trace(scored: Scored, column: str) -> list[Any]:
    """Return the expected events: those in the column, or else the item's expected list."""
    trace = None if scored.item is None else scored.item.row.get(column)
    if isinstance(trace, str):
        trace = _parsed(trace, scored, column)
    if trace is None:
        trace = scored.expected
    if not isinstance(trace, (list, tuple)):
        raise PermanentError(
            f"{item_name(scored)} has no expected value that lists events: it has no column "
            f"{column!r}, and its expected value is {brief(scored.expected)}",
            hint="put the names in a column, and name it as `expected_column`",
        )
    return list(trace)


def _parsed(text: str, scored: Scored, column: str) -> Any:
    """Return the events in a cell of a table, which can only hold a string."""
    if not text.strip():
        return None
    if is_deep_text(text):
        raise _not_a_list(text, scored, column, "it is nested too deep")
    try:
        return json.loads(text)
    except ValueError as error:
        raise _not_a_list(text, scored, column, error) from None


def _not_a_list(text: str, scored: Scored, column: str, why: object) -> PermanentError:
    return PermanentError(
        f"{item_name(scored)}: its column {column!r} must be a JSON list, not {brief(text)}: {why}"
    )


def _first_difference(got: Sequence[str], expected: Sequence[str]) -> str | None:
    for number, (name, wanted) in enumerate(zip_longest(got, expected), 1):
        if wanted is None:
            return f"event {number}: got {brief(name)}, which is not expected"
        if name is None:
            return f"event {number}: {brief(wanted)} is missing"
        if name != wanted:
            return f"event {number}: got {brief(name)}, expected {brief(wanted)}"
    return None


def _missing(got: Sequence[str], expected: Sequence[str]) -> list[str]:
    left, missing = Counter(got), []
    for name in expected:
        if left[name]:
            left[name] -= 1
        else:
            missing.append(name)
    return missing


def _missing_in_order(got: Sequence[str], expected: Sequence[str]) -> list[str]:
    """Return the names outside the longest common subsequence: an event too early costs one."""
    longest = [[0] * (len(got) + 1) for _ in range(len(expected) + 1)]
    for i in reversed(range(len(expected))):
        for j in reversed(range(len(got))):
            longest[i][j] = (
                longest[i + 1][j + 1] + 1
                if expected[i] == got[j]
                else max(longest[i + 1][j], longest[i][j + 1])
            )
    missing, j = [], 0
    for i, name in enumerate(expected):
        if longest[i][j] == longest[i + 1][j]:
            missing.append(name)  # the longest subsequence does without it
        else:
            j = got.index(name, j) + 1
    return missing
