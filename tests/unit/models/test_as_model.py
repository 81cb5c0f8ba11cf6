"""What a user has becomes a model: a client by its shape, a function, a model."""

import asyncio
import json
import pickle
from types import SimpleNamespace

import pytest

from limpet.errors import InvalidReplyError, LimpetError, SetupError
from limpet.models import Model, Reply, as_model, openai_api
from limpet.models.chat import _working_form
from limpet.pacing.observation import Observation, observing
from limpet.pacing.registry import PacerRegistry, pacing_with
from limpet.pacing.signals import FailureKind, classify
from limpet.shapes import Usage

ASK = [{"role": "user", "content": "Is it right?"}]
SCHEMA = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["label"],
    "additionalProperties": False,
}
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@pytest.fixture(autouse=True)
def _forget():
    _working_form.clear()


def ask(model, **params):
    return asyncio.run(model.ask(ASK, **params))


# ---- a client -----------------------------------------------------------------------------------


class StatusError(Exception):
    def __init__(self, status, body=None, headers=None):
        super().__init__(f"Error code: {status} - {body}")
        self.status_code = status
        self.body = body
        self.response = SimpleNamespace(status_code=status, headers=headers or {})


class Client:
    """Has the shape of `AsyncOpenAI`; with `raw`, also that of `with_raw_response`."""

    base_url = "https://user:pass-word@api.test/v1/"
    api_key = "sk-client-secret"

    def __init__(self, answer, raw=True, max_retries=2):
        self.answer = answer
        self.asked = []
        self.max_retries = max_retries
        create = SimpleNamespace(create=self._raw)
        self.completions = SimpleNamespace(create=self._plain)
        if raw:
            self.completions.with_raw_response = create
        self.chat = SimpleNamespace(completions=self.completions)

    def with_options(self, *, max_retries):
        other = Client(self.answer, max_retries=max_retries)
        other.asked = self.asked
        return other

    async def _plain(self, **request):
        self.asked.append({"retries": self.max_retries, **request})
        answer = self.answer(request, len(self.asked)) if callable(self.answer) else self.answer
        if isinstance(answer, Exception):
            raise answer
        message = {"content": answer}
        body = {"model": "gpt", "choices": [{"message": message, "finish_reason": "stop"}]}
        return {**body, "usage": USAGE}

    async def _raw(self, **request):
        body = await self._plain(**request)
        return SimpleNamespace(content=json.dumps(body).encode(), headers={"X-Id": "7"})


def test_a_client_is_called_with_its_retries_off_and_its_headers_are_kept():
    client, observed = Client("hello"), Observation()
    model = as_model((client, "gpt"))
    with observing(observed):
        reply = ask(model, temperature=0)
    assert (reply.text, reply.usage.total_tokens, reply.headers) == ("hello", 15, {"x-id": "7"})
    assert client.asked == [{"retries": 0, "model": "gpt", "messages": ASK, "temperature": 0}]
    assert observed.headers == {"x-id": "7"}
    assert observed.usage == {"total_tokens": 15}


def test_a_client_may_have_neither_options_nor_raw_responses():
    class Plain:
        chat = SimpleNamespace(completions=Client("hello").completions)

    del Plain.chat.completions.with_raw_response
    assert ask(as_model(Plain(), model="gpt")).text == "hello"


def test_a_response_object_is_read_by_its_dump():
    async def create(**request):
        return SimpleNamespace(model_dump=lambda: {"choices": [{"message": {"content": "hi"}}]})

    client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
    assert ask(as_model((client, "gpt"))).text == "hi"


def test_a_client_falls_back_on_a_400_and_its_replies_are_checked():
    def answer(request, number):
        return StatusError(400) if "response_format" in request else '{"label": "yes"}'

    client = Client(answer)
    assert ask(as_model((client, "gpt")), schema=SCHEMA).parsed == {"label": "yes"}
    with pytest.raises(InvalidReplyError):
        ask(as_model((Client("maybe"), "gpt")), schema=SCHEMA)


def test_a_clients_429_reaches_the_pacer_as_it_is():
    refused = StatusError(429, headers={"retry-after": "9"})
    with pytest.raises(StatusError) as caught:
        ask(as_model((Client(refused), "gpt")))
    assert caught.value is refused
    assert classify(caught.value).retry_after_s == 9


def test_a_key_that_is_refused_stops_and_is_not_shown():
    refused = StatusError(401, {"message": "Incorrect API key provided: sk-client-secret"})
    with pytest.raises(SetupError) as caught:
        ask(as_model((Client(refused), "gpt")))
    assert "sk-client-secret" not in str(caught.value)
    with pytest.raises(SetupError, match="does not exist"):
        ask(as_model((Client(StatusError(404, {"message": "model gpt does not exist"})), "gpt")))


