"""By how much do the cost and the latency of two runs differ?"""

import numpy as np

from limpet import stats
from limpet.run.comparing.pairs import Pairs
from limpet.run.comparing.results import AmountDifference, Amounts
from limpet.run.reading.score_table import Floats


def latency(pairs: Pairs) -> AmountDifference | None:
    """Return by how much the seconds of an answer differ; None: there are no pairs."""
    return _difference(pairs, pairs.base.table.seconds, pairs.new.table.seconds)


def cost(pairs: Pairs) -> AmountDifference | None:
    """Return by how much the cost of an answer differs; None: it is not known."""
    return _difference(pairs, pairs.base.table.costs, pairs.new.table.costs)


def _difference(pairs: Pairs, base: Floats, new: Floats) -> AmountDifference | None:
    trials = min(base.shape[1], new.shape[1])
    a = base[pairs.base_rows[pairs.common], :trials]
    b = new[pairs.new_rows[pairs.common], :trials]
    there = ~(np.isnan(a) | np.isnan(b))
    if not there.any():
        return None
    items = np.nonzero(there)[0]
    found = stats.paired(a[there], b[there], items=items if trials > 1 else None, range=None)
    return AmountDifference(
        found.n, _amounts(a[there]), _amounts(b[there]), found.delta, found.low, found.high
    )


def _amounts(values: Floats) -> Amounts:
    median, p95 = np.quantile(values, [0.5, 0.95])
    return Amounts(float(values.sum()), float(values.mean()), float(median), float(p95))
