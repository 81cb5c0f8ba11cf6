"""Two different inputs of a map never share a key, and equal ones always do."""

import copy
import datetime as dt
from collections import OrderedDict
from dataclasses import dataclass
from decimal import Decimal
from enum import IntFlag
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import limpet
from limpet.fingerprints.keys import digest, with_types
from limpet.json_values import to_plain

NAMES = ["~type", "~value", "~~type", "type", "a", "", "builtins.tuple", "~float:nan", "~bytes:YQ"]


@dataclass
class Row:
    a: Any = None


class Pair(NamedTuple):
    a: Any = None


class Open(BaseModel, extra="allow"):
    a: Any = None


class Flags(IntFlag):
    A = 1


names = st.sampled_from(NAMES)
hashable = st.recursive(
    names
    | st.sampled_from([None, True, 1, 1.0, float("inf"), b"a", Decimal("1.0"), Flags.A, Flags(8)])
    | st.sampled_from([PurePosixPath("a"), dt.date(2026, 1, 1), dt.timedelta(10**8, 0, 1)])
    | st.integers(0, 1),
    lambda inner: st.tuples(inner) | st.frozensets(inner, max_size=2),
    max_leaves=3,
)
values = st.recursive(
    hashable,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.lists(inner, max_size=2).map(tuple)
        | st.dictionaries(names, inner, max_size=3)
        | st.dictionaries(hashable, inner, max_size=2)
        | st.dictionaries(names, inner, max_size=2).map(OrderedDict)
        | inner.map(Row)
        | inner.map(Pair)
        | st.dictionaries(names.filter(str.isidentifier), inner).map(lambda more: Open(**more))
    ),
    max_leaves=6,
)


def key(value):
    return digest(with_types(value))


def shape(value):
    """Return what tells a value from every other, as nested tuples: its type and what it holds."""
    kind = type(value).__name__
    if isinstance(value, dict):
        pairs = [(shape(name), shape(part)) for name, part in value.items()]
        is_plain = type(value) is dict and all(isinstance(name, str) for name in value)
        return kind, *(sorted(pairs) if is_plain else pairs)
    if isinstance(value, frozenset):
        return kind, *sorted(map(shape, value))
    if isinstance(value, (list, tuple)):
        return kind, *map(shape, value)
    if isinstance(value, (Row, Open)):
        parts = vars(value) | (getattr(value, "__pydantic_extra__", None) or {})
        return kind, shape(parts)
    return kind, repr(value)


@given(values, values)
def test_different_inputs_have_different_keys_and_equal_ones_the_same(one, another):
    assert (key(one) == key(another)) == (shape(one) == shape(another))


@given(values)
def test_no_plain_data_has_the_key_of_what_it_imitates(value):
    for imitation in (with_types(value), to_plain(value)):
        assert (key(imitation) == key(value)) == (shape(imitation) == shape(value))


@given(values)
def test_a_copy_has_the_same_key(value):
    assert key(copy.deepcopy(value)) == key(value)


@pytest.mark.parametrize(
    ("one", "another"),
    [
        ((1,), {"~type": "builtins.tuple", "~value": [1]}),
        ({PurePosixPath("a")}, {"a"}),
        ({(1, 2)}, {frozenset({1, 2})}),
        (dt.timedelta(10**8, 0, 1), dt.timedelta(10**8, 0, 2)),
        (Flags(8), Flags(16)),
        (Open(b=1), Open(b=2)),
        (np.array([1], "int32"), np.array([1], "int64")),
        (np.zeros((0, 2)), np.zeros((0, 3))),
    ],
)
def test_a_map_calls_its_function_on_both(tmp_path, one, another):
    called = []
    limpet.map(called.append, [one], journal=tmp_path / "out.jsonl", version="1")
    limpet.map(called.append, [another], journal=tmp_path / "out.jsonl", version="1")
    assert len(called) == 2
