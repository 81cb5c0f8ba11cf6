"""What cannot be asked for is an error before the first call, which names it: never a traceback,
and never left out without a word."""

import asyncio

import pytest
from model_server import failure, raw
from native_server import native_server
from wire import WIRES

from limpet.errors import LimpetError, PermanentError, SetupError
from limpet.models import provider_api
from limpet.models.provider import provider

ASK = [{"role": "user", "content": "Is it right?"}]
IN_PATHS = ("gemini", "bedrock")
"""Those with the model's name in the path."""
KEY = "a-key-of-nobody"
each = pytest.mark.parametrize("wire", WIRES, ids=str)


def asking(wire, server, messages=ASK, given=None, **settings):
    model = provider_api(wire.name, server.url, **{"model": "m", "key": KEY, **settings})

    async def ask():
        await model.open()
        try:
            return await model.ask(messages, **(given or {}))
        finally:
            await model.close()

    return asyncio.run(ask())


def refused(wire, messages=ASK, **settings):
    """Return the error of a request that is not sent."""
    with native_server(wire.body("yes")) as server, pytest.raises(LimpetError) as caught:
        asking(wire, server, messages, **settings)
    assert not server.requests
    assert isinstance(caught.value, (SetupError, PermanentError))
    return caught.value


def sent(wire, messages=ASK, **settings):
    with native_server(wire.body("yes")) as server:
        assert asking(wire, server, messages, **settings).text == "yes"
    return server.asked[0]


def either(params):
    """Return the ways to give parameters: to the model, and to one call."""
    return {"params": params}, {"given": params}


# ---- addresses and models -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "right"),
    [
        ("anthropic", "https://api.anthropic.com/v1", "https://api.anthropic.com"),
        ("anthropic", "https://me:secret@h/proxy/v1/?key=secret", "https://h/proxy"),
        ("gemini", "https://h.example/v1beta/", "https://h.example"),
        ("gemini", "https://h.example/v1beta/openai", "https://h.example"),
        ("ollama", "http://localhost:11434/v1", "http://localhost:11434"),
        ("ollama", "http://localhost:11434/api", "http://localhost:11434"),
        ("ollama", "http://localhost:11434/api/chat", "http://localhost:11434"),
    ],
)
def test_an_address_with_the_version_is_not_taken_and_the_right_one_is_shown(name, given, right):
    with pytest.raises(LimpetError, match="base_url: must be the address without /") as caught:
        provider_api(name, given, model="m", key=None)
    assert str(caught.value).endswith(f": {right}")


def test_a_host_that_is_called_api_is_no_version():
    assert provider_api("ollama", "http://api", model="m").described["address"] == "http://api:80"


@each
def test_a_name_that_cannot_be_sent_is_said_with_the_name(wire):
    with pytest.raises(LimpetError, match=r"model='m\\ud800': has a character"):
        provider_api(wire.name, "http://h", model="m\ud800", key=None)


@each
def test_an_error_is_on_one_line_whatever_the_model_is_called(wire):
    with native_server(wire.failure(400, "no")) as server, pytest.raises(LimpetError) as caught:
        asking(wire, server, model="m\nFAKE: fine")
    assert "\n" not in str(caught.value)
    assert "FAKE" in str(caught.value)


@pytest.mark.parametrize(
    "wire", [one for one in WIRES if one.name in ("gemini", "bedrock")], ids=str
)
@pytest.mark.parametrize("model", ["../../x", "models/../../x"])
def test_a_models_name_stays_below_its_path(wire, model):
    with native_server(wire.body("yes")) as server:
        asking(wire, server, model=model)
    assert "/../" not in server.requests[0].path
    assert "..%2Fx" in server.requests[0].path


@pytest.mark.parametrize(
    ("name", "address", "key", "owner"),
    [
        ("gemini", None, "sk-ant-api03-abc", "anthropic"),
        ("anthropic", None, "sk-proj-abc", "openai"),
        ("responses", None, "AIzaabc", "gemini"),
        ("openai", "https://api.openai.com/v1", "sk-ant-api03-abc", "anthropic"),
        ("openai", "https://api.anthropic.com/v1", "AIzaabc", "gemini"),
    ],
)
def test_another_companys_key_is_not_sent(monkeypatch, name, address, key, owner):
    monkeypatch.setenv("SOME_KEY", key)
    model = provider_api(name, address, model="m", key="${SOME_KEY}")
    with pytest.raises(SetupError, match=f"looks like one of {owner}") as caught:
        asyncio.run(model.open())
    assert "SOME_KEY" in caught.value.hint
    assert key not in str(caught.value)


