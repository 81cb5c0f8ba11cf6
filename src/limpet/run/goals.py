"""At which half-widths of its scores does a run stop?"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from limpet.arguments import positive_number
from limpet.errors import LimpetError
from limpet.run.results.score_names import ScoreName, split_name
from limpet.text import did_you_mean

_ALLOWED = 'must map scores to half-widths, for example {"correct": 0.02}'


class Goal(NamedTuple):
    """The half-width of a score's 95% interval that is narrow enough.

    Attributes:
        name: The score.
        half_width: The half-width, in the score's own units.
    """

    name: ScoreName
    half_width: float

    def __str__(self) -> str:
        return f"{self.name} ± {self.half_width:g}"


def check_goals(stop_when: Any) -> None:
    """Check the option `stop_when`, as far as that is possible without the evaluators.

    Raises:
        TypeError: It has the wrong type.
        ValueError: A half-width is not allowed.
    """
    if stop_when is None:
        return
    if not isinstance(stop_when, Mapping) or not all(isinstance(name, str) for name in stop_when):
        raise TypeError(f"stop_when={stop_when!r}: {_ALLOWED}")
    for name, half_width in stop_when.items():
        positive_number(**{f"stop_when[{name!r}]": half_width})


def as_goals(
    stop_when: Mapping[str, float] | None, evaluators: Mapping[str, tuple[float, float] | None]
) -> list[Goal]:
    """Return the option `stop_when` as goals; empty: the run does all items.

    Args:
        stop_when: The option.
        evaluators: The range of each evaluator; None: it has said none.

    Raises:
        LimpetError: A half-width is so large that the first item reaches it.
        ValueError: It names a score that no evaluator gives.
    """
    goals = []
    for text, half_width in (stop_when or {}).items():
        name = split_name(text, evaluators)
        if name is None:
            near = did_you_mean(text, evaluators)
            raise ValueError(f"stop_when: unknown evaluator {text!r}{near}")
        low, high = evaluators[name.evaluator] or (-math.inf, math.inf)
        if half_width >= (high - low) / 2:
            raise LimpetError(
                f"stop_when: {text} ± {half_width:g}: no interval is wider, its range is {low:g} "
                f"to {high:g}",
                hint="name the half-width in the units of the score",
            )
        goals.append(Goal(name, float(half_width)))
    return goals
