"""OpenAI's Responses: what is sent is what its SDK sends, and replies are read as it does."""

import asyncio
import json

import pytest
from model_server import failure, model_server, raw

from limpet.errors import InvalidReplyError, LimpetError, PermanentError, SetupError
from limpet.models import openai_api, provider_api
from limpet.models.chat import most_usage
from limpet.models.provider import owner_of
from limpet.models.providers.responses import Responses
from limpet.pacing.signals import FailureKind, classify

ASK = [{"role": "user", "content": "Is it right?"}]
SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string"}},
    "required": ["label"],
    "additionalProperties": False,
}
IMAGE, PDF = "data:image/png;base64,iVBORw0KGgo=", "data:application/pdf;base64,AA=="


def asking(server, messages=ASK, schema=None, **settings):
    model = openai_api(server.url, **{"model": "m", "api": "responses", "key": None, **settings})

    async def ask():
        await model.open()
        try:
            return await model.ask(messages, schema=schema)
        finally:
            await model.close()

    return asyncio.run(ask())


def message(*content):
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": list(content)}


def said(text, **more):
    return message({"type": "output_text", "text": text, "annotations": [], **more})


def called(name, arguments, number=1):
    call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
    return {**call, "name": name, "arguments": json.dumps(arguments), "status": "completed"}


USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 15,
}


def response(*output, status="completed", **more):
    head = {"id": "resp_1", "object": "response", "model": "m-2026", "error": None}
    return {**head, "status": status, "output": list(output), "usage": USAGE, **more}


def replied(*output, messages=ASK, schema=None, settings=None, **more):
    with model_server(raw(response(*output, **more))) as server:
        return asking(server, messages, schema, **(settings or {}))


def failed(body, schema=None):
    with model_server(raw(body)) as server, pytest.raises(LimpetError) as caught:
        asking(server, schema=schema)
    return caught.value


def sent(messages=ASK, schema=None, **settings):
    """Return the path and the body of a request."""
    with model_server(raw(response(said('{"label": "yes"}')))) as server:
        asking(server, messages, schema, **settings)
    return server.requests[0].path, server.asked[0]


# ---- what is sent -------------------------------------------------------------------------------


def test_a_question_is_sent_to_the_path_and_kept_nowhere():
    path, body = sent()
    assert path == "/v1/responses"
    assert body == {"model": "m", "input": ASK, "store": False}


