"""Which built-in evaluators are there, by name?"""

from collections.abc import Callable, Mapping
from typing import Any

from limpet.evaluators.contains import contains
from limpet.evaluators.exact_match import exact_match, one_of
from limpet.evaluators.json_match import json_match
from limpet.evaluators.numeric import numeric
from limpet.evaluators.protocol import Evaluator
from limpet.evaluators.regex import regex
from limpet.evaluators.similarity import similarity
from limpet.evaluators.trajectory import trajectory
from limpet.text import did_you_mean, one_line

BUILT_INS: Mapping[str, Callable[..., Any]] = {
    create.__name__: create
    for create in (
        contains,
        exact_match,
        json_match,
        numeric,
        one_of,
        regex,
        similarity,
        trajectory,
    )
}


def built_in_for(thing: Any) -> Evaluator | None:
    """Return the built-in evaluator that `"exact_match"` or `limpet.exact_match` stands for.

    Returns None for anything but a string or the constructor of a built-in evaluator.

    Raises:
        TypeError: There is none of this name.
    """
    if isinstance(thing, str):
        if thing not in BUILT_INS:
            near = did_you_mean(thing, BUILT_INS)
            raise TypeError(
                f"{one_line(thing)!r} is not a built-in evaluator{near} (built in: "
                f"{', '.join(BUILT_INS)}; your own: give the function itself, not its name)"
            )
        thing = BUILT_INS[thing]
    elif not any(thing is create for create in BUILT_INS.values()):
        return None
    made: Evaluator = thing()
    return made
