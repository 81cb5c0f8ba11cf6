"""Constants, which Python keeps once, have the same form wherever they are used."""

import json

from hypothesis import given
from hypothesis import strategies as st

from limpet.fingerprints.walk import objects
from limpet.fingerprints.walk.collector import Collector
from limpet.fingerprints.walk.values import form_of_constant, is_constant

LONG = tuple(f"word {number}" for number in range(10_000))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
CONSTANTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.frozensets(inner, max_size=4),
    max_leaves=8,
).filter(is_constant)


def written(thing):
    return len(json.dumps(Collector().collect(thing).forms))


@given(CONSTANTS)
def test_a_constant_has_the_form_of_any_object_like_it(constant):
    walk, path = Collector(), "X"
    form = form_of_constant(constant, walk.normalizer)
    if isinstance(constant, (tuple, frozenset)):
        assert form == objects.form_of_object(walk, path, constant, named=False, depth=0)
    assert form == walk.form(path, constant) == walk.form("another", constant)


def test_a_long_tuple_is_written_once():
    def answer(question, uses=(LONG,)):
        return uses, question

    once = written(answer)
    answer.__defaults__ = ([LONG] * 100,)
    assert written(answer) < 2 * once


def test_tuples_of_tuples_of_the_same_tuple_are_written_once():
    def answer(question, uses=()):
        return uses, question

    for _ in range(40):  # written out, these would be 2 ** 40 elements
        answer.__defaults__ = ((answer.__defaults__, answer.__defaults__),)
    assert written(answer) < 100_000
