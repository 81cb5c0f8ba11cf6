"""Ollama's own API: what is sent is what its SDK sends, and what comes back is read as it does."""

import asyncio
import json

import pytest
from aiohttp import web
from e2e.servers import site
from model_server import model_server, raw

from limpet.errors import InvalidReplyError, LimpetError, PermanentError, SetupError
from limpet.models import provider_api
from limpet.models.chat import _working_form
from limpet.models.providers.ollama import Ollama
from limpet.pacing.signals import FailureKind, classify

ASK = [{"role": "user", "content": "Is it right?"}]
SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string"}},
    "required": ["label"],
    "additionalProperties": False,
}
PNG = "iVBORw0KGgo="
TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "description": "d",
        "parameters": {
            "type": "object",
            "required": ["a"],
            "properties": {"a": {"type": "integer"}},
        },
    },
}


@pytest.fixture(autouse=True)
def _forget():
    _working_form.clear()


def using(server, act, **settings):
    address = server.url.removesuffix("/v1")
    model = provider_api("ollama", address, **{"model": "m", **settings})

    async def use():
        await model.open()
        try:
            return await act(model)
        finally:
            await model.close()

    return asyncio.run(use())


def asking(server, messages=ASK, schema=None, **settings):
    return using(server, lambda model: model.ask(messages, schema=schema), **settings)


def response(content="", *, done_reason="stop", **more):
    message = {"role": "assistant", "content": content}
    for name in ("thinking", "tool_calls"):
        if name in more:
            message[name] = more.pop(name)
    head = {"model": "m:latest", "created_at": "2026-11-15T00:00:00Z", "message": message}
    counts = {"prompt_eval_count": 10, "eval_count": 5, "total_duration": 1}
    return {**head, "done": True, "done_reason": done_reason, **counts, **more}


def called(name, arguments, **more):
    return {"function": {"name": name, "arguments": arguments}, **more}


def sent(messages=ASK, schema=None, **settings):
    """Return the path and the body of a request."""
    with model_server(raw(response('{"label": "yes"}'))) as server:
        asking(server, messages, schema, **settings)
    return server.requests[0], server.asked[0]


def failed(body, schema=None, **settings):
    body = body if isinstance(body, tuple) else raw(body)
    with model_server(body) as server, pytest.raises(LimpetError) as caught:
        asking(server, schema=schema, **settings)
    return caught.value


# ---- what is sent -------------------------------------------------------------------------------


def test_a_question_says_that_it_is_not_streamed():
    request, body = sent()
    assert request.path == "/api/chat"
    assert "Authorization" not in request.headers
    assert body == {"model": "m", "messages": ASK, "stream": False}
    request, body = sent(key="secret-key")
    assert request.headers["Authorization"] == "Bearer secret-key"


def test_a_conversation_is_sent_as_by_the_sdk():
    function = {"name": "f", "arguments": '{"a": 1}'}
    marked = {"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}}
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    _, body = sent(
        [
            {"role": "developer", "content": [{"type": "text", "text": "s"}, marked]},
            {"role": "user", "content": [{"type": "text", "text": "q"}, image]},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "hm",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": function},
                    {"id": "c2", "type": "function", "function": {"name": "g", "arguments": ""}},
                ],
            },
            {"role": "tool", "tool_call_id": "c2", "content": "6"},
            {"role": "tool", "tool_call_id": "c1", "content": "5"},
        ]
    )
    assert body["messages"] == [
        {"role": "system", "content": "s\n\nt"},
        {"role": "user", "content": "q", "images": [PNG]},
        {
            "role": "assistant",
            "thinking": "hm",
            "tool_calls": [called("f", {"a": 1}), called("g", {})],
        },
        {"role": "tool", "content": "6", "tool_name": "g"},
        {"role": "tool", "content": "5", "tool_name": "f"},
    ]