def test_a_gateway_takes_any_key():
    (wire,) = [wire for wire in WIRES if wire.name == "anthropic"]
    with native_server(wire.body("yes")) as server:
        asking(wire, server, key="AIzaabc")
    assert server.requests[0].headers["x-api-key"] == "AIzaabc"


def test_each_path_of_a_server_has_its_own_models():
    missing = failure(404, "no model", code="model_not_found")

    def listed(path):
        name = path.split("/")[1]
        return raw({"data": [{"id": f"of-{name}"}]})

    async def ask(*models):
        for model in models:
            await model.open()
        found = await asyncio.gather(*[one.ask(ASK) for one in models], return_exceptions=True)
        for model in models:
            await model.close()
        return [error.hint for error in found]

    with native_server(missing, listed) as server:
        models = [provider_api("openai", f"{server.url}/{x}", model="m", key=None) for x in "ab"]
        hints = asyncio.run(ask(*models))
    assert hints == ["the server has of-a", "the server has of-b"]


# ---- parameters ---------------------------------------------------------------------------------


@each
@pytest.mark.parametrize(
    ("ability", "params"),
    [("seed", {"seed": 0}), ("seed", {"seed": 7}), ("n", {"n": 0}), ("n", {"n": True})],
    ids=str,
)
def test_zero_and_true_ask_for_something(wire, ability, params):
    if ability not in provider(wire.name).can:
        for settings in either(params):
            assert str(refused(wire, **settings)).startswith(f"{ability}: {wire.name} does not")


@each
def test_one_reply_and_no_log_probabilities_are_fine_everywhere(wire):
    sent(wire, params={"n": 1, "logprobs": False, "top_logprobs": 0, "seed": None})


@each
@pytest.mark.parametrize(
    "params",
    [{"tools": 5}, {"tools": {"a": 1}}, {"tools": "x"}, {"tools": ["x"]}, {"stop": 5},
     {"stop": ["a", 5]}, {"stop": {"a": 1}}],
    ids=str,
)  # fmt: skip
def test_tools_and_stops_of_the_wrong_type_are_named(wire, params):
    for settings in either(params):
        error = refused(wire, **settings)
        assert f"params: {next(iter(params))}: must be a" in str(error)
        assert error.argument == "params"


@pytest.mark.parametrize("name", ["anthropic", "gemini", "ollama", "bedrock"])
@pytest.mark.parametrize(
    "form",
    [5, "json", {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"schema": 5}}],
    ids=str,
)
def test_a_format_that_cannot_be_translated_is_not_left_out(name, form):
    (wire,) = [wire for wire in WIRES if wire.name == name]
    for settings in either({"response_format": form}):
        assert "response_format: must be of the type" in str(refused(wire, **settings))


def test_parallel_tool_calls_of_the_wrong_type_are_not_left_out():
    (wire,) = [wire for wire in WIRES if wire.name == "anthropic"]
    for settings in either({"parallel_tool_calls": "x"}):
        assert "parallel_tool_calls: must be true or false" in str(refused(wire, **settings))


def test_fields_of_the_wrong_type_beside_ours_are_passed_on():
    (wire,) = [wire for wire in WIRES if wire.name == "anthropic"]
    params = {"output_config": 5, "reasoning_effort": "low", "tool_choice": ["a"]}
    body = sent(wire, params={**params, "parallel_tool_calls": False})
    assert (body["output_config"], body["tool_choice"]) == (5, ["a"])


def test_what_to_include_is_passed_on_as_it_is():
    (wire,) = [wire for wire in WIRES if wire.name == "responses"]
    assert sent(wire, params={"include": 5, "logprobs": True})["include"] == 5


# ---- messages -----------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("calls", [5, "x", {"a": 1}, [5]], ids=str)
def test_tool_calls_of_the_wrong_type_are_named(wire, calls):
    message = {"role": "assistant", "content": "x", "tool_calls": calls}
    assert "tool_calls: must be a list" in str(refused(wire, [message, *ASK]))
