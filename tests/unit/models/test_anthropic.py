"""Anthropic's Messages: what is sent is what its SDK sends, and what comes back is read as it does.

What every provider must survive is in test_hostile_replies.
"""

import asyncio
import base64
import json

import pytest
from model_server import failure, model_server, raw

from limpet.errors import InvalidReplyError, LimpetError, PermanentError, TransientError
from limpet.models import provider_api
from limpet.models.providers.anthropic import Anthropic
from limpet.pacing.signals import FailureKind, classify

ASK = [{"role": "user", "content": "Is it right?"}]
CACHED = {"cache_control": {"type": "ephemeral"}}


def asking(server, messages=ASK, schema=None, **settings):
    address = server.url.removesuffix("/v1")
    model = provider_api("anthropic", address, **{"model": "m", "key": None, **settings})

    async def ask():
        await model.open()
        try:
            return await model.ask(messages, schema=schema)
        finally:
            await model.close()

    return asyncio.run(ask())


def text(said):
    return {"type": "text", "text": said}


def response(*content, stop_reason="end_turn", **more):
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    usage = {"input_tokens": 10, "output_tokens": 5}
    return {**head, "content": list(content), "stop_reason": stop_reason, "usage": usage, **more}


def replied(*content, **more):
    with model_server(raw(response(*content, **more))) as server:
        return asking(server)


def failed(*content, **more):
    body = raw(response(*content, **more))
    with model_server(body) as server, pytest.raises(LimpetError) as caught:
        asking(server)
    return caught.value


def sent(messages=ASK, **settings):
    """Return the body of a request."""
    with model_server(raw(response(text("yes")))) as server:
        asking(server, messages, **settings)
    return server.asked[0]


# ---- what is sent -------------------------------------------------------------------------------


def test_a_question_has_a_limit_of_its_tokens():
    assert sent() == {"model": "m", "messages": ASK, "max_tokens": 4096}


def test_thinking_and_other_parameters_of_its_own_are_passed_on():
    params = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "top_k": 4, "unknown": 1}
    assert {name: sent(params=params)[name] for name in params} == params


def test_several_system_messages_are_one_and_a_prefilled_turn_stays():
    body = sent(
        [
            {"role": "system", "content": "be brief"},
            {"role": "developer", "content": [text("be fair")]},
            *ASK,
            {"role": "assistant", "content": "It is"},
        ]
    )
    assert body["system"] == "be brief\n\nbe fair"
    assert body["messages"] == [*ASK, {"role": "assistant", "content": "It is"}]


def test_results_of_tools_are_one_turn_and_may_be_errors():
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": ""}},
    ]
    body = sent(
        [
            *ASK,
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": "5"},
            {"role": "tool", "tool_call_id": "c2", "content": "down", "is_error": True},
            {"role": "user", "content": "Go on."},
        ]
    )
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "g", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "5"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "down", "is_error": True},
                text("Go on."),
            ],
        },
    ]


def document(kind, data, name):
    held = {"file_data": f"data:{kind};base64,{data}", "filename": name}
    return {"type": "file", "file": held}


def test_a_text_is_a_document_in_words_and_a_pdf_one_in_base64():
    words = base64.b64encode("Grüße".encode()).decode()
    parts = [document("text/markdown", words, "a.md"), document("application/pdf", "AA==", "a.pdf")]
    (turn,) = sent([{"role": "user", "content": [*parts, text("q")]}])["messages"]
    plain = {"type": "text", "media_type": "text/plain", "data": "Grüße"}
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "AA=="}
    assert turn["content"] == [
        {"type": "document", "source": plain, "title": "a.md"},
        {"type": "document", "source": pdf, "title": "a.pdf"},
        text("q"),
    ]


@pytest.mark.parametrize("data", ["nonsense!", base64.b64encode(b"\xff\xfe").decode()])
def test_a_text_that_is_none_is_an_error_before_the_first_call(data):
    with model_server() as server, pytest.raises(PermanentError, match="'a.txt' is not a text"):
        asking(server, [{"role": "user", "content": [document("text/plain", data, "a.txt")]}])
    assert server.requests == []


