"""`limpet models`: what an eval.yml configures, and whether it replies."""

import json
import os
import socket

import pytest
from e2e.project import run
from model_server import completion, failure, model_server

KEY, OTHER = "sk-models-0123456789", "sk-models-9876543210"
EVAL = """\
dataset: rows.jsonl
models:
  grader: {openai: "${MODELS_URL}", model: judge-1, key: "${MODELS_KEY}"}
  vectors: {openai: "${MODELS_URL}", model: embed-1, key: "${MODELS_KEY}"}
  local: app:ask
  idle: {openai: "${MODELS_URL}", model: judge-1, reply: decision}
workflow:
  openai: ${MODELS_URL}
  model: bot-1
  key: ${MODELS_KEY}
  prompt: "{{question}}"
evaluators:
  right: {judge: grader, of: correctness, votes: 3}
  both: {judge: [grader, local], of: correctness}
  near: {embedding_similarity: vectors}
"""
APP = """
import pathlib

pathlib.Path(__file__).with_name("imported").touch()

async def ask(messages):
    return "yes"

async def fail(messages):
    raise ValueError("no \\x1b[31mcolour\\x1b[0m here")

async def leave(messages):
    raise SystemExit(3)
"""


@pytest.fixture(name="folder")
def a_folder(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"id": "1", "question": "a", "answer": "a"}\n')
    (tmp_path / "eval.yml").write_text(EVAL, encoding="utf-8")
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    return tmp_path


def models(folder, url, *arguments, key=KEY, **more):
    environment = {**os.environ, "MODELS_URL": url, **more}
    environment |= {} if key is None else {"MODELS_KEY": key}
    done = run(folder, *arguments, command="models", env=environment)
    assert KEY not in done.stdout + done.stderr
    assert OTHER not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    return done


def rows(done):
    return {row["name"]: row for row in json.loads(done.stdout)["models"]}


def test_it_lists_what_the_file_configures_and_imports_and_asks_nothing(folder):
    done = models(folder, "http://127.0.0.1:9/v1")
    assert (done.returncode, done.stderr) == (0, "")
    table = [line.split("  ") for line in done.stdout.splitlines()]
    cells = [[part.strip() for part in line if part.strip()] for line in table]
    address = "http://127.0.0.1:9/v1"
    assert cells[0] == ["name", "provider", "model", "address", "key", "used by"]
    assert cells[2:] == [
        ["grader", "openai", "judge-1", address, "MODELS_KEY", "right, both"],
        ["vectors", "openai", "embed-1", address, "MODELS_KEY", "near"],
        ["local", "python", "app:ask", "–", "–", "both"],
        ["idle", "openai", "judge-1", address, "–", "–"],
        ["bot-1", "openai", "bot-1", address, "MODELS_KEY", "workflow"],
    ]
    assert not (folder / "imported").exists()


def test_a_key_that_is_not_set_is_said_and_is_no_error(folder):
    done = models(folder, "http://127.0.0.1:9/v1", key=None)
    assert done.returncode == 0
    assert done.stdout.count("MODELS_KEY (not set)") == 3
    found = rows(models(folder, "http://127.0.0.1:9/v1", "--json", key=None))
    assert found["grader"]["keys"] == [{"variable": "MODELS_KEY", "set": False}]
    assert found["bot-1"]["keys"] == [{"variable": "MODELS_KEY", "set": False}]


def test_a_workflow_may_use_a_model_of_the_file(folder):
    text = EVAL.replace(
        "  openai: ${MODELS_URL}\n  model: bot-1\n  key: ${MODELS_KEY}\n", "  model: idle\n"
    )
    (folder / "eval.yml").write_text(text)
    found = rows(models(folder, "http://127.0.0.1:9/v1", "--json"))
    assert found["idle"]["used_by"] == ["workflow"]
    assert "bot-1" not in found


def test_each_model_is_asked_for_one_token(folder):
    def answer(request, _):
        cut = completion("", finish="length")
        return {"yes": "true"} if "questions" in request else cut

    with model_server(answer) as server:
        done = models(folder, server.url, "--check", "--json")
        asked = server.asked
    assert done.returncode == 0, done.stdout
    assert {name: row["ok"] for name, row in rows(done).items()} == dict.fromkeys(
        ["grader", "vectors", "local", "idle", "bot-1"], True
    )
    assert sorted(request["model"] for request in asked) == [
        "bot-1",
        "embed-1",
        "judge-1",
        "judge-1",
    ]
    assert [request["max_tokens"] for request in asked if "messages" in request] == [1, 1]
    assert (folder / "imported").exists()


def test_a_model_that_refuses_the_limit_is_asked_without_it(folder):
    def answer(request, _):
        if "max_tokens" in request:
            return failure(400, "Unsupported parameter: 'max_tokens'", param="max_tokens")
        return {"yes": "true"} if "questions" in request else "yes"

    with model_server(answer) as server:
        assert models(folder, server.url, "--check").returncode == 0


