"""Does the output equal the expected value, or one of several?

All normalisation of strings is opt-in, except for white space around them.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from limpet.errors import wrong_type, wrong_value
from limpet.evaluators.builtin import BuiltIn, as_read_back, as_string, brief, check_choice
from limpet.evaluators.protocol import Evaluator, Scored
from limpet.json_values import to_plain
from limpet.shapes import Score

Form = Literal["NFC", "NFKC"]
_SPACE = re.compile(r"\s+")
_BRACKETS = ("Ps", "Pe", "Pi", "Pf")  # brackets and quotation marks of all scripts
_MARKS = frozenset(".,;:!?…'\"`*_¿¡。、！？：；")  # sentence marks, and Markdown's


def exact_match(
    *,
    strip: bool = True,
    casefold: bool = False,
    collapse_whitespace: bool = False,
    strip_punctuation: bool = False,
    unicode: Form | None = None,
    name: str = "exact_match",
) -> Evaluator:
    """Score True if the output equals the expected value.

    Strings are compared as the options say. Numbers, lists and objects are compared by value: 1
    equals 1.0 and a tuple equals a list, but 1 does not equal True. A string and a number are
    compared as strings.

    Args:
        strip: Ignore white space around strings.
        casefold: Ignore upper and lower case.
        collapse_whitespace: Treat any run of white space as one space.
        strip_punctuation: Ignore quotes, brackets and sentence marks around strings.
        unicode: Normalise strings to "NFC" or "NFKC" first.
        name: Its name.
    """
    return _ExactMatch(name, strip, casefold, collapse_whitespace, strip_punctuation, unicode)


def one_of(
    choices: Any = None,
    *,
    strip: bool = True,
    casefold: bool = False,
    collapse_whitespace: bool = False,
    strip_punctuation: bool = False,
    unicode: Form | None = None,
    name: str = "one_of",
) -> Evaluator:
    """Score True if the output equals one of the choices, or of the item's expected list.

    The other options are those of `exact_match`.

    Raises:
        TypeError: The choices are not a list.
        ValueError: There are no choices.
    """
    choices = None if choices is None else _checked_choices(choices)
    return _OneOf(name, strip, casefold, collapse_whitespace, strip_punctuation, unicode, choices)


def _checked_choices(choices: Any) -> tuple[Any, ...]:
    if not isinstance(choices, (list, tuple, set, frozenset)):
        raise wrong_type("choices", "must be a list of values", choices)
    if not choices:
        raise wrong_value("choices", "must be at least one value", choices)
    # The order of a set differs between processes; the fingerprint must not.
    return tuple(to_plain(choices) if isinstance(choices, (set, frozenset)) else choices)


@dataclass(frozen=True)
class _Match(BuiltIn):
    """Compares values, with the options of `exact_match` for strings."""

    strip: bool
    casefold: bool
    collapse_whitespace: bool
    strip_punctuation: bool
    unicode: Form | None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(("NFC", "NFKC", None), unicode=self.unicode)

    def _are_equal(self, output: Any, expected: Any) -> bool:
        output, expected = as_read_back(output), as_read_back(expected)
        if isinstance(output, str) != isinstance(expected, str):
            output, expected = _as_strings(output, expected)
        return self._are_alike(output, expected)

    def _are_alike(self, left: Any, right: Any) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            return self._normal(left) == self._normal(right)
        if isinstance(left, bool) or isinstance(right, bool):
            return left is right
        if isinstance(left, list) and isinstance(right, list):
            return len(left) == len(right) and all(map(self._are_alike, left, right))
        if isinstance(left, dict) and isinstance(right, dict):
            return left.keys() == right.keys() and all(
                self._are_alike(value, right[key]) for key, value in left.items()
            )
        return bool(left == right)

    def _normal(self, text: str) -> str:
        if self.unicode:
            text = unicodedata.normalize(self.unicode, text)
        if self.casefold:
            text = text.casefold()
            if self.unicode:  # folding may undo it
                text = unicodedata.normalize(self.unicode, text)
        if self.collapse_whitespace:
            text = _SPACE.sub(" ", text)
        if self.strip_punctuation:
            text = _without_punctuation(text)
        return text.strip() if self.strip else text


@dataclass(frozen=True)
class _ExactMatch(_Match):
    kind: ClassVar[str] = "exact_match"

    def score(self, scored: Scored) -> Score:
        expected = self._expected(scored)
        if self._are_equal(scored.output, expected):
            return Score(value=True)
        why = f"got {brief(scored.output)}, expected {brief(expected)}"
        return Score(value=False, explanation=why)


@dataclass(frozen=True)
class _OneOf(_Match):
    kind: ClassVar[str] = "one_of"
    choices: tuple[Any, ...] | None

    def _reads(self) -> frozenset[str]:
        return super()._reads() if self.choices is None else frozenset({"output"})

    def score(self, scored: Scored) -> Score:
        choices = self._expected_values(scored) if self.choices is None else self.choices
        if any(self._are_equal(scored.output, choice) for choice in choices):
            return Score(value=True)
        why = f"got {brief(scored.output)}, expected one of {brief(list(choices))}"
        return Score(value=False, explanation=why)


def _without_punctuation(text: str) -> str:
    """Strip the punctuation around a string; signs, % and # belong to its content."""
    start, end = 0, len(text)
    while start < end and _is_punctuation(text[start]):
        start += 1
    while end > start and _is_punctuation(text[end - 1]):
        end -= 1
    if start == end:
        return text  # only punctuation: "?" is not "!"
    if text[start].isdigit() and text[:start].endswith("."):
        start -= 1  # .5 is not 5
    return text[start:end]


def _is_punctuation(character: str) -> bool:
    if character in _MARKS or character.isspace():
        return True
    return unicodedata.category(character) in _BRACKETS


def _as_strings(left: Any, right: Any) -> tuple[Any, Any]:
    """Return both as strings if one is a string and the other a number or a bool."""
    if isinstance(left, bool) or isinstance(right, bool):
        flag, text = (left, right) if isinstance(left, bool) else (right, left)
        return str(flag).casefold(), str(text).strip().casefold()  # "true" and "True" are both true
    texts = as_string(left), as_string(right)
    return (left, right) if None in texts else texts
