"""Any JSON schema is accepted, and every reply checked; what cannot be checked is refused."""

import json
import subprocess
import sys
from types import MappingProxyType

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_server import model_server
from referencing import Registry

from limpet.errors import SetupError
from limpet.models.schema import check_schema, misfit, parse_reply, request_fields

names = st.sampled_from(["label", "reason", "a", "b"])
numbers = st.integers(-5, 5) | st.floats(-5, 5, allow_nan=False)
atoms = st.none() | st.booleans() | numbers | st.sampled_from(["correct", "", "1", "true"])
values = st.recursive(
    atoms, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
)


def limited(kind, options):
    bounds = {"minimum": st.integers(-3, 3), "exclusiveMaximum": st.integers(-3, 3)}
    enum = {"enum": st.lists(options, min_size=1, max_size=3)}
    extra = {**enum, **(bounds if kind in ("number", "integer") else {})}
    return st.fixed_dictionaries({"type": st.just(kind)}, optional=extra)


leaves = st.one_of(
    limited("string", st.sampled_from(["correct", "", "1"])),
    limited("boolean", st.booleans() | st.integers(0, 1)),
    limited("number", numbers | st.booleans()),
    limited("integer", numbers | st.booleans()),
    st.booleans(),
    st.fixed_dictionaries({"enum": st.lists(values, max_size=3)}),
    st.fixed_dictionaries({"const": values}),
    st.just({"type": ["string", "null"], "minLength": 2, "pattern": "c"}),
    st.just({"$ref": "#/$defs/node"}),
)


def nested(inner):
    fields = {
        "properties": st.dictionaries(names, inner, max_size=3),
        "required": st.lists(names, max_size=3, unique=True),
        "additionalProperties": inner,
        "unevaluatedProperties": inner,
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "not": inner,
    }
    items = {
        "items": inner,
        "uniqueItems": st.booleans(),
        "contains": inner,
        "minItems": st.integers(0, 2),
        "oneOf": st.lists(inner, min_size=1, max_size=3),
    }
    return st.fixed_dictionaries({}, optional=fields) | st.fixed_dictionaries({}, optional=items)


NODE = {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}, "b": {"type": "null"}}}
schemas = st.builds(
    lambda schema: {"allOf": [schema], "$defs": {"node": NODE}},
    st.recursive(leaves, nested, max_leaves=6),
)


@given(schemas, values)
def test_it_accepts_exactly_what_jsonschema_accepts(schema, value):
    check_schema(schema)
    refused = not jsonschema.Draft202012Validator(schema, registry=Registry()).is_valid(value)
    assert (misfit(value, schema) is not None) == refused


@given(schemas, values)
def test_a_value_survives_its_way_through_text(schema, value):
    assert misfit(parse_reply(json.dumps(value)), schema) == misfit(value, schema)


def levels(number):
    schema = {"type": "string"}
    for _ in range(number):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


LOOP = {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}}}
LOOP["$defs"]["b"] = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (None, "schema: must be an object"),
        (True, "schema: must be an object"),
        ({"enum": [float("nan")]}, "schema: is not JSON"),
        ({"const": object()}, "schema: is not JSON: a schema cannot contain a object"),
        ({"type": "text"}, 'schema.type: must be one of \\["array", .*, not "text"'),
        ({"properties": {"a": {"type": "strin"}}}, "schema.properties.a.type: must be one of"),
        ({"type": "string", "pattern": "("}, r"schema.pattern: must fit format \"regex\""),
        ({"pattern": "(" * 5000}, "schema: cannot be checked"),
        ({"pattern": "a{99999999999}"}, "schema: cannot be checked"),
        ({"required": "a"}, "schema.required: must be of type array, not string"),
        ({"type": "array", "items": {"anyOf": []}}, "schema.items.anyOf: must fit minItems 1"),
        ({"type": "string", "enum": "abc"}, "schema.enum: must be of type array, not string"),
        ({"$schema": "https://example.com/mine"}, r"schema.\$schema: .* is no known version"),
        ({"$schema": "http://[::1"}, r"schema.\$schema: .* is no known version"),
        ({"$schema": 7}, r"schema.\$schema: 7 is no known version"),
        ({"$id": 5}, r"schema.\$id: must be of type string"),
        ({"items": {"$ref": "#/$defs/a"}}, r"schema.items.\$ref: #/\$defs/a leads nowhere"),
        ({"properties": {"default": {"$ref": "#x"}}}, r"schema.properties.default.\$ref: #x leads"),
        ({"$ref": "%%%"}, r"schema.\$ref: %%% leads nowhere"),
        ({"title": "x", "$ref": "#/title"}, r"schema.\$ref: must be of type object or boolean"),
        ({"x": {"type": "strin"}, "$ref": "#/x"}, r"schema.\$ref.type: must be one of"),
        ({"anyOf": [{"$ref": "#"}]}, r"schema.anyOf\[0\].\$ref: refers to itself without end"),
        (LOOP, r"schema.\$ref.*: refers to itself without end"),
        (levels(50), "schema.properties.a.*: is nested deeper than 40 levels"),
        (levels(5000), "schema: is not JSON: maximum recursion depth"),
    ],
)
def test_a_schema_that_cannot_be_checked_is_an_error_with_its_place(schema, said):
    with pytest.raises(SetupError, match=f"^{said}") as caught:
        check_schema(schema)
    assert len(str(caught.value)) < 400


