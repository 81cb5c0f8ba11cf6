"""Several questions at once: which of these p values still count?"""

import numpy as np

from limpet.errors import ScoresError
from limpet.stats.samples import Floats, Values, floats


def holm(ps: Values) -> list[float]:
    """Return p values adjusted so that any false alarm among them is as rare as for one.

    For "which of these metrics moved". The i-th smallest of m becomes the largest of
    (m - j + 1)·p_j over j ≤ i (Holm 1979).
    """
    p = _checked(ps)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return _in_order(steps, order)


def benjamini_hochberg(ps: Values) -> list[float]:
    """Return p values adjusted so that few of those that count are false alarms.

    For slices of a dataset. The i-th smallest of m becomes the smallest of m/j·p_j over j ≥ i
    (Benjamini and Hochberg 1995).
    """
    p = _checked(ps)
    order = np.argsort(p, kind="stable")
    ratios = p[order] * len(p) / np.arange(1, len(p) + 1)
    steps = np.minimum.accumulate(ratios[::-1])[::-1]
    return _in_order(np.maximum(steps, p[order]), order)  # p·m/m may round to less than p


def _checked(ps: Values) -> Floats:
    p = floats(ps, "p values")
    if not ((p >= 0) & (p <= 1)).all():
        raise ScoresError("p values must be numbers from 0 to 1")
    return p


def _in_order(steps: Floats, order: np.typing.NDArray[np.intp]) -> list[float]:
    adjusted = np.empty_like(steps)
    adjusted[order] = np.minimum(steps, 1.0)
    return [float(one) for one in adjusted]
