"""An eval.yml with a prompt and judges, against a server that speaks the OpenAI API."""

import base64
import json
import os
import re
from pathlib import Path

import pytest
from e2e.project import run
from model_server import completion, model_server

KEY = "sk-e2e-0123456789"
EVAL = """\
name: trial
dataset: rows.jsonl
models:
  grader: {openai: "${MODELS_URL}", model: judge-1, key: "${MODELS_KEY}"}
workflow:
  openai: ${MODELS_URL}
  model: bot-1
  key: ${MODELS_KEY}
  prompt_file: prompts/answer.txt
evaluators:
  right: {judge: grader, of: correctness, votes: 3}
  kind: {judge: grader, prompt_file: prompts/kind.txt, choices: {"yes": 1, "no": 0}}
  exact: exact_match
"""


@pytest.fixture(name="folder")
def a_folder(tmp_path):
    rows = [{"id": f"q{n}", "question": f"Say {n}", "answer": str(n)} for n in range(12)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "rows.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "answer.txt").write_text("Answer: {{question}}\n", encoding="utf-8")
    (tmp_path / "prompts" / "kind.txt").write_text("Is {{output}} kind?\n", encoding="utf-8")
    (tmp_path / "eval.yml").write_text(EVAL, encoding="utf-8")
    return tmp_path


def answer(request, _number):
    """Answer with the last word; judge that everything is right and kind."""
    if request["model"] == "bot-1":
        return request["messages"][-1]["content"].split()[-1]
    labels = request["response_format"]["json_schema"]["schema"]["properties"]["label"]["enum"]
    return {"reason": "it is", "label": labels[0]}


def limpet(folder, server, *arguments, key=KEY, command="run"):
    environment = {**os.environ, "MODELS_URL": server.url}
    if key is not None:
        environment["MODELS_KEY"] = key
    done = run(folder, *arguments, command=command, env=environment)
    assert KEY not in done.stdout + done.stderr
    return done


def calls(server):
    """Return how often each prompt was asked since the last time."""
    counts = {"answer": 0, "right": 0, "kind": 0}
    for request in server.asked:
        shown = request["messages"][-1]["content"]
        asked = "right" if "reference answer" in shown else "kind" if "kind?" in shown else "answer"
        counts[asked] += 1
    server.requests.clear()
    return counts


def files_with(folder, text):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if text.encode() in path.read_bytes()]


def test_an_edited_prompt_costs_its_own_calls_and_no_others(folder):
    prompts = folder / "prompts"
    with model_server(answer) as server:
        assert limpet(folder, server).returncode == 0
        assert calls(server) == {"answer": 12, "right": 36, "kind": 12}

        assert limpet(folder, server).returncode == 0
        assert calls(server) == {"answer": 0, "right": 0, "kind": 0}

        (prompts / "kind.txt").write_text("Now, is {{output}} kind?\n", encoding="utf-8")
        assert limpet(folder, server).returncode == 0
        assert calls(server) == {"answer": 0, "right": 0, "kind": 12}

        text = EVAL.replace("exact: exact_match", "exact: {type: exact_match, casefold: true}")
        (folder / "eval.yml").write_text(text, encoding="utf-8")
        assert limpet(folder, server).returncode == 0
        assert calls(server) == {"answer": 0, "right": 0, "kind": 0}

        assert limpet(folder, server, "--set", "evaluators.right.votes=5").returncode == 0
        assert calls(server) == {"answer": 0, "right": 24, "kind": 0}

        # Answers that come out the same keep their scores.
        (prompts / "answer.txt").write_text("Please answer: {{question}}\n", encoding="utf-8")
        assert limpet(folder, server).returncode == 0
        assert calls(server) == {"answer": 12, "right": 0, "kind": 0}

        (prompts / "answer.txt").write_text("{{question}}!\n", encoding="utf-8")
        assert limpet(folder, server).returncode == 0
        assert calls(server) == {"answer": 12, "right": 36, "kind": 12}


