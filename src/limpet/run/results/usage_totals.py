"""What did the calls of a step use, in all and each?"""

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from limpet.run.results.costs import is_bounded, numbers_in

_OF_EACH = ("total_tokens", "cost")
"""What is kept of each call, for quantiles."""
_TOGETHER = 1_000
"""As many calls are added up at once, which takes a fraction of the time."""
_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def quantiles(values: "array[float]") -> dict[str, float]:
    """Return what half, nine tenths and all but a hundredth of the values do not exceed."""
    known = sorted(values)
    return {name: known[math.ceil(share * len(known)) - 1] for name, share in _SHARES.items()}


class Used:
    """Adds up what the calls of a step used."""

    def __init__(self) -> None:
        self._usage = Counts()
        self._models: defaultdict[str, Counts] = defaultdict(Counts)
        self._each: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        self._asked: defaultdict[str, str] = defaultdict(str)  # by the name that was returned
        self._waiting: list[Mapping[str, Any]] = []

    def add(self, calls: Sequence[Mapping[str, Any]]) -> None:
        """Add calls by the facts about them."""
        self._waiting += calls
        if len(self._waiting) >= _TOGETHER:
            self.settle()

    def settle(self) -> None:
        """Add up the calls that wait for others."""
        calls, self._waiting = self._waiting, []
        used = [facts.get("usage", {}) for facts in calls]
        self._usage.add(used)
        for name in _OF_EACH:
            self._each[name].extend(numbers_in([some[name] for some in used if name in some]))
        answered = [facts for facts in calls if "class" not in facts]  # else it failed
        self._each["seconds"].extend(numbers_in([facts.get("seconds") for facts in answered]))
        by_model: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for facts in calls:
            self._asked.update(facts.get("asked") or {})
            if "models" in facts:
                for model, counts in facts["models"].items():
                    by_model[model].append(counts)
        for model, each in by_model.items():
            self._models[model].add(each)

    def quantiles(self) -> dict[str, dict[str, float]]:
        """Return quantiles of what the calls used and how long they took, where known."""
        self.settle()
        names = ("seconds", *_OF_EACH)
        return {name: quantiles(self._each[name]) for name in names if self._each[name]}

    def summary(self) -> dict[str, Any]:
        """Return the totals."""
        self.settle()
        models = {model: counts.totals() for model, counts in self._models.items()}
        summary: dict[str, Any] = {"usage": self._usage.totals()}
        summary |= {"models": models} if models else {}
        return summary | ({"asked": dict(self._asked)} if self._asked else {})


class Counts:
    """Adds up numbers by name: integers as such, floats exactly."""

    def __init__(self) -> None:
        self._whole: Counter[str] = Counter()
        self._floats: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))

    def add(self, counts: Sequence[Mapping[str, Any]]) -> None:
        """Add the counts of calls."""
        names = list(counts[0]) if counts else []
        if len(counts) > 1 and all(list(some) == names for some in counts):  # most are the same
            for name, *values in zip(names, *[some.values() for some in counts], strict=True):
                self._add_all(name, values)
        else:
            for some in counts:
                for name, value in some.items():
                    self._add(name, value)

    def _add_all(self, name: str, values: Sequence[Any]) -> None:
        if {*map(type, values)} == {int} and is_bounded(min(values)) and is_bounded(max(values)):
            self._whole[name] += sum(values)
            return
        for value in values:
            self._add(name, value)

    def _add(self, name: str, value: Any) -> None:
        if not isinstance(value, (int, float)) or not is_bounded(value):
            return
        if type(value) is int:
            self._whole[name] += value
        else:
            self._floats[name].append(value)

    def totals(self) -> dict[str, float]:
        """Return the sums that a float can hold."""
        totals: dict[str, float] = dict(self._whole)
        for name, values in self._floats.items():
            try:
                totals[name] = math.fsum([*values, totals.get(name, 0)])
            except OverflowError:
                totals[name] = math.inf
        return {name: total for name, total in totals.items() if is_bounded(total)}
