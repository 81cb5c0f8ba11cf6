"""Bedrock's Converse: what is sent, how it is signed, what comes back, what a failure means."""

import asyncio
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_server import raw
from native_server import native_server

import limpet
from limpet.errors import InvalidReplyError, LimpetError, PermanentError, SetupError, TransientError
from limpet.models import provider_api
from limpet.models.chat import _working_form
from limpet.models.completion import Reading
from limpet.models.providers.bedrock import Bedrock
from limpet.pacing.signals import FailureKind, classify
from limpet.text import one_line
from limpet.workflows import openai

ASK = [{"role": "user", "content": "Is it right?"}]
SCHEMA = {"type": "object", "properties": {"label": {"type": "string"}}, "required": ["label"]}
USAGE = {
    "inputTokens": 10,
    "outputTokens": 5,
    "totalTokens": 18,
    "cacheReadInputTokens": 2,
    "cacheWriteInputTokens": 1,
}
MODEL = "us.anthropic.claude-x-v1:0"
KEY = "bedrock-api-key-aaaaaaaaaaaaaaaa"


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    _working_form.clear()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)


def replied(*blocks, reason="end_turn", **more):
    message = {"role": "assistant", "content": list(blocks)}
    return {"output": {"message": message}, "stopReason": reason, "usage": USAGE, **more}


YES = replied({"text": "yes"})


def asking(server, messages=ASK, *, schema=None, **settings):
    settings = {"model": MODEL, "key": KEY, **settings}
    model = provider_api("bedrock", server.url, **settings)

    async def ask():
        await model.open()
        try:
            return await model.ask(messages, schema=schema)
        finally:
            await model.close()

    return asyncio.run(ask())


def sent(messages=ASK, *, cache=False, **params):
    """Return the body that is sent, as the server reads it."""
    with native_server(YES) as server:
        asking(server, messages, params=params, cache=cache)
    return server.asked[0]


def failed(answer, kind=LimpetError, **settings):
    with native_server(answer) as server, pytest.raises(kind) as caught:
        asking(server, **settings)
    assert "\n" not in str(caught.value)
    return caught.value


# ---- a request ----------------------------------------------------------------------------------


def test_the_key_and_the_quoted_model_are_where_bedrock_has_them():
    arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.x-v1:0"
    with native_server(YES) as server:
        asking(server)
        asking(server, model=arn)
    first, second = server.requests
    assert first.path == "/model/us.anthropic.claude-x-v1%3A0/converse"
    quoted = "arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.x-v1%3A0"
    assert second.path == f"/model/{quoted}/converse"
    assert first.headers["Authorization"] == f"Bearer {KEY}"


def test_a_conversation_is_sent_as_the_sdk_sends_it():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    image = {"type": "image_url", "image_url": {"url": "data:image/jpg;base64,+//+"}}
    file = {"filename": "a_b..c!.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}
    notes = {"file_data": "data:text/plain;base64,aGk="}
    parts = [{"type": "text", "text": "see"}, image, {"type": "file", "file": file}]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [*parts, {"type": "file", "file": notes}]},
        {"role": "assistant", "content": "", "tool_calls": [call, {**call, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
        {"role": "tool", "tool_call_id": "c2", "content": [image]},
    ]
    picture = {"image": {"format": "jpeg", "source": {"bytes": "+//+"}}}
    pdf = {"format": "pdf", "name": "a b c", "source": {"bytes": "JVBERg=="}}
    txt = {"format": "txt", "name": "document", "source": {"bytes": "aGk="}}
    used = {"toolUseId": "c1", "name": "f", "input": {"x": 1}}
    results = [
        {"toolUseId": "c1", "content": [{"text": "r"}]},
        {"toolUseId": "c2", "content": [picture]},
    ]
    assert sent(messages) == {
        "system": [{"text": "Be brief."}],
        "messages": [
            {
                "role": "user",
                "content": [{"text": "see"}, picture, {"document": pdf}, {"document": txt}],
            },
            {
                "role": "assistant",
                "content": [{"toolUse": used}, {"toolUse": {**used, "toolUseId": "c2"}}],
            },
            {"role": "user", "content": [{"toolResult": result} for result in results]},
        ],
    }


def test_only_s3_has_addresses_of_images():
    def with_image(url):
        return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]

    block = {"format": "png", "source": {"s3Location": {"uri": "s3://bucket/a.png"}}}
    assert sent(with_image("s3://bucket/a.png"))["messages"][0]["content"] == [{"image": block}]
    with native_server(YES) as server, pytest.raises(PermanentError, match="an image cannot"):
        asking(server, with_image("https://h/a.png"))
    file = {"type": "file", "file": {"file_data": "https://h/a.pdf"}}
    with native_server(YES) as server, pytest.raises(PermanentError, match="a file cannot"):
        asking(server, [{"role": "user", "content": [file]}])
    assert not server.requests


def test_parameters_have_the_names_of_converse_and_the_models_own_go_to_the_model():
    body = sent(
        max_tokens=5,
        temperature=0.5,
        top_p=0.5,
        stop="a",
        top_k=4,
        reasoning_effort="low",
        guardrailConfig={"guardrailIdentifier": "g", "guardrailVersion": "1"},
        additionalModelRequestFields={"thinking": {"type": "adaptive"}},
    )
    del body["messages"]
    assert body == {
        "inferenceConfig": {
            "maxTokens": 5,
            "temperature": 0.5,
            "topP": 0.5,
            "stopSequences": ["a"],
        },
        "outputConfig": {"effort": "low"},
        "guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"},
        "additionalModelRequestFields": {"top_k": 4, "thinking": {"type": "adaptive"}},
    }


