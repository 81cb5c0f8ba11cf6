"""The evaluators of strings: exact_match, one_of, contains, regex, similarity."""

import asyncio
import datetime as dt
import re
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from limpet.errors import LimpetError, PermanentError
from limpet.evaluators import Scored, contains, exact_match, one_of, regex, similarity
from limpet.evaluators.similarity import _measure
from limpet.shapes import Item


def score(evaluator, output, expected=None):
    (only,) = asyncio.run(evaluator.call(Scored(output, expected))).items()
    assert only[0] == "score"
    return only[1]


def value(evaluator, output, expected=None):
    return score(evaluator, output, expected).value


@dataclass
class City:
    name: str


@pytest.mark.parametrize(
    ("output", "expected", "equal"),
    [
        ("Paris", "Paris", True),
        (" Paris\n", "Paris", True),
        ("paris", "Paris", False),
        ("Paris.", "Paris", False),
        ("", "", True),
        ("  ", "", True),
        ("", "x", False),
        (None, "None", False),
        (None, "x", False),
        ("4", 4, True),
        (" 4 ", 4, True),
        (4, "4", True),
        ("4.0", 4, False),
        (1, 1.0, True),
        (1, 2, False),
        (True, 1, False),
        (0, False, False),
        (True, True, True),
        ("true", True, True),
        ("True", True, True),
        ("yes", True, False),
        (False, "false", True),
        ([1, "a "], [1.0, "a"], True),
        ((1, 2), [1, 2], True),
        ([1, 2], [2, 1], False),
        ([1], [1, 2], False),
        ([True], [1], False),
        (["1"], [1], False),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1}, {"a": 2}, False),
        ("[1]", [1], False),
        (City("Paris"), {"name": "Paris"}, True),
        (dt.date(2026, 1, 2), "2026-01-02", True),
        (np.int64(4), 4, True),
        (np.array([1, 2]), [1, 2], True),
        (object(), "x", False),
        ("é", "e\u0301", False),
    ],
)
def test_exact_match_by_default(output, expected, equal):
    assert value(exact_match(), output, expected) is equal
    assert value(one_of([expected]), output) is equal


@pytest.mark.parametrize(
    ("options", "output", "expected", "equal"),
    [
        ({"strip": False}, " a", "a", False),
        ({"casefold": True}, "STRASSE", "straße", True),
        ({"collapse_whitespace": True}, "a \n\tb", "a b", True),
        ({"collapse_whitespace": True, "strip": False}, " a", "a", False),
        ({"collapse_whitespace": True}, "ab", "a b", False),
        ({"strip_punctuation": True}, '"Paris".', "Paris", True),
        ({"strip_punctuation": True}, "**Paris**!", "(Paris)", True),
        ({"strip_punctuation": True}, "«Paris»", "Paris", True),
        ({"strip_punctuation": True}, "it's", "its", False),
        ({"strip_punctuation": True}, "3.14", "314", False),
        ({"strip_punctuation": True}, "-5", "5", False),
        ({"strip_punctuation": True}, ".5", "5", False),
        ({"strip_punctuation": True}, "50%", "50", False),
        ({"strip_punctuation": True}, "C#", "C", False),
        ({"strip_punctuation": True}, "?", "!", False),
        ({"strip_punctuation": True}, "", "", True),
        ({"unicode": "NFC"}, "é", "e\u0301", True),
        ({"unicode": "NFC"}, "ﬁ", "fi", False),
        ({"unicode": "NFKC"}, "ﬁ ２", "fi 2", True),
        ({"unicode": "NFC", "casefold": True}, "\u0130", "i\u0307", True),
    ],
)
def test_exact_match_forgives_what_it_is_told_to(options, output, expected, equal):
    assert value(exact_match(**options), output, expected) is equal
    assert value(one_of(**options), output, ["never this", expected]) is equal


def test_exact_match_says_what_it_got():
    assert (
        score(exact_match(), "Rome\u200b", "Rome").explanation
        == r"got 'Rome\u200b', expected 'Rome'"
    )
    assert score(exact_match(), "Rome", "Rome").explanation is None
    assert len(score(exact_match(), "x" * 10_000, "y").explanation) < 200


