"""A judge that asks `transformers serve` with a random model: every chat reply is nonsense."""

import json
import subprocess
import sys

import pytest
from peers.library_environment import variables
from peers.servers.starting import transformers_serve

import limpet
from limpet.models import openai_api

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROWS = [{"id": str(n), "input": f"question {n}", "expected": "yes"} for n in range(8)]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with transformers_serve(tmp_path_factory.mktemp("transformers")) as url_and_model:
        yield url_and_model


def failures(folder):
    text = (folder / "failures.jsonl").read_text()
    return [json.loads(line)["error"] for line in text.splitlines()]


def test_nonsense_is_never_a_score_and_every_failure_is_named(server, tmp_path):
    url, model = server
    short = {"max_tokens": 8}
    judge = limpet.judge(openai_api(url, model=model, key=None, params=short), of="correctness")
    evaluators = {"right": judge}
    limpet.evaluate(ROWS, lambda question: "yes", evaluators, run=tmp_path / "run", fail_fast=False)
    assert (tmp_path / "run" / "right_output.jsonl").read_text() == ""
    assert [failure["class"] for failure in failures(tmp_path / "run")] == ["invalid_reply"] * 8


def test_a_judge_without_a_single_valid_reply_stops_the_run(server, tmp_path):
    url, model = server
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "bot.py").write_text("def answer(question):\n    return 'yes'\n")
    grader = {"openai": url, "model": model, "key": "${NO_KEY}", "params": {"max_tokens": 8}}
    config = {
        "dataset": "rows.jsonl",
        "workflow": "bot:answer",
        "models": {"grader": grader},
        "evaluators": {"right": {"judge": "grader", "of": "correctness"}},
    }
    (tmp_path / "eval.yml").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-m", "limpet", "run", "eval.yml"],
        cwd=tmp_path, env=variables(NO_KEY="none"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "right" in done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "right_output.jsonl").read_text() == ""
    assert {failure["class"] for failure in failures(run)} == {"invalid_reply"}


def test_decisions_of_the_same_model_are_valid(server, tmp_path):
    url, model = server
    deciding = openai_api(url, model=model, key=None, reply="decision")
    judge = limpet.judge(deciding, of="correctness")
    limpet.evaluate(ROWS, lambda question: "yes", {"right": judge}, run=tmp_path / "run")
    lines = (tmp_path / "run" / "right_output.jsonl").read_text().splitlines()
    assert len(lines) == 8
    assert {json.loads(line)["label"] for line in lines} <= {"correct", "incorrect"}