def test_a_conversation_is_sent_as_items_as_by_the_sdk():
    function = {"name": "f", "arguments": '{"a": 1}'}
    parts = [
        {"type": "text", "text": "q"},
        {"type": "image_url", "image_url": {"url": IMAGE}},
        {"type": "image_url", "image_url": {"url": "https://h/a.png", "detail": "low"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
        {"type": "file", "file": {"file_data": "https://h/a.pdf"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
    _, body = sent(
        [
            {"role": "system", "content": "s"},
            {"role": "user", "content": parts},
            {"role": "assistant", "content": [{"type": "text", "text": "hm"}]},
            {"role": "developer", "content": "be brief"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "5"},
            {"role": "assistant", "content": "five"},
            {"type": "item_reference", "id": "rs_1"},
        ]
    )
    assert body["input"] == [
        {"role": "system", "content": "s"},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "q"},
                {"type": "input_image", "image_url": IMAGE, "detail": "auto"},
                {"type": "input_image", "image_url": "https://h/a.png", "detail": "low"},
                {"type": "input_file", "filename": "a.pdf", "file_data": PDF},
                {"type": "input_file", "file_url": "https://h/a.pdf"},
                {"type": "input_file", "file_id": "file-1"},
            ],
        },
        {"role": "assistant", "content": [{"type": "output_text", "text": "hm"}]},
        {"role": "developer", "content": "be brief"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "5"},
        {"role": "assistant", "content": "five"},
        {"type": "item_reference", "id": "rs_1"},
    ]


def test_parameters_have_the_names_of_responses():
    function = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    _, body = sent(
        params={
            "max_completion_tokens": 50,
            "reasoning_effort": "low",
            "reasoning": {"summary": "auto"},
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": 2,
            "verbosity": "low",
            "tools": [
                {"type": "function", "function": function},
                {"type": "function", "function": {"name": "g", "strict": True}},
                {"type": "web_search"},
            ],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "parallel_tool_calls": False,
            "store": True,
            "unknown": 1,
        },
    )
    assert body == {
        "model": "m",
        "input": ASK,
        "max_output_tokens": 50,
        "reasoning": {"effort": "low", "summary": "auto"},
        "temperature": 0,
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 2,
        "text": {"verbosity": "low"},
        "tools": [
            {"type": "function", "strict": False, **function},
            {
                "type": "function",
                "name": "g",
                "strict": True,
                "parameters": {"type": "object", "properties": {}},
            },
            {"type": "web_search"},
        ],
        "tool_choice": {"type": "function", "name": "f"},
        "parallel_tool_calls": False,
        "store": True,
        "unknown": 1,
    }


@pytest.mark.parametrize("choice", ["auto", "required", "none"])
def test_a_choice_of_tools_by_one_word_stays(choice):
    _, body = sent(params={"tool_choice": choice})
    assert body["tool_choice"] == choice


def test_allowed_tools_are_flat():
    tools = [{"type": "function", "function": {"name": "f"}}]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": tools}}
    _, body = sent(params={"tool_choice": choice})
    flat = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}
    assert body["tool_choice"] == flat


def test_a_schema_is_a_format_of_the_text_and_a_forced_tool_is_flat():
    _, body = sent(schema=SCHEMA, reply="schema")
    form = {"type": "json_schema", "name": "reply", "strict": True, "schema": SCHEMA}
    assert body["text"] == {"format": form}
    with model_server(raw(response(called("reply", {"label": "yes"})))) as server:
        assert asking(server, schema=SCHEMA, reply="tool").parsed == {"label": "yes"}
    (body,) = server.asked
    assert body["tool_choice"] == {"type": "function", "name": "reply"}
    (tool,) = body["tools"]
    assert (tool["name"], tool["parameters"], tool["strict"]) == ("reply", SCHEMA, False)


def test_azure_has_responses_beside_its_deployments():
    with model_server(raw(response(said("yes")))) as server:
        for base in ("openai/deployments/d", "openai", "openai/v1"):
            model = openai_api(
                server.url.replace("v1", base),
                model="d", api="responses", key="k", api_version="preview",
            )  # fmt: skip

            async def ask(model=model):
                await model.open()
                await model.ask(ASK)
                await model.close()

            asyncio.run(ask())
    paths = [request.path for request in server.requests]
    old = "/openai/responses?api-version=preview"
    assert paths == [old, old, "/openai/v1/responses?api-version=preview"]
    assert server.requests[0].headers["api-key"] == "k"


@pytest.mark.parametrize(("name", "value"), [("n", 2), ("seed", 7)])
def test_what_responses_cannot_do_is_an_error_before_the_first_call(name, value):
    with pytest.raises(SetupError, match=f"{name}: responses does not support") as caught:
        provider_api("responses", model="m", params={name: value})
    assert "openai" in caught.value.hint


def test_embeddings_have_the_path_of_openai():
    with model_server() as server:
        model = openai_api(server.url, model="m", api="responses", key=None)

        async def embed():
            await model.open()
            try:
                return await model.embed(["a", "bbb"])
            finally:
                await model.close()

        assert asyncio.run(embed()) == [[1.0, 1.0], [3.0, 1.0]]
    (asked,) = server.requests
    assert asked.path == "/v1/embeddings"
    assert asked.json == {"encoding_format": "float", "model": "m", "input": ["a", "bbb"]}


@pytest.mark.parametrize("name", ["previous_response_id", "conversation", "prompt"])
def test_no_bound_is_known_for_a_prompt_that_the_server_has(name):
    body = {"messages": ASK, "max_tokens": 5}
    assert most_usage("m", body, body) is not None
    assert most_usage("m", {**body, name: "id_1"}, body) is None


# ---- what comes back ----------------------------------------------------------------------------


def test_a_reply_has_its_text_usage_and_model():
    reply = replied({"type": "web_search_call", "id": "ws_1"}, said("ye"), said("s"))
    assert (reply.text, reply.finish, reply.model) == ("yes", "stop", "m-2026")
    usage = reply.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (10, 5, 15)
    assert (usage.cached_tokens, usage.reasoning_tokens) == (4, 3)


def test_tool_calls_have_the_id_that_their_results_name():
    reply = replied(called("f", {"a": 1}), called("g", {}, 2))
    assert reply.finish == "tool_calls"
    assert reply.tool_calls == [
        {"name": "f", "arguments": {"a": 1}, "id": "call_1"},
        {"name": "g", "arguments": {}, "id": "call_2"},
    ]


def test_reasoning_and_logprobs_are_beside_the_text():
    logprob = {"token": "yes", "logprob": -0.1, "bytes": [121], "top_logprobs": []}
    summary = [{"type": "summary_text", "text": "hm"}, {"type": "summary_text", "text": "so"}]
    thought = {"type": "reasoning", "id": "rs_1", "summary": summary}
    made = Responses().completion(response(thought, said("yes", logprobs=[logprob])))
    (choice,) = made["choices"]
    assert choice["message"]["reasoning_content"] == "hm\n\nso"
    assert choice["message"]["content"] == "yes"
    assert choice["logprobs"] == {"content": [logprob]}


def test_a_comment_on_the_way_is_a_thought_and_not_the_answer():
    comment = {**said("Let me look."), "phase": "commentary"}
    reply = replied(comment, {**said("yes"), "phase": "final_answer"})
    assert (reply.text, reply.reasoning) == ("yes", "Let me look.")
    assert "the reply has no text" in str(failed(response(comment)))


@pytest.mark.parametrize("reason", ["max_tool_calls", "new_in_2030", 5, None])
def test_a_response_that_is_incomplete_for_any_reason_is_no_answer(reason):
    details = {"reason": reason}
    whole = response(said('{"a": 1}'), status="incomplete", incomplete_details=details)
    with model_server(raw(whole)) as server:
        assert asking(server).finish == "length"
        with pytest.raises(InvalidReplyError, match="truncated") as caught:
            asking(server, schema={"type": "object"})
    if isinstance(reason, str):
        assert f"(finish_reason: length: {reason})" in str(caught.value)
        assert caught.value.hint is None


def test_a_refusal_is_a_failure_with_its_words():
    error = failed(response(message({"type": "refusal", "refusal": "I can't help"})))
    assert isinstance(error, InvalidReplyError)
    assert "the model refuses: I can't help" in str(error)
    assert error.usage.total_tokens == 15


def test_a_response_that_is_incomplete_says_why():
    details = {"reason": "max_output_tokens"}
    reply = replied(said("ye"), status="incomplete", incomplete_details=details)
    assert (reply.text, reply.finish) == ("ye", "length")
    error = failed(response(status="incomplete", incomplete_details=details))
    assert "allow more tokens" in error.hint
    filtered = {"reason": "content_filter"}
    error = failed(response(said("ye"), status="incomplete", incomplete_details=filtered))
    assert str(error).endswith("a content filter stopped the reply")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("rate_limit_exceeded", FailureKind.RATE_LIMIT),
        ("server_error", FailureKind.TRANSIENT),
        ("vector_store_timeout", FailureKind.TRANSIENT),
        ("something_new", FailureKind.TRANSIENT),
        ("invalid_prompt", FailureKind.PERMANENT),
        ("image_too_large", FailureKind.PERMANENT),
        ("bio_policy", FailureKind.PERMANENT),
    ],
)
def test_a_response_that_failed_is_a_failure_of_its_reason(code, kind):
    error = failed(response(status="failed", error={"code": code, "message": "no luck"}))
    assert classify(error).kind is kind
    assert "no luck" in str(error)
    assert code in str(error)