@pytest.mark.parametrize(
    ("output", "expected", "there"),
    [
        ("b", ["a", "b"], True),
        ("c", ["a", "b"], False),
        ("b", ("a", "b"), True),
        ("b", "b", True),
        (" b ", {"b"}, True),
        (2, [1, 2.0], True),
        (True, [1], False),
        (None, ["a"], False),
        ("", [""], True),
    ],
)
def test_one_of_takes_the_items_list(output, expected, there):
    assert value(one_of(), output, expected) is there


def test_one_of_takes_its_choices_over_the_items():
    assert value(one_of(["yes", "no"]), "no", "whatever") is True
    assert value(one_of(("yes", "no"), casefold=True), "NO") is True
    assert score(one_of(["yes", "no"]), "maybe").explanation == (
        "got 'maybe', expected one of ['yes', 'no']"
    )


def test_one_of_needs_choices():
    with pytest.raises(TypeError, match="choices='yes': must be a list"):
        one_of("yes")
    with pytest.raises(ValueError, match=r"choices=\[\]: must be at least one"):
        one_of([])
    with pytest.raises(PermanentError, match="is an empty list"):
        value(one_of(), "a", [])


@pytest.mark.parametrize(
    ("options", "output", "expected", "there"),
    [
        ({}, "It is Paris.", "Paris", True),
        ({}, "It is Paris.", "paris", False),
        ({"casefold": True}, "It is PARIS.", "paris", True),
        ({}, "a b", ["a", "b"], True),
        ({}, "a b", ["a", "c"], False),
        ({"all": False}, "a b", ["a", "c"], True),
        ({"all": False}, "a b", ["c", "d"], False),
        ({}, "a b", ("b", "a"), True),
        ({}, "", "a", False),
        ({}, None, "a", False),
        ({}, ["a"], "a", False),
        ({}, 142, "42", True),
        ({}, "it is 42", 42, True),
    ],
)
def test_contains(options, output, expected, there):
    assert value(contains(**options), output, expected) is there


def test_contains_says_what_is_missing():
    assert score(contains(), "a", ["a", "b", "c"]).explanation == "'b' is not in the output"
    assert score(contains(all=False), "a", ["b", "c"]).explanation == (
        "none of ['b', 'c'] is in the output"
    )
    assert score(contains(), None, "a").explanation == "there is no output"


@pytest.mark.parametrize("expected", ["", ["a", ""], [], [["a"]], {"a": 1}, True])
def test_contains_refuses_what_cannot_be_looked_for(expected):
    with pytest.raises(PermanentError, match="the item: its expected value"):
        value(contains(), "a", expected)


@pytest.mark.parametrize(
    ("evaluator", "output", "expected", "found"),
    [
        (regex(r"\d+"), "abc 12", None, True),
        (regex(r"\d+"), "abc", None, False),
        (regex(r"\d+", fullmatch=True), "12", None, True),
        (regex(r"\d+", fullmatch=True), "12 ", None, False),
        (regex("paris", flags=re.IGNORECASE), "PARIS", None, True),
        (regex(re.compile("paris", re.IGNORECASE)), "PARIS", None, True),
        (regex("(?i)paris"), "PARIS", None, True),
        (regex("a.b", flags=re.DOTALL), "a\nb", None, True),
        (regex(), "Paris, France", "^Paris", True),
        (regex(), "In Paris", "^Paris", False),
        (regex(flags=re.IGNORECASE), "PARIS", "paris", True),
        (regex("^$"), "", None, True),
        (regex(".*"), None, None, False),
        (regex(".*"), {"a": 1}, None, False),
        (regex("^4"), 42, None, True),
    ],
)
def test_regex(evaluator, output, expected, found):
    assert value(evaluator, output, expected) is found


