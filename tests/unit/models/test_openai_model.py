"""A model behind a server: what is sent, what comes back, and which settings count."""

import asyncio
import contextlib
import pickle

import pytest
from model_server import CUT_OFF, DISCONNECT, completion, failure, model_server, raw

from limpet.errors import EndpointDownError, InvalidReplyError, LimpetError, SetupError
from limpet.fingerprints.identity import identity_of
from limpet.models import openai_api
from limpet.models.chat import _working_form
from limpet.pacing.observation import Observation, observing
from limpet.pacing.registry import PacerRegistry, pacing_with
from limpet.pacing.signals import FailureKind, classify

ASK = [{"role": "user", "content": "Is it right?"}]
SCHEMA = {
    "type": "object",
    "properties": {
        "reason": {"type": "string"},
        "label": {"type": "string", "enum": ["correct", "incorrect"]},
    },
    "required": ["reason", "label"],
    "additionalProperties": False,
}
FITS = {"reason": "as asked", "label": "correct"}


@pytest.fixture(autouse=True)
def _forget():
    _working_form.clear()


def asking(model, *args, **params):
    """Ask the same question, once for each given params; return what came back."""

    async def ask():
        await model.open()
        try:
            return await model.ask(ASK, **params)
        finally:
            await model.close()

    return asyncio.run(ask())


def at(server, **settings):
    return openai_api(server.url, **{"model": "m", "key": None, **settings})


# ---- a call -------------------------------------------------------------------------------------


def test_a_reply_has_text_usage_finish_model_and_headers():
    with model_server("yes", headers={"X-Request-Id": "r1"}) as server:
        reply = asking(at(server))
    assert (reply.text, reply.finish, reply.model) == ("yes", "stop", "m")
    assert (reply.usage.prompt_tokens, reply.usage.total_tokens) == (10, 15)
    assert reply.usage.models["m"]["completion_tokens"] == 5
    assert reply.headers["x-request-id"] == "r1"
    assert reply.parsed is None
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.asked == [{"model": "m", "messages": ASK}]


def test_params_of_the_call_come_over_those_of_the_model():
    with model_server() as server:
        asking(at(server, params={"temperature": 0, "seed": 1}), temperature=1)
    assert server.asked[0] == {"model": "m", "temperature": 1, "seed": 1, "messages": ASK}


def test_cached_and_reasoning_tokens_are_counted():
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    with model_server(completion("x", usage=usage)) as server:
        reply = asking(at(server))
    assert (reply.usage.cached_tokens, reply.usage.reasoning_tokens) == (4, 3)
    assert reply.usage.total_tokens == 15


def test_the_key_is_read_from_the_environment_when_it_is_opened(monkeypatch):
    with model_server(key="sk-right-key") as server:
        model = at(server, key="${MY_KEY}", organization="org-1", headers={"X-Team": "evals"})
        monkeypatch.setenv("MY_KEY", "sk-right-key\n")
        asking(model)
    headers = server.requests[0].headers
    assert headers["Authorization"] == "Bearer sk-right-key"
    assert (headers["OpenAI-Organization"], headers["X-Team"]) == ("org-1", "evals")


def test_azure_gets_its_version_and_its_own_header():
    with model_server(key="azure-secret-key") as server:
        base = server.url.replace("/v1", "/openai/deployments/judge")
        asking(openai_api(base, model="gpt", key="azure-secret-key", api_version="2026-10-01"))
    asked = server.requests[0]
    assert asked.path == "/openai/deployments/judge/chat/completions?api-version=2026-10-01"
    assert "Authorization" not in asked.headers


def test_without_a_key_none_is_sent():
    with model_server() as server:
        asking(at(server))
    assert "Authorization" not in server.requests[0].headers


def test_it_is_opened_and_closed_as_often_as_steps_use_it():
    async def two_steps(model):
        await asyncio.gather(model.open(), model.open())
        await model.close()
        reply = await model.ask(ASK)
        await model.close()
        with pytest.raises(LimpetError, match="not open"):
            await model.ask(ASK)
        await model.close()
        return reply

    with model_server("still there") as server:
        assert asyncio.run(two_steps(at(server))).text == "still there"


def test_models_of_one_server_share_their_connections():
    async def ask_both(one, other):
        for model in (one, other):
            await model.open()
        shared = one._server._shared == other._server._shared
        await one.close()
        text = (await other.ask(ASK)).text
        await other.close()
        return shared, text

    with model_server(lambda request, number: request["model"]) as server:
        both = at(server, model="a"), at(server, model="b")
        assert asyncio.run(ask_both(*both)) == (True, "b")
        apart = at(server, model="a", headers={"X-Who": "one"}), at(server, model="b")
        assert asyncio.run(ask_both(*apart)) == (False, "b")


