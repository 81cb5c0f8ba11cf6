"""Several keys for one model: which one a call takes, and what happens when one is refused."""

import asyncio
import logging
from collections import Counter

import pytest
from e2e.servers import on_a_thread
from model_server import ModelServer, failure, model_server, raw
from native_server import native_server

import limpet
from limpet.errors import LimpetError, QuotaExhaustedError, SetupError
from limpet.models import openai_api, provider_api
from limpet.pacing.observation import Observation, observing
from limpet.pacing.registry import members_of
from limpet.workflows import openai

ASK = [{"role": "user", "content": "Is it right?"}]
A, B, C = "sk-secret-of-a-1", "sk-secret-of-b-2", "sk-secret-of-c-3"
ROWS = [{"id": f"{number}", "question": f"{number}?"} for number in range(40)]


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for name, value in (("KEY_A", A), ("KEY_B", B), ("KEY_C", C)):
        monkeypatch.setenv(name, value)


class Keyed(ModelServer):
    """A server on which `ends` says how each key is answered: after so many calls, an error."""

    def __init__(self, **ends):
        super().__init__("fine")
        self.ends = {A: ends.get("a"), B: ends.get("b"), C: ends.get("c")}
        self.by_key = Counter()

    def _refusal(self, asked):
        key = asked.headers.get("Authorization", "").removeprefix("Bearer ")
        self.by_key[key] += 1
        end = self.ends[key]
        return end[1](key) if end is not None and self.by_key[key] > end[0] else None


def refused(key):
    return failure(401, f"Incorrect API key provided: {key}", code="invalid_api_key")


def exhausted(_):
    return failure(429, "You exceeded your current quota", code="insufficient_quota")


def tomorrow(_):
    return failure(429, "too many", headers={"Retry-After": "7200"})


def served(**ends):
    return on_a_thread(Keyed(**ends))


def at(server, keys=("${KEY_A}", "${KEY_B}"), **settings):
    return openai_api(server.url, model="m", keys=list(keys), **settings)


def asked(model, times=1):
    async def ask():
        await model.open()
        try:
            return [(await model.ask(ASK)).text for _ in range(times)]
        finally:
            await model.close()

    return asyncio.run(ask())


def warnings_in(caplog):
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


# ---- a run --------------------------------------------------------------------------------------


def test_a_run_spreads_its_calls_over_the_keys(tmp_path):
    with served() as server:
        flow = openai(server.url, model="m", prompt="{{question}}", keys=["${KEY_A}", "${KEY_B}"])
        result = limpet.evaluate(ROWS, flow, run=tmp_path / "run")
    assert [item.output.value for item in result.items] == ["fine"] * 40
    assert server.by_key[A] + server.by_key[B] == 40
    assert min(server.by_key[A], server.by_key[B]) >= 10


@pytest.mark.parametrize("end", [refused, exhausted, tomorrow])
def test_a_key_that_ends_in_the_middle_costs_one_line_and_no_item(tmp_path, caplog, end):
    with served(b=(5, end)) as server:
        flow = openai(server.url, model="m", prompt="{{question}}", keys=["${KEY_A}", "${KEY_B}"])
        result = limpet.evaluate(ROWS, flow, run=tmp_path / "run")
    assert [item.output.value for item in result.items] == ["fine"] * 40
    assert server.by_key[A] >= 40 - 5
    (said,) = warnings_in(caplog)
    assert said.startswith("the key ${KEY_B} is set aside: m at http://127.0.0.1:")
    everything = said + "".join(
        path.read_text(errors="replace") for path in (tmp_path / "run").rglob("*") if path.is_file()
    )
    assert not any(key in everything for key in (A, B))
    assert "\n" not in said


