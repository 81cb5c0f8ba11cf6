"""The example that asks a real model, against a local server with the same API."""

import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from e2e.project import run

EXAMPLE = Path(__file__).parents[2] / "examples" / "model"
KEY = "sk-test-0123456789abcdefghij"
CAPITALS = {"France": "paris", "Japan": "Tokyo", "Kenya": "Nairobi", "Peru": "Lima"}


class Model(BaseHTTPRequestHandler):
    """Refuses the first call, and knows four of six capitals."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, self.headers["Authorization"], body))
        if len(self.server.asked) == 1:
            self.send_response(429)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        country = body["messages"][-1]["content"].split()[-1].rstrip("?")
        answer = {"role": "assistant", "content": f" {CAPITALS.get(country, 'unknown')}\n"}
        usage = {"prompt_tokens": 30, "completion_tokens": 2, "total_tokens": 32}
        reply = json.dumps({"choices": [{"message": answer}], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):
        pass


@pytest.fixture
def model():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    server.asked = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(EXAMPLE, tmp_path / "model"))


def test_the_example_asks_a_model_and_counts_tokens_and_cost(folder, model):
    url = f"http://127.0.0.1:{model.server_port}/v1"
    env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url, "OPENAI_MODEL": "tiny"}
    env |= {"LIMPET_REMEMBER_PACE": "0", "LIMPET_SHARE_PACE": "0"}
    done = run(folder, env=env)
    assert done.returncode == 0, done.stderr
    assert "192 tokens" in done.stderr
    assert "$0.000091" in done.stderr
    path, authorization, body = model.asked[-1]
    assert (path, authorization) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert body["model"] == "tiny"
    summary = json.loads((folder / "runs/capitals/summary.json").read_text())
    assert summary["scores"]["correct"]["mean"] == pytest.approx(4 / 6)
    asked = len(model.asked)
    assert run(folder, env=env).returncode == 0
    assert len(model.asked) == asked == 7  # six answers and a refusal; nothing is paid twice
    files = [path for path in (folder / "runs").rglob("*") if path.is_file()]
    assert not any(KEY.encode() in path.read_bytes() for path in files)


@pytest.mark.slow  # unit/config/test_models_in_config has it
def test_without_a_key_it_says_so_before_any_call(folder, model):
    url = f"http://127.0.0.1:{model.server_port}/v1"
    done = run(folder, env={"OPENAI_API_KEY": "", "OPENAI_BASE_URL": url})
    assert done.returncode == 2
    assert "workflow.key: the value of ${OPENAI_API_KEY} is empty" in done.stderr
    assert model.asked == []
