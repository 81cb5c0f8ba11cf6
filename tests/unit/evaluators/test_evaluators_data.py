"""The evaluators of numbers, JSON and traces; and what all fingerprints have in common."""

import asyncio
import contextlib
import json
import pickle
import subprocess
import sys
import time
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest

import limpet
import limpet.evaluators
from limpet.errors import PermanentError
from limpet.evaluators import (
    Evaluator,
    Scored,
    contains,
    exact_match,
    json_match,
    numeric,
    one_of,
    regex,
    similarity,
    trajectory,
)
from limpet.evaluators.numeric import number_in
from limpet.nat_trace import trace_of
from limpet.shapes import Item


def score(evaluator, output=None, expected=None, **fields):
    return asyncio.run(evaluator.call(Scored(output, expected, **fields)))["score"]


# --- numbers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The answer is 1,234.5 €.", "1234.5"),
        ("42", "42"),
        ("first 3, then 5", "5"),
        ("#### 72", "72"),
        ("-5", "-5"),
        ("−5", "-5"),
        ("+5", "5"),
        ("-$5.20", "-5.20"),
        ("$-5", "-5"),
        ("€5", "5"),
        ("3-5", "5"),
        ("COVID-19", "19"),
        ("1e5", "100000"),
        ("1.5E-3", "0.0015"),
        ("-2e+2.", "-200"),
        ("50%", "50"),
        ("12.5 %", "12.5"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("it is...5", "5"),
        ("1,234,567", "1234567"),
        ("1.234.567,89", "1234567.89"),
        ("1.234,5", "1234.5"),
        ("1.234", "1.234"),
        ("3,5", "3.5"),
        ("0,123", "0.123"),
        ("1,2,3", "3"),
        ("1.2.3", "3"),
        ("1, 2, 3.", "3"),
        ("1\u00a0234,5", "1234.5"),
        ("1\u202f234", "1234"),
        ("5km", "5"),
        ("about 5 apples", "5"),
        ("٤٢", "42"),
        ("007", "7"),
        ("99999999999999999999", "99999999999999999999"),
        ("", None),
        ("none", None),
        ("H2O and gpt4", None),
        ("nan", None),
        ("inf", None),
        ("1e99999999999999999999", None),
    ],
)
def test_the_last_number_of_a_text(text, number):
    assert number_in(text, extract=True) == (None if number is None else Decimal(number))


@pytest.mark.parametrize(
    ("text", "number"),
    [("42", 42), (" -1,234.5 % ", -1234.5), ("5 €", 5), ("5 apples", None), ("x5", None)],
)
def test_without_extract_the_text_has_to_be_a_number(text, number):
    found = number_in(text, extract=False)
    assert found == (None if number is None else Decimal(str(number)))


@pytest.mark.parametrize(
    ("options", "output", "expected", "near"),
    [
        ({}, "It is 4.", 4, True),
        ({}, 4.0, "4", True),
        ({}, "4.01", 4, False),
        ({"tolerance": 0.1}, "0.4", 0.3, True),
        ({"tolerance": 0.1}, 0.4, 0.3, True),
        ({"tolerance": 0.1}, 0.41, 0.3, False),
        ({"relative": 0.01}, 101, 100, True),
        ({"relative": 0.01}, 102, 100, False),
        ({"relative": 0.01}, -101, -100, True),
        ({"tolerance": 5, "relative": 0.01}, 104, 100, True),
        ({}, np.float32(0.5), 0.5, True),
        ({}, np.int64(3), 3, True),
        ({}, Decimal("1.50"), "1.5", True),
        ({}, 10**400, 10**400, True),
        ({"tolerance": 1}, 10**400, 1, False),
        ({"relative": 1}, "1e999999999", "1e999999998", False),
        ({"extract": False}, "It is 4.", 4, False),
    ],
)
def test_numeric(options, output, expected, near):
    assert score(numeric(**options), output, expected).value is near


@pytest.mark.parametrize("output", ["none", "", None, True, [4], {"a": 4}, float("nan")])
def test_an_output_without_a_number_is_wrong_and_says_so(output):
    wrong = score(numeric(tolerance=9), output, 4)
    assert wrong.value is False
    assert wrong.explanation.startswith("no number in ")