def test_a_judge_with_many_votes_uses_all_keys_and_loses_none_with_one_of_them(tmp_path):
    with served(b=(20, refused)) as server:
        server._answer = lambda request, number: {"reason": "so", "label": "correct"}
        judge = limpet.judge(at(server), of="correctness", votes=5, name="right")
        rows = [{**row, "answer": "yes"} for row in ROWS[:20]]
        result = limpet.evaluate(rows, lambda question: "yes", [judge], run=tmp_path / "run")
    assert result.summary["scores"]["right"]["mean"] == 1.0
    assert result.summary["evaluators"]["right"]["failed"] == {}
    assert server.by_key[B] >= 20
    assert 100 - 20 <= server.by_key[A] <= 100


def test_when_all_keys_are_refused_the_error_names_them_all(tmp_path):
    with served(a=(3, refused), b=(0, refused)) as server:
        flow = openai(server.url, model="m", prompt="{{question}}", keys=["${KEY_A}", "${KEY_B}"])
        with pytest.raises(SetupError) as caught:
            limpet.evaluate(ROWS, flow, run=tmp_path / "run")
    said = f"{caught.value} {caught.value.hint}"
    assert "no key is left" in said
    assert "${KEY_A}: status 401" in said
    assert "${KEY_B}: status 401" in said
    assert not any(key in said for key in (A, B))


def test_one_key_or_several_give_the_same_results(tmp_path):
    with served() as server:
        one = openai(server.url, model="m", prompt="{{question}}", key="${KEY_A}")
        limpet.evaluate(ROWS, one, run=tmp_path / "run")
        several = openai(
            server.url, model="m", prompt="{{question}}", keys=["${KEY_B}", "${KEY_C}"]
        )
        result = limpet.evaluate(ROWS, several, run=tmp_path / "run")
        assert sum(server.by_key.values()) == 40
    assert len(result.items) == 40
    assert at(server).fingerprint == openai_api(server.url, model="m", key="${KEY_A}").fingerprint


# ---- a call -------------------------------------------------------------------------------------


def test_outside_a_run_the_keys_take_turns_and_one_that_is_refused_is_left_out(caplog):
    with served(a=(0, refused)) as server:
        assert asked(at(server), 10) == ["fine"] * 10
        assert server.by_key == {A: 1, B: 10}
    (said,) = warnings_in(caplog)
    assert "KEY_A" in said


def test_a_key_is_tried_again_when_the_model_is_opened_again():
    with served(a=(0, refused)) as server:
        model = at(server)
        asked(model, 4)
        server.ends[A] = None
        asked(model, 4)
        assert server.by_key[A] == 1 + 2


def test_a_call_takes_the_key_of_the_pacer_that_carries_it():
    with served() as server:
        model = at(server, ["${KEY_A}", "${KEY_B}", "${KEY_C}"])
        with observing(Observation(members_of(model.endpoint)[2])):
            asked(model, 5)
        assert server.by_key == {C: 5}


def test_quotas_and_refusals_together_can_be_resumed():
    ends = {"a": (0, refused), "b": (0, exhausted)}
    with served(**ends) as server, pytest.raises(QuotaExhaustedError) as caught:
        asked(at(server))
    assert "${KEY_A}: status 401" in str(caught.value)
    assert "${KEY_B}: status 429" in str(caught.value)
    assert "top up" in caught.value.hint
    assert "KEY_A" in caught.value.hint


def test_another_failure_does_not_try_the_other_keys():
    with model_server(failure(400, "what is that?")) as server:
        with pytest.raises(LimpetError, match="what is that"):
            asked(at(server))
        assert len(server.asked) == 1
    with model_server(models=("other",)) as server:
        with pytest.raises(SetupError, match="does not exist"):
            asked(at(server))
        assert len(server.asked) == 1


def test_embeddings_and_decisions_use_another_key_too():
    async def embed(model):
        await model.open()
        try:
            return await model.embed(["a"])
        finally:
            await model.close()

    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }

    async def decide(model):
        await model.open()
        try:
            return await model.ask(ASK, schema=schema)
        finally:
            await model.close()

    with model_server("true", key=B) as server:
        assert asyncio.run(embed(at(server))) == [[1.0, 1.0]]
        assert asyncio.run(decide(at(server, reply="decision"))).parsed == {"ok": True}


