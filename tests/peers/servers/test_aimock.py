"""A judge against `@copilotkit/aimock`, which refuses, breaks off and speaks no JSON."""

import json
import re
import urllib.request
from collections import defaultdict

import pytest
from peers.servers.starting import aimock

import limpet
from limpet.models import openai_api

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

VERDICT = json.dumps({"reason": "the same", "label": "correct"})
ROWS = [{"id": str(n), "input": f"question {n}", "expected": "yes"} for n in range(20)]
ANSWER = {"match": {}, "response": {"content": VERDICT}}
REFUSAL = {"error": {"message": "too many requests", "type": "rate_limit_error"}, "status": 429}


def evaluate(url, folder, rows=ROWS, **options):
    judge = limpet.judge(openai_api(url, model="gpt-4.1-mini", key=None), of="correctness")
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


def test_refusals_with_their_headers_are_obeyed_and_every_cell_finishes(tmp_path):
    refused = [f"question {number}" for number in (2, 5, 8)]
    fixtures = [
        {"match": {"userMessage": question, "sequenceIndex": 0}, "response": REFUSAL}
        for question in refused
    ]
    with aimock(tmp_path, [*fixtures, ANSWER]) as url:
        evaluate(url, tmp_path, ROWS[:10])
        requests = by_item(asked(url))
    assert labels(tmp_path) == ["correct"] * 10
    assert failures(tmp_path) == []
    assert sorted(item for item, tries in requests.items() if len(tries) > 1) == refused
    for item in refused:
        (status, refused_at), (_, asked_again_at) = requests[item]
        assert status == 429
        assert asked_again_at - refused_at >= 0.99, "Retry-After: 1"


def test_what_breaks_on_the_way_is_tried_again_and_nothing_broken_is_a_score(tmp_path):
    chaos = {"malformedRate": 0.15, "disconnectRate": 0.15, "dropRate": 0.15}
    with aimock(tmp_path, [ANSWER], chaos=chaos) as url:
        evaluate(url, tmp_path)
        requests = asked(url)
    assert len(requests) > 20
    assert labels(tmp_path) == ["correct"] * 20
    assert failures(tmp_path) == []


def test_replies_that_are_never_json_are_failures_without_a_score(tmp_path):
    with aimock(tmp_path, [ANSWER], chaos={"malformedRate": 1}) as url:
        evaluate(url, tmp_path, fail_fast=False, retry=2)
    assert labels(tmp_path) == []
    assert len(failures(tmp_path)) == 20
    assert all("is not JSON" in failure["message"] for failure in failures(tmp_path))