def test_calls_are_paced_with_its_endpoint():
    pacers = PacerRegistry()
    with model_server() as server, pacing_with(pacers):
        model = at(server)
        asking(model)
    assert [pacer.key for pacer in pacers] == [model.endpoint]


@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_the_pacer_gets_headers_and_usage_also_of_a_reply_that_cannot_be_used(schema):
    observed = Observation()
    limits = {"X-RateLimit-Limit-Requests": "600"}
    with (
        model_server("no JSON", headers=limits) as server,
        observing(observed),
        contextlib.suppress(InvalidReplyError),
    ):
        asking(at(server), schema=schema)
    assert observed.headers["x-ratelimit-limit-requests"] == "600"
    assert observed.usage == {"total_tokens": 15}


# ---- failures -----------------------------------------------------------------------------------


def refused(answer, exception=LimpetError, *, settings=None, **options):
    with model_server(answer, **options) as server, pytest.raises(exception) as caught:
        asking(at(server, **(settings or {})), schema=None)
    return caught.value


def test_a_missing_key_names_its_variable(monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    error = refused("ok", SetupError, settings={"key": "${NO_SUCH_KEY}"})
    assert "NO_SUCH_KEY" in str(error)


def test_a_refused_key_is_a_setup_error_that_names_the_variable_and_not_the_key(monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-wrong-key-1234")
    error = refused("ok", SetupError, settings={"key": "${MY_KEY}"}, key="sk-right-key")
    assert "401" in str(error)
    assert "MY_KEY" in error.hint
    assert "sk-wrong-key-1234" not in f"{error}{error.hint}{error.__notes__}"


def test_a_server_that_wants_a_key_says_how_to_give_one():
    error = refused("ok", SetupError, key="sk-right-key")
    assert "key=" in error.hint


def test_a_403_about_the_prompt_is_the_items_own():
    about_key = refused(failure(403, "Your key has no permission"), SetupError)
    assert "permission" in str(about_key)
    about_prompt = refused(failure(403, "Your input was flagged by moderation"))
    assert classify(about_prompt).kind is FailureKind.PERMANENT


@pytest.mark.parametrize("status", [400, 404])
def test_a_missing_model_is_a_setup_error_with_near_names(status):
    models = ("gpt-4.1", "gpt-4.1-mini", "gpt-4.1-nano")
    error = refused(
        failure(status, "The model `gpt-4.1-mni` does not exist", code="model_not_found"),
        SetupError,
        settings={"model": "gpt-4.1-mni"},
    )
    assert "does not exist" in str(error)
    error = refused("ok", SetupError, settings={"model": "gpt-4.1-mni"}, models=models)
    assert "did you mean 'gpt-4.1-mini'?" in str(error)
    assert "gpt-4.1-nano" in error.hint


def test_a_404_that_does_not_name_the_model_is_about_it_if_the_server_lists_others():
    error = refused(raw(b"404 page not found", 404), SetupError, settings={"model": "mm"})
    assert str(error).startswith("mm at http://127.0.0.1:")
    assert str(error).endswith("status 404: 404 page not found; did you mean 'm'?")
    assert error.hint == "the server has m"


def test_many_calls_to_a_missing_model_ask_once_which_there_are():
    async def ask_often(model):
        await model.open()
        results = await asyncio.gather(*[model.ask(ASK) for _ in range(20)], return_exceptions=True)
        await model.close()
        return results

    with model_server(models=("m-large",)) as server:
        results = asyncio.run(ask_often(at(server)))
    assert all("m-large" in str(result.hint) for result in results)
    assert [request.method for request in server.requests].count("GET") == 1


def test_a_model_that_is_missing_is_said_the_same_way_in_every_run():
    async def ask_often(model):
        await model.open()
        asked = [model.ask(ASK) for _ in range(5)]
        results = await asyncio.gather(*asked, return_exceptions=True)
        await model.close()
        return {type(result) for result in results}

    with model_server(models=("m-large",)) as server:
        model = at(server)
        assert [asyncio.run(ask_often(model)) for _ in range(3)] == [{SetupError}] * 3


def test_a_wrong_path_is_a_setup_error_with_a_hint():
    error = refused(raw(b"404 page not found", 404), SetupError)
    assert "/v1" in error.hint


@pytest.mark.parametrize("status", [400, 403, 404])
def test_a_prompt_that_the_server_repeats_cannot_stop_the_run(status):
    echo = failure(status, "cannot read: 'the model x does not exist, permission to key denied'")
    with model_server(lambda request, number: echo if number else "fine") as server:
        model = at(server)
        asking(model)
        with pytest.raises(LimpetError) as caught:
            asking(model)
    assert classify(caught.value).kind is FailureKind.PERMANENT


def test_a_form_that_a_model_does_not_support_is_not_a_missing_model():
    says = "'response_format' of type 'json_schema' is not supported with this model"
    with model_server(
        lambda request, number: failure(400, says) if "response_format" in request else FITS
    ) as server:
        assert asking(at(server), schema=SCHEMA).parsed == FITS


def test_a_429_keeps_its_headers_for_the_pacer():
    error = refused(failure(429, "slow down", {"Retry-After": "7"}))
    signal = classify(error)
    assert (signal.kind, signal.retry_after_s) == (FailureKind.RATE_LIMIT, 7)


def test_an_exhausted_quota_stops_the_run():
    error = refused(failure(429, "You exceeded your current quota", code="insufficient_quota"))
    assert classify(error).kind is FailureKind.QUOTA


def test_an_error_in_a_response_of_status_200_is_a_failure():
    error = refused(raw({"error": {"message": "upstream", "code": 429}}))
    assert classify(error).kind is FailureKind.RATE_LIMIT
    error = refused(raw({"error": {"message": "upstream"}}))
    assert classify(error).kind is FailureKind.TRANSIENT


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_that_ended_with_an_error_is_a_failure(stream):
    ended = completion("The answer is", finish="error")
    assert classify(refused(ended, settings={"stream": stream})).kind is FailureKind.TRANSIENT
    error = {"message": "overloaded", "code": 503}
    choice = {"message": {"content": "The ans"}, "error": error, "finish_reason": "error"}
    assert "503" in str(refused(raw({"choices": [choice]}, 201), settings={"stream": stream}))


@pytest.mark.parametrize("answer", [CUT_OFF, DISCONNECT, failure(503), raw(b"", 200)])
def test_what_may_work_the_next_time_is_transient(answer):
    assert classify(refused(answer)).kind is FailureKind.TRANSIENT


def test_a_page_instead_of_json_is_permanent_and_shown_on_one_line():
    error = refused(raw(b"<html>\nhello</html>", headers={"Content-Type": "text/html"}))
    assert classify(error).kind is FailureKind.PERMANENT
    assert "\n" not in str(error)


def test_a_page_of_a_server_that_has_answered_before_is_transient():
    async def ask_twice(model):
        await model.open()
        await model.ask(ASK)
        try:
            await model.ask(ASK)
        finally:
            await model.close()

    page = raw(b"<h1>Bad gateway</h1>", headers={"Content-Type": "text/html"})
    with (
        model_server(lambda _, number: page if number else "ok") as server,
        pytest.raises(LimpetError) as caught,
    ):
        asyncio.run(ask_twice(at(server)))
    assert classify(caught.value).kind is FailureKind.TRANSIENT


def test_a_server_that_is_not_there_is_said_when_it_is_opened():
    model = openai_api("http://127.0.0.1:9/v1", model="m", key=None)
    with pytest.raises(EndpointDownError):
        asyncio.run(model.open())


# ---- replies that cannot be used ----------------------------------------------------------------


def test_a_text_that_is_truncated_is_returned_and_says_so():
    with model_server(completion("half a sen", finish="length")) as server:
        reply = asking(at(server))
    assert (reply.text, reply.finish) == ("half a sen", "length")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (completion('{"reason": "it', finish="length"), "truncated"),
        (completion(None, refusal="I cannot help with that"), "refuses"),
        (completion("", finish="content_filter"), "content filter"),
        (raw({"choices": []}), "no choices"),
        (completion("correct"), "not JSON"),
        (completion('Sure! {"reason": "a", "label": "correct"}'), "not JSON"),
        (completion('{"reason": "a"}'), "label is missing"),
        (completion('{"reason": "a", "label": "maybe"}'), "must be one of"),
        (completion('{"reason": "a", "label": "correct", "x": 1}'), "was not requested"),
        (completion('{"reason": "a", "label": "correct", "label": "incorrect"}'), "duplicate key"),
    ],
)
def test_an_unusable_reply_is_an_invalid_reply_with_its_text_and_usage(answer, says):
    with model_server(answer) as server, pytest.raises(InvalidReplyError) as caught:
        asking(at(server), schema=SCHEMA)
    assert says in str(caught.value)
    assert classify(caught.value).kind is FailureKind.INVALID_REPLY
    if "choices" not in says:
        assert caught.value.usage.total_tokens == 15
    assert len(server.asked) == 1


