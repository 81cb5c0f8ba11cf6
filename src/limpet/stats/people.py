"""Does a judge agree with people, and what would its mean be if people had judged?"""

import math
from collections.abc import Hashable, Sequence

import numpy as np

from limpet.errors import ScoresError
from limpet.stats.intervals import in_range, proportion
from limpet.stats.results import Interval, Kappa
from limpet.stats.rule import quantile, wilson
from limpet.stats.samples import ROUNDING, Values, confidence, listed, numbered, scores

PPI = "prediction-powered (PPI++)"
_FEWEST_LABELS = 3
_Numbers = np.typing.NDArray[np.int64]


def agreement(a: Sequence[Hashable], b: Sequence[Hashable], *, level: float = 0.95) -> Interval:
    """Return the share of items both labelled alike, with Wilson's interval."""
    first, second = _numbered(a, b)
    return proportion(int((first == second).sum()), len(first), level=level)


def kappa(a: Sequence[Hashable], b: Sequence[Hashable], *, level: float = 0.95) -> Kappa:
    """Return Cohen's kappa, the agreement beyond chance, and its interval.

    κ = (p_o - p_e)/(1 - p_e), with p_o the observed agreement and p_e the agreement by chance from
    the labels' shares; standard error by Fleiss, Cohen and Everitt (1969). It is 0 when all agree,
    when all disagree and when one side uses only one label; then the ends come from Wilson's
    interval of p_o.

    Raises:
        ScoresError: There is nothing to compare, or both use the same single label throughout:
            kappa is undefined.
    """
    first, second = _numbered(a, b)
    n, kinds = len(first), int(max(first.max(), second.max())) + 1
    rows, columns = (np.bincount(given, minlength=kinds) / n for given in (first, second))
    same = first == second
    agreed, chance = float(same.mean()), float(rows @ columns)
    if chance >= 1:
        raise ScoresError(
            "kappa is undefined: both gave every item the same label",
            hint="Look at the agreement, or label items of other kinds too.",
        )
    value = min((agreed - chance) / (1 - chance), 1.0)
    z = float(quantile(math.inf, (1 - confidence(level)) / 2))
    diagonal = (1 - (rows + columns) * (1 - value))[first] ** 2
    others = (1 - value) ** 2 * (rows[second] + columns[first]) ** 2
    variance = np.where(same, diagonal, others).mean() - (value - chance * (1 - value)) ** 2
    if variance > ROUNDING:
        error = math.sqrt(float(variance) / n) / (1 - chance)
        low, high = value - z * error, value + z * error
    else:
        low, high = ((float(end) - chance) / (1 - chance) for end in wilson(agreed, n, z))
    return Kappa(value, max(low, -1.0), min(high, 1.0), n)


def _numbered(a: Sequence[Hashable], b: Sequence[Hashable]) -> tuple[_Numbers, _Numbers]:
    """Return the labels as numbers."""
    first, second = listed(a, "labels"), listed(b, "labels")
    if len(first) != len(second):
        raise ScoresError(f"{len(first)} labels against {len(second)}: they must be pairs")
    if not first:
        raise ScoresError("no labels: there is nothing to compare")
    numbers = numbered([*first, *second], 2 * len(first), "labels")
    assert numbers is not None
    return numbers[: len(first)], numbers[len(first) :]


def ppi_mean(
    judged_all: Values,
    judged_labelled: Values,
    labels: Values,
    *,
    range: tuple[float, float] = (0, 1),  # noqa: A002 - the word of eval.yml
    level: float = 0.95,
) -> Interval:
    """Return the mean people would have given: a judge scored all items, people labelled a few.

    θ = λ·mean(f over all) + mean(Y - λf over labelled) holds for any λ; the λ of least variance is
    cov(Y, f)/var(f), the labelled being among all (PPI++: Angelopoulos, Duchi and Zrnic 2023). With
    n labels it is shrunk to cov(Y, f)/(var(f) + ½/n), since a few labels flatter it. With r the
    residual Y - λf, V = var(r)/n + (λ²var(f) + 2λcov(f, r))/N. One squared unit joins the sum in
    var(r): labels that all agree do not make a judge perfect. Wilson's interval with
    n' = θ(1 - θ)/V and t(n - 1) stays in the range.

    Args:
        judged_all: The judge's scores of all items, the labelled included.
        judged_labelled: The judge's scores of the labelled items, drawn at random.
        labels: People's labels of them, in the same order.
        range: The lowest and highest possible score.
        level: The confidence.

    Raises:
        ScoresError: There are fewer than 3 labels, or the values cannot be used; see `interval`.
    """
    everyone = scores(judged_all, range)
    judged, people = scores(judged_labelled, range), scores(labels, range)
    n, whole = len(people), len(everyone)
    if n != len(judged) or n < _FEWEST_LABELS or n > whole:
        raise ScoresError(
            f"{n} labels, {len(judged)} of them judged, {whole} judged in total: every label needs "
            f"a judgement, with at least {_FEWEST_LABELS} labels and no more than judged in total"
        )
    spread = float(judged.var(ddof=1))
    both = float(np.cov(people, judged)[0, 1])
    trust = both / (spread + 0.5 / n)
    residual = people - trust * judged
    mean = trust * float(everyone.mean()) + float(residual.mean())
    mean = min(max(mean, 0.0), 1.0)
    squares = float(((residual - residual.mean()) ** 2).sum()) + 1
    variance = squares / max(n - 2, 1) / n
    variance += trust**2 * float(everyone.var()) / whole
    variance += 2 * trust * (both - trust * spread) / whole
    t = quantile(n - 1.0, (1 - confidence(level)) / 2)
    centre = (mean * n + 0.5) / (n + 1)
    low, high = wilson(centre, centre * (1 - centre) / variance, t)
    ends = in_range(range, mean, float(low), float(high))
    return Interval(*ends, PPI, n, lambda_=trust)
