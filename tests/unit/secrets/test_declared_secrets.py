"""What a configuration uses as a key or a header is a secret, whatever its name."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import limpet
from limpet.config import load_config
from limpet.integrations.nat import Flags, load_nat_config

ROW = {"id": "a", "question": "q", "answer": "x"}


class Echo(BaseHTTPRequestHandler):
    """Answers with all that it was sent."""

    def do_POST(self):
        sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
        body = json.dumps({"headers": dict(self.headers), "sent": sent, "path": self.path}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def address():
    server = HTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "rows.json").write_text(json.dumps([ROW]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("app", None)


def evaluated(config):
    ready = config.prepare()
    return limpet.evaluate(
        ready.dataset, ready.workflow, ready.evaluators, config.run, 1, **ready.options
    )


def found_in(folder, *texts):
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file.name for file in files for text in texts if text.encode() in file.read_bytes()]


@pytest.mark.parametrize(
    "more",
    [
        "headers: {X-Any: '${INNOCENT}'}",
        "headers: {Authorization: 'Bearer ${INNOCENT}'}",
        "headers: {Authorization: 'Bearer pl4nted-x'}",
        "body: {question: '{{question}}', api_key: '${INNOCENT}'}",
        "body: {auth: {password: pl4nted-x}}",
    ],
)
def test_what_an_eval_yml_uses_as_a_key_is_in_no_file(folder, monkeypatch, address, more):
    monkeypatch.setenv("INNOCENT", "pl4nted-x")
    Path("eval.yml").write_text(
        f"dataset: rows.json\nworkflow:\n  http:\n    url: {address}/\n    {more}\nrun: run\n"
    )
    result = evaluated(load_config("eval.yml"))
    assert (result.summary["workflow"]["completed"], result.summary["masked"]) == (1, 1)
    assert found_in(folder / "run", "pl4nted-x") == []


def test_a_filter_on_a_column_called_token_declares_no_secret(folder):
    rows = [{**ROW, "token": "some-word-1"}]
    Path("rows.json").write_text(json.dumps(rows))
    Path("app.py").write_text("def answer(token):\n    return token\n")
    Path("eval.yml").write_text(
        "dataset: {path: rows.json, filter: {token: some-word-1}}\nworkflow: app:answer\nrun: run\n"
    )
    assert evaluated(load_config("eval.yml")).items[0].output.value == "some-word-1"


def test_the_keys_of_a_configuration_of_the_toolkit_are_masked_in_answers(
    folder, monkeypatch, address
):
    monkeypatch.setenv("INNOCENT", "pl4nted-x")
    Path("config.yml").write_text(
        "workflow: {_type: react_agent, llm_name: nim}\n"
        "llms:\n  nim: {_type: nim, model_name: m, api_key: '${INNOCENT}'}\n"
        "functions:\n  f: {_type: x, password: lit3ral-y}\n"
        "eval:\n  general:\n    output_dir: run\n"
        "    dataset: {_type: json, file_path: rows.json}\n"
    )
    headers = (("X-Any", "h3ader-z-1"),)
    config = load_nat_config("config.yml", Flags(endpoint=address, headers=headers))
    known = config.prepare().known_secrets
    assert set(known) >= {"pl4nted-x", "lit3ral-y"}

    async def answer(question):
        return "pl4nted-x lit3ral-y"

    result = limpet.evaluate([ROW], answer, [], "mine", secrets=known)
    assert result.items[0].output.value == "[redacted] [redacted]"
    assert "h3ader-z-1" in config.prepare().workflow.secrets


def test_a_users_own_workflow_may_have_anything_called_secrets(folder):
    class Flow(limpet.Workflow):
        name, endpoint, fingerprint = "flow", "flow", {"x": "1"}

        def __init__(self, secrets):
            self.secrets = secrets

        def seen(self, item):
            return item.input

        async def open(self):
            """Nothing is needed."""

        async def close(self):
            """Nothing is held."""

        async def call(self, item):
            return limpet.Output("it is own-key-17")

    for number, secrets in enumerate([None, 7, {"a": "b"}, [None, 7], "own-key-17"]):
        result = limpet.evaluate([ROW], Flow(secrets), [], f"run{number}")
        assert result.items[0].output.value == "it is own-key-17"
    result = limpet.evaluate([ROW], Flow(["own-key-17"]), [], "masked")
    assert result.items[0].output.value == "it is [redacted]"


def test_what_is_kept_of_an_eval_yml_holds_no_secret_and_all_else(folder):
    Path("eval.yml").write_text(
        "dataset: {path: rows.json, filter: {token: word}}\n"
        "workflow:\n"
        "  http:\n"
        "    url: http://me:SECRET-1@h/ask?code=SECRET-2&lang={{lang}}&k=${K:-SECRET-3}\n"
        "    headers: {X-Any: SECRET-4}\n"
        "    body: {api_key: SECRET-5, max_tokens: 5, note: as SECRET-5 says}\n"
        "evaluators: {judged: {python: 'judges:grade', endpoint: 'http://me:SECRET-6@judge'}}\n"
    )
    public = load_config("eval.yml").public
    assert "SECRET" not in json.dumps(public)
    assert public["dataset"]["filter"] == {"token": "word"}
    asked = public["workflow"]["http"]
    assert asked["url"].endswith("/ask?code=[redacted]&lang={{lang}}&k=${K:-[redacted]}")
    assert asked["body"] == {"api_key": "[redacted]", "max_tokens": 5, "note": "as [redacted] says"}
    assert public["evaluators"]["judged"]["python"] == "judges:grade"


def test_a_body_that_a_variable_stands_for_stays_a_string(folder, monkeypatch, address):
    monkeypatch.setenv("SENT", "5")
    Path("eval.yml").write_text(
        f"dataset: rows.json\nworkflow: {{http: {{url: '{address}', body: '${{SENT}}', "
        "answer: $.sent}}\nrun: run\n"
    )
    assert evaluated(load_config("eval.yml")).items[0].output.value == '"5"'
