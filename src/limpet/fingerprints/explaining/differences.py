"""What exactly differs between two identities of a step?

Only the lines of code that count are compared. A docstring that counts is a separate part.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial

from limpet.fingerprints.explaining.code_lines import compared_lines
from limpet.fingerprints.explaining.shown import MOST_TEXT, Shown
from limpet.fingerprints.identity import in_words, own_name
from limpet.secrets.masking import MASK

Known = Mapping[tuple[str, str], Shown]
"""The content of parts, by name and digest."""

_CODE = ("function", "class", "module")
_AROUND = 1
_MOST_LINES = 2_000
_WIDE, _BEFORE = 72, 24


@dataclass(frozen=True, slots=True)
class Difference:
    """A part that differs.

    Attributes:
        name: Its name in plain words.
        change: "changed", "new" or "no longer used".
        kind: Its kind: see `Shown`.
        lines: The difference, like a unified diff: each line begins with "-", "+" or a space; "…"
            marks omitted lines.
        why_no_lines: Why there are no lines, if there are none.
    """

    name: str
    change: str
    kind: str
    lines: tuple[str, ...] = ()
    why_no_lines: str = ""


def differences(
    before: Mapping[str, str], now: Mapping[str, str], known: Known
) -> tuple[Difference, ...]:
    """Return the parts that differ: first changed, then new, then no longer used.

    Args:
        before: The earlier digest of each part.
        now: The current digest of each part.
        known: The content of the parts, earlier and current.
    """
    names = [name for name in {*before, *now} if before.get(name) != now.get(name)]
    if len(names) > 1 and "function" in names:
        names.remove("function")  # the other names say more
    parts = [_difference(name, before.get(name), now.get(name), known) for name in sorted(names)]
    order = ("changed", "new", "no longer used")
    parts.sort(key=lambda part: (order.index(part.change), part.kind == "name"))
    return tuple(parts)


def _difference(name: str, was: str | None, is_: str | None, known: Known) -> Difference:
    old = known.get((name, was)) if was is not None else None
    new = known.get((name, is_)) if is_ is not None else None
    shown = new or old
    kind, words = "value" if shown is None else shown.kind, _words(name, shown, known)
    if was is None:
        return Difference(words, "new", kind, _all_of("+", new))
    if is_ is None:
        return Difference(words, "no longer used", kind, _all_of("-", old))
    if old is None or old.text is None:
        return Difference(words, "changed", kind, (), "its earlier version is not on disk")
    if new is None or new.text is None:
        return Difference(words, "changed", kind, (), "it cannot be shown")
    is_folder = kind == "file" and name.endswith("/")
    compare = _names if is_folder else partial(_diff, is_code=kind in _CODE)
    lines = tuple(compare(old.text, new.text))
    return Difference(words, "changed", kind, lines, "" if lines else _why_none(old, new))


def _words(name: str, shown: Shown | None, known: Known) -> str:
    if shown is not None and shown.called:
        return shown.called
    return in_words(own_name(name, (of for of, _ in known)))


def _why_none(old: Shown, new: Shown) -> str:
    if old.cut or new.cut:
        return f"the first {MOST_TEXT:,} characters are the same"
    if MASK in (new.text or ""):
        return "a value that is not shown: it may be a secret"
    if old.kind != new.kind:
        return f"it was a {old.kind} and is now a {new.kind}"
    return "its lines are the same, but it is used differently"


def _all_of(sign: str, part: Shown | None) -> tuple[str, ...]:
    """Return the lines of a value that is new or gone; for code the name says enough."""
    if part is None or part.text is None or part.kind not in ("value", "variable", "setting"):
        return ()
    return tuple(_signed(sign, part.text.splitlines()))


def _signed(sign: str, lines: Iterable[str]) -> list[str]:
    shortened = (line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…" for line in lines)
    return [f"{sign} {line}" for line in shortened]


def _names(old: str, new: str) -> list[str]:
    """Return the names that a folder lost and gained."""
    was, is_ = {*old.splitlines()}, {*new.splitlines()}
    return _signed("-", sorted(was - is_)) + _signed("+", sorted(is_ - was))


# ---- lines --------------------------------------------------------------------------------------


def _diff(old: str, new: str, *, is_code: bool) -> list[str]:
    if is_code:
        a, b = compared_lines(old, new)
    else:
        a, b = ([(line, line) for line in text.splitlines()] for text in (old, new))
    a, b = a[:_MOST_LINES], b[:_MOST_LINES]
    matcher = SequenceMatcher(None, [bare for bare, _ in a], [bare for bare, _ in b])
    lines: list[str] = []
    for number, group in enumerate(matcher.get_grouped_opcodes(_AROUND)):
        if number:
            lines.append("…")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += _signed(" ", [shown for _, shown in b[j1:j2]])
            else:
                lines += _pairs([shown for _, shown in a[i1:i2]], [shown for _, shown in b[j1:j2]])
    return lines


def _pairs(old: list[str], new: list[str]) -> list[str]:
    """Return removed and added lines; long lines begin near the difference."""
    if len(old) == len(new):
        together = [_around_difference(*pair) for pair in zip(old, new, strict=True)]
        old, new = [before for before, _ in together], [now for _, now in together]
    return _signed("-", old) + _signed("+", new)


def _around_difference(old: str, new: str) -> tuple[str, str]:
    if max(len(old), len(new)) <= _WIDE:
        return old, new
    same = next(
        (at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)),
    )
    begin = same - _BEFORE
    if begin <= 0:
        return old, new
    return f"…{old[begin:]}", f"…{new[begin:]}"
