"""The small parts of the remote workflows: templates, paths, usage, addresses, fingerprints."""

import asyncio
import pickle
import re

import pytest
from cut_short import cut_short

import limpet
from limpet import Item
from limpet.nat_trace import trace_of
from limpet.pacing import FailureKind, classify
from limpet.shapes import Usage
from limpet.transport.failures import StatusError, status_error, wanted_fields
from limpet.usage import usage_of_body, usage_of_trace
from limpet.workflows import Workflow, http, nat
from limpet.workflows.request_templates import render, render_url

ITEM = Item("q 1/2", "Wie geht's?", "gut", {"question": "Wie geht's?", "n": 7, "tags": ["a", None]})


# ---- templates ----------------------------------------------------------------------------------


def test_a_placeholder_alone_keeps_its_type_and_within_a_text_it_is_text():
    template = {
        "q": "{{input}}", "n": "{{ n }}", "list": ["{{tags}}", 5, None], "t": "{{n}}/{{tags}}",
        "id": "{{id}}", "e": "<{{expected}}>", "plain": "{not} {{}} one",
    }  # fmt: skip
    assert render(template, ITEM) == {
        "q": "Wie geht's?", "n": 7, "list": [["a", None], 5, None], "t": '7/["a",null]',
        "id": "q 1/2", "e": "<gut>", "plain": "{not} {{}} one",
    }  # fmt: skip


def test_nothing_in_a_template_is_run_nor_filled_twice():
    sly = Item("1", "{{n}} {{ 7*7 }}", None, {"question": "x", "n": "{{input}}"})
    assert render("{{input}}!", sly) == "{{n}} {{ 7*7 }}!"
    with pytest.raises(limpet.LimpetError, match="no column 'n.__class__'"):
        render("{{n.__class__}}", sly)


def test_a_missing_column_is_said_with_what_there_is():
    with pytest.raises(limpet.LimpetError) as caught:
        render("{{taggs}}", ITEM)
    message = "item 'q 1/2' has no column 'taggs', which {{taggs}} needs; did you mean 'tags'?"
    assert str(caught.value) == message


def test_in_an_address_values_are_percent_encoded():
    assert render_url("/a/{{id}}?q={{input}}&n={{n}}", ITEM) == (
        "/a/q%201%2F2?q=Wie%20geht%27s%3F&n=7"
    )


# ---- usage --------------------------------------------------------------------------------------


def usage_of_steps(steps):
    return usage_of_trace(trace_of(steps))


def llm(kind, at, uuid, name="big", **tokens):
    usage = {"token_usage": tokens} if tokens else None
    return {"payload": {"event_type": kind, "event_timestamp": at, "UUID": uuid, "name": name,
                        "usage_info": usage}}  # fmt: skip


def test_usage_is_added_up_by_model_with_times_as_the_toolkit_does():
    usage = usage_of_steps(
        [
            {"payload": {"event_type": "WORKFLOW_START", "event_timestamp": 10.0}},
            llm("LLM_START", 11.0, "a"),
            llm("LLM_START", 11.5, "b", "small"),
            llm("LLM_NEW_TOKEN", 11.7, "a", prompt_tokens=999),
            llm("LLM_END", 12.0, "a", prompt_tokens=10, completion_tokens=5, total_tokens=15),
            llm("LLM_END", 14.5, "b", "small", prompt_tokens=1, cached_tokens=1),
            llm("LLM_END", 15, "c", prompt_tokens=2, completion_tokens=3, reasoning_tokens=2),
            # Ends of others hold sums of what was counted already.
            llm("WORKFLOW_END", 16.0, "w", prompt_tokens=999),
        ]
    )
    assert usage == Usage(
        prompt_tokens=13, completion_tokens=8, cached_tokens=1, reasoning_tokens=2,
        total_tokens=21, cache_write_tokens=0,
        models={
            "big": {"prompt_tokens": 12, "completion_tokens": 8, "cached_tokens": 0,
                    "cache_write_tokens": 0, "reasoning_tokens": 2, "total_tokens": 20},
            "small": {"prompt_tokens": 1, "completion_tokens": 0, "cached_tokens": 1,
                      "cache_write_tokens": 0, "reasoning_tokens": 0, "total_tokens": 1},
        },
        times={
            "runtime": 6.0,
            "min_timestamp": 10.0,
            "max_timestamp": 16.0,
            "llm_latency": pytest.approx(2.9),  # p95 of 1 s and 3 s
        },
    )  # fmt: skip
    assert pickle.loads(pickle.dumps(usage)) == usage


