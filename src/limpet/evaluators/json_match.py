"""Is the output the JSON that was expected?"""

import json
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from limpet import arguments
from limpet.errors import PermanentError
from limpet.evaluators.builtin import BuiltIn, several_texts
from limpet.evaluators.differences import Comparison
from limpet.evaluators.expectation import expected_of, item_of, unusable
from limpet.evaluators.protocol import Evaluator, Scored
from limpet.json_values import from_plain, to_plain
from limpet.types import Score


def json_match(
    *,
    ignore: tuple[str, ...] | list[str] = (),
    ordered: bool = True,
    tolerance: float = 0.0,
    subset: bool = False,
    name: str = "json_match",
) -> Evaluator:
    """Score True if output and expected value are the same JSON, each as text or as data.

    The order of keys and the layout never count. Where they differ, the reason says at which path.

    Args:
        ignore: Keys to pass over wherever they stand ("id"), and paths as the reason says them
            ("$.meta.id"; "$.items[*].id" for every element).
        ordered: Whether the order of a list counts.
        tolerance: How far apart numbers may be.
        subset: Let objects have more keys than expected.
        name: What to call it.

    Raises:
        TypeError: `ignore` is no list of texts, or the tolerance no number.
        ValueError: The tolerance is negative or not finite.
    """
    allowed = arguments.number_from(0, tolerance=tolerance)
    # What is ignored is a set: in another order it is the same.
    ignored = tuple(sorted(set(several_texts(ignore=ignore))))
    return _JsonMatch(name, Comparison(ignored, ordered, allowed, subset))


@dataclass(frozen=True)
class _JsonMatch(BuiltIn):
    kind: ClassVar[str] = "json_match"
    comparison: Comparison

    def score(self, scored: Scored) -> Score:
        expected = _expected(scored)
        try:
            output = _data(scored.output)
        except (ValueError, TypeError, RecursionError) as error:
            return Score(value=False, explanation=f"the output is not JSON: {error}")
        try:
            difference = self.comparison.first(output, expected)
        except RecursionError:
            raise PermanentError(f"{item_of(scored)}: nested too deep to be compared") from None
        return Score(value=difference is None, explanation=difference)


def _expected(scored: Scored) -> Any:
    expected = expected_of(scored)
    try:
        return _data(expected)
    except (ValueError, TypeError, RecursionError) as error:
        unusable(scored, f"is not JSON: {error}")


def _data(value: Any) -> Any:
    """Return a text as the JSON in it, and data as it is once it has been to disk."""
    if isinstance(value, str):
        return json.loads(value, parse_constant=_refuse)
    return from_plain(to_plain(value))


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")
