"""What holds of the evaluators whatever the values."""

import asyncio
import contextlib
import json
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from limpet.errors import PermanentError
from limpet.evaluators import (
    Scored,
    contains,
    exact_match,
    json_match,
    numeric,
    one_of,
    similarity,
    trajectory,
)
from limpet.evaluators.functions import as_scores
from limpet.shapes import Score


def value(evaluator, output, expected, **fields):
    call = evaluator.call(Scored(output, expected, **fields))
    with pytest.raises(StopIteration) as done:  # they wait for nothing: no event loop is needed
        call.send(None)
    return done.value.value["score"].value


normalisations = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            ("strip", "casefold", "collapse_whitespace", "strip_punctuation"), st.booleans()
        ),
        "unicode": st.sampled_from([None, "NFC", "NFKC"]),
    },
)
numbers = st.one_of(
    st.integers(-(10**12), 10**12),
    st.decimals(-(10**6), 10**6, places=3).map(float),
)
plain = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**60), 2**60),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=10),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)


@given(st.text(), normalisations)
def test_a_text_is_always_equal_to_itself(text, options):
    assert value(exact_match(**options), text, text) is True
    assert value(one_of(**options), text, ["other", text]) is True


@given(st.text(), st.text(), normalisations)
def test_equality_does_not_depend_on_the_side(one, other, options):
    evaluator = exact_match(**options)
    assert value(evaluator, one, other) is value(evaluator, other, one)


@given(st.text(max_size=5), st.text(max_size=5))
def test_texts_that_differ_are_not_equal_unless_told(one, other):
    assert value(exact_match(strip=False), one, other) is (one == other)


@given(st.text(), st.text(min_size=1), st.text())
def test_what_was_put_in_is_contained(before, text, after):
    assert value(contains(), before + text + after, text) is True


@given(numbers, numbers, st.sampled_from([0, 0.001, 0.5, 3, 1000]))
def test_numbers_are_equal_exactly_when_they_are_near_enough(one, other, tolerance):
    near = abs(Decimal(str(one)) - Decimal(str(other))) <= Decimal(str(tolerance))
    evaluator = numeric(tolerance=tolerance)
    assert value(evaluator, one, other) is near
    assert value(evaluator, f"The answer is {one}.", str(other)) is near


@given(st.integers(-(10**15), 10**15) | st.decimals(-(10**9), 10**9, places=2))
def test_separated_thousands_are_the_same_number(number):
    assert value(numeric(), f"about {number:,} of them", str(number)) is True


@given(st.text())
def test_no_text_breaks_the_reading_of_numbers(text):
    assert value(numeric(), text, 1) in (True, False)


def shuffled(data, draw):
    """Return the same data with the keys of each object in another order."""
    if isinstance(data, dict):
        return {key: shuffled(data[key], draw) for key in draw(st.permutations(list(data)))}
    return [shuffled(one, draw) for one in data] if isinstance(data, list) else data


@given(st.data(), plain)
def test_json_is_the_same_with_its_keys_in_any_order(data, document):
    assume(document is not None)
    other = shuffled(document, data.draw)
    for evaluator in (json_match(), json_match(subset=True), json_match(ordered=False)):
        assert value(evaluator, json.dumps(other), json.dumps(document)) is True
        if not isinstance(document, str):  # a text is read as JSON
            assert value(evaluator, other, document) is True


@given(st.data(), st.lists(plain, min_size=1, max_size=6))
def test_json_without_order_is_the_same_in_any_order(data, document):
    other = data.draw(st.permutations(document))
    assert value(json_match(ordered=False), json.dumps(other), document) is True


@given(plain, plain)
def test_json_match_is_never_a_crash_and_agrees_with_itself(one, other):
    assume(one is not None and other is not None)
    first, second = json.dumps(one), json.dumps(other)
    assert value(json_match(), first, second) is value(json_match(), second, first)


@pytest.mark.parametrize(
    "method", ["ratio", "token_sort", "token_set", "levenshtein", "bleu", "chrf"]
)
@given(one=st.text(max_size=40), other=st.text(max_size=40))
def test_similarity_is_from_0_to_1_and_1_for_equal_texts(method, one, other):
    evaluator = similarity(method=method)
    assert 0.0 <= value(evaluator, one, other) <= 1.0
    assert value(evaluator, one, one) == 1.0


traces = st.lists(st.sampled_from("abcd"), max_size=6)


@given(traces, traces.filter(bool))
def test_the_stricter_the_mode_the_lower_the_share(taken, expected):
    shares = {
        mode: value(trajectory(mode=mode), None, expected, trace=taken)
        for mode in ("exact", "in_order", "any_order")
    }
    assert 0 <= shares["in_order"] <= shares["any_order"] <= 1
    assert shares["exact"] is (taken == expected)
    if shares["exact"]:
        assert shares["in_order"] == 1


@given(traces.filter(bool), traces)
def test_steps_in_between_do_not_count_in_order(expected, others):
    taken = [*others[:3], *expected, *others[3:]]
    assert value(trajectory(mode="in_order"), None, expected, trace=taken) == 1.0


@given(
    st.one_of(st.none(), st.floats(), st.text(), plain, st.binary(), st.complex_numbers()),
)
def test_whatever_is_returned_is_a_score_or_an_error_that_says_so(returned):
    with contextlib.suppress(PermanentError):
        scores = as_scores(returned, "mine")
        assert scores
        assert all(isinstance(one, Score) for one in scores.values())


def test_a_call_is_also_what_an_event_loop_takes():
    assert asyncio.run(exact_match().call(Scored("a", "a"))) == {"score": Score(value=True)}
