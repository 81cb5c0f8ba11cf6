"""Which number is in a string, and is it close enough to the expected one?

Numbers are compared in decimals, as people read them: 0.4 and 0.3 are 0.1 apart, but not as binary
floats.
"""

import re
from collections import deque
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from numbers import Integral, Real
from typing import Any, ClassVar

from limpet import arguments
from limpet.evaluators.builtin import BuiltIn, brief
from limpet.evaluators.protocol import Evaluator, Scored
from limpet.shapes import Score
from limpet.text import one_line

# Wide enough to round no number of practical length; an overflow is infinitely far.
_WIDE = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_MINUS = str.maketrans({"−": "-", "–": "-"})
_THIN = "\u00a0\u2009\u202f"  # the spaces between thousands
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
    """Score True if the output's number is the expected one, or close enough.

    Args:
        tolerance: The largest difference.
        relative: The largest difference as a share of the expected number. The larger of the two
            applies.
        extract: Use the last number in a string; False: the string must be a number.
        name: Its name.

    Raises:
        TypeError: A tolerance is not a number.
        ValueError: A tolerance is negative or not finite.
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
        expected = number_in(self._expected(scored), extract=self.extract)
        if expected is None:
            self._reject(scored, "contains no number")
        number = number_in(scored.output, extract=self.extract)
        if number is None:
            return Score(value=False, explanation=f"no number in {brief(scored.output)}")
        if are_near(number, expected, self.tolerance, self.relative):
            return Score(value=True)
        why = f"got {one_line(str(number))}, expected {one_line(str(expected))}"
        return Score(value=False, explanation=why)


def are_near(number: Any, expected: Any, tolerance: float, relative: float = 0.0) -> bool:
    """Return whether two finite numbers differ by no more than is allowed."""
    number, expected = _decimal(number), _decimal(expected)
    if number == expected:
        return True
    distance = _WIDE.abs(_WIDE.subtract(number, expected))
    share = _WIDE.multiply(_decimal(relative), _WIDE.abs(expected))
    return distance <= max(_decimal(tolerance), share)


def number_in(value: Any, *, extract: bool) -> Decimal | None:
    """Return a finite number, or the last one in a string; None: there is none."""
    if isinstance(value, str):
        return _last_number(value) if extract else _only_number(value)
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()  # a NumPy scalar
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        return None
    number = _decimal(value)
    return number if number.is_finite() else None


def _decimal(number: Any) -> Decimal:
    if isinstance(number, Decimal):
        return number
    # People read a float as its shortest repr.
    return Decimal(int(number)) if isinstance(number, Integral) else Decimal(repr(float(number)))


def _last_number(text: str) -> Decimal | None:
    last = deque(_NUMBER.finditer(text), maxlen=1)
    return _read(last[0]) if last else None


def _only_number(text: str) -> Decimal | None:
    match = _NUMBER.match(text := text.strip())
    if match is None or text[match.end() :].strip() not in ("", "%", "$", "€", "£", "¥"):
        return None
    return _read(match)


def _read(match: re.Match[str]) -> Decimal | None:
    digits = match[match.lastgroup or 0]
    if match.lastgroup == "english":
        digits = digits.replace(",", "")
    elif match.lastgroup == "european":
        digits = digits.replace(".", "")
    digits = re.sub(f"[{_THIN}]", "", digits).replace(",", ".")
    try:
        return Decimal(((match["sign"] or "") + digits).translate(_MINUS))
    except InvalidOperation:  # an absurd exponent
        return None
