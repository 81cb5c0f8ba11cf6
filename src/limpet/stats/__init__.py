"""What the data supports: intervals, comparisons, gates, trials, judges against people."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limpet.stats.failures import bounds, paired_bounds
    from limpet.stats.gate import not_worse
    from limpet.stats.intervals import interval, label_intervals, proportion
    from limpet.stats.people import agreement, kappa, ppi_mean
    from limpet.stats.results import Gate, HelpsMore, Interval, Kappa, Paired
    from limpet.stats.trials import (
        helps_more,
        paired_these_questions,
        pass_at_k,
        pass_hat_k,
        these_questions,
        variance_parts,
    )
    from limpet.stats.two_runs import benjamini_hochberg, holm, paired

__all__ = [
    "Gate",
    "HelpsMore",
    "Interval",
    "Kappa",
    "Paired",
    "agreement",
    "benjamini_hochberg",
    "bounds",
    "helps_more",
    "holm",
    "interval",
    "kappa",
    "label_intervals",
    "not_worse",
    "paired",
    "paired_bounds",
    "paired_these_questions",
    "pass_at_k",
    "pass_hat_k",
    "ppi_mean",
    "proportion",
    "these_questions",
    "variance_parts",
]

_NAMES = {
    "failures": "bounds paired_bounds",
    "gate": "not_worse",
    "intervals": "interval label_intervals proportion",
    "people": "agreement kappa ppi_mean",
    "results": "Gate HelpsMore Interval Kappa Paired",
    "trials": (
        "helps_more paired_these_questions pass_at_k pass_hat_k these_questions variance_parts"
    ),
    "two_runs": "benjamini_hochberg holm paired",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    # The modules import NumPy and SciPy (0.3 s, 50 MB), so they are imported on first use.
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'limpet.stats' has no attribute {name!r}")
    value = getattr(import_module(f"limpet.stats.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
