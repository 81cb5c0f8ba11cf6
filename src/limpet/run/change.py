"""Do the results on disk still belong to this function?"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from limpet.errors import FunctionChangedError
from limpet.fingerprints.identity import changed_parts
from limpet.run.plans import named

OnChange = Literal["redo", "keep"]
_MOST_VERSIONS = 10


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a function is: one hash, and the parts it is made of."""

    whole: str
    parts: dict[str, str]


def settle_change(
    about: dict[str, Any],
    now: Fingerprint,
    done_under: Callable[[str], set[int]],
    asked: int,
    on_change: OnChange | None,
    exempt: Collection[int] = (),
) -> list[str]:
    """Return, for each input, the fingerprint of the function whose result counts.

    Args:
        about: What the journal knows of earlier runs; brought up to date.
        now: The function as it is.
        done_under: Which of the inputs have a result under a fingerprint.
        asked: How many inputs there are.
        on_change: What to do about results of another function.
        exempt: Inputs of which this is no question now: whatever result they have counts.

    Raises:
        FunctionChangedError: Some inputs have only those, and nobody ever said what to do.
    """
    known: dict[str, dict[str, str]] = about.setdefault("functions", {})
    decided: dict[str, OnChange] = about.setdefault("decided", {})
    here = done_under(now.whole)
    elsewhere: dict[int, str] = {}
    if len(here) < asked:
        for other in reversed(known):  # the latest first
            if other != now.whole:
                elsewhere |= dict.fromkeys(done_under(other) - here - elsewhere.keys(), other)
    choice = on_change or decided.get(now.whole)
    in_question = {place: other for place, other in elsewhere.items() if place not in exempt}
    if in_question and choice is None:
        latest = next(reversed(in_question.values()))
        raise _changed(known[latest], now, len(in_question), asked - len(exempt))
    if in_question and on_change is not None:
        decided[now.whole] = on_change  # an interrupted run goes on as it was decided
    known.pop(now.whole, None)
    known[now.whole] = now.parts  # to the end: it is the latest now
    for other in list(known)[:-_MOST_VERSIONS]:
        known[other] = {}  # that there was one must stay: it has answers
    if choice != "keep":
        elsewhere = {place: elsewhere[place] for place in exempt if place in elsewhere}
    return [elsewhere.get(place, now.whole) for place in range(asked)]


def _changed(
    before: Mapping[str, str], now: Fingerprint, done: int, asked: int
) -> FunctionChangedError:
    told = f": {named(changed_parts(before, now.parts))}" if before else ""
    error = FunctionChangedError(
        f"the function changed since the results of {done:,} of {asked:,} inputs were made{told}",
        hint='on_change="redo" makes them again (the old ones stay in the file); '
        'on_change="keep" keeps them and runs only what is missing',
    )
    error.before = before
    return error