def test_literal_keys_have_numbers_in_messages(caplog):
    with served(a=(0, refused)) as server:
        asked(openai_api(server.url, model="m", keys=[A, B]), 2)
    (said,) = warnings_in(caplog)
    assert said.startswith("the key number 1 is set aside: ")
    assert A not in said


def test_no_message_shows_a_key_that_the_server_knows_of_another_call(caplog):
    with served(a=(0, lambda _: failure(401, f"use {B} instead"))) as server:
        asked(at(server), 2)
    assert B not in "".join(warnings_in(caplog))


# ---- wrong keys ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"keys": ["${KEY_A}"], "key": "${KEY_B}"}, "keys: cannot be used with key"),
        ({"keys": ["${KEY_A}"], "key": None}, "keys: cannot be used with key"),
        ({"keys": []}, "keys: must be a list of keys"),
        ({"keys": "${KEY_A}"}, "keys: must be a list of keys"),
        ({"keys": ["${KEY_A}", None]}, "keys: must be a list of keys"),
        ({"keys": ["${KEY_A}", 3]}, "keys: must be a list of keys"),
        ({"keys": ["${KEY_A}", " ${KEY_A}"]}, "keys: ${KEY_A} appears twice"),
        ({"keys": [A, B, A]}, "keys: <a key> appears twice"),
        ({"keys": ["${KEY_A}", "x${KEY_B}"]}, "alone"),
    ],
)
def test_wrong_keys_are_refused_at_once(settings, said):
    with pytest.raises((LimpetError, TypeError, ValueError)) as caught:
        provider_api("openai", "http://127.0.0.1:9/v1", model="m", **settings)
    assert said in str(caught.value)
    assert A not in str(caught.value)


def test_a_variable_that_is_not_set_is_named(monkeypatch):
    monkeypatch.delenv("KEY_B")
    with served() as server, pytest.raises(SetupError, match="KEY_B") as caught:
        asked(at(server))
    assert "KEY_B" in caught.value.hint


def test_two_variables_with_the_same_key_are_an_error(monkeypatch):
    monkeypatch.setenv("KEY_B", A)
    with served() as server, pytest.raises(SetupError) as caught:
        asked(at(server))
    assert str(caught.value) == "keys: ${KEY_A} and ${KEY_B} are the same key"


def test_a_list_of_one_key_is_one_key():
    with served() as server:
        model = at(server, ["${KEY_A}"])
        assert model.endpoint == openai_api(server.url, model="m", key="${KEY_A}").endpoint
        assert asked(model) == ["fine"]


def test_all_its_keys_are_secrets():
    assert {A, B} <= set(openai_api("http://127.0.0.1:9", model="m", keys=["${KEY_A}", B]).secrets)


@pytest.mark.parametrize(
    "said",
    [
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
        "You have reached your specified API usage limits. You will regain access on 2026-12-01.",
    ],
)
def test_anthropic_without_credit_stops_the_run_and_is_asked_once(tmp_path, said):
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    with native_server(raw(error, 400)) as server:
        model = provider_api("anthropic", server.url, model="m", key=None)
        schema = {"type": "object", "properties": {"a": {"type": "string"}}}
        flow = openai(model=model, prompt="{{question}}", schema=schema)
        with pytest.raises(QuotaExhaustedError, match=said[:30]) as caught:
            limpet.evaluate(ROWS, flow, run=tmp_path / "run", pace=1)
    assert "top up" in caught.value.hint
    assert len(server.asked) == 1


def test_anthropics_key_without_credit_is_set_aside(caplog):
    error = {"type": "invalid_request_error", "message": "Your credit balance is too low to …"}
    first = iter([raw({"type": "error", "error": error}, 400)])
    fine = {"content": [{"type": "text", "text": "fine"}], "stop_reason": "end_turn"}
    with native_server(lambda request, number: next(first, fine)) as server:
        model = provider_api("anthropic", server.url, model="m", keys=["${KEY_A}", "${KEY_B}"])
        assert asked(model, times=3) == ["fine"] * 3
    (said,) = warnings_in(caplog)
    assert "is set aside" in said