def test_a_file_by_its_id_is_no_address():
    part = {"type": "file", "file": {"file_id": "file-1"}}
    (turn,) = sent([{"role": "user", "content": [part]}])["messages"]
    assert turn["content"] == [part]


def test_json_without_a_schema_is_an_error_before_the_first_call():
    with model_server() as server, pytest.raises(PermanentError, match="json_object") as caught:
        asking(server, params={"response_format": {"type": "json_object"}})
    assert "json_schema" in caught.value.hint
    assert server.requests == []
    assert "output_config" not in sent(params={"response_format": {"type": "text"}})


@pytest.mark.parametrize(
    ("params", "choice"),
    [
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
    ],
)
def test_a_choice_of_tools_has_its_words(params, choice):
    assert sent(params=params)["tool_choice"] == choice


def test_the_version_is_sent_with_and_without_a_key():
    for key, more in ((None, {}), ("k", {}), ("k", {"api_version": "1"})):
        with model_server(raw(response(text("yes")))) as server:
            asking(server, key=key, **more)
        headers = server.requests[0].headers
        assert headers["anthropic-version"] == "2023-06-01"
        assert headers.get("x-api-key") == key
        assert headers.get("api-key") == (key if more else None)  # Azure's, beside its own


# ---- what is cached -----------------------------------------------------------------------------


def cached(messages, **params):
    return sent(messages, cache=True, params=params)


def test_the_words_of_the_system_are_marked():
    body = cached([{"role": "system", "content": "s"}, *ASK])
    assert body["system"] == [{**text("s"), **CACHED}]
    assert body["messages"] == ASK


