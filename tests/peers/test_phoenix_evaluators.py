"""Phoenix's own evaluators in a run of ours, and its `evaluate_dataframe` on our executors."""

import asyncio
import json
import subprocess
import sys
import threading
from collections import Counter
from contextlib import asynccontextmanager

import pandas as pd
import pytest
from model_server import failure, model_server
from phoenix.evals import (
    LLM,
    ClassificationEvaluator,
    async_evaluate_dataframe,
    bind_evaluator,
    create_evaluator,
    evaluate_dataframe,
)
from phoenix.evals.evaluators import Score as PhoenixScore
from phoenix.evals.metrics import FaithfulnessEvaluator, MatchesRegex, exact_match

import limpet
from limpet.evaluators import Scored, as_evaluator
from limpet.integrations.phoenix import executors

ROWS = [{"id": str(n), "question": f"q{n}", "answer": "4", "docs": ["a", "b"]} for n in range(4)]
GOOD = {"explanation": "it fits", "label": "good"}
KEY = "sk-a-key-that-nobody-may-write-123"


def model(server):
    return LLM(provider="openai", model="m", base_url=server.url, api_key=KEY)


def judge(server, prompt="Is {output} an answer to {input}?", **options):
    settings = {"name": "right", "choices": {"good": 1, "bad": 0}, **options}
    return ClassificationEvaluator(llm=model(server), prompt_template=prompt, **settings)


def four(question):
    return "4"


def run(folder, *evaluators, **options):
    return limpet.evaluate(ROWS, four, list(evaluators), run=folder / "run", show=False, **options)


def scores(result, name="right"):
    return [item.scores[name] for item in result.items if name in item.scores]


def call(evaluator, output="4", **more):
    return asyncio.run(as_evaluator(evaluator, **more).call(Scored(output, "4", "q")))


def test_a_judge_gives_score_label_explanation_and_usage(tmp_path):
    with model_server(GOOD) as server:
        result = run(tmp_path, judge(server))
    assert scores(result)[0].value == 1
    assert scores(result)[0].label == "good"
    assert scores(result)[0].explanation == "it fits"
    assert result.summary["evaluators"]["right"]["usage"]["total_tokens"] == 4 * 15
    assert len(server.requests) == 4


def test_unchanged_it_is_not_asked_again_and_an_edited_prompt_runs_it_alone(tmp_path):
    def other(server, prompt):
        return judge(server, prompt, name="other")

    with model_server(GOOD) as server:
        run(tmp_path, judge(server), other(server, "One: {output}"))
        assert len(server.requests) == 8
        run(tmp_path, judge(server), other(server, "One: {output}"))
        assert len(server.requests) == 8
        run(tmp_path, judge(server), other(server, "Two: {output}"))
    assert len(server.requests) == 12
    assert all("Two" in json.dumps(asked["messages"]) for asked in server.asked[8:])


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "reply", ["no JSON", {"label": "perhaps"}, {"reason": "no label"}, "[1]"], ids=str
)
def test_a_bad_reply_is_a_failure_and_paid_for_once(reply, tmp_path):
    with model_server(reply) as server:
        result = run(tmp_path, judge(server), fail_fast=False)
    assert result.summary["evaluators"]["right"]["failed"] == {"invalid_reply": 4}
    assert result.summary["scores"]["right"]["mean"] is None
    assert len(server.requests) == 4


def test_a_refusal_reaches_the_pacer_at_once(tmp_path):
    def answer(request, number):
        return failure(429, headers={"Retry-After": "0.05"}) if number < 3 else GOOD

    with model_server(answer) as server:
        result = run(tmp_path, judge(server))
    assert result.summary["evaluators"]["right"]["completed"] == 4
    assert len(server.requests) == 7  # Phoenix alone would sleep for five seconds
    lines = (tmp_path / "run/events.jsonl").read_text(encoding="utf-8").splitlines()
    events = map(json.loads, lines)
    failed = [event for event in events if event["event"] == "failed"]
    assert [event["class"] for event in failed] == ["rate_limit"] * 3


def test_the_users_evaluator_is_left_as_it_was(tmp_path):
    with model_server(GOOD) as server:
        evaluator = judge(server)
        limiters = list(evaluator.llm._rate_limiters)
        client = evaluator.llm._async_client.client._client
        run(tmp_path, evaluator)
    assert evaluator.llm._rate_limiters == limiters != []
    assert "send" not in vars(client)