@pytest.mark.parametrize("status", ["failed", "cancelled", "queued", "in_progress"])
def test_a_response_that_is_not_complete_is_no_answer(status):
    error = failed(response(said("half an ans"), status=status))
    assert f"the response is {status}" in str(error)


# ---- a stream -----------------------------------------------------------------------------------


def stream(*events):
    data = b"".join(
        b"event: " + one["type"].encode() + b"\ndata: " + json.dumps(one).encode() + b"\n\n"
        for one in events
    )
    return raw(data, headers={"Content-Type": "text/event-stream"})


BEGUN = {"type": "response.created", "response": response(status="in_progress", usage=None)}
DELTA = {"type": "response.output_text.delta", "output_index": 0, "delta": "ye"}


def test_a_stream_is_read_from_its_last_event():
    whole = response(said("yes"), called("f", {"a": 1}))
    events = [BEGUN, DELTA, {"type": "response.completed", "response": whole}]
    with model_server(stream(*events)) as server:
        reply = asking(server, stream=True)
    assert server.asked[0]["stream"] is True
    assert (reply.text, reply.finish, reply.usage.total_tokens) == ("yes", "tool_calls", 15)
    assert reply.tool_calls[0]["arguments"] == {"a": 1}
    assert reply.first_token_s > 0