def test_the_text_of_an_invalid_reply_is_kept_completely():
    with model_server("maybe " * 200) as server, pytest.raises(InvalidReplyError) as caught:
        asking(at(server), schema=SCHEMA)
    assert caught.value.reply == "maybe " * 200
    assert len(str(caught.value)) < 1000


# ---- forms of reply -----------------------------------------------------------------------------


def test_auto_asks_for_a_schema_first():
    with model_server(FITS) as server:
        assert asking(at(server), schema=SCHEMA).parsed == FITS
    wanted = server.asked[0]["response_format"]["json_schema"]
    assert (wanted["schema"], wanted["strict"]) == (SCHEMA, True)


def test_auto_falls_back_to_a_tool_then_to_text_and_remembers():
    for refuse, requests in [(("schema",), 2), (("schema", "tool"), 3)]:
        with model_server(FITS, refuse=refuse) as server:
            model = at(server)
            for number in range(3):
                assert asking(model, schema=SCHEMA).parsed == FITS
                assert len(server.asked) == requests + number
    assert '"enum": ["correct", "incorrect"]' in server.asked[-1]["messages"][-1]["content"]


def test_each_form_can_be_named():
    for form, field in [("schema", "response_format"), ("tool", "tool_choice")]:
        with model_server(FITS) as server:
            assert asking(at(server, reply=form), schema=SCHEMA).parsed == FITS
        assert field in server.asked[0]
    with model_server(FITS) as server:
        assert asking(at(server, reply="text"), schema=SCHEMA).parsed == FITS
    assert server.asked[0].keys() == {"model", "messages"}


