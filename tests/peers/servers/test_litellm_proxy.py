"""A judge behind LiteLLM's proxy, which has limits of its own: they cost time, and no result.

It speaks the API of some providers beside OpenAI's.
"""

import json

import pytest
from peers.servers.starting import MASTER_KEY, litellm_proxy

import limpet
from limpet.errors import SetupError
from limpet.models import openai_api, provider_api

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

VERDICT = json.dumps({"reason": "the same", "label": "correct"})
A_MINUTE, AT_ONCE, FREE = "sk-thirty-a-minute", "sk-four-at-once", "sk-free"
LIMITS = {A_MINUTE: {"rpm_limit": 30}, AT_ONCE: {"max_parallel_requests": 4}, FREE: {}}
AUTHENTICATION = f"""
from litellm.proxy._types import UserAPIKeyAuth

async def authenticate(request, api_key):
    return UserAPIKeyAuth(api_key=api_key, **{LIMITS!r}[api_key])
"""


def proxied(name, **params):
    """Return a model of the proxy that answers by itself."""
    settings = {"model": f"openai/{name}", "api_key": "none", "mock_response": VERDICT, **params}
    return {"model_name": name, "litellm_params": settings}


CONFIG = {
    "model_list": [proxied("judge", mock_delay=0.2), proxied("limited", rpm=30)],
    "router_settings": {"optional_pre_call_checks": ["enforce_model_rate_limits"]},
    "general_settings": {"master_key": MASTER_KEY, "custom_auth": "limits.authenticate"},
}


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxy")
    (folder / "limits.py").write_text(AUTHENTICATION)
    with litellm_proxy(folder, CONFIG) as url:
        yield url


@pytest.mark.parametrize(
    ("model", "key", "items"),
    [("limited", FREE, 45), ("judge", A_MINUTE, 45), ("judge", AT_ONCE, 60)],
)
def test_every_cell_finishes_within_the_limit_and_few_calls_are_refused(
    model, key, items, proxy, tmp_path
):
    judge = limpet.judge(openai_api(proxy, model=model, key=key), of="correctness")
    rows = [{"id": str(n), "input": f"question {n}", "expected": "yes"} for n in range(items)]
    limpet.evaluate(rows, lambda question: "yes", {"right": judge}, run=tmp_path / "run")
    text = (tmp_path / "run" / "right_output.jsonl").read_text()
    scores = [json.loads(line) for line in text.splitlines()]
    assert [score["label"] for score in scores] == ["correct"] * items
    refused = sum(score["_limpet"]["attempts"] - 1 for score in scores)
    assert refused <= items / 3


NATIVE = ("anthropic", "responses", "gemini")
# It answers 500 to a streamed /responses of a model that answers by itself, OpenAI's own SDK too.
FORMS = [(name, False) for name in NATIVE] + [("anthropic", True), ("gemini", True)]


@pytest.mark.parametrize(("name", "stream"), FORMS)
def test_a_judge_speaks_to_it_as_to_the_provider_itself(name, stream, proxy, tmp_path):
    base = proxy if name == "responses" else proxy.removesuffix("/v1")
    model = provider_api(name, base, model="judge", key=FREE, stream=stream)
    rows = [{"id": str(n), "input": f"question {n}", "expected": "yes"} for n in range(3)]
    judge = limpet.judge(model, of="correctness")
    limpet.evaluate(rows, lambda question: "yes", {"right": judge}, run=tmp_path / "run")
    text = (tmp_path / "run" / "right_output.jsonl").read_text()
    failures = (tmp_path / "run" / "failures.jsonl").read_text()
    assert failures == ""
    assert [json.loads(line)["label"] for line in text.splitlines()] == ["correct"] * 3


@pytest.mark.parametrize("name", NATIVE)
def test_a_model_that_it_does_not_have_stops_the_run_at_once(name, proxy, tmp_path):
    base = proxy if name == "responses" else proxy.removesuffix("/v1")
    judge = limpet.judge(provider_api(name, base, model="other", key=FREE), of="correctness")
    rows = [{"id": "1", "input": "question", "expected": "yes"}]
    with pytest.raises(SetupError, match="other"):
        limpet.evaluate(rows, lambda question: "yes", {"right": judge}, run=tmp_path / "run")
