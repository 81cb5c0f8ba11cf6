"""Which score is meant by a name like `judge.quality`, and where is it in an item?"""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from limpet.errors import LimpetError
from limpet.text import hint_near, one_line, quoted

if TYPE_CHECKING:
    from limpet.run.results.evaluation_result import ItemResult


class ScoreName(NamedTuple):
    """A name like `judge`, for all scores of an evaluator, or `judge.quality`, for one of several.

    Attributes:
        evaluator: The evaluator.
        part: Which of its scores; None: all.
    """

    evaluator: str
    part: str | None = None

    def __str__(self) -> str:
        return self.evaluator if self.part is None else f"{self.evaluator}.{self.part}"

    def records(self, item: "ItemResult") -> list[Mapping[str, Any]]:
        """Return the records of these scores of an item."""
        parts = parts_of(item.scores.get(self.evaluator, {}))
        return [record for part, record in parts if self.part in (None, part)]

    def lowest(self, item: "ItemResult") -> float | None:
        """Return the lowest value of an item; None if it has none."""
        values = (record.get("score") for record in self.records(item))
        numbers = [float(value) for value in values if isinstance(value, (int, float))]
        return min((number for number in numbers if not math.isnan(number)), default=None)


def split_name(name: str, evaluators: Iterable[str]) -> ScoreName | None:
    """Return the evaluator and the part that a name consists of; None: it has no evaluator."""
    # Both may contain dots: the longest name of an evaluator counts.
    for evaluator in sorted(evaluators, key=len, reverse=True):
        if name == evaluator:
            return ScoreName(evaluator)
        if name.startswith(f"{evaluator}.") and len(name) > len(evaluator) + 1:
            return ScoreName(evaluator, name[len(evaluator) + 1 :])
    return None


def no_such_score(name: str, known: Iterable[str]) -> LimpetError:
    """Return the error for a name that no score has."""
    names = list(dict.fromkeys(known))
    words = ", ".join(map(one_line, names)) or "none yet"
    return LimpetError(
        f"no score is called {quoted(name)}; known: {words}", hint=hint_near(name, names)
    )


def parts_of(score: Mapping[str, Any]) -> Iterable[tuple[str | None, Mapping[str, Any]]]:
    """Return the records of an evaluator's scores by name; None: its only one."""
    if "scores" in score:
        return list(score["scores"].items())
    return [(None, score)] if score else []
