"""When have two failures the same cause, as far as anybody can tell from what they say?

Two failures are alike when they are of one class and one type, and say the same once the numbers
and the quoted parts are left out: ids, amounts and answers differ from item to item where the
mistake does not.
"""

import re

_MOST_READ = 2_000  # what failures.jsonl keeps of a message
_MOST_KEPT = 300
_LEFT_OUT = "…"
# A quote opens where no word goes on before it and closes where none goes on after it, so that
# "can't" and "users' data" are no quotes. One that is cut off before its end reaches to the end.
_QUOTED = re.compile(
    r"""(?<!\w)[bBfFrRuU]{0,2}(['"`])(?:\\.|(?!\1(?!\w)).)*(?:\1|\Z)"""
    r"|“[^”]*(?:”|\Z)|„[^“”]*(?:[“”]|\Z)|‘(?:[^’]|’(?=\w))*(?:’|\Z)|«[^»]*(?:»|\Z)",
    re.DOTALL,
)
_WORD = re.compile(r"[\w+-]+(?:[.,]\d+)*%?")
_SEVERAL = re.compile(r"…(?:[ ,:;/=]+…)+")
_IN_BRACKETS = re.compile(r"[\[({<]\s*…\s*[\])}>]")
_DEPTH = 8


def alike(kind: str, type_name: str, message: str) -> str:
    """Return the same text for failures that are alike.

    Args:
        kind: The class of the failure.
        type_name: The name of its exception.
        message: What it said; as it was recorded, or longer.
    """
    return f"{kind} {type_name}: {without_particulars(message)}"


def without_particulars(message: str) -> str:
    """Return a message without its numbers and its quoted parts, on one line of bounded length."""
    text = _QUOTED.sub(_LEFT_OUT, message[:_MOST_READ])
    text = _WORD.sub(_without_number, " ".join(text.split()))
    for _ in range(_DEPTH):  # a list is a list, whether it has two elements or three
        before = text
        text = _IN_BRACKETS.sub(_LEFT_OUT, _SEVERAL.sub(_LEFT_OUT, text))
        if text == before:
            break
    return text[:_MOST_KEPT]


def _without_number(word: re.Match[str]) -> str:
    """Leave out a word that holds a digit: a number, an id, an address."""
    return _LEFT_OUT if any(map(str.isdigit, word[0])) else word[0]
