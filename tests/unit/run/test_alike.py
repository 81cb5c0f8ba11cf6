"""Failures with one cause are alike, whatever differs from item to item; others are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.run.executing.guards import alike, without_particulars

SAME = [
    ("'choices'", "'answer'"),
    ("list index 3 is out of range", "list index 12 is out of range"),
    ("took 1.5 s", "took 20,000.25 s"),
    ("took -3 s", "took 1e-09 s"),
    ("only 5% of it", "only 12.5% of it"),
    ("no item 'it\\'s a' here", "no item 'b' here"),
    ('no item "x" here', "no item 'it’s y' here"),
    ("no item `x` here", "no item `y z` here"),
    ("no item “x” here", "no item “it is y” here"),
    ("no item ‘x’ here", "no item ‘it’s y’ here"),
    ("no item «x» here", "no item «y» here"),
    ("got b'\\x00a'", "got b'zz'"),
    ("got 'it's fine' back", "got 'no' back"),
    ("<Row object at 0x7f3a10>", "<Row object at 0x7fffde>"),
    ("request req_011CSHoEeqs failed", "request req_9xYz failed"),
    ("call 0f8fad5b-d9cb-469f-a165-70867728950e", "call 7c9e6679-7425-40de-944b-e07fc1f90ae7"),
    ("at 2024-05-01T10:00:00Z", "at 2025-12-24T23:59:59Z"),
    ("http://127.0.0.1:8080/items/1: no", "http://127.0.0.1:9090/items/22: no"),
    ("missing keys: 'a', 'b'", "missing keys: 'a'"),
    ("shape (3, 4) does not fit", "shape (3, 4, 5) does not fit"),
    ("finds nothing in: {'id': 1, 'x': [1, 2]}", "finds nothing in: {'id': 2, 'x': [{'y': 3}]}"),
    ('finds nothing in: \'{"id": "abc…', 'finds nothing in: \'{"id": "de…'),
    ("two\n  lines", "two lines"),
]
OTHER = [
    ("list index out of range", "pop from an empty list"),
    ("can't open it", "can't close it"),
    ("the users' data is wrong", "the users' data is missing"),
    ("no such file", "no such directory"),
    ("", "it broke"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_numbers_and_quoted_parts_make_no_difference(one: str, other: str) -> None:
    assert alike("transient", "E", one) == alike("transient", "E", other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_another_message_is_another_failure(one: str, other: str) -> None:
    assert alike("transient", "E", one) != alike("transient", "E", other)


def test_another_class_or_type_is_another_failure() -> None:
    texts = {alike("timeout", "E", "x"), alike("transient", "E", "x"), alike("transient", "F", "x")}
    assert len(texts) == 3


def test_what_is_left_is_readable() -> None:
    message = "item 'a' of 12: can't read request req_1x from http://host:80/v1"
    assert without_particulars(message) == "item … of …: can't read request … from http://host:…"


def test_a_message_and_the_part_of_it_that_is_kept_are_alike() -> None:
    message = "no answer in " + "x y 12 " * 10_000
    assert without_particulars(message) == without_particulars(message[:2_000])
    assert len(without_particulars(message)) <= 300


@pytest.mark.parametrize("piece", ["'", '"', "'a", "…", "(", "[…", "1,", "'\\", "‘", " ", "(1)"])
def test_a_hostile_message_gives_a_short_text(piece: str) -> None:
    assert len(without_particulars(piece * 100_000)) <= 300


@given(st.text(), st.integers(min_value=0))
def test_any_text_is_taken(text: str, number: int) -> None:
    assert "\n" not in without_particulars(text)
    assert without_particulars(f"{text} it broke {number}") == without_particulars(
        f"{text} it broke {number + 1}"
    )
