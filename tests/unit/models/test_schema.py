"""A reply is checked as strictly as jsonschema does, and what cannot be checked is refused."""

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.errors import SetupError
from limpet.models.schema import check_schema, misfit, parse_reply

names = st.sampled_from(["label", "reason", "a", "b"])
numbers = st.integers(-5, 5) | st.floats(-5, 5, allow_nan=False)
atoms = st.none() | st.booleans() | numbers | st.sampled_from(["correct", "", "1", "true"])
values = st.recursive(
    atoms, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
)


def limited(kind, options):
    bounds = {"minimum": st.integers(-3, 3), "maximum": st.integers(-3, 3)}
    enum = {"enum": st.lists(options, min_size=1, max_size=3)}
    extra = {**enum, **(bounds if kind in ("number", "integer") else {})}
    return st.fixed_dictionaries({"type": st.just(kind)}, optional=extra)


leaves = st.one_of(
    limited("string", st.sampled_from(["correct", "", "1"])),
    limited("boolean", st.booleans() | st.integers(0, 1)),
    limited("number", numbers | st.booleans()),
    limited("integer", numbers | st.booleans()),
)


def nested(inner):
    fields = {
        "properties": st.dictionaries(names, inner, max_size=3),
        "required": st.lists(names, max_size=3, unique=True),
        "additionalProperties": st.booleans(),
    }
    return st.fixed_dictionaries({"type": st.just("object")}, optional=fields) | (
        st.fixed_dictionaries({"type": st.just("array")}, optional={"items": inner})
    )


schemas = st.recursive(leaves, nested, max_leaves=6)


@given(schemas, values)
def test_it_accepts_exactly_what_jsonschema_accepts(schema, value):
    check_schema(schema)
    refused = not jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (misfit(value, schema) is not None) == refused


@given(schemas, values)
def test_a_value_survives_its_way_through_text(schema, value):
    assert misfit(parse_reply(json.dumps(value)), schema) == misfit(value, schema)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        True,
        {"type": "null"},
        {"type": ["string", "null"]},
        {"type": "string", "pattern": "a"},
        {"type": "string", "minLength": 1},
        {"type": "object", "properties": {"a": {"$ref": "#/x"}}},
        {"type": "object", "properties": [], "required": []},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "array", "items": {"anyOf": []}},
        {"type": "string", "enum": "abc"},
    ],
)
def test_a_schema_that_cannot_be_checked_is_refused_before_a_call(schema):
    with pytest.raises(SetupError, match="schema"):
        check_schema(schema)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NaN",
        "[Infinity]",
        "1e999",
        '{"a": 1, "a": 2}',
        "{'a': 1}",
        '{"a": 1} ',
        '{"a": 1}{"b": 2}',
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        "9" * 5000,
        '```json\n{"a": 1}',
        '```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```',
        'Here: {"a": 1}',
    ],
)
def test_only_json_is_read(text):
    if text == '{"a": 1} ':
        assert parse_reply(text) == {"a": 1}
        return
    with pytest.raises(ValueError, match="JSON"):
        parse_reply(text)


def test_the_message_says_where_and_what():
    schema = {
        "type": "object",
        "properties": {"parts": {"type": "array", "items": {"type": "integer", "maximum": 5}}},
    }
    assert misfit({"parts": [1, 7]}, schema) == "parts[1] must be 5 or less, not 7"
    assert misfit({"parts": "x"}, schema) == "parts must be of type array, not string"
    assert misfit([], schema) == "the reply must be of type object, not array"


@pytest.mark.parametrize("begin", ["\ufeff", "<think>so</think>", "so it is {x}\n</think>\n"])
def test_a_mark_of_the_encoding_and_thoughts_are_skipped(begin):
    assert parse_reply(begin + '{"a": 1}') == {"a": 1}
