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
    before: str | None = about.get("fingerprint")
    whole = accepted.get(now.whole, now.whole)
    if before is not None and whole != before and done_under(whole) < asked:
        done = done_under(before)
        if done and on_change is None:
            raise _changed(about.get("parts", {}), now, done, asked)
        if done and on_change == "keep":
            accepted[now.whole] = whole = before
    about["fingerprint"] = whole
    if whole == now.whole:
        about["parts"] = now.parts
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
