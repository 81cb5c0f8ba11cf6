"""What the numbers should be, computed here from the literature and from nothing of Limpet's.

Wilson (1927); Tango (1998), by bisection on its score equation; McNemar (1947); mid-p (Fagerland,
Lydersen and Laake 2013); Holm (1979); Benjamini and Hochberg (1995); Cohen (1960); Angelopoulos,
Duchi and Zrnic (2023). Rule R is the one of the project's statistics page.
"""

import math
import statistics
from functools import cache

Z = 1.959963984540054  # 97.5%
Z_ONE_SIDED = 1.6448536269514722  # 95%


def t_quantile(df, p=0.975):
    from scipy import stats

    return float(stats.t.ppf(p, df))


def beta_quantile(p, a, b):
    from scipy import stats

    return float(stats.beta.ppf(p, a, b))


# ---- one mean -----------------------------------------------------------------------------------


def wilson(successes, n, z=Z):
    """Return Wilson's score interval; `n` may be an effective number of items."""
    p = successes / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def beta_rule(values):
    """Return the Bayesian bootstrap with half a pseudo-item at each bound."""
    a = len(values) + 1
    e = (sum(values) + 0.5) / a
    v = ((sum(x * x for x in values) + 0.5) / a - e * e) / (a + 1)
    t = e * (1 - e) / v - 1
    low = 0.0 if all(x == 0 for x in values) else beta_quantile(0.025, e * t, (1 - e) * t)
    high = 1.0 if all(x == 1 for x in values) else beta_quantile(0.975, e * t, (1 - e) * t)
    return low, high


def effective_wilson(values):
    """Return Wilson's interval at n_eff = m(1−m)n/s², with t(n−1) for z."""
    n, m = len(values), statistics.fmean(values)
    n_eff = m * (1 - m) * n / statistics.variance(values)
    return wilson(m * n_eff, n_eff, t_quantile(n - 1))


def rule_r(values, *, trials=1):
    """Return the interval of these item means, in [0, 1]."""
    if trials == 1 and all(x in {0, 1} for x in values):
        return wilson(sum(values), len(values))
    if any(x in {0, 1} for x in values):
        return beta_rule(values)
    return effective_wilson(values)


def scaled(rule, values, low, high, **more):
    """Return the interval of values in [low, high], by a rule for values in [0, 1]."""
    width = high - low
    return tuple(low + width * end for end in rule([(x - low) / width for x in values], **more))


def students_t(values):
    half = t_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean(values)
    return mean - half, mean + half


# ---- two runs -----------------------------------------------------------------------------------


def _tango_statistic(b, c, n, delta):
    a_ = 2 * n
    b_ = -b - c + (2 * n - b + c) * delta
    c_ = -c * delta * (1 - delta)
    q = (math.sqrt(max(0.0, b_ * b_ - 4 * a_ * c_)) - b_) / (2 * a_)
    variance = n * (2 * q + delta * (1 - delta))
    gap = b - c - n * delta
    if variance <= 0:
        return math.copysign(math.inf, gap) if gap else 0.0
    return gap / math.sqrt(variance)


@cache
def tango(better, worse, n, z=Z):
    """Return Tango's score interval of the paired difference (better − worse) / n."""

    def end(sign):
        inside, outside = (better - worse) / n, float(sign)
        for _ in range(200):
            middle = (inside + outside) / 2
            if abs(_tango_statistic(better, worse, n, middle)) <= z:
                inside = middle
            else:
                outside = middle
        return inside

    return end(-1), end(+1)


def mcnemar_score_p(better, worse):
    """Return the two-sided p of McNemar's score test; it never disagrees with Tango."""
    if better + worse == 0:
        return 1.0
    return math.erfc(abs(better - worse) / math.sqrt(better + worse) / math.sqrt(2))


def mcnemar_mid_p(better, worse):
    n, k = better + worse, min(better, worse)
    if better == worse:
        return 1.0 if n == 0 else 1 - math.comb(n, k) / 2**n
    tail = sum(math.comb(n, i) for i in range(k + 1)) / 2**n
    return 2 * tail - math.comb(n, k) / 2**n


def paired_r(base, new, low=0.0, high=1.0):
    """Return rule R on (d + 1) / 2 of the items' differences, mapped back."""
    width = high - low
    halves = [((y - x) / width + 1) / 2 for x, y in zip(base, new, strict=True)]
    return tuple(width * (2 * end - 1) for end in rule_r(halves, trials=2))


def smallest_seen(base, new):
    """Return the smallest difference that 80% power would have shown: 2.80 · SE(d)."""
    differences = [y - x for x, y in zip(base, new, strict=True)]
    return 2.80 * statistics.stdev(differences) / math.sqrt(len(differences))


def holm(ps):
    order = sorted(range(len(ps)), key=ps.__getitem__)
    adjusted, highest = [0.0] * len(ps), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, ps[place] * (len(ps) - rank)))
        adjusted[place] = highest
    return adjusted


# ---- trials, and people -------------------------------------------------------------------------


def pass_at_k(n, c, k):
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n, c, k):
    return math.comb(c, k) / math.comb(n, k)


def kappa(ours, theirs):
    """Return Cohen's kappa of two lists of labels."""
    n = len(ours)
    agreed = sum(a == b for a, b in zip(ours, theirs, strict=True)) / n
    chance = sum((ours.count(label) / n) * (theirs.count(label) / n) for label in {*ours, *theirs})
    return (agreed - chance) / (1 - chance)


def ppi(judged, labelled):
    """Return the prediction-powered mean: all the judge's scores, and (judge, person) pairs."""
    fs, ys = [f for f, _ in labelled], [y for _, y in labelled]
    n, rest = len(labelled), len(judged)
    spread = statistics.pvariance(judged)
    middle_f, middle_y = statistics.fmean(fs), statistics.fmean(ys)
    together = sum((f - middle_f) * (y - middle_y) for f, y in labelled) / max(1, n - 1)
    weight = 0.0 if spread == 0 else together / ((1 + n / rest) * spread)
    weight = min(1.0, max(0.0, weight))
    return weight * statistics.fmean(judged) + statistics.fmean(y - weight * f for f, y in labelled)
