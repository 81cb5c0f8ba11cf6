"""Do the results on disk still belong to this function?

If they do not, somebody must say what to do about them: make them anew, or keep them. Of a
workflow's answers so few are made anew without a question that it would cost more than they do.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from limpet.errors import FunctionChangedError
from limpet.fingerprints.identity import changed_parts
from limpet.run.planning.plan import Anew, named
from limpet.run.run_file import OnChange, RunFile

_MOST_VERSIONS = 10
MOST_ANSWERS = 100
MOST_SECONDS = 300.0
MOST_COST = 1.0
_WORDS = {"workflow": ("answers", "items"), "function": ("results", "inputs")}


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a function is: one hash, and the parts it is made of."""

    whole: str
    parts: dict[str, str]


class Settled(NamedTuple):
    """What counts after a change.

    Attributes:
        fingerprints: For each input, that of the function whose result counts.
        anew: What is made anew without asking; None: nothing is.
        changed: The names of what changed since that was made.
    """

    fingerprints: list[str]
    anew: Anew | None
    changed: list[str]


def small_redo(answers: int, read: Iterable[Mapping[str, Any]]) -> Anew | None:
    """Return what it takes to make answers anew; None: so much that a person is asked.

    Args:
        answers: How many.
        read: The facts of each, not looked at where there are too many.
    """
    if answers > MOST_ANSWERS:
        return None
    anew = took(read)
    return None if anew.seconds > MOST_SECONDS or anew.cost > MOST_COST else anew


def took(read: Iterable[Mapping[str, Any]]) -> Anew:
    """Return what answers took, by their facts. A cost that is not known does not count."""
    facts = list(read)
    seconds = round(math.fsum(one.get("seconds") or 0.0 for one in facts), 6)
    cost = round(math.fsum((one.get("usage") or {}).get("cost") or 0.0 for one in facts), 6)
    return Anew(len(facts), seconds, cost)


def settle_change(
    run_file: RunFile,
    now: Fingerprint,
    done_under: Callable[[str], set[int]],
    asked: int,
    on_change: OnChange | None,
    exempt: Collection[int] = (),
    stale_under: Callable[[str], Mapping[int, Collection[str]]] = lambda _: {},
    small: Callable[[Mapping[int, str]], Anew | None] = lambda _: None,
    what: Literal["workflow", "function"] = "function",
) -> Settled:
    """Find, for each input, the fingerprint of the function whose result counts.

    Args:
        run_file: What earlier sessions left; brought up to date.
        now: The function as it is.
        done_under: Which of the inputs have a result under a fingerprint.
        asked: How many inputs there are.
        on_change: What to do about results of another function.
        exempt: Inputs of which this is no question now: whatever result they have counts.
        stale_under: Which of the inputs have a result under a fingerprint that was made of files
            that say something else now, each with the files; of those nobody decided about.
        small: Given the inputs in question, each with the fingerprint of its result, returns what
            it takes to make them anew; None: so much that a person is asked.
        what: What changed, for people.

    Raises:
        FunctionChangedError: Some inputs have only those, and nobody ever said what to do.
    """
    known, decided = run_file.functions, run_file.decided
    here = done_under(now.whole)
    others = reversed([whole for whole in known if whole != now.whole])  # the latest first
    elsewhere = _elsewhere(others, done_under, here) if len(here) < asked else {}
    choice = on_change or decided.get(now.whole)
    in_question = {place: other for place, other in elsewhere.items() if place not in exempt}
    before: Mapping[str, str] | None = None
    files: list[str] = []
    done: dict[int, str] = {}
    if in_question and choice is None:
        before, done = known[next(reversed(in_question.values()))], dict(in_question)
    if on_change is None:
        kept = in_question if choice != "redo" else {}
        stale = _stale(stale_under, now.whole, here, kept)
        stale = {place: names for place, names in stale.items() if place not in exempt}
        files = sorted({name for names in stale.values() for name in names})
        done |= {place: kept.get(place, now.whole) for place in stale}
    # Of a version long ago, only that it was another is known.
    changed = [*(changed_parts(before, now.parts) if before else ()), *files]
    anew = small(done) if done else None
    if done and anew is None:
        error = _question(before is not None, changed, len(done), asked - len(exempt), what)
        error.files, error.before = files, before if before is not None else now.parts
        raise error
    if in_question and (on_change is not None or before is not None):
        decided.clear()  # what was kept once was another version's
    if in_question and on_change is not None:
        decided[now.whole] = on_change  # an interrupted run goes on as it was decided
    known.pop(now.whole, None)
    known[now.whole] = now.parts  # to the end: it is the latest now
    for other in list(known)[:-_MOST_VERSIONS]:
        known[other] = {}  # that there was one must stay: it has answers
    if choice != "keep":
        elsewhere = {place: elsewhere[place] for place in exempt if place in elsewhere}
    return Settled([elsewhere.get(place, now.whole) for place in range(asked)], anew, changed)


def _elsewhere(
    others: Iterable[str], done_under: Callable[[str], set[int]], here: set[int]
) -> dict[int, str]:
    found: dict[int, str] = {}
    for whole in others:
        found |= dict.fromkeys(done_under(whole) - here - found.keys(), whole)
    return found


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


def _question(
    is_other: bool,  # noqa: FBT001 - whether the code changed, or only files did
    changed: Sequence[str],
    done: int,
    asked: int,
    what: str,
) -> FunctionChangedError:
    results, inputs = _WORDS[what]
    since = f"since the {results} of {done:,} of {asked:,} {inputs} were made"
    told = named(changed)
    text = f"{told} changed {since}"
    if is_other:
        text = f"the {what} changed {since}" + (f": {told}" if told else "")
    return FunctionChangedError(
        text,
        hint='on_change="redo" makes them again (the old ones stay in the file); '
        'on_change="keep" keeps them and runs only what is missing',
    )
