"""Which number does a text name, and is it near enough to the expected one?

Numbers are compared as people read them, in decimals: 0.4 and 0.3 are 0.1 apart, which the
binary ones are not.
"""

import re
from collections import deque
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from numbers import Integral, Real
from typing import Any, ClassVar

from limpet import arguments
from limpet.evaluators.builtin import BuiltIn
from limpet.evaluators.expectation import brief, expected_of, unusable
from limpet.evaluators.protocol import Evaluator, Scored
from limpet.text import one_line
from limpet.types import Score

# So wide that nothing of practical length is rounded; what overflows is infinitely far.
_WIDE = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_MINUS = str.maketrans({"−": "-", "–": "-"})
_THIN = "\u00a0\u2009\u202f"  # the spaces that stand between thousands
_NUMBER = re.compile(
    rf"""
    (?P<sign>(?<![\w)])[-+−–])?  [$€£¥]?  (?<!\w)
    (?:
        (?P<english>[1-9]\d{{0,2}}(?:,\d{{3}})+(?:\.\d+)?) (?![.,]?\d)
      | (?P<european>[1-9]\d{{0,2}}(?:(?:\.\d{{3}})+,\d+|(?:\.\d{{3}}){{2,}})) (?![.,]?\d)
      | (?P<spaced>[1-9]\d{{0,2}}(?:[{_THIN}]\d{{3}})+(?:[.,]\d+)?) (?![.,]?\d)
      | (?P<simple>(?<!\d[.,])\d+(?:[.,]\d+)?(?:[eE][-+−]?\d+)?) (?![.,]?\d)
      | (?P<whole>\d+) | (?P<below_one>(?<![\d.])\.\d+(?:[eE][-+−]?\d+)?)
    )
    """,
    re.VERBOSE,
)


def numeric(
    *,
    tolerance: float = 0.0,
    relative: float = 0.0,
    extract: bool = True,
    name: str = "numeric",
) -> Evaluator:
    """Score True if the output's number is the expected one, or near enough.

    Args:
        tolerance: How far apart they may be.
        relative: How far apart they may be, as a share of the expected number. The wider of the
            two counts.
        extract: Take the last number out of a text; False: the text has to be a number.
        name: What to call it.

    Raises:
        TypeError: A tolerance is no number.
        ValueError: It is negative or not finite.
    """
    return _Numeric(
        name,
        arguments.number_from(0, tolerance=tolerance),
        arguments.number_from(0, relative=relative),
        extract,
    )


@dataclass(frozen=True)
class _Numeric(BuiltIn):
    kind: ClassVar[str] = "numeric"
    tolerance: float
    relative: float
    extract: bool

    def score(self, scored: Scored) -> Score:
        expected = number_in(expected_of(scored), extract=self.extract)
        if expected is None:
            unusable(scored, "has no number in it")
        number = number_in(scored.output, extract=self.extract)
        if number is None:
            return Score(value=False, explanation=f"there is no number in {brief(scored.output)}")
        if are_near(number, expected, self.tolerance, self.relative):
            return Score(value=True)
        return Score(value=False, explanation=f"got {_shown(number)}, expected {_shown(expected)}")


def are_near(one: Any, expected: Any, tolerance: float, relative: float = 0.0) -> bool:
    """Tell whether two finite numbers are no further apart than is allowed."""
    one, expected = _decimal(one), _decimal(expected)
    if one == expected:
        return True
    distance = _WIDE.abs(_WIDE.subtract(one, expected))
    share = _WIDE.multiply(_decimal(relative), _WIDE.abs(expected))
    return distance <= max(_decimal(tolerance), share)


def number_in(value: Any, *, extract: bool) -> Decimal | None:
    """Return the finite number that a value is, or that a text names last; None: there is none."""
    if isinstance(value, str):
        return _last_number(value) if extract else _only_number(value)
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()  # of NumPy
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        return None
    number = _decimal(value)
    return number if number.is_finite() else None


def _decimal(number: Any) -> Decimal:
    if isinstance(number, Decimal):
        return number
    # The shortest text of a float is what people take it for.
    return Decimal(int(number)) if isinstance(number, Integral) else Decimal(repr(float(number)))


def _shown(number: Decimal) -> str:
    return one_line(str(number))


def _last_number(text: str) -> Decimal | None:
    found = deque(_NUMBER.finditer(text), maxlen=1)
    return _read(found[0]) if found else None


def _only_number(text: str) -> Decimal | None:
    found = _NUMBER.match(text := text.strip())
    if found is None or text[found.end() :].strip() not in ("", "%", "$", "€", "£", "¥"):
        return None
    return _read(found)


def _read(found: re.Match[str]) -> Decimal | None:
    digits = found[found.lastgroup or 0]
    if found.lastgroup == "english":
        digits = digits.replace(",", "")
    elif found.lastgroup == "european":
        digits = digits.replace(".", "")
    digits = re.sub(f"[{_THIN}]", "", digits).replace(",", ".")
    try:
        return Decimal(((found["sign"] or "") + digits).translate(_MINUS))
    except InvalidOperation:  # an exponent beyond all measure
        return None