def test_a_second_run_in_the_same_process_pays_once(tmp_path):
    """A connection of the first run's event loop would fail after the second run paid."""
    with model_server(GOOD) as server:
        evaluator = judge(server)
        for name in ("first", "second", "third"):
            run(tmp_path / name, evaluator)
    assert len(server.requests) == 12


def test_judges_of_one_model_share_a_pacer_with_each_other(tmp_path):
    with model_server(GOOD) as server:
        one, two = as_evaluator(judge(server)), as_evaluator(judge(server, name="other"))
        assert one.endpoint == two.endpoint == f"{server.url.removesuffix('/v1')} m"


def test_each_request_of_a_score_asks_the_pacer(tmp_path, monkeypatch):
    class Twice(ClassificationEvaluator):
        async def _async_evaluate(self, eval_input):
            await super()._async_evaluate(eval_input)
            return await super()._async_evaluate(eval_input)

    asked = []

    @asynccontextmanager
    async def endpoint(key):
        asked.append(key)
        yield

    monkeypatch.setattr("limpet.evaluators.libraries.clients.endpoint", endpoint)
    with model_server(GOOD) as server:
        choices = {"good": 1, "bad": 0}
        twice = Twice(name="two", llm=model(server), prompt_template="{output}", choices=choices)
        result = run(tmp_path, twice, as_evaluator(judge(server), endpoint="mine"))
    assert Counter(asked) == {as_evaluator(twice).endpoint: 8, "mine": 4}
    assert result.summary["evaluators"]["two"]["usage"]["total_tokens"] == 8 * 15
    assert result.summary["evaluators"]["right"]["usage"]["total_tokens"] == 4 * 15


def test_no_key_is_in_the_fingerprint_nor_on_disk(tmp_path):
    with model_server(GOOD) as server:
        evaluator = judge(server, extra_headers={"Authorization": KEY})
        assert KEY not in json.dumps(as_evaluator(evaluator).described)
        run(tmp_path, evaluator)
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes()


def test_a_field_that_nothing_fills_is_an_error_before_the_first_call():
    with model_server(GOOD) as server:
        evaluator = FaithfulnessEvaluator(llm=model(server))
        with pytest.raises(TypeError, match=r'takes input, output, context.*inputs=\{"context"'):
            as_evaluator(evaluator)
        with pytest.raises(TypeError, match="inputs names 'contxt', but Faith.* takes input, outp"):
            as_evaluator(evaluator, inputs={"contxt": "{{docs}}"})
        assert server.requests == []


def test_inputs_fill_a_field_from_the_dataset(tmp_path):
    with model_server({"label": "faithful", "explanation": "-"}) as server:
        evaluator = FaithfulnessEvaluator(llm=model(server))
        given = as_evaluator(evaluator, inputs={"context": "{{docs}}"})
        assert given.reads == {"input", "output", "row.docs"}
        run(tmp_path, given)
    assert '[\\"a\\",\\"b\\"]' in json.dumps(server.asked[0]["messages"])


def test_a_bound_mapping_stays_in_force(tmp_path):
    with model_server(GOOD) as server:
        evaluator = judge(server, "{text} {context} {first}")
        mapping = {"text": "output", "context": "docs[1]", "first": lambda row: row["docs"][0]}
        bound = bind_evaluator(evaluator=evaluator, input_mapping=mapping)
        run(tmp_path, bound)
        assert server.asked[0]["messages"][0]["content"] == "4 b a"
        plan = limpet.plan(ROWS, four, [bound], run=tmp_path / "run")
        assert "0 calls" in str(plan) or len(server.requests) == 4


def test_functions_and_code_metrics_are_evaluators_too():
    @create_evaluator(name="long enough")
    def long_enough(output):
        return len(output) > 3

    assert as_evaluator(long_enough).name == "long_enough"
    assert call(long_enough).value["score"].value == 0
    assert call(exact_match).value["score"].value == 1
    assert call(MatchesRegex(pattern="[0-9]")).value["score"].value == 1


def test_the_code_of_a_function_and_a_setting_of_a_class_count():
    def fingerprint(number):
        namespace = {"create_evaluator": create_evaluator}
        exec(f"@create_evaluator(name='f')\ndef f(output): return {number}", namespace)  # noqa: S102
        return as_evaluator(namespace["f"]).fingerprint

    assert fingerprint(1) != fingerprint(2)
    patterns = [as_evaluator(MatchesRegex(pattern=text)).fingerprint for text in ("a", "b", "a")]
    assert patterns[0] == patterns[2] != patterns[1]


