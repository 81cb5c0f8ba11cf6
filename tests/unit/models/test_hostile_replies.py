"""Whatever a server sends is a reply that fits, or a failure with a short message on one line."""

import asyncio
import copy
import json

import pytest
from e2e.servers import peer, sending
from hypothesis import given
from hypothesis import strategies as st
from model_server import calling, completion, failure, model_server, raw

from limpet.errors import InvalidReplyError, LimpetError, PermanentError
from limpet.models import openai_api
from limpet.models.completion import Reading
from limpet.models.protocol import Reply
from limpet.models.schema import misfit
from limpet.pacing.signals import FailureKind, classify
from limpet.text import one_line

ASK = [{"role": "user", "content": "Is it right?"}]
SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["label"],
    "additionalProperties": False,
}
CALL = {
    "id": "1",
    "type": "function",
    "function": {"name": "reply", "arguments": '{"label": "no"}'},
}
MESSAGE = {"role": "assistant", "content": '{"label": "yes"}', "tool_calls": [CALL], "refusal": ""}
BODY = {
    "model": "m",
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": {}},
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}],
    "error": None,
}
atoms = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    atoms,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def places(value, path=()):
    yield path
    children = value.items() if isinstance(value, dict) else ()
    children = enumerate(value) if isinstance(value, list) else children
    for name, child in children:
        yield from places(child, (*path, name))


def changed(path, value):
    """Return the response with another value at a place."""
    if not path:
        return value
    body = copy.deepcopy(BODY)
    holder = body
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = value
    return body


def asking(server_url, schema=SCHEMA, **settings):
    model = openai_api(server_url, **{"model": "m", "key": None, **settings})

    async def ask():
        await model.open()
        try:
            return await model.ask(ASK, schema=schema)
        finally:
            await model.close()

    return asyncio.run(ask())


def failed(answer, schema=SCHEMA, **settings):
    with model_server(answer) as server, pytest.raises(LimpetError) as caught:
        asking(server.url, schema, **settings)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 1500
    return caught.value


# ---- any type at any place ----------------------------------------------------------------------


@given(st.sampled_from(list(places(BODY))), anything, st.booleans())
def test_any_value_at_any_path_is_a_reply_or_a_failure(path, value, with_schema):
    reading = Reading("m at http://h", one_line, "m")
    schema = SCHEMA if with_schema else None
    try:
        reply = reading.reply(changed(path, value), {}, schema)
    except LimpetError:
        return
    assert isinstance(reply, Reply)
    assert isinstance(reply.text, str)
    assert isinstance(reply.finish, str | None)
    assert isinstance(reply.model, str | None)
    assert schema is None or misfit(reply.parsed, schema) is None


pieces = st.sampled_from(["content", "tool_calls", "refusal", "function", "arguments", "name"])
deltas = st.dictionaries(pieces, anything | st.lists(st.dictionaries(pieces, anything)))
events = st.one_of(
    anything,
    st.builds(lambda delta: {"choices": [{"delta": delta}]}, deltas),
    st.builds(lambda finish: {"choices": [{"delta": {}, "finish_reason": finish}]}, anything),
)


def test_any_events_in_a_stream_are_a_reply_or_a_failure():
    sent = []

    def answer(request, number):
        return raw(sent[-1], 201, {"Content-Type": "text/event-stream"})

    with model_server(answer) as server:

        @given(st.lists(events, max_size=4), st.booleans())
        def attack(some, ended):
            lines = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in some]
            sent.append(b"".join(lines) + (b"data: [DONE]\n\n" if ended else b""))
            try:
                reply = asking(server.url, None, stream=True)
            except LimpetError:
                return
            assert isinstance(reply.text, str)

        attack()


# ---- each attack by its name --------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        calling("reply", '{"label": '),
        calling("reply", "null"),
        calling("reply", ["yes"]),
        calling("other", {"label": "yes"}),
        completion(None, tool_calls=None),
        completion(None, tool_calls=[None, 1, {"function": None}]),
        completion(None),
        completion(["yes"]),
        completion([{"type": "text", "text": 1}]),
        completion({"label": "yes"}),
        completion("", refusal={"why": "no\nno"}),
        raw({"choices": [None]}),
        raw({"choices": {"0": {}}}),
        raw({"choices": [{"message": None}]}),
        raw([]),
        raw(None),
        raw("yes"),
        raw(1),
    ],
)
def test_a_reply_of_the_wrong_shape_is_an_invalid_reply(answer):
    assert isinstance(failed(answer), InvalidReplyError)


