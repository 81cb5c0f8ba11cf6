"""Gemini's own API: what is sent, what comes back, and what a failure means."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_server import raw
from native_server import events, native_server

from limpet.errors import InvalidReplyError, LimpetError, PermanentError, SetupError, TransientError
from limpet.models import provider_api
from limpet.models.chat import _working_form
from limpet.models.completion import Reading
from limpet.models.providers.gemini import Gemini
from limpet.pacing.signals import FailureKind, classify
from limpet.text import one_line

ASK = [{"role": "user", "content": "Is it right?"}]
SCHEMA = {"type": "object", "properties": {"label": {"type": "string"}}, "required": ["label"]}
USAGE = {
    "promptTokenCount": 10,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 7,
    "cachedContentTokenCount": 4,
    "totalTokenCount": 22,
}


@pytest.fixture(autouse=True)
def _forget():
    _working_form.clear()


def replied(*parts, finish="STOP", usage=USAGE, **more):
    content = {"role": "model", "parts": list(parts)}
    candidate = {"content": content, "finishReason": finish, "index": 0, **more}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-x-001"}


def text(value, **more):
    return {"text": value, **more}


YES = replied(text("yes"))


def asking(server, messages=ASK, *, schema=None, call=(), **settings):
    settings = {"model": "gemini-x", "key": "AIzaTEST", **settings}
    model = provider_api("gemini", server.url, **settings)

    async def ask():
        await model.open()
        try:
            return await model.ask(messages, schema=schema, **dict(call))
        finally:
            await model.close()

    return asyncio.run(ask())


def sent(messages=ASK, **params):
    """Return the body that is sent, as the server reads it."""
    with native_server(YES) as server:
        asking(server, messages, params=params)
    return server.asked[0]


def failed(answer, kind=LimpetError, **settings):
    with native_server(answer) as server, pytest.raises(kind) as caught:
        asking(server, **settings)
    assert "\n" not in str(caught.value)
    return caught.value


# ---- a request ----------------------------------------------------------------------------------


def test_the_key_and_the_model_are_where_gemini_has_them():
    with native_server(YES) as server:
        asking(server)
        asking(server, model="models/gemini-x")
        asking(server, model="tunedModels/mine")
    paths = [request.path for request in server.requests]
    assert paths[0] == paths[1] == "/v1beta/models/gemini-x:generateContent"
    assert paths[2] == "/v1beta/tunedModels/mine:generateContent"
    assert server.requests[0].headers["x-goog-api-key"] == "AIzaTEST"
    assert "Authorization" not in server.requests[0].headers


def test_a_proxys_address_keeps_its_path_and_its_query():
    with native_server(YES) as server:
        server.url += "/gemini?team=evals"
        asking(server)
    assert server.requests[0].path == "/gemini/v1beta/models/gemini-x:generateContent?team=evals"


def test_a_conversation_is_sent_as_the_sdk_sends_it():
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": ""}},
    ]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "ok", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
        {"role": "tool", "tool_call_id": "c2", "content": '{"found": 2}'},
    ]
    results = [
        {"id": "c1", "name": "f", "response": {"output": "r"}},
        {"id": "c2", "name": "g", "response": {"found": 2}},
    ]
    assert sent(messages) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}], "role": "user"},
        "contents": [
            {"parts": [{"text": "hi"}], "role": "user"},
            {
                "parts": [
                    {"text": "ok"},
                    {"functionCall": {"id": "c1", "args": {"x": 1}, "name": "f"}},
                    {"functionCall": {"id": "c2", "args": {}, "name": "g"}},
                ],
                "role": "model",
            },
            {"parts": [{"functionResponse": result} for result in results], "role": "user"},
        ],
    }


def test_images_and_files_are_sent_inline_and_by_address():
    def image(url):
        return {"type": "image_url", "image_url": {"url": url}}

    file = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}
    parts = [
        text("see", type="text"),
        image("data:image/png;base64,+//+"),
        image("https://h/a.jpg?size=1"),
        image("https://h/unknown"),
        {"type": "file", "file": file},
    ]
    assert sent([{"role": "user", "content": parts}])["contents"][0]["parts"] == [
        {"text": "see"},
        {"inlineData": {"data": "+//+", "mimeType": "image/png"}},
        {"fileData": {"fileUri": "https://h/a.jpg?size=1", "mimeType": "image/jpeg"}},
        {"fileData": {"fileUri": "https://h/unknown"}},
        {"inlineData": {"data": "JVBERg==", "mimeType": "application/pdf"}},
    ]


def test_a_file_of_another_providers_store_is_refused_by_gemini_not_sent_as_an_address():
    part = {"type": "file", "file": {"file_id": "file-1"}}
    assert sent([{"role": "user", "content": [part]}])["contents"][0]["parts"] == [part]


def test_parameters_have_geminis_names():
    body = sent(
        temperature=0,
        top_p=0.5,
        top_k=4,
        max_tokens=5,
        stop="a",
        seed=1,
        n=2,
        logprobs=True,
        top_logprobs=3,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        reasoning_effort="high",
    )
    assert body["generationConfig"] == {
        "temperature": 0,
        "topP": 0.5,
        "topK": 4,
        "maxOutputTokens": 5,
        "stopSequences": ["a"],
        "seed": 1,
        "candidateCount": 2,
        "responseLogprobs": True,
        "logprobs": 3,
        "presencePenalty": 0.1,
        "frequencyPenalty": 0.2,
        "thinkingConfig": {"thinkingLevel": "HIGH"},
    }
    assert body.keys() == {"contents", "generationConfig"}


@pytest.mark.parametrize(
    ("model", "effort", "config"),
    [
        ("gemini-2.5-flash", "low", {"thinkingBudget": 1024}),
        ("models/gemini-2.5-pro", "high", {"thinkingBudget": 24576}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-3-pro", "low", {"thinkingLevel": "LOW"}),
    ],
)
def test_an_effort_is_a_budget_for_older_models(model, effort, config):
    with native_server(YES) as server:
        asking(server, model=model, params={"reasoning_effort": effort})
    assert server.asked[0]["generationConfig"] == {"thinkingConfig": config}


def test_geminis_own_parameters_are_passed_on_and_come_first():
    given = {"thinkingConfig": {"includeThoughts": True}, "temperature": 1}
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    body = sent(generationConfig=given, safetySettings=safety, temperature=0, unknown=1)
    assert body["generationConfig"] == given
    assert (body["safetySettings"], body["unknown"]) == (safety, 1)


def test_tools_and_their_choice():
    function = {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True}
    tools = [{"type": "function", "function": function}, {"googleSearch": {}}]
    choice = {"type": "function", "function": {"name": "f"}}
    body = sent(tools=tools, tool_choice=choice)
    declared = {"name": "f", "description": "d", "parametersJsonSchema": SCHEMA}
    assert body["tools"] == [{"functionDeclarations": [declared]}, {"googleSearch": {}}]
    chosen = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}}
    assert body["toolConfig"] == chosen
    for word, mode in (("auto", "AUTO"), ("required", "ANY"), ("none", "NONE")):
        body = sent(tools=tools, tool_choice=word)
        assert body["toolConfig"] == {"functionCallingConfig": {"mode": mode}}


def test_a_schema_is_sent_as_json_schema_and_the_reply_is_read():
    with native_server(replied(text('{"label": "yes"}'))) as server:
        assert asking(server, schema=SCHEMA).parsed == {"label": "yes"}
    config = {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
    assert server.asked[0]["generationConfig"] == config


def test_a_schema_by_tool():
    call = {"functionCall": {"name": "reply", "args": {"label": "yes"}}}
    with native_server(replied(call)) as server:
        assert asking(server, schema=SCHEMA, reply="tool").parsed == {"label": "yes"}
    names = server.asked[0]["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"]
    assert names == ["reply"]


def test_the_signature_of_a_thought_is_sent_back_where_google_puts_it():
    extra = {"google": {"thought_signature": "c2ln"}}
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra}
    body = sent([*ASK, {"role": "assistant", "content": None, "tool_calls": [call]}])
    assert body["contents"][1]["parts"] == [
        {"functionCall": {"name": "f", "args": {}, "id": "c"}, "thoughtSignature": "c2ln"}
    ]


def test_what_it_cannot_do_is_said_before_the_first_call():
    with pytest.raises(SetupError, match="gemini does not support caching"):
        provider_api("gemini", model="m", cache=True)


# ---- a reply ------------------------------------------------------------------------------------


def test_a_reply_has_text_usage_finish_and_model():
    with native_server(YES) as server:
        reply = asking(server)
    assert (reply.text, reply.finish, reply.model) == ("yes", "stop", "gemini-x-001")
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (10, 12)
    assert (reply.usage.cached_tokens, reply.usage.reasoning_tokens) == (4, 7)
    assert reply.usage.total_tokens == 22
    assert reply.usage.requested == {"gemini-x-001": "gemini-x"}


def test_tokens_that_tools_add_to_the_prompt_are_counted():
    usage = {"promptTokenCount": 10, "toolUsePromptTokenCount": 90, "candidatesTokenCount": 1}
    with native_server(replied(text("x"), usage=usage)) as server:
        assert asking(server).usage.prompt_tokens == 100


def test_thoughts_are_never_part_of_the_answer():
    body = replied(text("I wonder.", thought=True), text("ye"), text("s"))
    with native_server(body) as server:
        assert asking(server).text == "yes"
    message = Gemini().completion(body)["choices"][0]["message"]
    assert message["reasoning_content"] == "I wonder."
    assert "thought" not in failed(replied(text("I wonder.", thought=True))).reply


def test_a_model_that_only_thought_is_a_failure_whose_tokens_are_counted():
    usage = {"promptTokenCount": 10, "thoughtsTokenCount": 50, "totalTokenCount": 60}
    body = replied(text(""), finish="MAX_TOKENS", usage=usage)
    error = failed(body, InvalidReplyError)
    assert "the reply has no text (finish_reason: length)" in str(error)
    assert error.usage.completion_tokens == 50


def test_tool_calls_have_the_shape_of_all_providers():
    parts = [
        {"functionCall": {"id": "c1", "name": "f", "args": {"x": 1}}},
        {"functionCall": {"name": "g"}},
    ]
    with native_server(replied(*parts)) as server:
        reply = asking(server)
    assert reply.tool_calls == [
        {"id": "c1", "name": "f", "arguments": {"x": 1}},
        {"name": "g", "arguments": {}},
    ]
    assert reply.finish == "tool_calls"


def test_each_candidate_is_a_choice_with_its_logprobs():
    tokens = {
        "chosenCandidates": [{"token": "yes", "logProbability": -0.1}],
        "topCandidates": [{"candidates": [{"token": "no", "logProbability": -2}]}],
    }
    body = replied(text("yes"), logprobsResult=tokens)
    body["candidates"].append({"content": {"parts": [text("no")]}, "finishReason": "STOP"})
    first, second = Gemini().completion(body)["choices"]
    assert (first["message"]["content"], second["message"]["content"]) == ("yes", "no")
    tops = [{"token": "no", "logprob": -2}]
    assert first["logprobs"]["content"] == [{"token": "yes", "logprob": -0.1, "top_logprobs": tops}]


# ---- a reply that was blocked -------------------------------------------------------------------

RATINGS = [
    {"category": "HARM_CATEGORY_HARASSMENT", "probability": "HIGH", "blocked": True},
    {"category": "HARM_CATEGORY_HATE_SPEECH", "probability": "LOW"},
]


def test_a_blocked_prompt_is_a_failure_with_its_reason_and_category():
    feedback = {"blockReason": "SAFETY", "safetyRatings": RATINGS}
    error = failed(
        {"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 9}}, InvalidReplyError
    )
    assert (
        "filter stopped the reply: of the prompt: SAFETY (HARM_CATEGORY_HARASSMENT: HIGH)"
        in str(error)
    )
    assert error.usage.prompt_tokens == 9
    feedback = {"blockReason": "JAILBREAK", "blockReasonMessage": "as we see it"}
    assert "of the prompt: JAILBREAK: as we see it" in str(failed({"promptFeedback": feedback}))


@pytest.mark.parametrize(
    "reason",
    ["SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"],
)
def test_a_filter_that_stops_the_reply_is_a_failure_even_with_half_a_text(reason):
    body = replied(text("half"), finish=reason, safetyRatings=RATINGS, finishMessage="stopped")
    error = failed(body, InvalidReplyError)
    assert f"filter stopped the reply: {reason} (HARM_CATEGORY_HARASSMENT: HIGH): stopped" in str(
        error
    )
    assert error.reply == "half"


@pytest.mark.parametrize(
    "reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER", "NEW_IN_2030"]
)
def test_a_reply_that_went_wrong_may_work_the_next_time(reason):
    error = failed(replied(text("half"), finish=reason), TransientError)
    assert f"the reply ended with an error: {reason}" in str(error)


def test_a_safety_rating_alone_blocks_nothing():
    with native_server(replied(text("yes"), safetyRatings=RATINGS[1:])) as server:
        assert asking(server).text == "yes"


# ---- errors -------------------------------------------------------------------------------------


def problem(code, status, message="no", *details):
    error = {"code": code, "message": message, "status": status, "details": list(details)}
    return raw({"error": error}, code)


RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12s"}


def quota(name):
    kind = "type.googleapis.com/google.rpc.QuotaFailure"
    return {"@type": kind, "violations": [{"quotaId": name}]}


def test_a_limit_names_its_wait():
    answer = problem(429, "RESOURCE_EXHAUSTED", "slower", quota("PerMinutePerProject"), RETRY)
    signal = classify(failed(answer))
    assert (signal.kind, signal.retry_after_s) == (FailureKind.RATE_LIMIT, 12.0)


def test_a_quota_of_the_day_stops_the_run():
    answer = problem(429, "RESOURCE_EXHAUSTED", "no", quota("GenerateRequestsPerDayPerProject"))
    assert classify(failed(answer)).kind is FailureKind.QUOTA


def test_an_error_of_a_stream_is_in_a_list():
    body = [{"error": {"code": 429, "message": "slower", "details": [RETRY]}}]
    error = failed(raw(body, 429), stream=True)
    assert "status 429: slower" in str(error)
    assert classify(error).retry_after_s == 12.0


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(503, "UNAVAILABLE", "overloaded"), FailureKind.TRANSIENT),
        (problem(500, "INTERNAL"), FailureKind.TRANSIENT),
        (problem(504, "DEADLINE_EXCEEDED"), FailureKind.TRANSIENT),
        (problem(403, "PERMISSION_DENIED", "unregistered callers: use API Key"), FailureKind.SETUP),
        (problem(400, "INVALID_ARGUMENT", 'Unknown name "foo"'), FailureKind.PERMANENT),
    ],
)
def test_each_status_means_what_google_says(answer, kind):
    assert classify(failed(answer)).kind is kind


def test_a_refused_key_is_a_setup_error_although_its_status_is_400():
    reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    answer = problem(400, "INVALID_ARGUMENT", "API key not valid.", reason)
    with native_server(answer) as server, pytest.raises(SetupError, match="API key not valid") as e:
        asking(server, schema=SCHEMA, key="sk-ant-aaaaaaaaaaaaaaaaaaaa")
    assert "this looks like a key of anthropic" in e.value.hint
    assert len(server.asked) == 1


def test_an_unknown_parameter_is_refused_with_its_field():
    said = 'Invalid JSON payload received. Unknown name "foo": Cannot find field.'
    error = failed(problem(400, "INVALID_ARGUMENT", said), PermanentError, params={"foo": 1})
    assert 'Unknown name "foo"' in str(error)


def test_a_model_that_does_not_exist_lists_those_that_do():
    said = "models/gemini-y is not found for API version v1beta. Call ListModels"
    names = [{"name": "models/gemini-x"}, {"name": "models/other"}, {"name": 1}, None]
    answer = problem(404, "NOT_FOUND", said)
    with native_server(answer, {"models": names}) as server, pytest.raises(SetupError) as caught:
        asking(server, model="gemini-y")
    assert "gemini-x" in caught.value.hint
    assert "other" in caught.value.hint
    assert server.requests[-1].path == "/v1beta/models?pageSize=1000"


# ---- a stream -----------------------------------------------------------------------------------


def piece(*parts, **more):
    return {"candidates": [{"content": {"parts": list(parts)}, "index": 0, **more}]}


def test_a_stream_is_joined():
    stream = events(
        {**piece(text("Hm.", thought=True)), "modelVersion": "gemini-x-001"},
        {**piece(text("ye")), "usageMetadata": {"promptTokenCount": 10}},
        piece({"functionCall": {"name": "f", "args": {"x": 1}}}),
        {**piece(text("s"), finishReason="STOP"), "usageMetadata": USAGE},
    )
    with native_server(stream) as server:
        reply = asking(server, stream=True)
    assert (reply.text, reply.finish, reply.model) == ("yes", "tool_calls", "gemini-x-001")
    assert reply.tool_calls == [{"name": "f", "arguments": {"x": 1}}]
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (10, 12)
    assert reply.first_token_s > 0
    path = "/v1beta/models/gemini-x:streamGenerateContent?alt=sse"
    assert server.requests[0].path == path


def test_a_stream_of_several_candidates_is_joined_by_index():
    joiner = Gemini().joiner()
    tokens = {"chosenCandidates": [{"token": "a", "logProbability": -1}]}
    joiner.add({"candidates": [{"index": 1, "content": {"parts": [text("B")]}}]})
    joiner.add(piece(text("A"), logprobsResult=tokens))
    joiner.add({"candidates": [{"index": 1, "finishReason": "STOP"}]})
    assert not joiner.is_done
    joiner.add(piece(text("a"), finishReason="STOP", logprobsResult=tokens))
    assert joiner.is_done
    second, first = Gemini().completion(joiner.joined())["choices"]
    assert [(one["index"], one["message"]["content"]) for one in (first, second)] == [
        (0, "Aa"),
        (1, "B"),
    ]
    assert [token["token"] for token in first["logprobs"]["content"]] == ["a", "a"]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_candidates_are_in_the_order_of_their_numbers(is_streamed):
    numbers = [10, 2, 0, 3]
    made = [piece(text(f"{one}"), finishReason="STOP") for one in numbers]
    for one, number in zip(made, numbers, strict=True):
        one["candidates"][0]["index"] = number
    made[3]["candidates"][0]["finishReason"] = "SAFETY"
    made[2]["candidates"][0].pop("index")  # as zero may be
    whole = {"candidates": [one["candidates"][0] for one in made]}
    with native_server(events(*made) if is_streamed else raw(whole)) as server:
        reply = asking(server, stream=is_streamed)
    assert (reply.text, list(reply.alternatives)) == ("0", ["2", "10"])


def test_a_stream_without_the_first_candidate_is_no_reply():
    only = piece(text("B"), finishReason="STOP")
    only["candidates"][0]["index"] = 1
    error = failed(events(only), TransientError, stream=True)
    assert "the stream ended before the reply" in str(error)


@pytest.mark.parametrize("kept", range(3))
def test_a_stream_that_is_cut_is_no_reply(kept):
    whole = [piece(text("ye")), piece(text("s")), piece(text("!"), finishReason="STOP")]
    error = failed(events(*whole[:kept]), TransientError, stream=True)
    assert "the stream ended before the reply" in str(error)


def test_a_stream_that_is_blocked_or_breaks_says_why():
    blocked = events({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})
    assert "of the prompt: PROHIBITED_CONTENT" in str(failed(blocked, stream=True))
    stopped = events(piece(text("half")), piece(finishReason="SAFETY", safetyRatings=RATINGS))
    assert "SAFETY (HARM_CATEGORY_HARASSMENT: HIGH)" in str(failed(stopped, stream=True))
    broken = events(piece(text("half")), {"error": {"code": 503, "message": "overloaded"}})
    assert "status 503: " in str(failed(broken, stream=True))


# ---- any type at any place ----------------------------------------------------------------------

names = st.sampled_from((
    "candidates", "content", "parts", "text", "thought", "functionCall", "name", "args",
    "finishReason", "index", "error", "promptFeedback", "blockReason", "safetyRatings",
    "usageMetadata", "modelVersion", "logprobsResult", "chosenCandidates", "topCandidates",
))  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(anything, max_size=3))
def test_any_events_and_any_body_are_a_reply_or_a_failure(some):
    own, reading = Gemini(), Reading("m at http://h", one_line, "m")
    joiner = own.joiner()
    for event in some:
        joiner.add(event)
    for body in (*some, joiner.joined()):
        try:
            reading.reply(own.completion(body), {})
        except LimpetError:
            pass
        own.refusal(body, {})
        own.names(body)
