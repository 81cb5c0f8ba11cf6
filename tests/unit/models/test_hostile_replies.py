"""Whatever a server sends is a reply that fits, or a failure with a short message on one line.

Every attack is made in the words of each provider: `wire.WIRES`.
"""

import asyncio
import copy
import json
from itertools import product

import pytest
from e2e.servers import peer, sending
from hypothesis import given
from hypothesis import strategies as st
from model_server import completion, model_server, raw
from wire import WIRE, WIRES

from limpet.errors import InvalidReplyError, LimpetError, PermanentError, SetupError
from limpet.models import provider_api
from limpet.models.completion import Reading
from limpet.models.protocol import Reply
from limpet.models.provider import provider
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
YES, NO = {"label": "yes"}, {"label": "no"}
KEY = "sk-very-secret-key"
each = pytest.mark.parametrize("wire", WIRES, ids=str)
streaming = pytest.mark.parametrize(
    "wire", [wire for wire in WIRES if "stream" in provider(wire.name).can], ids=str
)
atoms = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    atoms,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def whole(wire):
    """Return a response with a text, a tool call and thoughts."""
    return wire.body('{"label": "yes"}', calls=[("reply", NO)], thought="hm")


def places(value, path=()):
    yield path
    children = value.items() if isinstance(value, dict) else ()
    children = enumerate(value) if isinstance(value, list) else children
    for name, child in children:
        yield from places(child, (*path, name))


def changed(body, path, value):
    """Return a response with another value at a place."""
    if not path:
        return value
    body = copy.deepcopy(body)
    holder = body
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = value
    return body


def asking(wire, server_url, schema=SCHEMA, **settings):
    address = server_url.removesuffix("/v1")
    model = provider_api(wire.name, address, **{"model": "m", "key": None, **settings})

    async def ask():
        await model.open()
        try:
            return await model.ask(ASK, schema=schema)
        finally:
            await model.close()

    return asyncio.run(ask())


def replied(wire, answer, schema=SCHEMA, **settings):
    answer = raw(answer) if isinstance(answer, dict) else answer
    with model_server(answer) as server:
        return asking(wire, server.url, schema, **settings)


def failed(wire, answer, schema=SCHEMA, **settings):
    with pytest.raises(LimpetError) as caught:
        replied(wire, answer, schema, **settings)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 1500
    return caught.value


# ---- any type at any place ----------------------------------------------------------------------


@each
@given(st.data(), anything, st.booleans())
def test_any_value_at_any_path_is_a_reply_or_a_failure(wire, data, value, with_schema):
    body = whole(wire)
    path = data.draw(st.sampled_from(list(places(body))))
    check_read(wire, changed(body, path, value), SCHEMA if with_schema else None)


@each
def test_odd_values_at_every_path_are_a_reply_or_a_failure(wire):
    body = whole(wire)
    odd = (None, True, 0, -1.5, "", "x", [], {}, [None], {"a": None}, [[]], ["x"], [{"type": 1}])
    for path, value, schema in product(places(body), odd, (SCHEMA, None)):
        check_read(wire, changed(body, path, value), schema)


def check_read(wire, body, schema):
    reading = Reading("m at http://h", one_line, "m")
    try:
        reply = reading.reply(provider(wire.name).completion(body), {}, schema)
    except LimpetError:
        return
    assert isinstance(reply, Reply)
    assert isinstance(reply.text, str)
    assert isinstance(reply.finish, str | None)
    assert isinstance(reply.model, str | None)
    assert schema is None or misfit(reply.parsed, schema) is None


@streaming
def test_any_events_in_a_stream_are_a_reply_or_a_failure(wire):
    sent = []
    events = wire.events(whole(wire))

    def answer(request, number):
        return raw(sent[-1], headers={"Content-Type": wire.type})

    @st.composite
    def altered(draw):
        event = draw(st.sampled_from(events))
        path = draw(st.sampled_from([path for path in places(event) if path]))
        return changed(event, path, draw(anything))

    written = altered() | st.sampled_from(events)
    if wire.name != "bedrock":  # whose framing names each event
        written |= anything
    with model_server(answer) as server:

        @given(st.lists(written, max_size=8), st.booleans())
        def attack(some, ended):
            sent.append(wire.stream(some, ended=ended))
            try:
                reply = asking(wire, server.url, None, stream=True)
            except LimpetError:
                return
            assert isinstance(reply.text, str)

        attack()


