"""The real evaluators of Phoenix, DeepEval, pydantic-evals and ragas, against a server on loopback.

Each evaluation is a process of its own, in an environment where the library is.
"""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from model_server import completion, failure, model_server
from peers.library_environment import environment, libraries, run, variables

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SCRIPT = Path(__file__).parent / "libraries" / "judge_a.py"
TOGETHER = ("phoenix", "deepeval", "pydantic_evals", "pydantic_evals_by_name")
ALONE = ("ragas", "ragas_faithfulness", "ragas_older")
KINDS = (*TOGETHER, *ALONE)
CALLS = {"ragas_faithfulness": 2}
"""Calls for one score; one where nothing stands."""


def python(kind):
    if kind in TOGETHER:
        return libraries() / "python"
    ragas = ("ragas==0.4.3", "langchain-community<0.4", "langchain<1", "langchain-openai<1")
    return environment("ragas", ragas) / "python"


REPLIES = {
    "phoenix": {"explanation": "it fits", "label": "good"},
    "deepeval": {"reason": "it fits", "score": 8},
    "pydantic_evals": {"reason": "it fits", "pass": True, "score": 1.0},
    "pydantic_evals_by_name": {"reason": "it fits", "pass": True, "score": 1.0},
    "ragas": {"reason": "it fits", "value": "good"},
    "ragas_older": {"reason": "it fits", "verdict": 1},
}


def good(kind):
    """Return the script of a server that answers as a library asks for it."""

    def faithfulness(request, number):
        if "verdict" not in json.dumps(request):
            return {"statements": ["s", "t"]}
        fits = {"statement": "s", "reason": "it fits", "verdict": 1}
        return {"statements": [fits, {**fits, "verdict": 0}]}

    return faithfulness if kind == "ragas_faithfulness" else lambda *_: REPLIES[kind]


class Evaluation:
    def __init__(self, server, folder):
        self.server, self.folder = server, folder

    def run(self, kind, **more):
        """Evaluate; return the requests that this made."""
        before = len(self.server.asked)
        quiet = {"DEEPEVAL_TELEMETRY_OPT_OUT": "1", "RAGAS_DO_NOT_TRACK": "true"}
        given = variables(JUDGE_URL=self.server.url, **quiet, **more)
        run(str(python(kind)), str(SCRIPT), kind, str(self.folder), cwd=self.folder, env=given)
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
    judged, calls = evaluation(good(kind)), 3 * CALLS.get(kind, 1)
    assert len(judged.run(kind)) == calls
    lines = judged.lines()
    assert sorted(line["id"] for line in lines) == ["0", "1", "2"]  # as they end
    values = {"phoenix": 1, "deepeval": 0.8, "ragas": None, "ragas_faithfulness": 0.5}
    assert {line["value"] for line in lines} == {values.get(kind, 1)}
    if kind in ("phoenix", "ragas"):
        assert {line["label"] for line in lines} == {"good"}
    if not kind.startswith("ragas_"):
        assert {line["explanation"] for line in lines} == {"it fits"}
    assert lines[0]["_limpet"]["usage"]["total_tokens"] == 15 * CALLS.get(kind, 1)
    assert judged.run(kind) == []
    assert len(judged.run(kind, PROMPT="Is it good?")) == calls
    assert judged.others == 3
    files = [path for path in judged.folder.rglob("*") if path.is_file()]
    assert not [path for path in files if b"sk-never-written" in path.read_bytes()]


BAD = {
    "no JSON": lambda request, number: completion("I would rather not say"),
    "cut off": lambda request, number: completion('{"reason": "it f', finish="length"),
    "outside the choices": lambda request, number: {
        "label": "perhaps", "value": "perhaps", "statements": 7, "verdict": "perhaps",
    },
    "refused": lambda request, number: completion(None, refusal="I will not judge that"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", BAD)
def test_a_bad_reply_is_a_failure_and_never_a_score(kind, bad, evaluation):
    judged = evaluation(BAD[bad])
    requests = judged.run(kind)
    # pydantic-evals asks once more with the complaint; the older ragas lets the model mend it.
    assert len(requests) <= (3 if kind in ("phoenix", "deepeval", "ragas") else 12)
    assert judged.lines() == []
    failures = judged.lines("failures.jsonl")
    assert [failed["step"] for failed in failures] == ["judge"] * 3
    assert {failed["error"]["class"] for failed in failures} == {"invalid_reply"}


@pytest.mark.parametrize("kind", KINDS)
def test_each_refusal_is_seen_by_the_pacer_because_the_library_does_not_retry(kind, evaluation):
    def busy_at_first(request, number):
        if number < 4:
            return failure(429, "too many requests", headers={"Retry-After": "0"})
        return good(kind)(request, number)

    judged = evaluation(busy_at_first)
    requests = judged.run(kind)
    attempts = [line["_limpet"]["attempts"] for line in judged.lines()]
    assert len(attempts) == 3
    assert sum(attempts) == 7
    assert len(requests) == 4 + 3 * CALLS.get(kind, 1)