def test_a_clients_key_is_in_nothing_that_is_kept():
    model = as_model((Client("x"), "gpt"))
    shown = f"{model!r}{model.described}{model.fingerprint}{model.endpoint}"
    assert "sk-client-secret" not in shown
    assert "pass-word" not in shown
    assert "sk-client-secret" in model.secrets
    assert model.endpoint == "https://api.test:443 gpt"
    assert model.fingerprint != as_model((Client("x"), "gpt-5")).fingerprint
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(model)


def test_a_client_that_is_not_asynchronous_is_said():
    def create(**request):
        return {"choices": []}

    client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
    with pytest.raises(SetupError, match="AsyncOpenAI|not asynchronous"):
        ask(as_model((client, "gpt")))

    class SyncAPIClient(Client):
        pass

    with pytest.raises(TypeError, match="use AsyncOpenAI"):
        as_model((SyncAPIClient("x"), "gpt"))


# ---- a function ---------------------------------------------------------------------------------


def test_a_function_may_return_a_string_a_dict_or_a_reply():
    async def text(messages, **params):
        return f"{messages[0]['content']} {params}"

    async def value(messages):
        return {"label": "yes"}

    async def reply(messages):
        return Reply('{"label": "no"}', usage=Usage(1, 2, 3), finish="stop")

    assert ask(as_model(text), temperature=0).text == "Is it right? {'temperature': 0}"
    assert ask(as_model(value), schema=SCHEMA).parsed == {"label": "yes"}
    assert ask(as_model(value)).text == '{"label": "yes"}'
    answered = ask(as_model(reply), schema=SCHEMA)
    assert (answered.parsed, answered.usage.total_tokens) == ({"label": "no"}, 3)


def test_a_function_may_return_a_complete_response():
    async def body(messages):
        return {"choices": [{"message": {"content": '{"label": "yes"}'}}], "usage": USAGE}

    reply = ask(as_model(body), schema=SCHEMA)
    assert (reply.parsed, reply.usage.total_tokens) == ({"label": "yes"}, 15)


def test_the_schema_is_a_parameter_if_the_function_has_it_or_else_in_the_prompt():
    seen = []

    async def with_schema(messages, schema=None):
        seen.append((messages, schema))
        return {"label": "yes"}

    async def without(messages, **params):
        seen.append((messages, params))
        return '{"label": "yes"}'

    ask(as_model(with_schema), schema=SCHEMA)
    ask(as_model(without), schema=SCHEMA)
    assert seen[0] == (ASK, SCHEMA)
    assert seen[1][1] == {}
    assert seen[1][0][0]["content"].startswith("Is it right?\n\nReply with JSON only")
    assert ASK == [{"role": "user", "content": "Is it right?"}]


@pytest.mark.parametrize(
    "returned", ["maybe", {"label": "maybe"}, {}, {"label": float("nan")}, Reply("x", {"a": 1})]
)
def test_what_a_function_returns_is_checked(returned):
    async def function(messages):
        return returned

    with pytest.raises(LimpetError) as caught:
        ask(as_model(function), schema=SCHEMA)
    assert classify(caught.value).kind in (FailureKind.INVALID_REPLY, FailureKind.PERMANENT)


@pytest.mark.parametrize("returned", [None, 1, b"x", ["x"]])
def test_what_is_no_reply_is_an_error(returned):
    async def function(messages):
        return returned

    with pytest.raises(LimpetError, match="must return a string, a dict or a Reply"):
        ask(as_model(function))


def test_the_code_of_a_function_counts():
    async def judge(messages):
        return "a"

    first = judge

    async def judge(messages):
        return "b"

    assert as_model(first).fingerprint == as_model(first).fingerprint
    assert as_model(first).fingerprint != as_model(judge).fingerprint


def test_a_function_is_paced_by_its_name():
    async def judge(messages):
        return "a"

    pacers = PacerRegistry()
    with pacing_with(pacers):
        ask(as_model(judge))
        ask(as_model(judge, name="other"))
    assert [pacer.key for pacer in pacers] == ["judge", "other"]


# ---- the rest -----------------------------------------------------------------------------------


def test_a_model_stays():
    model = openai_api("http://h/v1", model="m")
    assert as_model(model) is model
    assert isinstance(model, Model)


@pytest.mark.parametrize(
    "thing",
    [None, "gpt-4.1", 3, object(), len, lambda messages: "x", Client, openai_api, ("a", "b")],
)
def test_anything_else_is_a_type_error(thing):
    with pytest.raises(TypeError):
        as_model(thing)


def test_a_client_without_a_models_name_says_how_to_give_it():
    with pytest.raises(TypeError, match="as_model\\(\\(client, 'gpt-4.1'\\)\\)"):
        as_model(Client("x"))


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
        SimpleNamespace(prompt_tokens=3, completion_tokens=2),
    ],
    ids=["a dict", "an object of a client"],
)
def test_a_reply_of_a_function_may_have_the_usage_as_its_client_reports_it(usage):
    async def ask(messages, **params):
        return Reply("hello", usage=usage)

    reply = asyncio.run(as_model(ask).ask([{"role": "user", "content": "hi"}]))
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (3, 2)
