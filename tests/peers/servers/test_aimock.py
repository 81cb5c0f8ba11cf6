"""A judge against `@copilotkit/aimock`, which refuses, breaks off and speaks no JSON.

It speaks the API of every provider.
"""

import asyncio
import json
import re
import urllib.request
from collections import defaultdict

import pytest
from peers.servers.starting import aimock

import limpet
from limpet.models import provider_api
from limpet.models.provider import PROVIDERS, provider

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

VERDICT = json.dumps({"reason": "the same", "label": "correct"})
ROWS = [{"id": str(n), "input": f"question {n}", "expected": "yes"} for n in range(20)]
ANSWER = {"match": {}, "response": {"content": VERDICT}}
REFUSAL = {"error": {"message": "too many requests", "type": "rate_limit_error"}, "status": 429}


each = pytest.mark.parametrize("name", PROVIDERS)
FORMS = [(name, False) for name in PROVIDERS]
FORMS += [(name, True) for name in PROVIDERS if "stream" in provider(name).can]
in_each_form = pytest.mark.parametrize(("name", "stream"), FORMS)
TOOL = {"name": "weather", "parameters": {"type": "object"}}


def model_of(name, url, stream):
    base = url if name in ("openai", "responses") else url.removesuffix("/v1")
    return provider_api(name, base, model="gpt-4.1-mini", key="sk-any", stream=stream)


def evaluate(name, url, folder, rows=ROWS, *, stream=False, **options):
    judge = limpet.judge(model_of(name, url, stream), of="correctness")
    return limpet.evaluate(
        rows, lambda question: "yes", evaluators={"right": judge}, run=folder / "run", **options
    )


def asked(url):
    """Return the requests that the server has answered, oldest first."""
    address = url.removesuffix("/v1") + "/__aimock/journal"
    with urllib.request.urlopen(address, timeout=10) as response:  # noqa: S310 - of this machine
        entries = json.load(response)
    posts = [entry for entry in entries if entry["method"] == "POST"]
    return sorted(posts, key=lambda entry: entry["timestamp"])


def by_item(requests):
    """Return the status and the time in seconds of each item's requests."""
    found = defaultdict(list)
    for entry in requests:
        question = re.search(r"question \d+", json.dumps(entry["body"]))
        found[question[0]].append((entry["response"]["status"], entry["timestamp"] / 1000))
    return found


def labels(folder):
    text = (folder / "run" / "right_output.jsonl").read_text()
    return [json.loads(line)["label"] for line in text.splitlines()]


def failures(folder):
    text = (folder / "run" / "failures.jsonl").read_text()
    return [json.loads(line)["error"] for line in text.splitlines()]


@each
def test_refusals_with_their_headers_are_obeyed_and_every_cell_finishes(name, tmp_path):
    refused = [f"question {number}" for number in (2, 5, 8)]
    fixtures = [
        {"match": {"userMessage": question, "sequenceIndex": 0}, "response": REFUSAL}
        for question in refused
    ]
    with aimock(tmp_path, [*fixtures, ANSWER]) as url:
        evaluate(name, url, tmp_path, ROWS[:10])
        requests = by_item(asked(url))
    assert labels(tmp_path) == ["correct"] * 10
    assert failures(tmp_path) == []
    assert sorted(item for item, tries in requests.items() if len(tries) > 1) == refused
    for item in refused:
        (status, refused_at), (_, asked_again_at) = requests[item]
        assert status == 429
        assert asked_again_at - refused_at >= 0.99, "Retry-After: 1"


@in_each_form
def test_what_breaks_on_the_way_is_tried_again_and_nothing_broken_is_a_score(
    name, stream, tmp_path
):
    chaos = {"malformedRate": 0.15, "disconnectRate": 0.15, "dropRate": 0.15}
    with aimock(tmp_path, [ANSWER], chaos=chaos) as url:
        evaluate(name, url, tmp_path, stream=stream)
        requests = asked(url)
    assert len(requests) > 20
    assert labels(tmp_path) == ["correct"] * 20
    assert failures(tmp_path) == []


@each
def test_replies_that_are_never_json_are_failures_without_a_score(name, tmp_path):
    with aimock(tmp_path, [ANSWER], chaos={"malformedRate": 1}) as url:
        evaluate(name, url, tmp_path, fail_fast=False, retry=2)
    assert labels(tmp_path) == []
    assert len(failures(tmp_path)) == 20
    assert all("is not JSON" in failure["message"] for failure in failures(tmp_path))


@in_each_form
def test_a_tool_call_and_a_text_are_read_with_their_usage(name, stream, tmp_path):
    call = {"name": "weather", "arguments": json.dumps({"place": "Rome"})}
    used = {"usage": {"prompt_tokens": 12, "completion_tokens": 7}}
    said = {"content": "It is sunny.", "reasoning": "I look outside.", **used}
    fixtures = [
        {"match": {"userMessage": "call"}, "response": {"toolCalls": [call], **used}},
        {"match": {}, "response": said},
    ]

    async def ask(model):
        await model.open()
        try:
            tools = [{"type": "function", "function": TOOL}]
            called = await model.ask([{"role": "user", "content": "call"}], tools=tools)
            return called, await model.ask([{"role": "user", "content": "say"}])
        finally:
            await model.close()

    with aimock(tmp_path, fixtures) as url:
        called, said = asyncio.run(ask(model_of(name, url, stream)))
        paths = {entry["path"] for entry in asked(url)}
    made = [(one["name"], one["arguments"]) for one in called.tool_calls]
    assert (made, called.finish) == ([("weather", {"place": "Rome"})], "tool_calls")
    assert (said.text, said.finish) == ("It is sunny.", "stop")
    for reply in (called, said) if name != "ollama" else ():  # where it always says 0
        assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (12, 7)
    path = provider(name).path("gpt-4.1-mini", stream=stream).partition("?")[0]
    assert {one.partition("?")[0].removeprefix("/v1") for one in paths} == {
        path.removeprefix("/v1")
    }
