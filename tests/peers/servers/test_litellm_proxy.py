"""A judge behind LiteLLM's proxy, which has limits of its own: they cost time, and no result."""

import json

import pytest
from peers.servers.starting import MASTER_KEY, litellm_proxy

import limpet
from limpet.models import openai_api

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

VERDICT = json.dumps({"reason": "the same", "label": "correct"})
ITEMS = 60


def proxied(name, **params):
    """Return a model of the proxy that answers by itself."""
    settings = {"model": f"openai/{name}", "api_key": "none", "mock_response": VERDICT, **params}
    return {"model_name": name, "litellm_params": settings}


CONFIG = {
    "model_list": [proxied("few-a-minute", rpm=40), proxied("few-at-once")],
    "router_settings": {"optional_pre_call_checks": ["enforce_model_rate_limits"]},
    "general_settings": {"master_key": MASTER_KEY},
}


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    with litellm_proxy(tmp_path_factory.mktemp("proxy"), CONFIG) as url:
        yield url


def evaluate(url, model, folder, key):
    judge = limpet.judge(openai_api(url, model=model, key=key), of="correctness")
    rows = [{"id": str(n), "input": f"question {n}", "expected": "yes"} for n in range(ITEMS)]
    limpet.evaluate(rows, lambda question: "yes", evaluators={"right": judge}, run=folder / "run")
    return [
        json.loads(line) for line in (folder / "run/right_output.jsonl").read_text().splitlines()
    ]


def test_with_a_limit_of_requests_a_minute_every_cell_finishes_and_few_are_refused(proxy, tmp_path):
    scores = evaluate(proxy, "few-a-minute", tmp_path, MASTER_KEY)
    assert [score["label"] for score in scores] == ["correct"] * ITEMS
    attempts = sum(score["_limpet"]["attempts"] for score in scores)
    print("attempts", attempts)
    assert attempts < 2 * ITEMS


def test_with_a_limit_of_calls_at_once_every_cell_finishes_and_few_are_refused(proxy, tmp_path):
    scores = evaluate(proxy, "few-at-once", tmp_path, limited_key(proxy))
    assert [score["label"] for score in scores] == ["correct"] * ITEMS
    attempts = sum(score["_limpet"]["attempts"] for score in scores)
    print("attempts", attempts)
    assert attempts < 2 * ITEMS