def test_a_value_error_in_a_function_is_not_a_bad_reply():
    @create_evaluator(name="odd")
    def odd(output):
        raise ValueError("a mistake")

    with pytest.raises(ValueError, match="a mistake"):
        call(odd)


def test_a_score_without_a_value_or_a_label_is_a_failure():
    @create_evaluator(name="says")
    def says(output):
        return PhoenixScore(explanation="nothing else")

    with pytest.raises(limpet.PermanentError, match="without a value or a label"):
        call(says)


def test_an_output_that_does_not_fit_is_a_failure_without_a_call():
    with model_server(GOOD) as server:
        with pytest.raises(limpet.PermanentError, match="does not fit"):
            call(FaithfulnessEvaluator(llm=model(server)), None, inputs={"context": "x"})
        assert server.requests == []


JUDGES = """
from phoenix.evals import LLM
from phoenix.evals.metrics import FaithfulnessEvaluator

model = LLM(provider="openai", model="m", base_url="{url}", api_key="{key}")
faithful = FaithfulnessEvaluator(llm=model)


def answer(question):
    return "4"
"""


@pytest.mark.slow
def test_an_eval_yml_names_it_with_its_inputs(tmp_path):
    rows = "".join(f"{json.dumps(row)}\n" for row in ROWS)
    (tmp_path / "rows.jsonl").write_text(rows, encoding="utf-8")
    evaluator = '{python: judges:faithful, inputs: {context: "{{docs}}"}}'
    text = f"dataset: rows.jsonl\nworkflow: judges:answer\nevaluators: {{right: {evaluator}}}\n"
    (tmp_path / "eval.yml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "limpet", "run"]
    with model_server({"label": "faithful", "explanation": "-"}) as server:
        code = JUDGES.format(url=server.url, key=KEY)
        (tmp_path / "judges.py").write_text(code, encoding="utf-8")
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert len(server.requests) == 4
        (tmp_path / "eval.yml").write_text(text.replace("docs", "dcos"), encoding="utf-8")
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "dcos" in done.stderr
    assert len(server.requests) == 4


# ---- evaluate_dataframe ------------------------------------------------------------------------


async def evaluated(evaluator):
    """Evaluate a dataframe, and close what OpenAI's client leaves open."""
    frame = await async_evaluate_dataframe(
        dataframe=FRAME, evaluators=[evaluator], hide_tqdm_bar=True
    )
    await evaluator.llm._async_client.client.close()
    return frame


FRAME = pd.DataFrame({"input": [f"q{n}" for n in range(12)], "output": ["4"] * 12})


def test_its_dataframe_is_the_same_on_our_executors():
    with model_server(GOOD) as server:

        def evaluate():
            evaluator = judge(server)
            plain = evaluate_dataframe(dataframe=FRAME, evaluators=[evaluator], hide_tqdm_bar=True)
            evaluator.llm._sync_client.client.close()
            other = asyncio.run(evaluated(evaluator))
            return [list(frame["right_score"]) for frame in (plain, other)]

        theirs = evaluate()
        with executors():
            assert evaluate() == theirs
        assert Counter(map(str, theirs[0])) == {str(theirs[0][0]): 12}


@pytest.mark.slow  # a refusal reaches the pacer at once, above
def test_a_refusal_waits_as_long_as_the_provider_asks_and_no_longer():
    lock, refused = threading.Lock(), []

    def answer(request, number):
        with lock:
            if len(refused) < 3:
                refused.append(number)
                return failure(429, headers={"Retry-After": "0.05"})
        return GOOD

    with model_server(answer) as server, executors():
        frame = asyncio.run(evaluated(judge(server)))
    assert frame["right_score"].notna().all()
    assert len(server.requests) == 15


def test_after_the_block_everything_is_as_before():
    from phoenix.evals import evaluators, rate_limiters

    before = evaluators.AsyncExecutor, evaluators.SyncExecutor, rate_limiters.RateLimiter.alimit
    with pytest.raises(ZeroDivisionError), executors():
        assert evaluators.SyncExecutor is limpet.SyncExecutor
        raise ZeroDivisionError
    assert before == (
        evaluators.AsyncExecutor, evaluators.SyncExecutor, rate_limiters.RateLimiter.alimit,
    )  # fmt: skip