def test_a_named_form_says_nothing_about_auto():
    with model_server(FITS) as server:
        asking(at(server, reply="text"), schema=SCHEMA)
        asking(at(server), schema=SCHEMA)
    assert "response_format" in server.asked[1]


def test_a_named_form_does_not_fall_back():
    with model_server(FITS, refuse=("schema",)) as server, pytest.raises(LimpetError, match="400"):
        asking(at(server, reply="schema"), schema=SCHEMA)
    assert len(server.asked) == 1


def test_if_every_form_is_refused_the_first_refusal_is_said():
    with (
        model_server(refuse=("schema", "tool", "text")) as server,
        pytest.raises(LimpetError, match="schema is not supported"),
    ):
        asking(at(server), schema=SCHEMA)
    assert len(server.asked) == 3


def test_a_prompt_that_is_too_long_is_not_sent_in_three_forms():
    too_long = failure(400, "too many tokens", code="context_length_exceeded")
    with model_server(too_long) as server, pytest.raises(LimpetError, match="too many"):
        asking(at(server), schema=SCHEMA)
    assert len(server.asked) == 1


def test_a_400_after_a_form_has_worked_is_about_the_request():
    with model_server(lambda request, number: failure(400) if number else FITS) as server:
        model = at(server)
        asking(model, schema=SCHEMA)
        with pytest.raises(LimpetError, match="400"):
            asking(model, schema=SCHEMA)
    assert len(server.asked) == 2


def test_a_bad_reply_does_not_fall_back():
    with model_server("nonsense") as server, pytest.raises(InvalidReplyError):
        asking(at(server), schema=SCHEMA)
    assert len(server.asked) == 1


def test_json_in_a_code_fence_is_read():
    with model_server('```json\n{"reason": "a", "label": "correct"}\n```') as server:
        assert asking(at(server), schema=SCHEMA).parsed["label"] == "correct"


# ---- streams ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["schema", "tool", "text"])
def test_a_streamed_reply_is_the_same_with_the_time_of_its_first_token(form):
    with model_server(FITS) as server:
        reply = asking(at(server, stream=True, reply=form), schema=SCHEMA)
    assert reply.parsed == FITS
    assert reply.usage.total_tokens == 15
    assert reply.first_token_s > 0
    assert server.asked[0]["stream"] is True


def test_a_server_that_does_not_stream_is_read_all_the_same():
    body = b'{"choices": [{"message": {"content": "whole"}}]}'
    with model_server() as server:
        server._answer = lambda request, number: raw(body, status=201)
        assert asking(at(server, stream=True)).text == "whole"