@pytest.mark.parametrize("expected", ["none", "", True, [4], float("inf")])
def test_an_expected_value_without_a_number_is_an_error(expected):
    with pytest.raises(PermanentError, match="the item: its expected value .* contains no number"):
        score(numeric(), 4, expected)


def test_numeric_says_what_it_got():
    assert score(numeric(), "so 1,000", "999").explanation == "got 1000, expected 999"


@pytest.mark.parametrize(
    "options", [{"tolerance": -1}, {"relative": float("nan")}, {"tolerance": "1"}, {"extract": 1}]
)
def test_numeric_refuses_options_that_cannot_be(options):
    (name,) = options
    with pytest.raises((TypeError, ValueError), match=f"^{name}="):
        numeric(**options)


# --- JSON -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "output", "expected", "explanation"),
    [
        ({}, '{"a": 1, "b": [1, 2]}', {"b": [1, 2], "a": 1.0}, None),
        ({}, {"a": (1, 2)}, '{"a":[1,2]}', None),
        ({}, "null", "null", None),
        ({}, "[]", [], None),
        ({}, '"~float:nan"', ["~float:nan"], "$: got '~float:nan', expected ['~float:nan']"),
        ({}, '["~float:nan"]', ["~float:nan"], None),
        ({}, {"a": 1}, {"a": 2}, "$.a: got 1, expected 2"),
        ({}, {"a": True}, {"a": 1}, "$.a: got True, expected 1"),
        ({}, {"a": "1"}, {"a": 1}, "$.a: got '1', expected 1"),
        ({}, {"a": None}, {"a": 0}, "$.a: got None, expected 0"),
        ({}, {}, {"a": 1}, "$.a: is missing, expected 1"),
        ({}, {"a": 1, "b": 2}, {"a": 1}, "$.b: got 2, which is not expected"),
        ({}, {"a b": 1}, {"a b": 2}, "$['a b']: got 1, expected 2"),
        ({}, [{"x": [1, 2]}], [{"x": [1, 3]}], "$[0].x[1]: got 2, expected 3"),
        ({}, [1], [1, 2], "$: got 1 elements, expected 2"),
        ({}, [2, 1], [1, 2], "$[0]: got 2, expected 1"),
        ({}, {"a": []}, {"a": {}}, "$.a: got [], expected {}"),
        ({}, [float("nan")], [float("nan")], None),
        ({}, [float("inf")], [1], "$[0]: got inf, expected 1"),
        ({"tolerance": 1}, [float("inf")], [1], "$[0]: got inf, expected 1"),
        ({"ordered": False}, [2, 1], [1, 2], None),
        ({"ordered": False}, [1, 1, 2], [1, 2, 2], "$[2]: no element is 2"),
        ({"ordered": False}, [{"a": 1}, {"a": [3, 2]}], [{"a": [2, 3]}, {"a": 1}], None),
        ({"ordered": False, "tolerance": 1}, [1, 0], [1, 2], None),
        ({"ordered": False}, [1.0, 2], [2, 1], None),
        ({"ordered": False}, [{"id": 1, "a": 1}, {"a": 2}], [{"a": 2}, {"a": 1}], "$[1]: no elem"),
        ({"ordered": False, "ignore": ["id"]}, [{"id": 1}, {"b": 2}], [{"b": 2}, {}], None),
        ({"ordered": False, "subset": True}, [{"a": 1}, {"a": 1, "b": 2}], [{"a": 1}] * 2, None),
        ({"subset": True}, {"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"c": 1}}, None),
        ({"subset": True}, {"a": 1}, {"b": 1}, "$.b: is missing, expected 1"),
        ({"subset": True}, [{"a": 1, "b": 2}], [{"a": 1}], None),
        ({"subset": True}, [1, 2], [1], "$: got 2 elements, expected 1"),
        ({"tolerance": 0.1}, {"a": 0.4}, {"a": 0.3}, None),
        ({"tolerance": 0.1}, {"a": 0.5}, {"a": 0.3}, "$.a: got 0.5, expected 0.3"),
        ({"tolerance": 0.1}, [10**400], [0.5], f"$[0]: got {'1' + '0' * 78}…, expected 0.5"),
        ({"tolerance": 1}, [True], [1], "$[0]: got True, expected 1"),
        ({"ignore": ["id"]}, {"id": 1, "a": {"id": 2}}, {"a": {"id": 3}}, None),
        ({"ignore": ["$.a.id"]}, {"a": {"id": 2}}, {"a": {"id": 3}}, None),
        ({"ignore": ["$.id"]}, {"a": {"id": 2}}, {"a": {"id": 3}}, "$.a.id: got 2, expected 3"),
        ({"ignore": ["$[*].id"]}, [{"id": 1}, {"id": 2}], [{"id": 3}, {}], None),
        ({"ignore": ["$[0].id"]}, [{"id": 1}, {"id": 2}], [{"id": 3}, {}], "$[1].id: got 2, which"),
    ],
)
def test_json_match(options, output, expected, explanation):
    matched = score(json_match(**options), output, expected)
    assert matched.value is (explanation is None)
    if explanation is None:
        assert matched.explanation is None
    else:
        assert matched.explanation.startswith(explanation)


@pytest.mark.parametrize("output", ["Sure! {}", "", "{", "NaN", "[1e5, Infinity]", object(), str])
def test_an_output_that_is_not_json_is_wrong_and_says_why(output):
    wrong = score(json_match(), output, {"a": 1})
    assert wrong.value is False
    assert wrong.explanation.startswith("the output is not JSON: ")


def test_no_output_is_json_null():
    assert score(json_match(), None, "null").value is True
    assert score(json_match(), None, "1").explanation == "$: got None, expected 1"


def test_an_expected_value_that_is_not_json_is_an_error():
    with pytest.raises(PermanentError, match="its expected value 'Paris' is not JSON"):
        score(json_match(), "{}", "Paris")
    with pytest.raises(PermanentError, match="no expected value"):
        score(json_match(), "{}", None)


def test_json_nested_beyond_measure_is_no_crash():
    deep = "[" * 100_000 + "]" * 100_000
    assert score(json_match(), deep, "[]").value is False
    with pytest.raises(PermanentError):
        score(json_match(), "[]", deep)
    for levels in (200, 600, 900):
        deep = "[" * levels + "]" * levels
        with contextlib.suppress(PermanentError):  # it may say so; how deep is too deep is Python's
            assert score(json_match(), deep, deep).value is True


def test_a_long_list_without_order_takes_no_long_time():
    rows = [{"id": number, "text": str(number)} for number in range(5000)]
    start = time.process_time()
    assert score(json_match(ordered=False), rows[::-1], rows).value is True
    assert time.process_time() - start < 2  # pair by pair it would be a minute


def test_json_match_refuses_options_that_cannot_be():
    with pytest.raises(TypeError, match=r"ignore='id': must be a list of strings, for example"):
        json_match(ignore="id")
    with pytest.raises(TypeError, match="ignore=3: must be a list of strings"):
        json_match(ignore=3)
    with pytest.raises(TypeError, match="ignore: must contain only strings, not 3"):
        json_match(ignore=[3])
    with pytest.raises(ValueError, match="tolerance=-1"):
        json_match(tolerance=-1)
    with pytest.raises(TypeError, match="ordered=None"):
        json_match(ordered=None)


# --- traces --------------------------------------------------------------------------------


def nat(name, event_type="TOOL_END"):
    """Return a step as NAT writes it."""
    return {
        "parent_id": "root",
        "function_ancestry": {"function_name": "agent", "name": "not this one"},
        "payload": {"event_type": event_type, "name": name, "data": {"input": "x"}},
    }


@pytest.mark.parametrize(
    ("mode", "taken", "expected", "value", "explanation"),
    [
        ("exact", "abc", "abc", True, None),
        ("exact", "ab", "abc", False, "event 3: 'c' is missing"),
        ("exact", "abc", "ab", False, "event 3: got 'c', which is not expected"),
        ("exact", "acb", "abc", False, "event 2: got 'c', expected 'b'"),
        ("exact", "", "", True, None),
        ("exact", "a", "", False, "event 1: got 'a', which is not expected"),
        ("in_order", "axbyc", "abc", 1.0, None),
        ("in_order", "bca", "abc", 2 / 3, "'a' is missing"),
        ("in_order", "acb", "abc", 2 / 3, None),
        ("in_order", "", "abc", 0.0, "'a' is missing"),
        ("in_order", "aab", "aab", 1.0, None),
        ("in_order", "ab", "aab", 2 / 3, "'a' is missing"),
        ("any_order", "cba", "abc", 1.0, None),
        ("any_order", "cxa", "abc", 2 / 3, "'b' is missing"),
        ("any_order", "a", "aa", 0.5, "'a' is missing"),
        ("any_order", "", "ab", 0.0, "'a' is missing"),
    ],
)
def test_trajectory(mode, taken, expected, value, explanation):
    found = score(trajectory(mode=mode), expected=list(expected), trace=list(taken))
    assert (found.value, type(found.value)) == (value, type(value))
    if (mode, taken) == ("in_order", "acb"):
        assert found.explanation in ("'b' is missing", "'c' is missing")
    else:
        assert found.explanation == explanation


@pytest.mark.parametrize(
    "trace",
    [
        ["search", "answer"],
        [{"name": "search"}, {"name": "answer", "input": 3}],
        [nat("search"), nat("answer")],
        [nat("llm", "LLM_END"), nat("search", "TOOL_START"), nat("search"), nat("answer")],
        [
            {"name": "search", "event_type": "TOOL_END"},
            {"name": "x", "event_type": "LLM_END"},
            {"name": "answer", "event_type": None},
        ],
        [nat(None, "LLM_END"), "search", {"payload": "text", "name": "answer"}],
        [SimpleNamespace(model_dump=lambda: nat("search")), nat("answer")],
        [
            {"kind": "model", "name": "big"},
            {"kind": "tool", "name": "search", "phase": "start", "started": 1.0},
            {"kind": "tool", "name": "search", "started": 1.0, "ended": 2.0},
            {"kind": "tool", "name": "answer"},
        ],
        [*trace_of([nat("big", "LLM_END"), nat("search", "TOOL_START"), nat("search")]), "answer"],
        [
            {"role": "user", "content": "when?"},
            {"role": "assistant", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}},
                {"id": "c2", "type": "function", "function": {"name": "answer", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "name": "search", "content": "now"},
            {"role": "assistant", "content": "now"},
        ],
    ],
)  # fmt: skip
def test_an_event_may_be_a_text_a_dict_a_message_or_one_of_nats(trace):
    assert score(trajectory(), expected=["search", "answer"], trace=trace).value is True
    assert score(trajectory(), expected=trace, trace=["search", "answer"]).value is True


def test_which_types_and_which_key_count_is_the_users_to_say():
    trace = [nat("plan", "LLM_END"), nat("search")]
    assert score(trajectory(kinds=None), expected=["plan", "search"], trace=trace).value is True
    assert score(trajectory(kinds=["model"]), expected=["plan"], trace=trace).value is True
    tools = [{"tool": "search"}, {"tool": 2}]
    assert score(trajectory(key="tool"), expected=["search", "2"], trace=tools).value is True


@pytest.mark.parametrize(
    "column", [["a", "b"], '["a", "b"]', '[{"name": "a"}, {"name": "b"}]', ("a", "b")]
)
def test_the_expected_events_stand_in_the_items_column(column):
    item = Item("q1", "?", "the answer", {"expected_trace": column, "way": ["x"]})
    scored = {"expected": item.expected, "item": item, "trace": ["a", "b"]}
    assert score(trajectory(), **scored).value is True
    assert score(trajectory(expected_column="way"), **scored).value is False


@pytest.mark.parametrize("row", [{}, {"expected_trace": None}])
def test_without_a_column_the_expected_list_counts(row):
    item = Item("q1", "?", ["a"], row)
    assert score(trajectory(), expected=item.expected, item=item, trace=["a"]).value is True


@pytest.mark.parametrize(
    ("options", "expected", "row", "message"),
    [
        ({}, None, {}, "item 'q1' has no expected value"),
        ({}, "the answer", {}, "no column 'expected_trace'.*'the answer'"),
        ({}, "the answer", {"expected_trace": " "}, "no expected value"),
        ({}, None, {"expected_trace": "a, b"}, "must be a JSON list, not 'a, b'"),
        ({}, None, {"expected_trace": '{"a": 1}'}, "no expected value"),
        ({}, [{"tool": "a"}], {}, "expected: event 1, {'tool': 'a'}, has no 'name'"),
        ({}, [3], {}, "event 1, 3, has no 'name'"),
        ({}, [object], {}, "event 1, .*has no 'name'"),
        ({}, [nat("a", "LLM_END")], {}, r"no expected event is of kinds=\('tool',\)"),
        ({"mode": "in_order"}, [], {}, "no expected value to score against"),
        ({"mode": "any_order"}, [], {}, "no expected value to score against"),
    ],
)
def test_events_that_cannot_be_compared_are_an_error_and_not_a_zero(
    options, expected, row, message
):
    item = Item("q1", "?", expected, row)
    with pytest.raises(PermanentError, match=message):
        score(trajectory(**options), expected=expected, item=item, trace=["a"])


def test_an_event_without_a_name_is_an_error():
    with pytest.raises(PermanentError, match="the trace: event 2, {}, has no 'name'"):
        score(trajectory(), expected=["a"], trace=["a", {}])


def test_trajectory_refuses_options_that_cannot_be():
    with pytest.raises(ValueError, match="mode='loose': must be one of 'exact'"):
        trajectory(mode="loose")
    with pytest.raises(TypeError, match="kinds='tool': must be a list"):
        trajectory(kinds="tool")
    with pytest.raises(ValueError, match=r"kinds=\(\): must name at least one kind"):
        trajectory(kinds=())


# --- all of them ----------------------------------------------------------------------------

DIFFERENT = [
    "exact_match()",
    "exact_match(strip=False)",
    "exact_match(casefold=True)",
    "exact_match(collapse_whitespace=True)",
    "exact_match(strip_punctuation=True)",
    "exact_match(unicode='NFC')",
    "exact_match(unicode='NFKC')",
    "one_of()",
    "one_of(['a'])",
    "one_of(['a', 1])",
    "one_of(['a'], casefold=True)",
    "contains()",
    "contains(casefold=True)",
    "contains(all=False)",
    "regex()",
    "regex('a')",
    "regex('a', fullmatch=True)",
    "regex('a', flags=2)",
    "numeric()",
    "numeric(tolerance=0.1)",
    "numeric(relative=0.1)",
    "numeric(extract=False)",
    "json_match()",
    "json_match(ignore=['a'])",
    "json_match(ordered=False)",
    "json_match(tolerance=1)",
    "json_match(subset=True)",
    "similarity()",
    "similarity(method='bleu')",
    "similarity(threshold=0.5)",
    "trajectory()",
    "trajectory(mode='in_order')",
    "trajectory(key='tool')",
    "trajectory(kinds=None)",
    "trajectory(expected_column='way')",
]
FACE = {name: getattr(limpet.evaluators, name) for name in limpet.evaluators.__all__}


def made(source):
    return eval(source, dict(FACE))  # noqa: S307 - the lines above


def test_other_options_are_another_fingerprint_and_equal_ones_the_same():
    prints = [json.dumps(made(one).fingerprint) for one in DIFFERENT]
    assert len(set(prints)) == len(DIFFERENT)
    assert prints == [json.dumps(made(one).fingerprint) for one in DIFFERENT]


def test_what_does_not_change_a_score_does_not_change_the_fingerprint():
    import re

    assert exact_match(name="strict").fingerprint == exact_match().fingerprint
    assert json_match(ignore=["b", "a", "a"]) == json_match(ignore=["a", "b"])
    assert trajectory(kinds=["tool", "model"]).fingerprint == (
        trajectory(kinds=["model", "tool"]).fingerprint
    )
    assert regex(re.compile("a")).fingerprint == regex("a").fingerprint
    assert one_of({"a", "b"}).fingerprint == one_of(["a", "b"]).fingerprint
    assert numeric(tolerance=1).fingerprint == numeric(tolerance=1.0).fingerprint


def test_fingerprints_are_pinned():
    # If one of these changes, that evaluator scores everything again: raise its version on purpose.
    assert exact_match().fingerprint == {"exact_match": "2cea2b94d11483a744b071d1aef981eb"}
    assert numeric(tolerance=0.5).fingerprint == {"numeric": "c7367866cd24941768caa84a0d9f3f00"}
    assert json_match(ignore=["id"]).fingerprint == {
        "json_match": "de1dc11e05e0eb961edd3f3cc8fb4f88"
    }


def test_fingerprints_are_the_same_in_every_process():
    script = (
        "import json, sys; from limpet.evaluators import *\n"
        "print(json.dumps([eval(one).fingerprint for one in json.load(sys.stdin)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(DIFFERENT),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [made(one).fingerprint for one in DIFFERENT]


@pytest.mark.parametrize("source", DIFFERENT)
def test_each_is_an_evaluator_that_calls_nobody_and_can_be_sent_away(source):
    evaluator = made(source)
    assert isinstance(evaluator, Evaluator)
    assert evaluator.name == source.partition("(")[0]
    assert evaluator.endpoint is None
    again = pickle.loads(pickle.dumps(evaluator))
    assert again == evaluator
    assert again.fingerprint == evaluator.fingerprint


def test_each_takes_another_name():
    for make in (exact_match, one_of, contains, regex, numeric, json_match, similarity, trajectory):
        assert make(name="other").name == "other"


def test_all_names_exactly_what_can_be_had():
    face = limpet.evaluators
    assert face.__all__ == sorted(face.__all__, key=lambda name: (not name.isupper(), name))
    assert all(getattr(face, name) is not None for name in face.__all__)


def test_importing_the_evaluators_imports_no_metrics():
    script = "import sys, limpet.evaluators; print({'rapidfuzz', 'sacrebleu'} & {*sys.modules})"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "set()\n"


@pytest.mark.parametrize(
    ("path", "output"),
    [
        ("$.meta.id", {"meta": {"id": 2, "x": 1}}),
        ("$['meta'][\"id\"]", {"meta": {"id": 2, "x": 1}}),
        ("$.meta", {"meta": 5}),
        ("$ref", {"meta": {"id": 1, "x": 1}}),  # a key, not a path
    ],
)
def test_a_path_may_be_written_in_brackets(path, output):
    expected = {"meta": {"id": 1, "x": 1}}
    assert score(json_match(ignore=[path]), output, expected).value is True


@pytest.mark.parametrize("path", ["$.[", "$.", "$..id", "$.items[0]", "$.items[*]", "$.my-key"])
def test_a_path_that_could_never_match_is_refused(path):
    with pytest.raises(ValueError, match="is not a path to a key"):
        json_match(ignore=["id", path])


def test_a_kind_or_a_column_of_a_trajectory_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="unknown kind 'tols'; .* did you mean 'tool'"):
        trajectory(kinds=["tols"])
    with pytest.raises(TypeError, match="expected_column=3: must be a string"):
        trajectory(expected_column=3)
    with pytest.raises(ValueError, match="key='': must not be empty"):
        trajectory(key="")


def test_the_longest_name_fits_all_files_of_an_evaluator(tmp_path):
    name = "a" * 200
    rows = [{"question": "x", "answer": "x"}]
    for answer in ("one", "two"):
        column = tmp_path / "run" / f"{name}_output.jsonl"
        limpet.evaluate(rows, lambda question: question, {name: exact_match()}, tmp_path / "run")
        assert column.exists(), answer
        with column.open("a") as file:
            file.write("torn")
    assert len(list((tmp_path / "run" / "torn").iterdir())) == 1
    with pytest.raises(ValueError, match="must have at most 200 characters, not 201"):
        exact_match(name="a" * 201)
