"""Where do two pieces of JSON first differ?

The place is said as a path: `$.items[2].price`. Lists without an order need more than a look at
each place: with a tolerance, which elements belong together is a matching, and the first that
fits may be one that another needs.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from limpet.evaluators.builtin import check_flags
from limpet.evaluators.expectation import brief
from limpet.evaluators.numeric import are_near
from limpet.fingerprints.keys import digest

_INDEX = re.compile(r"\[\d+\]")
_NAME = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Comparison:
    """How strictly two pieces of JSON are compared.

    Attributes:
        ignore: Keys to pass over wherever they stand, and paths (`$.meta.id`, `$.items[*].id`).
        ordered: Whether the order of a list counts.
        tolerance: How far apart numbers may be.
        subset: Whether objects may have keys that are not expected.
    """

    ignore: tuple[str, ...] = ()
    ordered: bool = True
    tolerance: float = 0.0
    subset: bool = False

    def __post_init__(self) -> None:
        check_flags(self)

    def first(self, got: Any, expected: Any, path: str = "$") -> str | None:
        """Say where they first differ, in the order of the expected one; None: they do not."""
        return next(self._differences(got, expected, path), None)

    def _differences(self, got: Any, expected: Any, path: str) -> Iterator[str]:
        if isinstance(got, dict) and isinstance(expected, dict):
            yield from self._in_objects(got, expected, path)
        elif isinstance(got, list) and isinstance(expected, list):
            yield from self._in_lists(got, expected, path)
        elif not self._are_equal(got, expected):
            yield f"{path}: got {brief(got)}, expected {brief(expected)}"

    def _in_objects(
        self, got: dict[str, Any], expected: dict[str, Any], path: str
    ) -> Iterator[str]:
        for key, value in expected.items():
            place = _under(path, key)
            if self._is_ignored(key, place):
                continue
            if key in got:
                yield from self._differences(got[key], value, place)
            else:
                yield f"{place}: is missing, expected {brief(value)}"
        if self.subset:
            return
        for key, value in got.items():
            if key not in expected and not self._is_ignored(key, _under(path, key)):
                yield f"{_under(path, key)}: got {brief(value)}, which is not expected"

    def _in_lists(self, got: list[Any], expected: list[Any], path: str) -> Iterator[str]:
        if len(got) != len(expected):
            yield f"{path}: got {len(got)} elements, expected {len(expected)}"
        elif self.ordered:
            for index, (one, other) in enumerate(zip(got, expected, strict=True)):
                yield from self._differences(one, other, f"{path}[{index}]")
        elif (left := self._without_partner(got, expected, path)) is not None:
            yield f"{path}[{left}]: no element is {brief(expected[left])}"

    def _without_partner(self, got: list[Any], expected: list[Any], path: str) -> int | None:
        """Return the first expected element that no element of its own can be found for."""
        open_got, open_expected = list(range(len(got))), list(range(len(expected)))
        if self.tolerance == 0:
            # Pairs of twins first, which is quick: then no other element can need one of them.
            open_got, open_expected = _without_twins(got, expected)
        partner: dict[int, int] = {}  # of each taken element: the expected one

        def fits(one: int, other: int) -> bool:
            return self.first(got[one], expected[other], f"{path}[{other}]") is None

        def find(other: int, tried: set[int]) -> bool:
            for one in open_got:
                if one in tried or not fits(one, other):
                    continue
                tried.add(one)
                if one not in partner or find(partner[one], tried):  # a taken one may move on
                    partner[one] = other
                    return True
            return False

        return next((other for other in open_expected if not find(other, set())), None)

    def _are_equal(self, got: Any, expected: Any) -> bool:
        if isinstance(got, bool) or isinstance(expected, bool):
            return got is expected
        if not isinstance(got, (int, float)) or not isinstance(expected, (int, float)):
            return type(got) is type(expected) and bool(got == expected)
        if got == expected or (got != got and expected != expected):  # noqa: PLR0124 - both NaN
            return True
        return (
            self.tolerance > 0
            and _is_finite(got, expected)
            and are_near(got, expected, self.tolerance)
        )

    def _is_ignored(self, key: str, path: str) -> bool:
        if not self.ignore:
            return False
        return key in self.ignore or path in self.ignore or _INDEX.sub("[*]", path) in self.ignore


def _is_finite(*numbers: float) -> bool:
    return all(isinstance(one, int) or math.isfinite(one) for one in numbers)


def _under(path: str, key: str) -> str:
    return f"{path}.{key}" if _NAME.fullmatch(key) else f"{path}[{key!r}]"


def _without_twins(got: list[Any], expected: list[Any]) -> tuple[list[int], list[int]]:
    """Return where those stand on both sides that have no twin on the other."""
    places: dict[str, list[int]] = defaultdict(list)
    for index, one in enumerate(got):
        places[digest(one)].append(index)
    lonely = []
    for index, one in enumerate(expected):
        if twins := places[digest(one)]:
            twins.pop()
        else:
            lonely.append(index)
    return sorted(index for twins in places.values() for index in twins), lonely
