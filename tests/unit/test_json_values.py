"""Values that are not plain JSON are stored, too."""

import datetime as dt
import enum
import json
import math
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from uuid import UUID

import numpy as np
import orjson
import pandas as pd
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.json_values import (
    MOST_LEVELS,
    NotPlainError,
    decode,
    encode,
    encode_canonical,
    encode_plain,
    from_plain,
    plain_size,
    to_plain,
)


def kept(value):
    encoded, marked = encode(value)
    json.loads(encoded, parse_constant=pytest.fail)  # always valid JSON: no NaN, no Infinity
    assert b"\n" not in encoded
    return decode(encoded, marked=marked)


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float


class Model(pydantic.BaseModel):
    name: str
    when: dt.date


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (dt.datetime(2026, 11, 14, 10, tzinfo=dt.UTC), "2026-11-14T10:00:00+00:00"),
        (dt.date(2026, 11, 14), "2026-11-14"),
        (dt.time(10, 30), "10:30:00"),
        (dt.timedelta(seconds=90), 90.0),
        (Decimal("1.10"), "1.10"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (PurePosixPath("a/b"), "a/b"),
        (Colour.RED, "red"),
        (Point(1, 2.5), {"x": 1, "y": 2.5}),
        (Model(name="m", when=dt.date(2026, 1, 2)), {"name": "m", "when": "2026-01-02"}),
        (np.int64(7), 7),
        (np.float64(0.5), 0.5),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
        (pd.Series([1, 2], index=["a", "b"]), {"a": 1, "b": 2}),
        ({7: "a", None: "b", True: "c"}, {"7": "a", "null": "b", "true": "c"}),
        ({dt.date(2026, 1, 2): "x"}, {"2026-01-02": "x"}),
        pytest.param({"b", "a"}, ["a", "b"], id="a set"),
        (ValueError("no"), {"type": "ValueError", "message": "no"}),
        ((1, (2, 3)), [1, [2, 3]]),
    ],
    ids=repr,
)
def test_what_a_fast_encoder_refuses_is_kept(value, expected):
    assert kept({"v": value}) == {"v": expected}


@pytest.mark.parametrize(
    "value",
    [
        2**64,
        -(2**200),
        pytest.param(10**5000, id="5001 digits"),
        "\ud800 alone",
        "\x85\u2028\x00",
        b"\x00\xff",
        math.inf,
        -math.inf,
        "~float:nan",
        "~~bytes:AA==",
        "~ not a marker",
    ],
    ids=repr,
)
def test_what_json_has_no_word_for_comes_back_as_it_was(value):
    assert kept({"v": [value]}) == {"v": [value]}


@pytest.mark.parametrize("value", [math.nan, np.float64("nan"), Point(1, math.nan)], ids=repr)
def test_nan_is_a_marked_text_and_never_null(value):
    encoded, marked = encode({"v": value})
    assert marked
    assert b"null" not in encoded
    assert b'"~float:nan"' in encoded


def test_two_keys_with_one_text_both_stay():
    assert kept({1: "number", "1": "text"}) == [[1, "number"], ["1", "text"]]


def test_what_has_no_json_form_is_said_with_its_type():
    with pytest.raises(NotPlainError, match="builtins.object has no JSON form"):
        encode({"v": object()})
    with pytest.raises(NotPlainError, match="a class"):
        encode([Point])


def test_a_value_that_holds_itself_is_refused():
    circle = []
    circle.append(circle)
    ring = {}
    ring["a"] = [ring]
    for value in (circle, ring):
        assert plain_size(value) is None
        with pytest.raises(NotPlainError, match="deep"):
            encode(value)


def test_values_nested_as_deep_as_promised_come_back():
    value = "x"
    for _ in range(MOST_LEVELS - 2):
        value = [value]
    assert kept(value) == value
    wide = 2**70
    for _ in range(MOST_LEVELS - 2):
        wide = {"k": wide}
    assert kept(wide) == wide


def test_an_object_whose_reading_fails_is_refused_and_not_raised_through():
    class Broken:
        def to_dict(self):
            raise OSError("gone")

    with pytest.raises(NotPlainError, match="OSError: gone"):
        encode(Broken())


def test_canonical_bytes_ignore_the_order_of_keys_only():
    assert encode_canonical({"a": 1, "b": [1, 2]}) == encode_canonical({"b": [1, 2], "a": 1})
    assert encode_canonical({"a": math.nan, "b": 1}) == encode_canonical({"b": 1, "a": math.nan})
    assert encode_canonical([1, 2]) != encode_canonical([2, 1])


def test_the_size_is_about_right_and_stops_looking_when_large():
    assert plain_size({"a": "x" * 100, "b": [1, 2.5, None, True]}) == pytest.approx(130, abs=20)
    assert plain_size({"a": ["x" * 30_000, "x" * 30_000, object()]}, 50_000) is None
    assert plain_size({"a": "x" * 60_000, "b": ["y" * 60_000]}, 50_000) >= 120_000
    many = [["x" * 1000] for _ in range(500)]
    assert 50_000 <= plain_size(many, 50_000) < 200_000
    assert plain_size({"a": np.float64(1)}) is None


class Marker(enum.Enum):
    NAN = "~float:nan"


class Wide(enum.IntEnum):
    ONE = 1


class Name(str):
    __slots__ = ()


PARTS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.uuids(),
    st.dates(), st.sampled_from([Colour.RED, Marker.NAN, Wide.ONE, Name("a"), Point(1, math.nan)]),
    st.sampled_from(["~", "~5 km", "~float:nan", "~~int:1", "null", "\ud800", b"raw", {1: 2}]),
)  # fmt: skip


@given(st.recursive(PARTS, lambda part: st.lists(part) | st.dictionaries(st.text(), part)))
def test_the_fast_encoder_changes_no_key_and_nothing_that_is_kept(value):
    is_plain = plain_size(value) is not None and encode_plain(value) is not None
    plain = to_plain(value)
    text = json.dumps(plain, allow_nan=False, separators=(",", ":"), sort_keys=True).encode()
    slow = encode_plain(plain, orjson.OPT_SORT_KEYS) or text
    marked = b"~" + slow if b'"~' in slow else slow
    fast = orjson.dumps(value, None, orjson.OPT_SORT_KEYS) if is_plain else marked
    assert encode_canonical(value) == fast
    assert repr(kept(value)) == repr(from_plain(json.loads(json.dumps(plain))))