@streaming
def test_odd_values_at_every_path_of_every_event_are_a_reply_or_a_failure(wire):
    events = wire.events(whole(wire))
    own, reading = provider(wire.name), Reading("m at http://h", one_line, "m")
    for number, event in enumerate(events):
        for path, value in product(places(event), (None, 1, "x", [], {}, [None], {"a": []})):
            joiner = own.joiner()
            for one in [*events[:number], changed(event, path, value), *events[number + 1 :]]:
                joiner.add(one)
            check_read_joined(own, reading, joiner)


def check_read_joined(own, reading, joiner):
    reading.usage(joiner.body)
    try:
        reply = reading.reply(own.completion(joiner.joined()), {})
    except LimpetError:
        return
    assert isinstance(reply.text, str)


# ---- each attack by its name --------------------------------------------------------------------


@each
@pytest.mark.parametrize(
    "reply",
    [
        {"calls": [("reply", None)]},
        {"calls": [("reply", ["yes"])]},
        {"calls": [("reply", "label")]},
        {"calls": [("reply", {"label": "maybe"})]},
        {"calls": [("other", YES)]},
        {"text": "yes"},
        {"text": '{"label": '},
        {"text": ""},
        {"text": None},
    ],
    ids=str,
)
def test_a_reply_that_does_not_fit_is_an_invalid_reply(wire, reply):
    assert isinstance(failed(wire, wire.body(**reply)), InvalidReplyError)


@each
@pytest.mark.parametrize("value", [None, [], {}, [None], [1], {"0": {}}, "yes", 1], ids=str)
def test_a_response_of_the_wrong_shape_is_an_invalid_reply(wire, value):
    for path in ((), *wire.content):
        answer = raw(changed(wire.body('{"label": "yes"}'), path, value))
        assert isinstance(failed(wire, answer), InvalidReplyError), path


@pytest.mark.parametrize(
    "answer",
    [
        completion(None, tool_calls=[None, 1, {"function": None}]),
        completion(["yes"]),
        completion([{"type": "text", "text": 1}]),
        completion({"label": "yes"}),
        completion("", refusal={"why": "no\nno"}),
    ],
)
def test_parts_of_a_chat_completion_of_the_wrong_shape_are_an_invalid_reply(answer):
    assert isinstance(failed(WIRE["openai"], answer), InvalidReplyError)


@each
def test_two_replies_at_once_are_an_invalid_reply(wire):
    two = wire.body(calls=[("reply", YES), ("reply", NO)])
    assert isinstance(failed(wire, two), InvalidReplyError)
    assert replied(wire, wire.body(calls=[("reply", YES)] * 2)).parsed == YES


@each
def test_an_error_beside_a_reply_is_a_failure(wire):
    body = {**whole(wire), "error": {"message": "the provider failed", "code": 502}}
    assert classify(failed(wire, body)).kind is FailureKind.TRANSIENT


@each
def test_an_error_in_place_of_a_reply_is_a_failure_that_is_shown(wire):
    error = failed(wire, wire.refusal(503, "the provider failed", ""))
    assert "the provider failed" in str(error)


@each
@pytest.mark.parametrize("finish", ["content_filter", "length"])
def test_a_reply_that_was_cut_short_is_no_answer(wire, finish):
    error = failed(wire, wire.body('{"label": "yes"}', finish=finish))
    assert isinstance(error, InvalidReplyError)


@each
def test_no_content_is_no_answer(wire):
    body = wire.body(None)
    if wire.name == "ollama":  # where an empty text is one, this is none
        body["message"].pop("content")
    assert isinstance(failed(wire, body, None), InvalidReplyError)


@each
def test_thoughts_alone_are_no_answer(wire):
    body = wire.body(None, thought='{"label": "yes"}')
    assert isinstance(failed(wire, body), InvalidReplyError)


@each
def test_an_empty_text_is_an_answer(wire):
    if wire.name == "gemini":  # a part with an empty text ends each of its streams
        assert isinstance(failed(wire, wire.body(""), None), InvalidReplyError)
    else:
        assert replied(wire, wire.body(""), None).text == ""