def test_another_column_s_edit_asks_nothing_again(folder):
    with model_server(answer) as server:
        limpet(folder, server)
        calls(server)
        rows = (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()
        text = "".join(json.dumps({**json.loads(row), "note": "new"}) + "\n" for row in rows)
        (folder / "rows.jsonl").write_text(text, encoding="utf-8")
        assert limpet(folder, server).returncode == 0
        assert calls(server) == {"answer": 0, "right": 0, "kind": 0}


def test_the_key_is_sent_and_written_nowhere(folder):
    with model_server(answer, key=KEY) as server:
        assert limpet(folder, server, "--plan").returncode == 0
        assert limpet(folder, server).returncode == 0
        assert server.requests
        assert limpet(folder, server, "runs/trial", command="why").returncode == 0
    assert files_with(folder, KEY) == []
    kept = json.loads((folder / "runs/trial/run.json").read_text(encoding="utf-8"))
    assert '"${MODELS_KEY}"' in json.dumps(kept)


def test_a_key_that_is_not_set_stops_before_any_call(folder):
    with model_server(answer) as server:
        done = limpet(folder, server, key=None)
        assert (done.returncode, server.requests) == (2, [])
    assert "eval.yml:4: models.grader.key: ${MODELS_KEY} is not set in the environment" in (
        done.stderr
    )
    assert "eval.yml:8: workflow.key: ${MODELS_KEY} is not set" in done.stderr
    assert not (folder / "runs").exists()


def test_a_key_that_is_refused_stops_the_run(folder):
    with model_server(answer, key="another-key-123") as server:
        done = limpet(folder, server, "--set", "pace=2")
        assert done.returncode == 3
        assert len(server.asked) <= 2
    assert "status 401: Incorrect API key provided: [redacted]" in done.stderr
    assert "check the key in the environment variable MODELS_KEY" in done.stderr
    assert files_with(folder, KEY) == []


@pytest.mark.parametrize(("there", "missing"), [("bot-2", "bot-1"), ("bot-1", "judge-1")])
def test_a_model_that_the_server_does_not_have_stops_the_run(there, missing, folder):
    with model_server(answer, models=[there, "judge-2"]) as server:
        done = limpet(folder, server, "--set", "pace=2")
        assert done.returncode == 3
        assert calls(server)["answer"] <= (2 if missing == "bot-1" else 12)
    assert f"status 404: The model '{missing}' does not exist" in done.stderr
    assert f"the server has {there}, judge-2" in done.stderr
    assert f"did you mean '{missing.replace('1', '2')}'?" in done.stderr


def rubbish(request, number):
    """Judge in every way that cannot be used."""
    if request["model"] == "bot-1":
        return answer(request, number)
    replies = ("Well.", {"label": "perhaps"}, completion("{", finish="length"), "[]")
    return replies[number % 4]


def test_a_judge_with_no_valid_reply_stops_the_run_and_scores_nothing(folder):
    text = (folder / "rows.jsonl").read_text(encoding="utf-8")
    more = "".join(text.replace('"id": "q', f'"id": "{n}-') for n in range(8))
    (folder / "rows.jsonl").write_text(more, encoding="utf-8")
    (folder / "eval.yml").write_text(EVAL.replace("  right:", "  # right:"), encoding="utf-8")
    with model_server(rubbish) as server:
        done = limpet(folder, server, "--set", "pace=2")
        assert done.returncode == 3
        assert calls(server)["kind"] <= 2 * 20  # of 96 items, each asked again once
    assert "the evaluator kind got no valid reply for its first 5 items" in done.stderr
    assert "hint: try another model, or a simpler prompt" in done.stderr
    column = Path(folder, "runs/trial/kind_output.jsonl")
    assert not column.exists() or column.read_text(encoding="utf-8") == ""


def test_a_truncated_answer_is_counted(folder):
    def cut_off(request, number):
        reply = answer(request, number)
        return completion(reply, finish="length") if request["model"] == "bot-1" else reply

    with model_server(cut_off) as server:
        done = limpet(folder, server, "--set", "evaluators=null")
        assert done.returncode == 0
    line = Path(folder, "runs/trial/workflow_output.jsonl").read_text("utf-8").splitlines()[0]
    assert '"finish":"length"' in line
    summary = json.loads(Path(folder, "runs/trial/summary.json").read_text("utf-8"))
    assert '"truncated": 12' in json.dumps(summary)


@pytest.mark.slow  # test_matrix has variants of a workflow
def test_variants_of_models_and_prompts_each_have_a_run(folder):
    (folder / "prompts" / "short.txt").write_text("{{question}}", encoding="utf-8")
    with (folder / "eval.yml").open("a", encoding="utf-8") as file:
        file.write(
            "matrix:\n  workflow.prompt_file: [prompts/answer.txt, prompts/short.txt]\n"
            "  models.grader.model: [judge-1, judge-2]\n"
        )
    with model_server(answer) as server:
        done = limpet(folder, server)
        assert done.returncode == 0, done.stderr
        models = [request["model"] for request in server.asked]
    assert models.count("bot-1") == 4 * 12
    assert models.count("judge-1") == models.count("judge-2") == 2 * 4 * 12
    assert len(list((folder / "runs" / "trial").glob("*/summary.json"))) == 4


def test_another_picture_under_the_same_name_is_asked_again(folder):
    rows = [{"id": name, "question": "What is it?", "photo": f"{name}.png"} for name in "abc"]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "rows.jsonl").write_text(text, encoding="utf-8")
    for name in "abc":
        (folder / f"{name}.png").write_bytes(name.encode())
    settings = ("--set", "workflow.images=['{{photo}}']", "--set", "evaluators=null")
    with model_server("a cat") as server:
        assert limpet(folder, server, *settings).returncode == 0
        assert len(server.asked) == 3
        assert limpet(folder, server, *settings).returncode == 0
        assert len(server.asked) == 3
        (folder / "b.png").write_bytes(b"another")
        assert limpet(folder, server, *settings).returncode == 0
        assert len(server.asked) == 4
        sent = server.asked[-1]["messages"][-1]["content"][1]["image_url"]["url"]
    assert sent == f"data:image/png;base64,{base64.b64encode(b'another').decode()}"


def test_a_missing_image_is_said_before_the_first_call(folder):
    with model_server(answer) as server:
        done = limpet(
            folder,
            server,
            "--set",
            "workflow.images=['{{answer}}.png']",
            "--set",
            "evaluators=null",
        )
        assert (done.returncode, server.asked) == (2, [])
    assert "item 'q0': '0.png' does not exist" in done.stderr


def test_a_model_of_ones_own_answers_and_judges(folder):
    (folder / "mine.py").write_text(
        "async def ask(messages, **params):\n    return messages[-1]['content'].split()[-1]\n\n\n"
        "async def grade(messages, schema=None, **params):\n"
        "    return {'reason': 'so', 'label': schema['properties']['label']['enum'][0]}\n",
        encoding="utf-8",
    )
    (folder / "eval.yml").write_text(
        "dataset: rows.jsonl\nmodels: {bot: mine:ask, grader: mine:grade}\n"
        "workflow: {model: bot, prompt: '{{question}}'}\n"
        "evaluators: {right: {judge: grader, of: correctness}}\n",
        encoding="utf-8",
    )
    done = run(folder)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^right +12/12 +1.000 \(.*\) +12 correct \(76–100%\)$", done.stdout, re.M)