def test_usage_without_tokens_times_or_sense_is_none_or_zero():
    assert usage_of_steps([]) is None
    assert usage_of_steps([{"payload": {"event_type": "LLM_START"}}]) is None
    odd = llm("LLM_END", float("nan"), ["u"], prompt_tokens="7", completion_tokens=-3,
              total_tokens=True, cached_tokens=1e300, reasoning_tokens=2.0)  # fmt: skip
    usage = usage_of_steps([odd, "text"])
    assert usage.models == {"big": {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0,
                                    "cache_write_tokens": 0, "reasoning_tokens": 2,
                                    "total_tokens": 0}}  # fmt: skip
    assert (usage.total_tokens, usage.times) == (0, None)
    assert usage_of_steps([llm("LLM_START", 10**400, "a")]) is None


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
         "prompt_tokens_details": {"cached_tokens": 2},
         "completion_tokens_details": {"reasoning_tokens": 1}},
        {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 2},
         "output_tokens_details": {"reasoning_tokens": 1}},
    ],
)  # fmt: skip
def test_usage_in_a_response_is_read_in_the_providers_own_words(usage):
    found = usage_of_body({"model": "m", "usage": usage})
    assert (found.prompt_tokens, found.completion_tokens, found.total_tokens) == (9, 4, 13)
    assert (found.cached_tokens, found.reasoning_tokens) == (2, 1)
    assert list(found.models) == ["m"]
    for nothing in ({}, {"usage": 7}, {"usage": {}}, [1]):
        assert usage_of_body(nothing) is None


# ---- addresses, headers, fingerprints -----------------------------------------------------------


def test_both_are_workflows_whose_endpoint_is_their_server():
    for one in (nat("http://agent:8000/"), http("http://agent:8000/ask?x=1")):
        assert isinstance(one, Workflow)
        assert one.endpoint == "http://agent:8000"
    assert http("https://agent/ask").endpoint == "https://agent:443"
    assert nat("http://agent:1", name="bot").name == "bot"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: nat("agent:8000"), "endpoint: must be the address of a server"),
        (lambda: nat("ftp://u:hunter22@agent"), "endpoint: must be the address of a server"),
        (lambda: nat("http://agent:99999"), "endpoint: must be"),
        (lambda: nat(None), "endpoint: must be"),
        (lambda: nat("http://agent", path="generate"), "path='generate': must start"),
        (lambda: nat("http://agent", input_key=""), "input_key=''"),
        (lambda: nat("http://agent", headers={"A": 7}), "the value of 'A' must be a string"),
        (lambda: nat("http://agent", headers={"A": "hunter22\nB: x"}), "contains a line break"),
        (
            lambda: nat("http://agent", headers={"A b": "hunter22"}),
            "'A b' is not a valid header",
        ),
        (lambda: nat("http://agent", headers=["x"]), "headers: must be a mapping"),
        (lambda: nat("http://agent", timeout=0), "timeout=0: must be a finite number above 0"),
        (lambda: nat("http://agent", max_response_mb=0), "max_response_mb=0"),
        (lambda: http("http://{{host}}/"), "url: must be the address of a server"),
        (lambda: http("http://agent", method="post"), "method='post': must be one of"),
        (lambda: http("http://agent", method="GET", body={}), "body: a GET has none"),
        (lambda: http("http://agent", answer="$..["), "is not a JSONPath"),
        (lambda: http("http://agent", answer=7), "is not a JSONPath"),
        (lambda: http("http://agent", statuses=[]), "statuses="),
        (lambda: http("http://agent", statuses=["200"]), "statuses="),
        (lambda: http("http://agent", statuses=200), "statuses=200: must be a list"),
        (lambda: nat("http://agent", path="ask?key=hunter22"), "path='ask?…': must start"),
    ],
)
def test_a_wrong_argument_is_said_before_anything_is_sent_and_no_secret_with_it(make, says):
    with pytest.raises((limpet.LimpetError, ValueError)) as caught:
        make()
    assert says in str(caught.value)
    assert "hunter22" not in str(caught.value)


def test_no_secret_is_in_what_is_shown_or_kept():
    one = http("http://u:hunter22@agent/ask?key=hunter22", headers={"X-Key": "hunter22"})
    shown = repr([one, one.fingerprint, one.endpoint, one.seen(ITEM)])
    assert "hunter22" not in shown
    other = http("http://v:hunter33@agent/ask?key=hunter22", headers={"X-Key": "hunter33"})
    assert one.fingerprint == other.fingerprint


def test_a_key_in_the_query_of_a_path_is_neither_shown_nor_named_in_a_hint():
    agent = nat("http://agent", path="/generate?key=hunter22")
    assert "hunter22" not in repr([agent, agent.described, agent._path_hint()])
    assert agent.described["path"] == "/generate?…"
    assert agent.fingerprint != nat("http://agent", path="/generate").fingerprint


