"""Does the output look as a regular expression says?

A pattern that takes exponential time on some text, such as `(a+)+$`, holds the whole run while it
is tried, in a thread as well: Python's engine never lets go. We do not guard against that.
"""

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from limpet.evaluators.builtin import BuiltIn
from limpet.evaluators.expectation import brief, expected_of, no_text, text_of, unusable
from limpet.evaluators.protocol import Evaluator, Scored
from limpet.types import Score


def regex(
    pattern: str | re.Pattern[str] | None = None,
    *,
    fullmatch: bool = False,
    flags: int = 0,
    name: str = "regex",
) -> Evaluator:
    """Score True if the pattern is found in the output.

    Args:
        pattern: The regular expression; None: the item's expected value is it.
        fullmatch: Whether the whole output has to match, white space around it included.
        flags: As of `re.compile`: `re.IGNORECASE | re.DOTALL`.
        name: What to call it.

    Raises:
        TypeError: The pattern is no text.
        ValueError: It is no regular expression.
    """
    if pattern is None:
        _checked("", flags)
        return _Regex(name, None, fullmatch, int(flags))
    compiled = _checked(pattern, flags)
    return _Regex(name, compiled.pattern, fullmatch, compiled.flags)


@dataclass(frozen=True)
class _Regex(BuiltIn):
    kind: ClassVar[str] = "regex"
    pattern: str | None
    fullmatch: bool
    flags: int

    def _reads(self) -> frozenset[str]:
        return super()._reads() if self.pattern is None else frozenset({"output"})

    def score(self, scored: Scored) -> Score:
        pattern = self.pattern
        compiled = self._expected(scored) if pattern is None else re.compile(pattern, self.flags)
        output = text_of(scored.output)
        if output is None:
            return Score(value=False, explanation=f"{no_text(scored.output)}, not a text")
        found = compiled.fullmatch(output) if self.fullmatch else compiled.search(output)
        if found:
            return Score(value=True)
        how = "does not match" if self.fullmatch else "is nowhere in"
        return Score(value=False, explanation=f"{brief(compiled.pattern)} {how} the output")

    def _expected(self, scored: Scored) -> re.Pattern[str]:
        try:
            return _checked(expected_of(scored), self.flags)
        except (TypeError, ValueError) as error:
            unusable(scored, f"cannot be used: {error}")


def _checked(pattern: Any, flags: int) -> re.Pattern[str]:
    if not isinstance(flags, int) or isinstance(flags, bool):
        raise TypeError(f"flags={flags!r}: must be a number, such as re.IGNORECASE, which is 2")
    if isinstance(pattern, re.Pattern):
        pattern, flags = pattern.pattern, pattern.flags | flags
    if not isinstance(pattern, str):
        raise TypeError(f"pattern={brief(pattern)}: must be a regular expression, as a text")
    try:
        return re.compile(pattern, flags)  # Python remembers the last few hundred
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"pattern={brief(pattern)}: is no regular expression: {error}") from None
