"""The real evaluators of openevals, autoevals, Inspect and the toolkit, against a server."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from model_server import completion, failure, model_server
from peers.library_environment import libraries, run, variables
from peers.nat_environment import environment_variables, nat_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SCRIPT = Path(__file__).parent / "libraries" / "judges_b.py"
JUDGES = (
    "openevals", "openevals_choices", "openevals_sync", "openevals_langchain",
    "autoevals", "autoevals_environment", "inspect", "inspect_by_name",
)  # fmt: skip
BAD = {
    "not JSON": lambda request: "I would rather not say",
    "cut off": lambda request: completion('{"reasoning": "it f', finish="length"),
    "outside the choices": lambda request: (
        {"reasoning": "it fits", "score": 7, "reasons": "it fits", "choice": "excellent"}
        if "response_format" in request or "tools" in request
        else "GRADE: excellent"
    ),
    "refused": lambda request: completion(None, refusal="I will not judge that"),
}


def good(request):
    """Answer as each library asks for it."""
    if "response_format" in request:
        score = 0.5 if '"enum"' in json.dumps(request["response_format"]) else True
        return {"reasoning": "it fits", "score": score}
    if "tools" in request:
        choice = request["tools"][0]["function"]["parameters"]["properties"].get("choice")
        return {"reasons": "it fits", "choice": choice["enum"][0]} if choice else _SCORE
    return "it fits\nGRADE: C"


_SCORE = {"reasoning": "it fits", "score": True}


def evaluate(server, folder, items=("one", "two"), **more):
    """Evaluate, and return how many requests each judge made."""
    before = len(server.asked)
    variables_ = variables(JUDGE_URL=server.url, ITEMS=",".join(items), **more)
    run(str(libraries() / "python"), str(SCRIPT), str(folder), cwd=folder, env=variables_)
    return Counter(request["model"] for request in server.asked[before:])


def lines(folder, file):
    text = (folder / "run" / file).read_text() if (folder / "run" / file).exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def scores(folder, judge):
    return lines(folder, f"{judge}_output.jsonl")


def test_scores_are_kept_and_an_edited_prompt_runs_its_judge_again_and_nothing_else(tmp_path):
    with model_server(lambda request, number: good(request)) as server:
        assert evaluate(server, tmp_path) == dict.fromkeys(JUDGES, 2)
        assert evaluate(server, tmp_path) == {}, "nothing changed"
        for judge in ("openevals", "autoevals", "inspect"):
            folder = tmp_path / judge
            shutil.copytree(tmp_path / "run", folder / "run")
            assert evaluate(server, folder, EDITED=judge) == {judge: 2}
    for judge in JUDGES:
        assert all("it fits" in line["explanation"] for line in scores(tmp_path, judge)), judge
    assert {line["value"] for line in scores(tmp_path, "openevals")} == {True}
    assert {line["value"] for line in scores(tmp_path, "openevals_choices")} == {0.5}
    labels = {"autoevals": "good", "autoevals_environment": "A", "inspect": "C"}
    for judge, label in labels.items():
        assert {line["label"] for line in scores(tmp_path, judge)} == {label}
    for judge in JUDGES:
        assert scores(tmp_path, judge)[0]["_limpet"]["usage"]["total_tokens"] == 15, judge
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"sk-never-written" in path.read_bytes()]


def test_a_bad_reply_is_a_failure_and_never_a_score(tmp_path):
    def answer(request, number):
        shown = json.dumps(request["messages"])
        return next(bad(request) for item, bad in BAD.items() if item in shown)

    with model_server(answer) as server:
        asked = evaluate(server, tmp_path, BAD)
    assert asked == dict.fromkeys(JUDGES, len(BAD)), "a bad reply is not asked for again"
    assert [scores(tmp_path, judge) for judge in JUDGES] == [[]] * len(JUDGES)
    failed = {
        (line["step"], line["id"]): line["error"] for line in lines(tmp_path, "failures.jsonl")
    }
    assert failed.keys() == {(judge, item) for judge in JUDGES for item in BAD}
    others = {key: error for key, error in failed.items() if error["class"] != "invalid_reply"}
    assert others == {}


def test_each_refusal_is_seen_by_the_pacer_because_the_library_does_not_retry(tmp_path):
    refused = Counter()

    def busy_at_first(request, number):
        refused[request["model"]] += 1
        if refused[request["model"]] <= 4:
            return failure(429, "too many requests", headers={"Retry-After": "0"})
        return good(request)

    with model_server(busy_at_first) as server:
        asked = evaluate(server, tmp_path)
    attempts = {
        judge: sum(line["_limpet"]["attempts"] for line in scores(tmp_path, judge))
        for judge in JUDGES
    }
    assert asked == attempts == dict.fromkeys(JUDGES, 6)


def test_an_evaluator_of_the_toolkit_asks_once_and_its_zero_for_a_failure_is_a_failure(tmp_path):
    def answer(request, number):
        if number < 2:
            return failure(429, "too many requests", headers={"Retry-After": "0"})
        is_good = "answer to good" in request["messages"][-1]["content"]
        return json.dumps({"score": 0.75, "reasoning": "mostly"}) if is_good else "no JSON"

    script = SCRIPT.with_name("judge_nat.py")

    def evaluate_again(prompt):
        before = len(server.asked)
        command = (
            str(nat_environment() / "python"),
            str(script),
            server.url,
            str(tmp_path),
            prompt,
        )
        run(*command, cwd=tmp_path, env=environment_variables())
        return len(server.asked) - before

    with model_server(answer) as server:
        assert evaluate_again("Is it right?") == 4
        (score,) = scores(tmp_path, "judge")
        (failed,) = lines(tmp_path, "failures.jsonl")
        assert (score["id"], score["value"]) == ("good", 0.75)
        assert (failed["id"], failed["error"]["class"]) == ("bad", "invalid_reply")
        assert score["_limpet"]["attempts"] + len(failed["attempts"]) == 4
        assert evaluate_again("Is it right?") == 1, "only what failed runs again"
        assert evaluate_again("Is it good?") == 2