@each
@pytest.mark.parametrize("arguments", [YES, json.dumps(YES)], ids=["value", "text"])
def test_arguments_are_read_as_a_value_or_as_text(wire, arguments):
    body = wire.body(calls=[("reply", NO)])
    (path,) = [path for path in places(body) if path and path[-1] in ("arguments", "input", "args")]
    assert replied(wire, changed(body, path, arguments)).parsed == YES


def test_of_several_choices_the_first_is_taken():
    for name, field in (("openai", "choices"), ("gemini", "candidates")):
        wire = WIRE[name]
        body = wire.body('{"label": "no"}')
        body[field] += wire.body('{"label": "yes"}')[field]
        assert replied(wire, body).parsed == NO


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire.name != "ollama"], ids=str)
def test_parts_of_text_are_joined_without_the_thoughts(wire):
    body = wire.body(['{"label":', '"yes"}'], thought="hm")
    assert replied(wire, body).parsed == YES


@each
@pytest.mark.parametrize("body", [b'{"usage": NaN}', b"[" * 100_000, b"\xff\xfe", b'{"a": 1'])
def test_a_response_that_is_no_json_may_be_better_the_next_time(wire, body):
    assert classify(failed(wire, raw(body))).kind is FailureKind.TRANSIENT


@each
def test_a_response_that_is_nested_too_deep_is_a_failure(wire):
    deep = b'{"choices": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    assert "deep" in str(failed(wire, raw(deep)))


@each
def test_a_reply_of_many_megabytes_is_shown_in_a_few_words(wire):
    error = failed(wire, wire.body("x" * 2_000_000))
    assert isinstance(error, InvalidReplyError)
    assert len(error.reply) == 2_000_000


@each
def test_a_response_that_is_too_large_is_a_failure(wire):
    error = failed(wire, wire.body("x" * 2_000_000), max_response_mb=1)
    assert isinstance(error, PermanentError)
    assert "max_response_mb" in error.hint


@each
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
def test_usage_that_is_no_usage_costs_only_the_usage(wire, usage):
    reply = replied(wire, wire.with_usage(wire.body("hello"), usage), None)
    assert reply.text == "hello"
    assert reply.usage is None


@each
def test_a_count_that_is_no_count_costs_only_that_count(wire):
    body = wire.body("hello")
    counts = body[wire.usage] if wire.usage else body
    first = next(name for name in counts if name.lower().startswith(("prompt", "input")))
    for wrong in ("10", -1, 10**30, {"a": 1}, True, None):
        usage = replied(wire, wire.with_usage(body, {**counts, first: wrong}), None).usage
        assert (usage.prompt_tokens, usage.completion_tokens) == (0, 5)


@each
def test_control_characters_and_secrets_in_an_error_are_not_shown(wire):
    error = failed(wire, wire.failure(400, f"bad\r\n\x1b[31m{KEY}\x00 key"), key=KEY)
    assert "bad" in str(error)
    assert KEY not in str(error)
    assert "\x1b" not in str(error)


@each
@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"error": 1}', b'{"message": [2]}'])
def test_an_error_in_other_words_is_a_failure_of_its_status(wire, status, body):
    error = failed(wire, raw(body, status), None)
    assert f"status {status}" in str(error)
    assert isinstance(error, SetupError) or error.status == status


@each
def test_a_key_that_a_reply_repeats_is_not_in_the_message(wire):
    assert KEY not in str(failed(wire, wire.body(f"the key is {KEY}"), key=KEY))


@each
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
    ids=["folded", "null", "bytes", "twice", "long", "none"],
)
def test_odd_headers_are_a_failure_and_no_crash(wire, head):
    with peer(sending(head)) as server, pytest.raises(LimpetError) as caught:
        asking(wire, server.url, None)
    assert "\n" not in str(caught.value)


@each
def test_a_redirect_to_another_server_does_not_take_the_key_along(wire):
    with model_server() as other:
        error = failed(wire, raw(b"", 307, {"Location": f"{other.url}/elsewhere"}), key=KEY)
    assert "another server" in str(error)
    assert other.requests == []