@pytest.mark.parametrize(("make", "kind"), [(nat, "nat"), (http, "http")])
def test_an_option_that_does_not_exist_is_a_type_error(make, kind):
    with pytest.raises(TypeError, match=f"'timout' is not an option of {kind}; did you mean"):
        make("http://agent", timout=3)


def test_with_a_version_the_agent_may_move_and_without_one_another_address_is_another_agent():
    assert nat("http://a:1").fingerprint != nat("http://a:2").fingerprint
    assert nat("http://a:1", version="3").fingerprint == nat("http://b:2", version="3").fingerprint
    assert nat("http://a:1", version="3").fingerprint != nat("http://a:1", version="4").fingerprint
    assert nat("http://a", input_key="x").fingerprint != nat("http://a").fingerprint
    assert nat("http://a", path="/generate").fingerprint != nat("http://a").fingerprint
    assert nat("http://a", timeout=3).fingerprint == nat("http://a").fingerprint
    assert (
        http("http://a/x", version="1").fingerprint == http("http://b/x", version="1").fingerprint
    )
    assert http("http://a/x").fingerprint != http("http://b/x").fingerprint
    for more in ({"method": "PUT"}, {"body": {"q": "{{input}}"}}, {"answer": "$.x"}):
        assert http("http://a/x", **more).fingerprint != http("http://a/x").fingerprint


def test_what_is_seen_is_what_is_sent():
    assert nat("http://a").seen(ITEM) == ITEM.input
    one = http("http://a/x/{{n}}", body={"q": "{{input}}"})
    assert one.seen(ITEM) == {"url": "/x/7", "body": {"q": "Wie geht's?"}}
    assert http("http://a/{{n}}", method="GET").seen(ITEM) == {"url": "/7", "body": None}


def test_a_workflow_that_is_not_open_says_so():
    with pytest.raises(limpet.LimpetError, match="not open"):
        asyncio.run(nat("http://a").call(ITEM))


# ---- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "permanent"), (401, "setup"), (402, "quota"), (403, "permanent"), (404, "permanent"),
        (405, "permanent"), (407, "setup"), (408, "transient"), (409, "transient"),
        (410, "permanent"), (413, "permanent"), (418, "permanent"), (422, "permanent"),
        (425, "transient"), (429, "rate_limit"), (500, "transient"), (502, "transient"),
        (503, "transient"), (504, "transient"), (529, "transient"), (304, "permanent"),
    ],
)  # fmt: skip
def test_each_status_has_its_kind(status, kind):
    error = status_error("POST x", status, {"Retry-After": "7"}, None, "no")
    assert classify(error).kind == kind
    assert str(error) == f"POST x: status {status}: no"
    if status in (429, 503):
        assert classify(error).retry_after_s == 7
        assert classify(error).pushback
    assert pickle.loads(pickle.dumps(error)).args == error.args


def test_a_refusal_that_says_quota_is_one():
    error = status_error("POST x", 429, {}, {"error": {"code": "insufficient_quota"}}, "")
    assert isinstance(error, StatusError)
    assert classify(error).kind is FailureKind.QUOTA


def test_the_fields_a_server_wants_are_named():
    detail = [
        {"loc": ["body", "question"], "msg": "Field required"},
        {"loc": ["body"], "msg": "odd"},
        "x",
    ]
    assert wanted_fields(detail, str) == "'question': Field required; 'the body': odd; x"
    assert wanted_fields("no", str) == "no"
    assert wanted_fields([], str) == "its detail is empty"


def test_a_setup_error_stops_the_run_and_no_item_is_to_blame():
    async def answer(question):
        if question == "2":
            raise limpet.errors.SetupError("wrong field", hint="set it")
        return question

    rows = [{"id": str(n), "question": str(n)} for n in range(6)]
    result = cut_short(limpet.evaluate, rows, answer, pace=1, save=False)
    assert isinstance(result.stop_reason, limpet.errors.SetupError)
    assert result.stop_reason.hint == "set it"
    assert [one.status for one in result.items] == ["completed"] * 2 + ["not_run"] * 4
    assert result.summary["workflow"]["failed"] == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"url": "http://x/{{a"}, "url: '{{a' has no '}}'"),
        ({"url": "http://x", "body": {"a": ["{{b}} {{"]}}, "body: '{{' has no '}}'"),
        ({"url": "http://x", "body": {"{{a}}": 1}}, "body: '{{a' is in a key"),
        ({"url": "http://x", "headers": {"A": "{{a}}"}}, "headers: the value of 'A' contains '{{'"),
    ],
)
def test_a_placeholder_that_cannot_be_filled_is_refused_at_once(arguments, said):
    with pytest.raises(limpet.LimpetError, match=f"^{re.escape(said)}"):
        http(**arguments)
