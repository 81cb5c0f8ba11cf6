"""Do the results on disk still belong to this function?

If not, the user decides whether to make them again or to keep them. A few cheap answers of a
workflow are made again without asking: the question would cost more than they do.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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


class Fingerprint(NamedTuple):
    """The fingerprint of a function: one hash, and the parts it covers."""

    whole: str
    parts: dict[str, str]


class Settled(NamedTuple):
    """Which results count after a change.

    Attributes:
        fingerprints: For each input, the fingerprint of the function whose result counts.
        anew: The answers made again without asking; None: there are none.
        changed: The names of what changed since they were made.
    """

    fingerprints: list[str]
    anew: Anew | None
    changed: list[str]


def small_redo(answers: int, read: Iterable[Mapping[str, Any]]) -> Anew | None:
    """Return the effort to make answers again; None: too much to do without asking.

    Their facts are not read if there are too many answers.
    """
    if answers > MOST_ANSWERS:
        return None
    anew = took(read)
    return None if anew.seconds > MOST_SECONDS or anew.cost > MOST_COST else anew


def took(read: Iterable[Mapping[str, Any]]) -> Anew:
    """Return the effort that answers took. An unknown cost counts as nothing."""
    answers = list(read)
    seconds = round(math.fsum(facts.get("seconds") or 0.0 for facts in answers), 6)
    costs = ((facts.get("usage") or {}).get("cost") or 0.0 for facts in answers)
    return Anew(len(answers), seconds, round(math.fsum(costs), 6))


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
        run_file: The run file to update.
        now: The function as it is now.
        done_under: Returns the inputs with a result under a fingerprint.
        asked: The number of inputs.
        on_change: What to do with results of another version.
        exempt: Inputs that need no decision now: any result they have counts.
        stale_under: Returns the inputs whose result under a fingerprint was made from files that
            changed without a decision, each with the files.
        small: Returns the effort to make the given inputs again, each with the fingerprint of its
            result; None: too much to do without asking.
        what: What changed, for messages.

    Raises:
        FunctionChangedError: Some inputs have only results of another version, and `on_change` was
            never given.
    """
    known, decided = run_file.functions, run_file.decided
    here = done_under(now.whole)
    others = reversed([whole for whole in known if whole != now.whole])  # latest first
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
    # The parts of old versions are not kept.
    changed = [*(changed_parts(before, now.parts) if before else ()), *files]
    anew = small(done) if done else None
    if done and anew is None:
        error = _question(before is not None, changed, len(done), asked - len(exempt), what)
        error.files, error.before = files, before if before is not None else now.parts
        raise error
    if in_question and (on_change is not None or before is not None):
        decided.clear()  # earlier decisions were about another version
    if in_question and on_change is not None:
        decided[now.whole] = on_change  # an interrupted run resumes with this decision
    known.pop(now.whole, None)
    known[now.whole] = now.parts  # moved to the end: it is the latest
    for other in list(known)[:-_MOST_VERSIONS]:
        known[other] = {}  # the fingerprint is kept: it has answers
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
    names = named(changed)
    text = f"{names} changed {since}"
    if is_other:
        text = f"the {what} changed {since}" + (f": {names}" if names else "")
    return FunctionChangedError(
        text,
        hint='on_change="redo" makes them again (the old results stay in the file); '
        'on_change="keep" keeps them and runs only what is missing',
    )