def test_a_bad_pattern_is_an_error_where_it_is_given():
    with pytest.raises(ValueError, match=r"pattern='\(': is not a valid regular expression"):
        regex("(")
    with pytest.raises(TypeError, match="must be a regular expression"):
        regex(b"a")
    with pytest.raises(ValueError, match="LOCALE"):
        regex(flags=re.LOCALE)
    with pytest.raises(PermanentError, match="its expected value '\\(' cannot be used"):
        value(regex(), "a", "(")
    with pytest.raises(PermanentError, match="its expected value 3 cannot be used"):
        value(regex(), "a", 3)


METHODS = ("ratio", "token_sort", "token_set", "levenshtein", "bleu", "chrf")


@pytest.mark.parametrize("method", METHODS)
def test_similarity_is_one_for_equal_texts_and_little_for_others(method):
    evaluator = similarity(method=method)
    for text in ("", "a", "the cat sat on the mat", "日本語", "🙂"):
        assert value(evaluator, text, text) == 1.0
    assert value(evaluator, "the cat sat on the mat", "zzz qqq") < 0.3
    assert value(evaluator, "", "the cat") == 0.0
    assert 0.5 < value(evaluator, "the cat sat on a mat", "the cat sat on the mat") <= 1.0


@pytest.mark.parametrize(
    ("method", "output", "expected", "closeness"),
    [
        ("levenshtein", "kitten", "sitting", 1 - 3 / 7),
        ("ratio", "ab", "ac", 0.5),
        ("token_sort", "b a", "a b", 1.0),
        ("token_set", "a b c", "a b", 1.0),
        ("ratio", 12, "12", 1.0),
        ("ratio", "b", ["a", "b"], 1.0),
    ],
)
def test_similarity_has_the_measures_of_the_field(method, output, expected, closeness):
    assert value(similarity(method=method), output, expected) == pytest.approx(closeness)


def test_a_threshold_makes_it_a_bool_and_keeps_the_closeness():
    passed = score(similarity(threshold=0.5), "ab", "ac")
    assert (passed.value, passed.metadata) == (True, {"similarity": 0.5})
    assert passed.explanation == "similarity 0.500, threshold 0.5"
    assert value(similarity(threshold=0.51), "ab", "ac") is False
    assert value(similarity(threshold=0.5), None, "ac") is False


def test_an_output_that_is_no_text_is_similar_to_nothing():
    none = score(similarity(), None, "a")
    assert (none.value, none.explanation) == (0.0, "there is no output")
    assert score(similarity(), ["a"], "a").explanation == "the output is a list, not a string"


@pytest.mark.parametrize("method", ["ratio", "bleu"])
def test_without_the_extra_it_says_what_to_install(method, monkeypatch):
    _measure.cache_clear()
    for module in ("rapidfuzz.fuzz", "sacrebleu.metrics"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(LimpetError, match="similarity needs (rapidfuzz|sacrebleu)") as caught:
        similarity(method=method)
    assert caught.value.hint == "pip install 'limpet[metrics]'"


@pytest.mark.parametrize("evaluator", [exact_match, one_of, contains, regex, similarity])
def test_an_item_without_an_expected_value_is_an_error_and_not_a_zero(evaluator):
    with pytest.raises(PermanentError, match="^the item has no expected value"):
        value(evaluator(), "a", None)
    with pytest.raises(PermanentError, match="^item 'q1' has no expected value") as caught:
        asyncio.run(evaluator().call(Scored("a", item=Item("q1", "?"))))
    assert "expected" in caught.value.hint


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: exact_match(strip="no"), "strip='no': must be True or False"),
        (lambda: exact_match(casefold=1), "casefold=1: must be True or False"),
        (lambda: exact_match(unicode="NFD"), "unicode='NFD': must be one of 'NFC', 'NFKC', None"),
        (lambda: contains(all=None), "all=None: must be True or False"),
        (lambda: regex("a", fullmatch="x"), "fullmatch='x'"),
        (lambda: similarity(method="cosine"), "method='cosine': must be one of 'ratio', "),
        (lambda: similarity(threshold=2), "threshold=2: must be a number from 0 to 1"),
    ],
)
def test_an_option_that_cannot_be_is_named_with_what_can(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