def test_parameters_are_options_unless_they_are_of_the_request():
    _, body = sent(
        params={
            "temperature": 0,
            "top_p": 0.9,
            "top_k": 4,
            "seed": 1,
            "max_tokens": 5,
            "stop": "x",
            "num_ctx": 10,
            "options": {"num_gpu": 1},
            "reasoning_effort": "low",
            "keep_alive": "5m",
            "logprobs": True,
            "top_logprobs": 2,
            "tools": [TOOL],
            "tool_choice": "auto",
            "response_format": {"type": "json_object"},
            "unknown": 1,
        },
    )
    assert body == {
        "model": "m",
        "messages": ASK,
        "stream": False,
        "options": {
            "temperature": 0, "top_p": 0.9, "top_k": 4, "seed": 1, "num_predict": 5, "stop": ["x"],
            "num_ctx": 10, "num_gpu": 1, "unknown": 1,
        },
        "think": "low",
        "keep_alive": "5m",
        "logprobs": True,
        "top_logprobs": 2,
        "tools": [TOOL],
        "format": "json",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("params", "think"),
    [({"reasoning_effort": "none"}, False), ({"think": True, "reasoning_effort": "low"}, True)],
)
def test_thinking_can_be_switched_off_and_on(params, think):
    _, body = sent(params=params)
    assert body["think"] is think
    assert "options" not in body


def test_a_schema_is_the_format():
    _, body = sent(schema=SCHEMA)
    assert body["format"] == SCHEMA
    assert "tools" not in body


def test_no_tool_can_be_called_when_none_may_be():
    _, body = sent(params={"tools": [TOOL], "tool_choice": "none"})
    assert "tools" not in body


# ---- what it cannot do --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"type": "image_url", "image_url": {"url": "https://h/secret.png"}}, "by its address"),
        ({"type": "input_audio", "input_audio": {"data": "AA=="}}, "'input_audio'"),
        (
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA=="}},
            "not support files",
        ),
    ],
)
def test_what_a_message_cannot_have_is_an_error_before_the_first_call(part, why):
    with model_server() as server, pytest.raises(LimpetError, match=why) as caught:
        asking(server, [{"role": "user", "content": [part]}])
    assert "secret" not in str(caught.value)
    assert server.requests == []


def test_several_replies_are_an_error_before_the_first_call():
    with pytest.raises(SetupError, match="n: ollama does not support several replies"):
        provider_api("ollama", model="m", params={"n": 2})


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "f"}}])
def test_a_tool_cannot_be_forced(choice):
    with model_server() as server, pytest.raises(PermanentError, match="tool_choice") as caught:
        asking(server, params={"tools": [TOOL], "tool_choice": choice})
    assert 'reply="schema"' in caught.value.hint
    assert server.requests == []


def test_auto_goes_on_to_text_where_the_schema_is_refused():
    def answer(request, _):
        no = {"error": "invalid format"}
        return raw(no, 400) if "format" in request else raw(response('{"label": "yes"}'))

    with model_server(answer) as server:
        assert asking(server, schema=SCHEMA).parsed == {"label": "yes"}
        assert [("format" in one, "tools" in one) for one in server.asked] == [
            (True, False),
            (False, False),
        ]


# ---- what comes back ----------------------------------------------------------------------------


def replied(body, schema=None, **settings):
    with model_server(raw(body)) as server:
        return asking(server, schema=schema, **settings)


def test_a_reply_has_its_text_counts_and_model():
    reply = replied(response("yes"))
    assert (reply.text, reply.finish, reply.model) == ("yes", "stop", "m:latest")
    usage = reply.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (10, 5, 15)


def test_tool_calls_are_read_with_and_without_an_id():
    calls = [called("f", {"a": 1}), called("g", {}, id="call_2")]
    reply = replied(response(tool_calls=calls))
    assert (reply.text, reply.finish) == ("", "tool_calls")
    assert reply.tool_calls == [
        {"name": "f", "arguments": {"a": 1}},
        {"name": "g", "arguments": {}, "id": "call_2"},
    ]


def test_thinking_and_logprobs_are_beside_the_text():
    logprob = {"token": "yes", "logprob": -0.1, "top_logprobs": []}
    made = Ollama().completion(response("yes", thinking="hm", logprobs=[logprob]))
    (choice,) = made["choices"]
    assert choice["message"]["reasoning_content"] == "hm"
    assert choice["logprobs"] == {"content": [logprob]}