@pytest.mark.parametrize(
    ("events", "says"),
    [
        (b'data: {"choices": [{"delta": {"content": "ha"}}]}\n\n', "ended before"),
        (b'data: {"choices": [\n\n', "not JSON"),
        (b'data: {"error": {"message": "overloaded"}}\n\ndata: [DONE]\n\n', "overloaded"),
        (b"", "ended before"),
    ],
)
def test_a_stream_that_breaks_is_a_failure_that_may_pass(events, says):
    broken = raw(events, 201, headers={"Content-Type": "text/event-stream"})
    with model_server(broken) as server, pytest.raises(LimpetError, match=says) as caught:
        asking(at(server, stream=True))
    assert classify(caught.value).kind is FailureKind.TRANSIENT


# ---- what counts, what is shown -----------------------------------------------------------------


def test_settings_count_and_keys_do_not(monkeypatch):
    def made(**settings):
        return openai_api("http://h/v1", **{"model": "m", **settings}).fingerprint

    assert made(key="sk-a-secret-key") == made(key="${OTHER}") == made(key=None)
    assert made(headers={"X": "secret-value"}, organization="o", name="n", timeout=3) == made()
    assert made(stream=True) == made()
    others = [
        made(model="n"),
        made(params={"temperature": 0}),
        made(reply="text"),
        made(api_version="1"),
        openai_api("http://other/v1", model="m").fingerprint,
    ]
    assert made() not in others
    with_key = openai_api("http://u:password1@h/v1?api_key=secret-a", model="m")
    assert with_key.fingerprint == openai_api("http://h/v1?api_key=secret-b", model="m").fingerprint


def test_a_literal_key_appears_nowhere():
    key = "sk-literal-secret"
    model = openai_api("http://user:pass-word@h/v1?api_key=query-secret", model="m", key=key)
    shown = f"{model!r}{model.described}{model.fingerprint}{model.endpoint}{model.name}"
    assert not any(secret in shown for secret in (key, "pass-word", "query-secret"))
    assert key in " ".join(model.secrets)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(model)


def test_a_function_that_asks_a_model_counts_its_settings_and_not_its_key():
    def parts(**settings):
        model = openai_api("http://h/v1", **{"model": "m", **settings})

        async def flow(question):
            return (await model.ask([{"role": "user", "content": question}])).text

        identity = identity_of(flow)
        assert "sk-secret" not in str(identity.shown.parts)
        return identity.parts

    assert parts(key="sk-secret-a") == parts(key="sk-secret-b", headers={"X": "sk-secret-c"})
    assert parts() != parts(params={"temperature": 0})


def test_a_key_with_a_line_break_is_said_by_the_name_of_its_variable(monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-one\nsk-two")
    model = openai_api("http://127.0.0.1:9/v1", model="m", key="${MY_KEY}")
    assert model.secrets
    with pytest.raises(SetupError, match="MY_KEY") as caught:
        asyncio.run(model.open())
    assert "sk-one" not in str(caught.value)


def test_the_endpoint_is_one_for_each_server_and_model():
    made = openai_api("https://key:secret@host/v1", model="m", key="k")
    assert made.endpoint == "https://host:443 m"
    assert made.endpoint != openai_api("https://host/v1", model="n", key="k").endpoint


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"base_url": "localhost"}, "base_url"),
        ({"base_url": "http://h/v1/chat/completions"}, "without /chat/completions"),
        ({"reply": "shema"}, "did you mean 'schema'"),
        ({"params": [1]}, "params"),
        ({"params": {"x": float("nan")}}, "params"),
        ({"params": {"x": object()}}, "params"),
        ({"params": {"stream": True}}, "params"),
        ({"params": {"model": "n"}}, "params"),
        ({"key": ""}, "key"),
        ({"key": "${A}${B}"}, "key"),
        ({"key": "two\nlines"}, "line break"),
        ({"model": ""}, "model"),
        ({"headers": {"X": "a\nb"}}, "line break"),
        ({"timeuot": 3}, "did you mean 'timeout'"),
        ({"stream": "yes"}, "stream"),
    ],
)
def test_what_cannot_work_is_said_at_once(settings, says):
    given = {"base_url": "http://h/v1", "model": "m", **settings}
    with pytest.raises((LimpetError, TypeError, ValueError), match=says):
        openai_api(given.pop("base_url"), **given)