def test_a_stream_that_ends_incomplete_is_cut_off():
    details = {"reason": "max_output_tokens"}
    cut = response(said("ye"), status="incomplete", incomplete_details=details)
    with model_server(stream(BEGUN, DELTA, {"type": "response.incomplete", "response": cut})) as s:
        assert asking(s, stream=True).finish == "length"


def streamed_failure(*events):
    with model_server(stream(*events)) as server, pytest.raises(LimpetError) as caught:
        asking(server, stream=True)
    return caught.value


LIMITED = {"code": "rate_limit_exceeded", "message": "too fast"}
DONE = {"type": "response.completed", "response": response(said("yes"))}


@pytest.mark.parametrize(
    "last",
    [
        {"type": "response.failed", "response": response(status="failed", error=LIMITED)},
        {"type": "error", **LIMITED, "param": None, "sequence_number": 2},
        {"type": "error", "error": {"type": "tokens", **LIMITED}},
    ],
)
def test_an_error_in_a_stream_is_a_failure_of_its_reason(last):
    for events in ([BEGUN, DELTA, last], [BEGUN, last, DONE] if last["type"] == "error" else []):
        if events:
            error = streamed_failure(*events)
            assert classify(error).kind is FailureKind.RATE_LIMIT
            assert "too fast" in str(error)


def test_a_stream_that_breaks_is_a_failure():
    error = streamed_failure(BEGUN, DELTA)
    assert "the stream ended before the reply" in str(error)
    assert classify(error).kind is FailureKind.TRANSIENT


# ---- keys and refusals --------------------------------------------------------------------------


def refused(provider, key):
    with model_server(failure(401, "Incorrect API key")) as server:
        address = server.url.removesuffix("/v1")
        model = provider_api(provider, address, model="m", key=key)

        async def ask():
            await model.open()
            try:
                await model.ask(ASK)
            finally:
                await model.close()

        with pytest.raises(SetupError) as caught:
            asyncio.run(ask())
    return caught.value.hint


@pytest.mark.parametrize("key", ["sk-abc", "sk-proj-abc"])
def test_a_key_of_openai_is_one_of_both_its_apis(key):
    assert owner_of(key) == "openai"
    assert "looks like" not in refused("openai", key)
    assert "looks like" not in refused("responses", key)
    assert "looks like a key of openai" in refused("anthropic", key)
    assert "looks like a key of anthropic" in refused("responses", "sk-ant-abc")


def test_an_unknown_parameter_is_refused_by_the_server_with_its_name():
    no = failure(400, "Unknown parameter: 'temprature'.", param="temprature")
    with model_server(no) as server, pytest.raises(PermanentError, match="temprature"):
        asking(server, params={"temprature": 0})


def test_a_model_that_does_not_exist_lists_those_that_do():
    with model_server("x", models=["gpt-4.1"]) as server, pytest.raises(SetupError) as caught:
        asking(server, model="gpt-4.2")
    assert "did you mean" in str(caught.value).lower()
    assert caught.value.hint == "the server has gpt-4.1"