def test_a_model_that_only_thought_has_given_no_answer():
    error = failed(response("", thinking="hm, let me", done_reason="length"))
    assert isinstance(error, InvalidReplyError)
    assert "no text (finish_reason: length)" in str(error)
    assert "max_tokens" in error.hint
    assert replied(response("ye", done_reason="length")).finish == "length"
    assert replied(response("")).text == ""


def test_a_model_that_was_only_loaded_has_given_no_answer():
    assert "finish_reason: load" in str(failed(response("", done_reason="load")))


def test_a_piece_of_a_stream_is_no_answer():
    assert "not done" in str(failed({**response("ye"), "done": False}))


# ---- a stream -----------------------------------------------------------------------------------


def piece(content="", **message):
    made = {"role": "assistant", "content": content, **message}
    return {"model": "m", "message": made, "done": False}


def stream(*events):
    data = b"".join(json.dumps(one).encode() + b"\n" for one in events)
    return raw(data, headers={"Content-Type": "application/x-ndjson"})


def streamed(*events):
    with model_server(stream(*events)) as server:
        reply = asking(server, stream=True)
    assert server.asked[0]["stream"] is True
    return reply


def test_a_stream_is_joined():
    calls = [called("f", {"a": 1})], [called("g", {})]
    reply = streamed(
        piece(thinking="hm"), piece("ye"), piece("s"), piece(tool_calls=calls[0]),
        piece(tool_calls=calls[1]), response(),
    )  # fmt: skip
    assert (reply.text, reply.finish, reply.usage.total_tokens) == ("yes", "tool_calls", 15)
    assert [call["name"] for call in reply.tool_calls] == ["f", "g"]
    assert reply.first_token_s > 0


def test_a_stream_of_thoughts_and_logprobs_is_joined():
    joiner = Ollama().joiner()
    logprob = {"token": "ye", "logprob": -0.1}
    assert joiner.add(piece(thinking="h"))
    assert joiner.add({**piece("ye"), "logprobs": [logprob]})
    assert not joiner.is_done
    assert not joiner.add({**response(), "logprobs": [logprob]})
    assert joiner.is_done
    (choice,) = Ollama().completion(joiner.joined())["choices"]
    assert choice["message"]["reasoning_content"] == "h"
    assert choice["logprobs"] == {"content": [logprob, logprob]}


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ([{"error": "the runner has stopped"}], "the runner has stopped"),
        ([], "ended before the reply"),
    ],
)
def test_a_stream_that_fails_is_a_failure(last, why):
    error = failed(stream(piece("ye"), *last), stream=True)
    assert why in str(error)
    assert classify(error).kind is FailureKind.TRANSIENT


# ---- models that exist --------------------------------------------------------------------------


def test_a_model_that_is_missing_lists_those_that_are_there():
    async def answer(request):
        if request.path == "/api/tags":
            return web.json_response({"models": [{"name": "llama3.2:latest"}, {"model": "qwen3"}]})
        assert request.path == "/api/chat"
        return web.json_response({"error": "model 'llama3.1' not found"}, status=404)

    with site(answer) as server, pytest.raises(SetupError) as caught:
        asking(server, model="llama3.1")
    assert "model 'llama3.1' not found" in str(caught.value)
    assert caught.value.hint == "the server has llama3.2:latest, qwen3"


def test_an_address_with_nothing_there_is_said_to_be_wrong():
    async def answer(request):
        return web.Response(text="404 page not found", status=404)

    with site(answer) as server:
        server.url += "/elsewhere"
        with pytest.raises(SetupError) as caught:
            asking(server)
    assert caught.value.hint == "check the address; that of ollama is http://localhost:11434"


# ---- embeddings ---------------------------------------------------------------------------------


def test_texts_become_vectors():
    with model_server() as server:
        assert using(server, lambda model: model.embed(["a", "bbb"])) == [[1.0, 1.0], [3.0, 1.0]]
    assert server.requests[0].path == "/v1/embeddings"


def test_a_provider_without_embeddings_says_so_before_the_first_call():
    with model_server() as server:
        model = provider_api("anthropic", server.url.removesuffix("/v1"), model="m", key=None)
        with pytest.raises(SetupError, match="anthropic does not support embeddings") as caught:
            asyncio.run(model.embed(["a"]))
    assert "ollama" in caught.value.hint
    assert server.requests == []
