"""May the second run pass: is it not worse than the first by more than a margin?"""

import math

from scipy import special

from limpet.errors import ScoresError
from limpet.stats.failures import paired_bounds
from limpet.stats.results import Gate
from limpet.stats.samples import Names, Range, Values

_ONE_SIDED = 0.95
_POWER = 0.80


def not_worse(
    a: Values,
    b: Values,
    *,
    margin: float,
    items: Names | None = None,
    groups: Names | None = None,
    range: Range = (0, 1),  # noqa: A002 - the word of eval.yml
) -> Gate:
    """Test whether b is worse than a by more than the margin (non-inferiority).

    "not worse": the one-sided 95% lower bound of mean(b) - mean(a) is above -margin. "worse": the
    upper one is below it. Otherwise the items do not decide it. The bounds are the ends of the 90%
    interval of `paired`; missing values (None, NaN) are bounds, as in `paired_bounds`.

    Args:
        a: The scores of the first run.
        b: The scores of the second, each beside that of the same item and trial.
        margin: The loss that would not matter, in the scores' own unit.
        items: The item of each pair, where items have several trials.
        groups: The group of each pair, where items come in groups.
        range: The lowest and highest score possible; None: any number is.

    Raises:
        ScoresError: The margin is negative, or the values cannot be used; see `paired_bounds`.
    """
    if not (math.isfinite(margin) and margin >= 0):
        raise ScoresError(f"margin={margin!r}: must be a finite number, 0 or more")
    level = 2 * _ONE_SIDED - 1
    found = paired_bounds(a, b, items=items, groups=groups, range=range, level=level)
    delta, low, high = found.delta, found.low, found.high
    if low > -margin:
        return Gate("not worse", delta, low, high, None)
    if high < -margin:
        return Gate("worse", delta, low, high, None)
    return Gate("inconclusive", delta, low, high, _to_decide(found.n, delta, low, high, -margin))


def _to_decide(n: int, delta: float, low: float, high: float, line: float) -> int | None:
    """Return how many items would put the bound on the right side of the line four times of five.

    A bound is z.95 standard errors away; to be decided at 80%, delta must be z.95 + z.80 of them
    away from the line; and a standard error shrinks with √n.
    """
    if delta == line:
        return None
    bound = delta - low if delta > line else high - delta
    needed = 1 + float(special.ndtri(_POWER) / special.ndtri(_ONE_SIDED))
    times = (needed * bound / (delta - line)) ** 2
    return max(math.ceil(n * times), n + 1)