def test_tools_and_their_choice():
    function = {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True}
    tools = [{"type": "function", "function": function}]
    spec = {"name": "f", "description": "d", "inputSchema": {"json": SCHEMA}, "strict": True}
    named = {"type": "function", "function": {"name": "f"}}
    for choice, chosen in (
        (named, {"tool": {"name": "f"}}),
        ("required", {"any": {}}),
        ("auto", {"auto": {}}),
    ):
        config = {"tools": [{"toolSpec": spec}], "toolChoice": chosen}
        assert sent(tools=tools, tool_choice=choice)["toolConfig"] == config
    assert "toolConfig" not in sent(tools=tools, tool_choice="none")


def test_a_schema_is_sent_as_text_and_the_reply_is_read():
    with native_server(replied({"text": '{"label": "yes"}'})) as server:
        assert asking(server, schema=SCHEMA).parsed == {"label": "yes"}
    definition = {
        "schema": '{"type": "object", "properties": {"label": {"type": "string"}}, '
        '"required": ["label"]}',
        "name": "reply",
    }
    structure = {"type": "json_schema", "structure": {"jsonSchema": definition}}
    assert server.asked[0]["outputConfig"] == {"textFormat": structure}
    assert "additionalModelRequestFields" not in server.asked[0]


def test_a_model_without_schemas_is_asked_by_tool():
    def answer(request, number):
        if "outputConfig" in request:
            return problem(400, "ValidationException", "outputConfig is not supported")
        use = {"toolUseId": "c", "name": "reply", "input": {"label": "yes"}}
        return replied({"toolUse": use}, reason="tool_use")

    with native_server(answer) as server:
        assert asking(server, schema=SCHEMA).parsed == {"label": "yes"}
    assert server.asked[1]["toolConfig"]["toolChoice"] == {"tool": {"name": "reply"}}


MARK = {"cache_control": {"type": "ephemeral"}}


def test_the_end_of_the_constant_part_is_marked_for_the_cache():
    point = {"cachePoint": {"type": "default"}}
    system = {"role": "system", "content": "Be brief."}
    assert sent([system, *ASK], cache=True)["system"] == [{"text": "Be brief."}, point]
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert sent(cache=True, tools=tools)["toolConfig"]["tools"][1:] == [point]
    assert "system" not in sent(cache=True)
    # What a judge marks itself: the constant beginning of its prompt.
    parts = [{"type": "text", "text": "Rules", **MARK}, {"type": "text", "text": "data"}]
    marked = sent([{"role": "user", "content": parts}], cache=True)["messages"][0]["content"]
    assert marked == [{"text": "Rules"}, point, {"text": "data"}]


@pytest.mark.parametrize("asked", [{"stream": True}, {"params": {"seed": 1}}, {"params": {"n": 2}}])
def test_what_it_cannot_do_is_said_before_the_first_call(asked):
    with pytest.raises(SetupError, match="bedrock does not support"):
        provider_api("bedrock", "http://localhost:1", model=MODEL, key=None, **asked)


