"""Do the results on disk still belong to this function?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.errors import FunctionChangedError
from holdfast.journal.code import changed_parts, code_parts
from holdfast.journal.fingerprint import digest

OnChange = Literal["redo", "keep"]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a function is: one hash, and the parts it is made of."""

    whole: str
    parts: dict[str, str]


def fingerprint_of(function: Any, version: str | None) -> Fingerprint:
    """Return a function's fingerprint: of its code, or of the version that was declared."""
    parts = code_parts(function) if version is None else {"version": digest(version)}
    return Fingerprint(digest(parts), parts)


def settle_change(
    about: dict[str, Any],
    now: Fingerprint,
    done_under: Callable[[str], int],
    asked: int,
    on_change: OnChange | None,
) -> str:
    """Return the fingerprint under which results are looked up and recorded.

    Args:
        about: What the journal knows of earlier runs; brought up to date.
        now: The function as it is.
        done_under: How many of the inputs have a result under a fingerprint.
        asked: How many inputs there are.
        on_change: What to do about results of another function.

    Raises:
        FunctionChangedError: There are some, and nobody said what to do.
    """
    accepted: dict[str, str] = about.setdefault("accepted", {})
    known: dict[str, dict[str, str]] = about.setdefault("functions", {})
    if on_change == "redo":
        accepted.pop(now.whole, None)
    whole = accepted.get(now.whole, now.whole)
    have = done_under(whole)
    if have < asked:
        # The latest first: what others made is only of interest where it is more.
        done = {other: done_under(other) for other in reversed(known) if other != whole}
        best = max(done, key=lambda other: done[other], default=None)
        if best is not None and done[best] > have:
            if on_change is None:
                raise _changed(known[best], now, done[best], asked)
            if on_change == "keep":
                accepted[now.whole] = whole = best
    parts = known.pop(whole, now.parts)  # to the end: it is the latest now
    known[whole] = parts
    return whole


def _changed(
    before: Mapping[str, str], now: Fingerprint, done: int, asked: int
) -> FunctionChangedError:
    names = ", ".join(changed_parts(before, now.parts)) or "its version"
    return FunctionChangedError(
        f"the function changed since the results of {done:,} of {asked:,} inputs were made: "
        f"{names}",
        hint='on_change="redo" makes them again (the old ones stay in the file); '
        'on_change="keep" keeps them and runs only what is missing',
    )