def test_what_fails_is_said_as_in_a_run(folder):
    (folder / "eval.yml").write_text(EVAL.replace("app:ask", "app:fail").replace("bot-1", "judge"))
    with model_server("yes", models=("judge-1", "embed-1"), key=OTHER) as server:
        refused = rows(models(folder, server.url, "--check", "--json"))
    assert "status 401" in refused["grader"]["error"]
    assert "MODELS_KEY" in refused["grader"]["hint"]
    with model_server("yes", models=("judge-1", "embed-1"), key=KEY) as server:
        done = models(folder, server.url, "--check")
        again = rows(models(folder, server.url, "--check", "--json"))
    assert done.returncode == 1
    assert "did you mean 'judge-1'?" in done.stderr
    assert "hint: the server has judge-1, embed-1" in done.stderr
    assert "error: local: ValueError: no \\x1b[31mcolour" in done.stderr
    assert [name for name, row in again.items() if row["ok"]] == ["grader", "vectors"]
    assert "failed" in done.stdout


def test_an_address_that_is_down_and_a_key_that_is_missing(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    down = rows(models(folder, url, "--check", "--json"))
    assert not down["grader"]["ok"]
    assert url.removesuffix("/v1") in down["grader"]["error"]
    done = models(folder, url, "--check", key=None)
    assert done.returncode == 1
    assert "for a server without keys, write `key: null` in eval.yml" in done.stderr
    assert (
        "grader: the environment variable MODELS_KEY with the model's key is not set" in done.stderr
    )


def test_a_plan_needs_no_key_and_finds_what_was_made_with_one(folder):
    (folder / "eval.yml").write_text(EVAL.partition("evaluators:")[0], encoding="utf-8")
    with model_server("yes", models=("bot-1",), key=KEY) as server:
        where = {**os.environ, "MODELS_URL": server.url}
        where.pop("MODELS_KEY", None)
        done = run(folder, "--plan", env=where)
        assert (done.returncode, done.stderr) == (0, "")
        assert "1 new → 1 call of workflow" in done.stdout
        assert "MODELS_KEY} is not set" in run(folder, env=where).stderr
        assert run(folder, env=where | {"MODELS_KEY": KEY}).returncode == 0
        assert "1 kept → no calls" in run(folder, "--plan", env=where).stdout


def test_one_that_hangs_does_not_hold_the_others_and_ends_at_its_deadline(folder):
    with (folder / "app.py").open("a") as file:
        file.write(
            "\nasync def hang(messages):\n    import asyncio\n    await asyncio.sleep(600)\n"
        )
    text = "timeout: 0.5\n" + EVAL.replace("app:ask", "app:hang")
    (folder / "eval.yml").write_text(text)

    def answer(request, _):
        return {"yes": "true"} if "questions" in request else "yes"

    with model_server(answer) as server:
        done = models(folder, server.url, "--check", "--json")
    found = rows(done)
    assert found["local"]["error"] == "no reply within 0.5 s"
    assert found["grader"]["ok"]


@pytest.mark.parametrize(
    ("python", "said"),
    [
        ("app:leave", "SystemExit"),
        ("app:asks", "did you mean"),
        ("missing:ask", "missing"),
    ],
)
def test_a_python_model_that_cannot_be_used_is_an_error_of_its_own(folder, python, said):
    (folder / "eval.yml").write_text(EVAL.replace("app:ask", python))
    with model_server(
        lambda request, _: {"yes": "true"} if "questions" in request else "yes"
    ) as one:
        done = models(folder, one.url, "--check", "--json")
    found = rows(done)
    assert done.returncode == 1
    assert said in f"{found['local']['error']} {found['local']['hint']}"
    assert found["grader"]["ok"]


def test_a_file_without_models_and_a_wrong_file(folder):
    (folder / "eval.yml").write_text("dataset: rows.jsonl\nworkflow: app:ask\n")
    done = models(folder, "http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no models" in done.stderr
    (folder / "eval.yml").write_text(EVAL.replace("model: judge-1, key", "modle: judge-1, key"))
    done = models(folder, "http://127.0.0.1:9", "--check")
    assert done.returncode == 2
    assert "modle" in done.stderr
    assert not (folder / "imported").exists()


def test_a_file_with_a_matrix_lists_its_models(folder):
    (folder / "eval.yml").write_text(EVAL + "matrix: {workflow.model: [bot-1, bot-2]}\n")
    listed = models(folder, "http://127.0.0.1:9/v1", "--json")
    names = [one["name"] for one in json.loads(listed.stdout)["models"]]
    assert {"grader", "vectors", "local", "idle"} <= {*names}