# ---- where it is, and who asks ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "address"),
    [
        ({"AWS_REGION": "eu-west-1"}, "https://bedrock-runtime.eu-west-1.amazonaws.com"),
        ({"AWS_DEFAULT_REGION": "us-east-1"}, "https://bedrock-runtime.us-east-1.amazonaws.com"),
        ({"AWS_REGION": "cn-north-1"}, "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_the_region_gives_the_address(monkeypatch, variables, address):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Bedrock().address == address


def test_without_a_region_the_address_has_to_be_given():
    with pytest.raises(LimpetError, match="bedrock has no address of its own") as caught:
        provider_api("bedrock", model=MODEL)
    assert "AWS_REGION" in caught.value.hint


def test_without_a_key_and_credentials_the_variable_of_the_key_is_named():
    with native_server(YES) as server, pytest.raises(SetupError, match="AWS_BEARER_TOKEN_BEDROCK"):
        asking_without_key(server)


def asking_without_key(server, model=MODEL):
    model = provider_api("bedrock", server.url, model=model)

    async def ask():
        await model.open()
        try:
            return await model.ask(ASK)
        finally:
            await model.close()

    return asyncio.run(ask())


@pytest.fixture
def _credentials(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-access-key")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-session-token")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


@pytest.mark.usefixtures("_credentials")
def test_the_key_of_the_environment_comes_before_its_credentials(monkeypatch):
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
    with native_server(YES) as server:
        asking_without_key(server)
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    assert "X-Amz-Date" not in server.requests[0].headers


@pytest.mark.usefixtures("_credentials")
def test_without_botocore_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore", None)
    with native_server(YES) as server, pytest.raises(SetupError, match="botocore") as caught:
        asking_without_key(server)
    assert "limpet[bedrock]" in caught.value.hint
    assert not server.requests


@pytest.mark.usefixtures("_credentials")
@pytest.mark.parametrize("model", [MODEL, "arn:aws:bedrock:us-east-1:1:inference-profile/x-v1:0"])
def test_a_request_without_a_key_is_signed_as_it_is_sent(model):
    auth = pytest.importorskip("botocore.auth", reason="the extra bedrock")
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    with native_server(YES) as server:
        asking_without_key(server, model)
        asked = server.requests[0]
        own = {name: asked.headers[name] for name in ("Content-Type", "Host", "X-Amz-Date")}
        own["X-Amz-Security-Token"] = "a-session-token"
        request = AWSRequest("POST", server.url + asked.path, own, server.sent)
    request.context["timestamp"] = asked.headers["X-Amz-Date"]
    credentials = Credentials("AKIDEXAMPLE", "a-secret-access-key", "a-session-token")
    signer = auth.SigV4Auth(credentials, "bedrock", "us-east-1")
    text = signer.string_to_sign(request, signer.canonical_request(request))
    assert asked.headers["X-Amz-Security-Token"] == "a-session-token"
    assert asked.headers["Authorization"] == (
        f"AWS4-HMAC-SHA256 Credential={signer.scope(request)}, "
        "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, "
        f"Signature={signer.signature(text, request)}"
    )


@pytest.mark.usefixtures("_credentials")
def test_the_region_of_the_address_is_signed_not_that_of_the_environment():
    pytest.importorskip("botocore", reason="the extra bedrock")
    url = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse"
    bedrock = Bedrock()

    async def headers():
        await bedrock.get_ready(url)
        return await bedrock.signed(url, b"{}")

    headers = asyncio.run(headers())
    assert "/eu-west-1/bedrock/aws4_request" in headers["Authorization"]


@pytest.fixture
def _in_a_file(monkeypatch, tmp_path):
    """Credentials that no variable names."""
    pytest.importorskip("botocore", reason="the extra bedrock")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    lines = [f"aws_{name} = {secret}" for name, secret in SECRETS.items()]
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("\n".join(["[default]", *lines]))


SECRETS = {
    "access_key_id": "AKIAOFAFILEOFAFILEOF",
    "secret_access_key": "filesecretfilesecretfilesecretfile1",
    "session_token": "FwoGtokenOfAFile/token+of+a+file==",
}


@pytest.mark.usefixtures("_in_a_file")
def test_credentials_that_no_variable_names_sign():
    with native_server(YES) as server:
        asking_without_key(server)
    asked = server.requests[0].headers
    assert "Credential=AKIAOFAFILEOFAFILEOF/" in asked["Authorization"]
    assert asked["X-Amz-Security-Token"] == SECRETS["session_token"]


@pytest.mark.usefixtures("_in_a_file")
@pytest.mark.parametrize("settings", [{}, {"base_url": None, "key": None}])
def test_without_a_key_and_credentials_nothing_is_sent(tmp_path, settings):
    (tmp_path / ".aws" / "credentials").unlink()
    with native_server(YES) as server:
        model = provider_api("bedrock", **{"base_url": server.url, "model": "m", **settings})
        with pytest.raises(SetupError, match="no key, and no AWS credentials") as caught:
            asyncio.run(model.open())
    assert "AWS_BEARER_TOKEN_BEDROCK" in caught.value.hint
    assert not server.requests


@pytest.mark.usefixtures("_in_a_file")
def test_a_gateway_that_takes_no_key_gets_no_credentials_of_a_file():
    with native_server(YES) as server:
        asking(server, key=None)
    assert "Authorization" not in server.requests[0].headers


@pytest.mark.usefixtures("_in_a_file")
def test_what_signs_is_nowhere_in_a_run(tmp_path):
    asked = []

    def repeated(request, number):
        headers = server.requests[-1].headers
        said = f"{headers['X-Amz-Security-Token']} and {headers['Authorization']}"
        asked.append(headers["Authorization"])
        if number:
            return raw({"message": f"refused: {said}"}, 400)
        return replied({"text": f"yes: {said}"})

    with native_server(repeated) as server:
        model = provider_api("bedrock", server.url, model="m")
        flow = openai(model=model, prompt="{{question}}")
        rows = [{"id": f"{number}", "question": "?"} for number in range(2)]
        result = limpet.evaluate(rows, flow, run=tmp_path / "run", pace=1)
    assert result.items[0].output.value.startswith("yes: [redacted] and [redacted]")
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    everything = "".join(path.read_text(errors="replace") for path in files)
    assert "refused: [redacted]" in everything
    signatures = [authorization.rpartition("=")[2] for authorization in asked]
    assert not [one for one in [*SECRETS.values(), *signatures] if one in everything]
    assert {*SECRETS.values()} <= {*model.secrets}


@pytest.mark.usefixtures("_credentials")
def test_a_signature_is_not_sent_to_another_server():
    pytest.importorskip("botocore", reason="the extra bedrock")
    with native_server(YES) as other:
        moved = raw({}, 307, {"Location": f"{other.url}/elsewhere"})
        with native_server(moved) as server, pytest.raises(PermanentError, match="another server"):
            asking_without_key(server)
    assert not other.requests


@pytest.mark.usefixtures("_credentials")
def test_a_header_of_the_user_comes_before_a_signature():
    pytest.importorskip("botocore", reason="the extra bedrock")
    with native_server(YES) as server:
        asking(server, key=None, headers={"authorization": "Bearer of-the-proxy"})
    assert server.requests[0].headers.getall("Authorization") == ["Bearer of-the-proxy"]


@pytest.mark.usefixtures("_credentials")
def test_refused_credentials_are_not_called_a_missing_key():
    pytest.importorskip("botocore", reason="the extra bedrock")
    answer = problem(403, "UnrecognizedClientException", "The security token is invalid.")
    with native_server(answer) as server, pytest.raises(SetupError, match="token") as caught:
        asking_without_key(server)
    assert "check the AWS credentials" in caught.value.hint


def test_a_profile_that_does_not_exist_is_said(monkeypatch, tmp_path):
    pytest.importorskip("botocore", reason="the extra bedrock")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with native_server(YES) as server, pytest.raises(SetupError, match="nobody"):
        asking_without_key(server)


# ---- a reply ------------------------------------------------------------------------------------


def test_a_reply_has_text_usage_and_finish():
    with native_server(YES) as server:
        reply = asking(server)
    assert (reply.text, reply.finish, reply.model) == ("yes", "stop", None)
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (13, 5)
    assert (reply.usage.cached_tokens, reply.usage.total_tokens) == (2, 18)
    assert MODEL in reply.usage.models


def test_reasoning_is_never_part_of_the_answer_and_cited_text_is():
    thought = {"reasoningContent": {"reasoningText": {"text": "I wonder.", "signature": "s"}}}
    cited = {"citationsContent": {"content": [{"text": "s"}], "citations": []}}
    body = replied(thought, {"text": "ye"}, cited)
    with native_server(body) as server:
        assert asking(server).text == "yes"
    message = Bedrock().completion(body)["choices"][0]["message"]
    assert message["reasoning_content"] == "I wonder."
    assert "has no text" in str(failed(replied(thought, reason="max_tokens")))


def test_tool_calls_have_the_shape_of_all_providers():
    use = {"toolUseId": "c1", "name": "f", "input": {"x": 1}}
    with native_server(replied({"toolUse": use}, reason="tool_use")) as server:
        reply = asking(server)
    assert reply.tool_calls == [{"id": "c1", "name": "f", "arguments": {"x": 1}}]
    assert reply.finish == "tool_calls"


@pytest.mark.parametrize("reason", ["guardrail_intervened", "content_filtered", "refusal"])
def test_a_filter_that_stops_the_reply_is_a_failure_not_its_text(reason):
    trace = {"guardrail": {"actionReason": "Guardrail blocked."}}
    body = replied({"text": "Sorry, I cannot."}, reason=reason, trace=trace)
    error = failed(body, InvalidReplyError)
    assert f"a content filter stopped the reply: {reason}: Guardrail blocked." in str(error)
    assert error.usage.total_tokens == 18


@pytest.mark.parametrize("reason", ["malformed_model_output", "malformed_tool_use", "new"])
def test_a_reply_that_went_wrong_may_work_the_next_time(reason):
    error = failed(replied({"text": "half"}, reason=reason), TransientError)
    assert f"the reply ended with an error: {reason}" in str(error)


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_a_reply_that_is_cut_says_so(reason):
    with native_server(replied({"text": "half"}, reason=reason)) as server:
        assert asking(server).finish == "length"


# ---- errors -------------------------------------------------------------------------------------


def problem(status, kind, message="no"):
    return raw({"message": message}, status, {"x-amzn-errortype": f"{kind}:http://internal/x/"})


@pytest.mark.parametrize(
    ("status", "name", "kind"),
    [
        (429, "ThrottlingException", FailureKind.RATE_LIMIT),
        (429, "ModelNotReadyException", FailureKind.RATE_LIMIT),
        (400, "ValidationException", FailureKind.PERMANENT),
        (403, "AccessDeniedException", FailureKind.SETUP),
        (404, "ResourceNotFoundException", FailureKind.SETUP),
        (408, "ModelTimeoutException", FailureKind.TRANSIENT),
        (424, "ModelErrorException", FailureKind.PERMANENT),
        (500, "InternalServerException", FailureKind.TRANSIENT),
        (503, "ServiceUnavailableException", FailureKind.TRANSIENT),
    ],
)
def test_each_error_means_what_its_status_says_and_shows_its_name(status, name, kind):
    error = failed(problem(status, name, "as it is"))
    assert f"status {status}: {name}: as it is" in str(error)
    assert classify(error).kind is kind


def test_an_error_may_have_its_name_in_the_body():
    body = {"__type": "com.amazon.coral.service#UnrecognizedClientException", "Message": "token"}
    error = failed(raw(body, 403), SetupError)
    assert "status 403: UnrecognizedClientException: token" in str(error)


@pytest.mark.parametrize(
    "said",
    [
        "The provided model identifier is invalid.",
        "Invocation of model ID x with on-demand throughput isn't supported.",
    ],
)
def test_a_model_that_cannot_be_called_is_a_setup_error_asked_for_once(said):
    answer = problem(400, "ValidationException", said)
    with native_server(answer) as server, pytest.raises(SetupError, match=said[:20]):
        asking(server, schema=SCHEMA)
    assert [request.method for request in server.requests] == ["POST"]


def test_an_unknown_parameter_is_refused_with_its_field():
    said = "The model returned the following errors: foo: Extra inputs are not permitted"
    error = failed(problem(400, "ValidationException", said), PermanentError, params={"foo": 1})
    assert "foo: Extra inputs are not permitted" in str(error)


def test_a_key_of_another_provider_is_recognised():
    answer = problem(403, "AccessDeniedException", "Authentication failed: check your API Key")
    error = failed(answer, SetupError, key="sk-ant-aaaaaaaaaaaaaaaaaaaa")
    assert "this looks like a key of anthropic" in error.hint


# ---- any type at any place ----------------------------------------------------------------------

names = st.sampled_from((
    "output", "message", "content", "text", "toolUse", "name", "input", "reasoningContent",
    "reasoningText", "usage", "trace", "citationsContent", "stopReason", "guardrail",
    "actionReason", "error", "__type", "Message",
))  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


@given(anything)
def test_any_body_is_a_reply_or_a_failure(body):
    own, reading = Bedrock(), Reading("m at http://h", one_line, "m")
    for whole in (body, {"output": body}, {"output": {"message": body}}):
        try:
            reading.reply(own.completion(whole), {})
        except LimpetError:
            pass
        own.refusal(whole, {})