def test_a_mark_of_the_users_own_stays():
    own = {**text("s"), "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    body = cached([{"role": "system", "content": [own]}, *ASK])
    assert body["system"] == [own]


def test_without_them_the_tools_are():
    tools = [{"type": "function", "function": {"name": name}} for name in "fg"]
    marked = cached(ASK, tools=tools)["tools"]
    assert ["cache_control" in tool for tool in marked] == [False, True]


def test_nothing_is_marked_where_nothing_is_constant():
    assert cached(ASK) == sent()


def test_nothing_is_marked_unless_asked_for():
    assert "cache_control" not in json.dumps(sent([{"role": "system", "content": "s"}, *ASK]))


# ---- what comes back ----------------------------------------------------------------------------


def test_thoughts_are_beside_the_text_and_hidden_ones_nowhere():
    thoughts = {"type": "thinking", "thinking": "hm", "signature": "s"}
    hidden = {"type": "redacted_thinking", "data": "xxx"}
    made = Anthropic().completion(response(thoughts, hidden, text("yes")))
    message = made["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("yes", "hm")
    assert replied(hidden, text("yes")).text == "yes"


@pytest.mark.parametrize(
    ("details", "why"),
    [
        (
            {"category": "bio", "explanation": "Too risky."},
            "a content filter stopped the reply: Too risky.",
        ),
        ({"category": "cyber", "explanation": None}, "a content filter stopped the reply: cyber"),
        (None, "a content filter stopped the reply"),
        (["x"], "a content filter stopped the reply"),
    ],
)
def test_a_refusal_says_why(details, why):
    error = failed(text("I"), stop_reason="refusal", stop_details=details)
    assert isinstance(error, InvalidReplyError)
    assert why in str(error)


@pytest.mark.parametrize("reason", ["max_tokens", "pause_turn", "model_context_window_exceeded"])
def test_a_turn_that_did_not_end_is_cut_off(reason):
    assert replied(text("It"), stop_reason=reason).finish == "length"


@pytest.mark.parametrize("schema", [None, {"type": "object"}])
def test_more_tokens_are_the_hint_only_if_they_were_the_limit(schema):
    for reason in ("max_tokens", "pause_turn", "model_context_window_exceeded"):
        answer = raw(response(stop_reason=reason))
        with model_server(answer) as server, pytest.raises(InvalidReplyError) as caught:
            asking(server, schema=schema)
        if reason == "max_tokens":
            assert "finish_reason: length)" in str(caught.value)
            assert "allow more tokens" in caught.value.hint
        else:
            assert f"finish_reason: length: {reason})" in str(caught.value)
            assert caught.value.hint is None


@pytest.mark.parametrize("content", [[], [{"type": "text"}], [{"type": "thinking"}]])
def test_a_turn_without_a_text_is_no_answer(content):
    error = failed(*content)
    assert isinstance(error, InvalidReplyError)
    assert "no text (finish_reason: stop)" in str(error)


# ---- a stream -----------------------------------------------------------------------------------


def stream(*events):
    lines = (b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    return raw(b"".join(lines), headers={"Content-Type": "text/event-stream"})


def begun(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, **piece):
    return {"type": "content_block_delta", "index": index, "delta": piece}


def partial(index, json):
    return delta(index, type="input_json_delta", partial_json=json)


def ended(stop_reason, **more):
    usage = {"output_tokens": 5, "input_tokens": None}
    stop = {"stop_reason": stop_reason, "stop_sequence": None, **more}
    return {"type": "message_delta", "delta": stop, "usage": usage}, {"type": "message_stop"}


START = {"type": "message_start", "message": response(stop_reason=None)}


def test_parallel_tool_calls_are_joined_each_by_its_number():
    events = [
        START,
        begun(0, type="thinking", thinking="", signature=""),
        delta(0, type="thinking_delta", thinking="hm"),
        delta(0, type="signature_delta", signature="s"),
        begun(1, type="tool_use", id="t1", name="f", input={}),
        begun(2, type="tool_use", id="t2", name="g", input={}),
        begun(3, type="tool_use", id="t3", name="h", input={}),
        partial(2, '{"b"'), partial(1, '{"a": '), partial(2, ": 2}"), partial(1, "1}"),
        *ended("tool_use"),
    ]  # fmt: skip
    with model_server(stream(*events)) as server:
        reply = asking(server, stream=True)
    calls = [(call["id"], call["name"], call["arguments"]) for call in reply.tool_calls]
    assert calls == [("t1", "f", {"a": 1}), ("t2", "g", {"b": 2}), ("t3", "h", {})]
    assert (reply.text, reply.finish) == ("", "tool_calls")
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (10, 5)


TEXT = begun(0, type="text", text=""), delta(0, type="text_delta", text="It is")


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([START, delta(0, type="text_delta", text="no"), *TEXT], "a block that never began"),
        ([START, *TEXT, delta(1, type="citations_delta", citation={})], "block that never began"),
        ([START, *TEXT, START, *TEXT], "a second message began"),
        ([START, *TEXT, *TEXT], "a block began twice"),
    ],
)
def test_a_stream_whose_parts_do_not_belong_together_may_work_the_next_time(events, why):
    whole = stream(*events, *ended("end_turn"))
    with model_server(whole) as server, pytest.raises(TransientError, match=why) as caught:
        asking(server, stream=True)
    assert "the stream is broken" in str(caught.value)
    assert classify(caught.value).kind is FailureKind.TRANSIENT


def test_a_refusal_in_a_stream_says_why():
    details = {"type": "refusal", "category": "bio", "explanation": "Too risky."}
    events = stream(START, *ended("refusal", stop_details=details))
    why = "a content filter stopped the reply: Too risky"
    with model_server(events) as server, pytest.raises(InvalidReplyError, match=why):
        asking(server, stream=True)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("invalid_request_error", 400),
        ("authentication_error", 401),
        ("billing_error", 402),
        ("permission_error", 403),
        ("rate_limit_error", 429),
        ("api_error", 500),
        ("timeout_error", 504),
        ("overloaded_error", 529),
    ],
)
def test_an_error_in_a_stream_is_the_failure_that_its_status_is(kind, status):
    error = {"type": kind, "message": "as it says"}
    event = stream(START, {"type": "error", "error": error})
    failures = []
    for answer, is_streamed in ((event, True), (failure(status, **error), False)):
        with model_server(answer) as server, pytest.raises(LimpetError) as caught:
            asking(server, stream=is_streamed)
        assert "as it says" in str(caught.value)
        failures.append(classify(caught.value).kind)
    assert failures[0] is failures[1]
