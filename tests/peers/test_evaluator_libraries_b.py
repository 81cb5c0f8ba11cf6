"""The real evaluators of openevals, autoevals and Inspect, against a real server on loopback."""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from model_server import completion, failure, model_server
from peers.library_environment import libraries, run, variables

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SCRIPT = Path(__file__).parent / "libraries" / "judge_b.py"
OPENEVALS = ("openevals", "openevals_sync", "openevals_langchain")
KINDS = (*OPENEVALS, "autoevals", "autoevals_environment", "inspect", "inspect_by_name")


def good(request, number=0):
    """Answer as each library asks for it."""
    if "response_format" in request:
        score = 0.5 if '"enum"' in json.dumps(request["response_format"]) else True
        return {"reasoning": "it fits", "score": score}
    if "tools" in request:
        properties = request["tools"][0]["function"]["parameters"]["properties"]
        if "choice" not in properties:
            return {"reasoning": "it fits", "score": True}
        return {"reasons": "it fits", "choice": properties["choice"]["enum"][0]}
    return "it fits\nGRADE: C"


class Evaluation:
    def __init__(self, server, folder):
        self.server, self.folder = server, folder

    def run(self, kind, **more):
        """Evaluate; return the requests that this made."""
        before = len(self.server.asked)
        python = str(libraries() / "python")
        run(python, str(SCRIPT), kind, str(self.folder), cwd=self.folder,
            env=variables(JUDGE_URL=self.server.url, **more))  # fmt: skip
        return self.server.asked[before:]

    def lines(self, file="judge_output.jsonl"):
        path = self.folder / "run" / file
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def others(self):
        """How often the evaluator beside it was called."""
        return len((self.folder / "others").read_text())


@pytest.fixture
def evaluation(tmp_path):
    with ExitStack() as started:
        yield lambda answer: Evaluation(started.enter_context(model_server(answer)), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_kept_and_an_edited_prompt_runs_its_judge_again_and_nothing_else(
    kind, evaluation
):
    judged = evaluation(good)
    assert len(judged.run(kind)) == 3
    lines = judged.lines()
    assert sorted(line["id"] for line in lines) == ["0", "1", "2"]
    assert all("it fits" in line["reasoning"] for line in lines)
    if kind.startswith("openevals"):
        assert {line["score"] for line in lines} == {True}
    else:
        label = {"autoevals": "good", "autoevals_environment": "A"}.get(kind, "C")
        assert {line["label"] for line in lines} == {label}
    if kind != "openevals_sync":
        assert lines[0]["_limpet"]["usage"]["total_tokens"] == 15
    assert judged.run(kind) == []
    if kind not in ("autoevals_environment", "inspect_by_name"):  # those have no prompt of ours
        assert len(judged.run(kind, PROMPT="Is it good?")) == 3
    assert judged.others == 3
    files = [path for path in judged.folder.rglob("*") if path.is_file()]
    assert not [path for path in files if b"sk-never-written" in path.read_bytes()]


BAD = {
    "no JSON": lambda request, number: "I would rather not say",
    "cut off": lambda request, number: completion('{"reasoning": "it f', finish="length"),
    "outside the choices": lambda request, number: (
        {"reasoning": "it fits", "score": 7, "reasons": "it fits", "choice": "excellent"}
        if "response_format" in request or "tools" in request
        else "GRADE: excellent"
    ),
    "refused": lambda request, number: completion(None, refusal="I will not judge that"),
}


@pytest.mark.parametrize("kind", ["openevals", "openevals_choices", "autoevals", "inspect"])
@pytest.mark.parametrize("bad", BAD)
def test_a_bad_reply_is_a_failure_and_never_a_score(kind, bad, evaluation):
    judged = evaluation(BAD[bad])
    assert len(judged.run(kind)) == 3, "a bad reply is not asked for again"
    assert judged.lines() == []
    failures = judged.lines("failures.jsonl")
    assert [failure["step"] for failure in failures] == ["judge"] * 3
    assert {failure["error"]["class"] for failure in failures} == {"invalid_reply"}


def test_a_score_from_the_choices_is_kept(evaluation):
    judged = evaluation(good)
    judged.run("openevals_choices")
    assert [line["score"] for line in judged.lines()] == [0.5] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_each_refusal_is_seen_by_the_pacer_because_the_library_does_not_retry(kind, evaluation):
    def busy_at_first(request, number):
        if number < 4:
            return failure(429, "too many requests", headers={"Retry-After": "0"})
        return good(request)

    judged = evaluation(busy_at_first)
    requests = judged.run(kind)
    attempts = [line["_limpet"]["attempts"] for line in judged.lines()]
    assert len(attempts) == 3
    assert len(requests) == sum(attempts) == 7
