"""Does the output match a regular expression?

Python's engine cannot be interrupted. So a pattern that takes exponential time on some strings, for
example `(a+)+$`, blocks the whole run, even in a thread. Nothing prevents that.
"""

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from limpet.errors import wrong_type, wrong_value
from limpet.evaluators.builtin import BuiltIn, as_string, brief, why_no_string
from limpet.evaluators.protocol import Evaluator, Scored
from limpet.shapes import Score


def regex(
    pattern: str | re.Pattern[str] | None = None,
    *,
    fullmatch: bool = False,
    flags: int = 0,
    name: str = "regex",
) -> Evaluator:
    """Score True if the pattern is found in the output.

    Args:
        pattern: The regular expression; None: the item's expected value.
        fullmatch: Whether the whole output must match, including white space around it.
        flags: As for `re.compile`: `re.IGNORECASE | re.DOTALL`.
        name: Its name.

    Raises:
        TypeError: The pattern is not a string.
        ValueError: The pattern is not a valid regular expression.
    """
    if pattern is None:
        _compiled("", flags)
        return _Regex(name, None, fullmatch, int(flags))
    compiled = _compiled(pattern, flags)
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
        compiled = self._pattern_for(scored)
        output = as_string(scored.output)
        if output is None:
            return Score(value=False, explanation=why_no_string(scored.output))
        if compiled.fullmatch(output) if self.fullmatch else compiled.search(output):
            return Score(value=True)
        how = "does not match" if self.fullmatch else "is not found in"
        return Score(value=False, explanation=f"{brief(compiled.pattern)} {how} the output")

    def _pattern_for(self, scored: Scored) -> re.Pattern[str]:
        if self.pattern is not None:
            return re.compile(self.pattern, self.flags)
        try:
            return _compiled(self._expected(scored), self.flags)
        except (TypeError, ValueError) as error:
            self._reject(scored, f"cannot be used: {error}")


def _compiled(pattern: Any, flags: int) -> re.Pattern[str]:
    if not isinstance(flags, int) or isinstance(flags, bool):
        raise wrong_type("flags", "must be a number, for example re.IGNORECASE, which is 2", flags)
    if isinstance(pattern, re.Pattern):
        pattern, flags = pattern.pattern, pattern.flags | flags
    if not isinstance(pattern, str):
        raise wrong_type("pattern", "must be a regular expression in a string", pattern)
    try:
        return re.compile(pattern, flags)  # Python caches the last few hundred
    except ValueError as error:
        raise wrong_value("flags", str(error), flags) from None
    except (re.error, RecursionError, OverflowError) as error:
        raise wrong_value(
            "pattern", f"is not a valid regular expression: {error}", pattern
        ) from None
