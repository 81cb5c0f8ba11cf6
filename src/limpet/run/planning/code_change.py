"""Do the results on disk still belong to this function?"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from limpet.errors import FunctionChangedError
from limpet.fingerprints.identity import changed_parts
from limpet.run.planning.plan import named

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
    stale_under: Callable[[str], Mapping[int, Collection[str]]] = lambda _: {},
) -> list[str]:
    """Return, for each input, the fingerprint of the function whose result counts.

    Args:
        about: What the journal knows of earlier runs; brought up to date.
        now: The function as it is.
        done_under: Which of the inputs have a result under a fingerprint.
        asked: How many inputs there are.
        on_change: What to do about results of another function.
        exempt: Inputs of which this is no question now: whatever result they have counts.
        stale_under: Which of the inputs have a result under a fingerprint that was made of files
            that say something else now, each with the files; of those nobody decided about.

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
    before: Mapping[str, str] | None = None
    files: list[str] = []
    done: set[int] = set()
    if in_question and choice is None:
        before, done = known[next(reversed(in_question.values()))], {*in_question}
    if on_change is None:
        others = in_question if choice != "redo" else {}
        stale = _stale(stale_under, now.whole, here, others)
        stale = {place: names for place, names in stale.items() if place not in exempt}
        files = sorted({name for names in stale.values() for name in names})
        done |= stale.keys()
    if done:
        raise _changed(before, now, files, len(done), asked - len(exempt))
    if in_question and on_change is not None:
        decided.clear()  # what was kept once was another version's
        decided[now.whole] = on_change  # an interrupted run goes on as it was decided
    known.pop(now.whole, None)
    known[now.whole] = now.parts  # to the end: it is the latest now
    for other in list(known)[:-_MOST_VERSIONS]:
        known[other] = {}  # that there was one must stay: it has answers
    if choice != "keep":
        elsewhere = {place: elsewhere[place] for place in exempt if place in elsewhere}
    return [elsewhere.get(place, now.whole) for place in range(asked)]


def _stale(
    stale_under: Callable[[str], Mapping[int, Collection[str]]],
    now: str,
    here: Collection[int],
    elsewhere: Mapping[int, str],
) -> dict[int, Collection[str]]:
    found = {place: files for place, files in stale_under(now).items() if place in here}
    for whole in set(elsewhere.values()):
        others = stale_under(whole).items()
        found |= {place: files for place, files in others if elsewhere.get(place) == whole}
    return found


def _changed(
    before: Mapping[str, str] | None,
    now: Fingerprint,
    files: Sequence[str],
    done: int,
    asked: int,
) -> FunctionChangedError:
    since = f"since the results of {done:,} of {asked:,} inputs were made"
    if before is None:
        text = f"{named(files)} changed {since}"
    else:
        # Of a version long ago, only that it was another is known.
        told = named([*(changed_parts(before, now.parts) if before else ()), *files])
        text = f"the function changed {since}" + (f": {told}" if told else "")
    error = FunctionChangedError(
        text,
        hint='on_change="redo" makes them again (the old ones stay in the file); '
        'on_change="keep" keeps them and runs only what is missing',
    )
    error.files = files
    error.before = before if before is not None else now.parts
    return error