def test_a_schema_that_contains_itself_is_an_error():
    schema = {"type": "object"}
    schema["properties"] = {"a": schema}
    with pytest.raises(SetupError, match="Circular reference"):
        check_schema(schema)


def test_a_reference_to_another_document_is_never_fetched():
    with model_server({"type": "string"}) as server:
        with pytest.raises(SetupError, match=r"schema.\$ref: .* another document, which is never"):
            check_schema({"$ref": f"{server.url}/schema.json"})
        with pytest.raises(SetupError, match="never fetched"):
            check_schema({"$id": f"{server.url}/", "items": {"$ref": f"{server.url}/b"}})
    assert server.requests == []


@pytest.mark.parametrize(
    ("schema", "fits", "misfits"),
    [
        ({"type": ["string", "null"]}, None, 1),
        ({"enum": ["a", 1, None, True]}, True, False),
        ({"properties": {"a": {"$ref": "#"}}, "type": "object"}, {"a": {"a": {}}}, {"a": {"a": 1}}),
        ({"$id": "https://x/y", "$ref": "https://x/y#b", "$defs": {"b": {"$anchor": "b",
          "type": "null"}}}, None, 1),
        ({"$schema": "http://json-schema.org/draft-07/schema#",
          "definitions": {"n": {"multipleOf": 0.01}}, "items": {"$ref": "#/definitions/n"}},
         [4.35, 10**400], [4.351]),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
          "properties": {"a": {"$ref": "#"}, "n": {"type": "integer"}}},
         {"a": {"n": 4.0}}, {"a": {"n": True}}),
        ({"type": "array", "uniqueItems": True}, [1, True, "1", [], {}], [{"a": 1}, {"a": 1.0}]),
        ({"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}},
         {"$ref": "x"}, {"$ref": 1}),
        (MappingProxyType({"enum": ("a", "b")}), "a", "c"),
        ({"format": "date"}, "2024-02-29", "2023-02-29"),
        ({"format": "email"}, "a@b.c", "a"),
        ({"format": "ipv4"}, "127.0.0.1", "127.0.0.256"),
        ({"format": "uuid"}, "6f3f4ad9-4b6a-4c1c-9d4a-3a8b7f3c2d1e", "6f3f"),
    ],
)  # fmt: skip
def test_schemas_as_others_write_them_are_checked(schema, fits, misfits):
    check_schema(schema)
    assert misfit(fits, schema) is None
    assert misfit(misfits, schema) is not None


def test_a_format_that_needs_another_package_is_not_checked():
    assert misfit("when?", {"format": "date-time"}) is None
    assert misfit("(" * 5000, {"format": "regex"}) is None


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


UNION = [{"type": "object", "properties": {"k": {"const": k}}, "required": ["k"]} for k in "ab"]


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"items": {"type": "integer", "maximum": 5}}, [1, 7], "[1] must be at most 5, not 7"),
        ({"items": {"exclusiveMinimum": 5}}, [5], "[0] must fit exclusiveMinimum 5, not 5"),
        ({"type": "array"}, "x", "the reply must be of type array, not string"),
        ({"type": ["string", "null"]}, 1, "the reply must be of type string or null, not number"),
        ({"enum": ["a", None, True]}, "b", 'the reply must be one of ["a", null, true], not "b"'),
        ({"const": 1}, True, "the reply must be 1, not true"),
        ({"required": ["a", "b"]}, {"a": 1}, "b is missing"),
        ({"items": {"required": ["b"]}}, [{}], "[0].b is missing"),
        ({"additionalProperties": False, "patternProperties": {"^x": {}}}, {"xa": 1, "b": 2},
         "b was not requested"),
        ({"properties": {"a": False}}, {"a": 1}, "the reply must fit the schema false, not 1"),
        ({"minLength": 2}, "a", 'the reply must fit minLength 2, not "a"'),
        ({"maxItems": 1}, [1, 2], "the reply must fit maxItems 1, not [1, 2]"),
        ({"pattern": "^a"}, "b", 'the reply must fit pattern "^a", not "b"'),
        ({"format": "date"}, "b", 'the reply must fit format "date", not "b"'),
        ({"multipleOf": 0.5}, 0.7, "the reply must fit multipleOf 0.5, not 0.7"),
        ({"uniqueItems": True}, [1, 1.0],
         "the reply must fit uniqueItems true, not [1, 1.0]"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1,
         "the reply must be of type string or null, not number"),
        ({"properties": {"a": {"anyOf": [{"type": "null"}, {"type": "string", "minLength": 3}]}}},
         {"a": "x"}, 'a must fit minLength 3, not "x"'),
        ({"properties": {"a": {"anyOf": UNION}}}, {"a": {"k": "c"}},
         'a fits no schema of anyOf: a.k must be "a", not "c"; a.k must be "b", not "c"'),
        ({"oneOf": [{"minimum": 1}, {"minimum": 2}]}, 3,
         'the reply must fit oneOf [{"minimum": 1}, {"minimum": 2}], not 3'),
    ],
)  # fmt: skip
def test_the_message_says_where_and_what(schema, value, said):
    assert misfit(value, schema) == said


