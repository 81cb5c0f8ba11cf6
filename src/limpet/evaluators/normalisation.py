"""Which differences between two texts do not matter?

All are opt-in but the white space around them: what is forgiven is never a surprise.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from limpet.evaluators.builtin import check_flags, one_among

Form = Literal["NFC", "NFKC"]
_SPACE = re.compile(r"\s+")
_AROUND = ("Ps", "Pe", "Pi", "Pf")  # brackets and quotation marks of all scripts
_MARKS = frozenset(".,;:!?…'\"`*_¿¡。、！？：；")  # those that end a sentence, and Markdown's


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Makes texts equal that differ in what does not matter.

    Attributes:
        strip: White space around the text.
        casefold: Capital and small letters.
        collapse_whitespace: How much white space there is, and of which kind.
        strip_punctuation: Quotes, brackets and marks around the text, not within it.
        unicode: Different code points for the same: "NFC" or "NFKC"; None: they are different.
    """

    strip: bool = True
    casefold: bool = False
    collapse_whitespace: bool = False
    strip_punctuation: bool = False
    unicode: Form | None = None

    def __post_init__(self) -> None:
        check_flags(self)
        one_among(("NFC", "NFKC", None), unicode=self.unicode)

    def of(self, text: str) -> str:
        """Return the text without what does not matter."""
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


def _without_punctuation(text: str) -> str:
    """Strip what stands around a text; signs, %, # and the like are part of what it says."""
    start, end = 0, len(text)
    while start < end and _is_around(text[start]):
        start += 1
    while end > start and _is_around(text[end - 1]):
        end -= 1
    if start == end:
        return text  # nothing else is there: "?" is not "!"
    if text[start].isdigit() and text[:start].endswith("."):
        start -= 1  # .5 is not 5
    return text[start:end]


def _is_around(one: str) -> bool:
    return one in _MARKS or one.isspace() or unicodedata.category(one) in _AROUND
