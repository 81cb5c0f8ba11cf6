"""Is the output the expected JSON, and if not, where does it first differ?

The explanation names the location by its path: `$.items[2].price`. Unordered lists cannot be
compared element by element: with a tolerance, finding each element's counterpart is a matching
problem, because the first element that fits may be the only one that fits another.
"""

import ast
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from limpet import arguments
from limpet.errors import PermanentError, wrong_value
from limpet.evaluators.builtin import BuiltIn, brief, item_name, set_of_strings
from limpet.evaluators.numeric import are_near
from limpet.evaluators.protocol import Evaluator, Scored
from limpet.fingerprints.keys import digest
from limpet.json_values import MOST_LEVELS, from_plain, is_deep_text, to_plain
from limpet.shapes import Score

_INDEX = re.compile(r"\[\d+\]")
_NAME = re.compile(r"\w+")
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_PART = re.compile(rf"\.(?P<name>\w+)|\[(?:(?P<quoted>{_QUOTED})|\d+|\*)\]")


def json_match(
    *,
    ignore: tuple[str, ...] | list[str] = (),
    ordered: bool = True,
    tolerance: float = 0.0,
    subset: bool = False,
    name: str = "json_match",
) -> Evaluator:
    """Score True if the output and the expected value are the same JSON, as a string or as data.

    The order of keys and the layout are ignored. The explanation says at which path they differ.

    Args:
        ignore: Keys to ignore everywhere ("id"), and paths as in the explanation ("$.meta.id";
            "$.items[*].id" for every element).
        ordered: Whether the order of a list matters.
        tolerance: The largest difference between two numbers.
        subset: Whether objects may have keys that are not expected.
        name: Its name.

    Raises:
        TypeError: `ignore` is not a list of strings, or the tolerance not a number.
        ValueError: A path is invalid, or the tolerance is negative or not finite.
    """
    allowed = arguments.number_from(0, tolerance=tolerance)
    ignored = tuple(sorted({_checked_path(path) for path in set_of_strings(ignore=ignore)}))
    return _JsonMatch(name, ignored, ordered, allowed, subset)


@dataclass(frozen=True)
class _JsonMatch(BuiltIn):
    kind: ClassVar[str] = "json_match"
    ignore: tuple[str, ...]
    ordered: bool
    tolerance: float
    subset: bool

    def score(self, scored: Scored) -> Score:
        try:
            expected = _data(self._expected(scored))
        except (ValueError, TypeError) as error:
            self._reject(scored, f"is not JSON: {error}")
        try:
            output = _data(scored.output)
        except (ValueError, TypeError) as error:
            return Score(value=False, explanation=f"the output is not JSON: {error}")
        try:
            difference = self._first_difference(output, expected, "$")
        except RecursionError:
            raise PermanentError(f"{item_name(scored)}: nested too deep to compare") from None
        return Score(value=difference is None, explanation=difference)

    def _first_difference(self, got: Any, expected: Any, path: str) -> str | None:
        """Return the first difference, in the order of the expected value; None: they match."""
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
            location = _under(path, key)
            if self._is_ignored(key, location):
                continue
            if key in got:
                yield from self._differences(got[key], value, location)
            else:
                yield f"{location}: is missing, expected {brief(value)}"
        if self.subset:
            return
        for key, value in got.items():
            if key not in expected and not self._is_ignored(key, _under(path, key)):
                yield f"{_under(path, key)}: got {brief(value)}, which is not expected"

    def _in_lists(self, got: list[Any], expected: list[Any], path: str) -> Iterator[str]:
        if len(got) != len(expected):
            yield f"{path}: got {len(got)} elements, expected {len(expected)}"
        elif self.ordered:
            for index, (element, wanted) in enumerate(zip(got, expected, strict=True)):
                yield from self._differences(element, wanted, f"{path}[{index}]")
        elif (left := self._first_unmatched(got, expected, path)) is not None:
            yield f"{path}[{left}]: no element is {brief(expected[left])}"

    def _first_unmatched(self, got: list[Any], expected: list[Any], path: str) -> int | None:
        """Return the index of the first expected element without a counterpart of its own."""
        open_got, open_expected = list(range(len(got))), list(range(len(expected)))
        if self.tolerance == 0:
            # Equal pairs first, which is quick: then no other element can need one of them.
            open_got, open_expected = _without_equals(got, expected)
        partner: dict[int, int] = {}  # of each matched element: the expected one

        def fits(index: int, wanted: int) -> bool:
            location = f"{path}[{wanted}]"
            return self._first_difference(got[index], expected[wanted], location) is None

        def find(wanted: int, tried: set[int]) -> bool:
            for index in open_got:
                if index in tried or not fits(index, wanted):
                    continue
                tried.add(index)
                # A matched element may be free if its partner finds another.
                if index not in partner or find(partner[index], tried):
                    partner[index] = wanted
                    return True
            return False

        return next((wanted for wanted in open_expected if not find(wanted, set())), None)

    def _are_equal(self, got: Any, expected: Any) -> bool:
        if isinstance(got, bool) or isinstance(expected, bool):
            return got is expected
        if not isinstance(got, (int, float)) or not isinstance(expected, (int, float)):
            return type(got) is type(expected) and bool(got == expected)
        if got == expected or (got != got and expected != expected):  # noqa: PLR0124 - both NaN
            return True
        return (
            self.tolerance > 0
            and all(isinstance(number, int) or math.isfinite(number) for number in (got, expected))
            and are_near(got, expected, self.tolerance)
        )

    def _is_ignored(self, key: str, path: str) -> bool:
        if not self.ignore:
            return False
        return key in self.ignore or path in self.ignore or _INDEX.sub("[*]", path) in self.ignore


def _checked_path(path: str) -> str:
    """Return a path as the explanation writes it; a key unchanged.

    Raises:
        ValueError: It begins like a path, but does not lead to a key.
    """
    if not path.startswith(("$.", "$[")):
        return path  # a key, perhaps `$ref`
    end, written, last = 1, "$", None
    while match := _PART.match(path, end):
        end, last = match.end(), match
        key = match["name"] if match["quoted"] is None else ast.literal_eval(match["quoted"])
        written = written + match[0] if key is None else _under(written, key)
    if end < len(path) or last is None or last[0][1:-1].strip("0123456789*") == "":
        raise wrong_value(
            "ignore",
            f"{path!r} is not a path to a key, like $.meta.id, $.items[*].id or "
            "$['a key']; a key alone, like id, is ignored everywhere",
        )
    return written


def _under(path: str, key: str) -> str:
    return f"{path}.{key}" if _NAME.fullmatch(key) else f"{path}[{key!r}]"


def _without_equals(got: list[Any], expected: list[Any]) -> tuple[list[int], list[int]]:
    """Return the indices on both sides of the elements without an equal on the other."""
    indices: dict[str, list[int]] = defaultdict(list)
    for index, element in enumerate(got):
        indices[digest(element)].append(index)
    unmatched = []
    for index, element in enumerate(expected):
        if equals := indices[digest(element)]:
            equals.pop()
        else:
            unmatched.append(index)
    return sorted(index for equals in indices.values() for index in equals), unmatched


def _data(value: Any) -> Any:
    """Return the JSON in a string, and data as it is read back from disk."""
    if isinstance(value, str):
        if is_deep_text(value):
            raise ValueError(f"it is nested deeper than {MOST_LEVELS} levels")
        return json.loads(value, parse_constant=_reject_constant)
    return from_plain(to_plain(value))


def _reject_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")
