"""Is a wrong argument of `limpet.stats` said in plain words, never by NumPy?"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from limpet import stats
from limpet.errors import ScoresError

YES, NO = [1, 0, 1, 1, 0], [0, 0, 1, 1, 1]
NESTED, RAGGED = [[1, 0], [0, 1]], [[1], [1, 0]]


class Anything:
    """No list."""

    def __repr__(self) -> str:
        return "an object"


NO_LISTS: list[Any] = [None, 3, 0.5, "yes", b"yes", {"a": 1}, Anything(), np.array(1)]
NO_NUMBERS: list[Any] = [["a"], [None], [{}], NESTED, RAGGED, np.zeros((2, 2)), [1, "a"]]

of_values: dict[str, Callable[[Any], object]] = {
    "interval": stats.interval,
    "paired": lambda bad: stats.paired(YES, bad),
    "paired_bounds": lambda bad: stats.paired_bounds(bad, YES),
    "bounds": lambda bad: stats.bounds(bad, 1),
    "not_worse": lambda bad: stats.not_worse(bad, YES, margin=0.1),
    "these_questions": lambda bad: stats.these_questions(bad, items="aabb"),
    "paired_these_questions": lambda bad: stats.paired_these_questions(bad, bad, items=["a"]),
    "ppi_mean": lambda bad: stats.ppi_mean(YES, YES, bad),
    "helps_more": lambda bad: stats.helps_more(bad, ["a", "a", "b"]),
    "variance_parts": lambda bad: stats.variance_parts(bad, ["a", "a", "b"]),
    "holm": stats.holm,
    "benjamini_hochberg": stats.benjamini_hochberg,
}
of_names: dict[str, Callable[[Any], object]] = {
    "items": lambda bad: stats.interval(YES, items=bad),
    "groups": lambda bad: stats.interval(YES, groups=bad),
    "items of pairs": lambda bad: stats.paired(YES, NO, items=bad),
    "items of missing pairs": lambda bad: stats.paired_bounds(YES, [None, *NO[1:]], items=bad),
    "groups of missing pairs": lambda bad: stats.paired_bounds(YES, [None, *NO[1:]], groups=bad),
    "items of bounds": lambda bad: stats.bounds(YES, ["f"], items=bad),
    "groups of failures": lambda bad: stats.bounds(YES, 2, groups=YES, failed_groups=bad),
    "items of a gate": lambda bad: stats.not_worse(YES, NO, margin=0.1, items=bad),
    "labels": lambda bad: stats.agreement(bad, YES),
    "labels for kappa": lambda bad: stats.kappa(YES, bad),
}


@pytest.mark.parametrize("bad", [*NO_LISTS, *NO_NUMBERS], ids=repr)
@pytest.mark.parametrize("name", of_values)
def test_values_that_are_no_list_of_numbers_are_refused_in_words(name: str, bad: Any) -> None:
    with pytest.raises(ScoresError, match=r"must be|pairs|as many|too few|nothing"):
        of_values[name](bad)


@pytest.mark.parametrize("bad", [*filter(None, NO_LISTS), ["a"], [["a"]] * 5, [{}] * 5], ids=repr)
@pytest.mark.parametrize("name", of_names)
def test_names_that_fit_no_values_are_refused_in_words(name: str, bad: Any) -> None:
    with pytest.raises(ScoresError, match=r"must be|each (value )?needs one|pairs"):
        of_names[name](bad)


@pytest.mark.parametrize("bad", ["0..1", (0,), (0, 1, 2), (0, "1"), (None, None), 5, (0, True)])
def test_a_range_that_is_no_two_numbers_is_refused_in_words(bad: Any) -> None:
    with pytest.raises(ScoresError, match=re.escape("must be two numbers, like (1, 5)")):
        stats.interval(YES, range=bad)


@pytest.mark.parametrize("bad", ["95%", None, [0.95], 1, 0, 95])
def test_a_level_that_is_none_is_refused_in_words(bad: Any) -> None:
    with pytest.raises(ScoresError, match="level=.*must be"):
        stats.interval(YES, level=bad)


@pytest.mark.parametrize("bad", ["0.1", None, [0.1], -0.1, float("nan")])
def test_a_margin_that_is_no_number_is_refused_in_words(bad: Any) -> None:
    with pytest.raises(ScoresError, match="margin=.*must be"):
        stats.not_worse(YES, NO, margin=bad)


@pytest.mark.parametrize(
    "arguments",
    [
        ("5", "3", 1), (None, 3, 1), ([5, 5], [1, 2, 3], 1), (RAGGED, [1, 1], 1),
        (5, 3, "1"), (5, 3, None), (5, 3, 1.5), (5, 3, [1]), ([5, None], [1, 1], 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("function", [stats.pass_at_k, stats.pass_hat_k])
def test_trials_that_are_no_whole_numbers_are_refused_in_words(
    function: Callable[..., object], arguments: tuple[Any, ...]
) -> None:
    with pytest.raises(ScoresError, match="must be"):
        function(*arguments)


@pytest.mark.parametrize("bad", [("3", 5), (3, None), (1.5, 5), ([3], 5), (3, 0)])
def test_a_share_of_no_whole_numbers_is_refused_in_words(bad: tuple[Any, Any]) -> None:
    with pytest.raises(ScoresError, match="must be"):
        stats.proportion(*bad)


@pytest.mark.parametrize("bad", [["a", "b"], None, 3, {"a": "3"}, {"a": None}])
def test_counts_that_are_no_counts_are_refused_in_words(bad: Any) -> None:
    with pytest.raises(ScoresError, match="must"):
        stats.label_intervals(bad)