def test_two_replies_at_once_are_an_invalid_reply():
    calls = [
        {"function": {"name": "reply", "arguments": json.dumps({"label": label})}}
        for label in ("yes", "no")
    ]
    assert isinstance(failed(completion(None, tool_calls=calls)), InvalidReplyError)
    with model_server(completion(None, tool_calls=[calls[0], calls[0]])) as server:
        assert asking(server.url).parsed == {"label": "yes"}


def test_an_error_beside_a_reply_is_a_failure():
    body = {**BODY, "error": {"message": "the provider failed", "code": 502}}
    assert classify(failed(raw(body))).kind is FailureKind.TRANSIENT


def test_null_content_is_no_answer():
    assert isinstance(failed(completion(None), None), InvalidReplyError)


def test_an_empty_text_is_an_answer():
    with model_server(completion("")) as server:
        assert asking(server.url, None).text == ""


def test_arguments_that_are_no_string_are_read_as_they_are():
    call = {"function": {"name": "reply", "arguments": {"label": "yes"}}}
    with model_server(completion(None, tool_calls=[call])) as server:
        assert asking(server.url).parsed == {"label": "yes"}


def test_of_several_choices_the_first_is_taken():
    body = {"choices": [*BODY["choices"], {"index": 0, "message": {"content": "x"}}]}
    with model_server(raw(body)) as server:
        assert asking(server.url).parsed == {"label": "no"}


def test_parts_of_text_are_joined():
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": '{"label":'}]
    with model_server(completion([*parts, {"type": "text", "text": '"yes"}'}])) as server:
        assert asking(server.url).parsed == {"label": "yes"}


@pytest.mark.parametrize("body", [b'{"usage": NaN}', b"[" * 100_000, b"\xff\xfe", b'{"a": 1'])
def test_a_response_that_is_no_json_may_be_better_the_next_time(body):
    assert classify(failed(raw(body))).kind is FailureKind.TRANSIENT


def test_a_response_that_is_nested_too_deep_is_a_failure():
    deep = b'{"choices": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    assert "deep" in str(failed(raw(deep)))


def test_a_reply_of_many_megabytes_is_shown_in_a_few_words():
    error = failed("x" * 5_000_000)
    assert isinstance(error, InvalidReplyError)
    assert len(error.reply) == 5_000_000


def test_a_response_that_is_too_large_is_a_failure():
    error = failed("x" * 2_000_000, max_response_mb=1)
    assert isinstance(error, PermanentError)
    assert "max_response_mb" in error.hint


@pytest.mark.parametrize(
    "usage",
    [
        None,
        [],
        "many",
        {"total_tokens": "15"},
        {"total_tokens": -1},
        {"total_tokens": 10**30},
        {"prompt_tokens": {"a": 1}},
        {"prompt_tokens": True},
    ],
)
def test_usage_that_is_no_usage_costs_only_the_usage(usage):
    with model_server(completion("hello", usage=usage)) as server:
        reply = asking(server.url, None)
    assert reply.text == "hello"
    assert reply.usage is None


def test_control_characters_and_secrets_in_an_error_are_not_shown():
    key = "sk-very-secret-key"
    error = failed(failure(400, f"bad\r\n\x1b[31m{key}\x00 key"), key=key)
    assert key not in str(error)
    assert "\x1b" not in str(error)


def test_a_key_that_a_reply_repeats_is_not_in_the_message():
    key = "sk-very-secret-key"
    assert key not in str(failed(f"the key is {key}", key=key))


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nX-A: 1\r\n folded: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX-A: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX-A: \xff\xfe\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX-Rate: 1\r\nX-Rate: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 100_000 + b"\r\nContent-Length: 2\r\n\r\n{}",
        b"nonsense\r\n\r\n",
    ],
)
def test_odd_headers_are_a_failure_and_no_crash(head):
    with peer(sending(head)) as server, pytest.raises(LimpetError) as caught:
        asking(server.url, None)
    assert "\n" not in str(caught.value)


def test_a_redirect_to_another_server_does_not_take_the_key_along():
    with model_server() as other:
        moved = raw(b"", 307, {"Location": f"{other.url}/chat/completions"})
        error = failed(moved, key="sk-very-secret-key")
    assert "another server" in str(error)
    assert other.requests == []