def test_a_message_has_a_few_words_whatever_the_reply():
    schema = {"properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    for value in ({"a": "x" * 10**6}, {"x" * 10**6: 1}, {"a": [[[1]] * 10**5]}, {"\x1b\n": 1}):
        assert len(why := misfit(value, schema)) < 400
        assert why.isprintable()


# ---- what a hostile reply cannot do -------------------------------------------------------------

KINDS = [
    {"type": "object", "properties": {"l": {"$ref": "#/$defs/n"}, "k": {"const": k}}}
    for k in "abcd"
]
TREE = {"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [*KINDS, {"type": "null"}]}}}
STRICT_TREE = {"$ref": "#/$defs/n"}
STRICT_TREE["$defs"] = {"n": {**TREE["$defs"]["n"], "unevaluatedProperties": False}}


@pytest.mark.parametrize("schema", [TREE, STRICT_TREE])
@pytest.mark.timeout(60)
def test_choices_in_a_tree_take_no_exponential_time(schema):
    value = None
    for _ in range(30):
        value = {"l": value, "k": "d"}
    assert misfit(value, schema) is None
    assert misfit({"l": value, "k": "e"}, schema).startswith("the reply fits no schema of anyOf")


@pytest.mark.timeout(60)
def test_a_reply_that_is_huge_or_deep_is_refused_or_checked_in_seconds():
    deep = parse_reply('{"l":' * 240 + "null" + "}" * 240)
    assert misfit(deep, TREE) == "the reply is nested too deep to check"
    with pytest.raises(ValueError, match="more than 100000 values"):
        parse_reply(f"[{'1,' * 10**6}1]")
    many = [{"a": number} for number in range(20_000)]
    assert misfit(many, {"uniqueItems": True}) is None
    assert "elements" in misfit(many, {"prefixItems": [{}], "unevaluatedItems": False})


def test_no_number_crashes_the_check():
    for number in (10**4000, -(10**4000), 1e308, 5e-324, float("nan"), 10**5000):
        for schema in ({"multipleOf": 0.1}, {"type": "integer", "maximum": 0.5}, {"enum": [1]}):
            why = misfit(number, schema)
            assert why is None or why.startswith("the reply ")


# ---- how it is requested ------------------------------------------------------------------------


def sent(schema):
    wanted = request_fields("schema", schema, [])["response_format"]["json_schema"]
    assert wanted["schema"] is schema
    return wanted.get("strict")


def an_object(properties, **more):
    more = {"required": list(properties), "additionalProperties": False, **more}
    return {"type": "object", "properties": properties, **more}


def test_strict_is_asked_for_only_where_the_schema_qualifies():
    inner = an_object({"a": {"type": ["string", "null"]}})
    assert sent(an_object({"a": {"anyOf": [inner, {"type": "null"}]}})) is True
    assert sent(an_object({"n": {"$ref": "#/$defs/n"}}, **{"$defs": {"n": inner}})) is True
    for schema in (
        {"type": "string"},
        {"anyOf": [inner]},
        an_object({"a": {}}, required=[]),
        an_object({"a": {}}, additionalProperties=True),
        an_object({"a": {"type": "array", "items": {"type": "object"}}}),
        an_object({"n": {}}, **{"$defs": {"n": an_object({"a": {}}, required=[])}}),
        an_object({"a": {"oneOf": [inner]}}),
    ):
        assert sent(schema) is None


def test_importing_limpet_imports_no_jsonschema():
    code = "import sys, limpet, limpet.models.server_model; sys.exit('jsonschema' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("begin", ["\ufeff", "<think>so</think>", "so it is {x}\n</think>\n"])
def test_a_mark_of_the_encoding_and_thoughts_are_skipped(begin):
    assert parse_reply(begin + '{"a": 1}') == {"a": 1}
