"""Is the output exactly what was expected, or one of what may be?"""

from dataclasses import dataclass
from typing import Any, ClassVar

from limpet.evaluators.builtin import BuiltIn
from limpet.evaluators.expectation import brief, expected_of, expected_several, text_of
from limpet.evaluators.normalisation import Form, Normalisation
from limpet.evaluators.protocol import Evaluator, Scored
from limpet.json_values import NotPlainError, to_plain
from limpet.types import Score


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

    Texts are compared as the options say. Numbers, lists and objects are compared as values: 1 is
    1.0 and a tuple is a list, but 1 is not True. A text against a number is compared as text.

    Args:
        strip: Ignore white space around texts.
        casefold: Ignore the difference between capital and small letters.
        collapse_whitespace: Take any run of white space for one space.
        strip_punctuation: Ignore quotes, brackets and sentence marks around texts.
        unicode: Normalise texts to "NFC" or "NFKC" first.
        name: What to call it.
    """
    normal = Normalisation(strip, casefold, collapse_whitespace, strip_punctuation, unicode)
    return _ExactMatch(name, normal)


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
    """Score True if the output equals one of several values, each compared as by `exact_match`.

    Args:
        choices: The values; None: those of the item's expected list.
        strip: Ignore white space around texts.
        casefold: Ignore the difference between capital and small letters.
        collapse_whitespace: Take any run of white space for one space.
        strip_punctuation: Ignore quotes, brackets and sentence marks around texts.
        unicode: Normalise texts to "NFC" or "NFKC" first.
        name: What to call it.

    Raises:
        TypeError: The choices are no list.
        ValueError: There are none.
    """
    normal = Normalisation(strip, casefold, collapse_whitespace, strip_punctuation, unicode)
    return _OneOf(name, normal, None if choices is None else _checked_choices(choices))


@dataclass(frozen=True)
class _ExactMatch(BuiltIn):
    kind: ClassVar[str] = "exact_match"
    normal: Normalisation

    def score(self, scored: Scored) -> Score:
        expected = expected_of(scored)
        if _are_equal(scored.output, expected, self.normal):
            return Score(value=True)
        return Score(
            value=False, explanation=f"got {brief(scored.output)}, expected {brief(expected)}"
        )


@dataclass(frozen=True)
class _OneOf(BuiltIn):
    kind: ClassVar[str] = "one_of"
    normal: Normalisation
    choices: tuple[Any, ...] | None

    def _reads(self) -> frozenset[str]:
        return super()._reads() if self.choices is None else frozenset({"output"})

    def score(self, scored: Scored) -> Score:
        choices = expected_several(scored) if self.choices is None else self.choices
        if any(_are_equal(scored.output, one, self.normal) for one in choices):
            return Score(value=True)
        return Score(
            value=False,
            explanation=f"got {brief(scored.output)}, expected one of {brief(list(choices))}",
        )


def _checked_choices(choices: Any) -> tuple[Any, ...]:
    if not isinstance(choices, (list, tuple, set, frozenset)):
        raise TypeError(f"choices={choices!r}: must be a list of values")
    if not choices:
        raise ValueError(f"choices={choices!r}: must be at least one value")
    # Sets have another order in each process, and the fingerprint must not.
    return tuple(to_plain(choices) if isinstance(choices, (set, frozenset)) else choices)


def _are_equal(output: Any, expected: Any, normal: Normalisation) -> bool:
    output, expected = _plain(output), _plain(expected)
    if isinstance(output, str) != isinstance(expected, str):
        output, expected = _as_texts(output, expected)
    return _are_alike(output, expected, normal)


def _plain(value: Any) -> Any:
    """Return what a value is once it has been to disk: a tuple a list, a dataclass a dict."""
    try:
        return value if isinstance(value, str) else to_plain(value)
    except NotPlainError:
        return value


def _as_texts(one: Any, other: Any) -> tuple[Any, Any]:
    """Return both as texts if one is a text and the other a number or a bool."""
    if isinstance(one, bool) or isinstance(other, bool):
        flag, text = (one, other) if isinstance(one, bool) else (other, one)
        return str(flag).casefold(), str(text).strip().casefold()  # "true" and "True" both say it
    one_text, other_text = text_of(one), text_of(other)
    return (one, other) if one_text is None or other_text is None else (one_text, other_text)


def _are_alike(one: Any, other: Any, normal: Normalisation) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return normal.of(one) == normal.of(other)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            _are_alike(a, b, normal) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _are_alike(value, other[key], normal) for key, value in one.items()
        )
    return bool(one == other)
