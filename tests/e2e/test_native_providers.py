"""An eval.yml whose prompt and judge are asked in the own API of each provider."""

import json

import pytest
from e2e.project import run
from model_server import model_server, raw
from wire import WIRES

NAMES = {"responses": "openai"}
EVAL = """\
dataset: rows.jsonl
models:
  m: {{{name}: "{url}", model: m-1, key: "${{NATIVE_KEY}}"{more}}}
workflow: {{model: m, prompt: "{{{{question}}}}", params: {{max_tokens: 50}}}}
evaluators:
  good: {{judge: m, prompt: "Is {{{{output}}}} good?", choices: {{good: 1, bad: 0}}, votes: 2}}
prices: {{m-1: {{prompt: 1000, completion: 2000}}}}
"""


@pytest.mark.parametrize("wire", WIRES, ids=str)
def test_a_prompt_and_a_judge_in_one_file(wire, tmp_path, monkeypatch):
    monkeypatch.setenv("NATIVE_KEY", "key-of-a-test-0123456789")
    rows = [{"id": f"q{n}", "question": f"What is {n}?"} for n in range(3)]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def answer(request, _):
        asked_by_judge = "good?" in json.dumps(request)
        label = json.dumps({"reason": "it is", "label": "good"})
        return raw(wire.body(label if asked_by_judge else "forty-two", thought="let me see"))

    with model_server(answer) as server:
        url = server.url if NAMES.get(wire.name, wire.name) == "openai" else server.url[:-3]
        more = ", api: responses" if wire.name == "responses" else ""
        name = NAMES.get(wire.name, wire.name)
        (tmp_path / "eval.yml").write_text(EVAL.format(name=name, url=url, more=more))
        first = run(tmp_path, "--set", "run=runs/r")
        assert first.returncode == 0, first.stderr
        calls = len(server.asked)
        assert calls == 9  # three answers, and two votes for each
        assert run(tmp_path, "--set", "run=runs/r").returncode == 0
        assert len(server.asked) == calls  # nothing again
    lines = (tmp_path / "runs/r/workflow_output.jsonl").read_text(encoding="utf-8").splitlines()
    for line in map(json.loads, lines):
        assert line["output"] == "forty-two"
        assert line["trace"][0]["reasoning"] == "let me see"
    summary = json.loads((tmp_path / "runs/r/summary.json").read_text(encoding="utf-8"))
    assert summary["scores"]["good"]["mean"] == 1
    spent = [summary["workflow"]["usage"], summary["evaluators"]["good"]["usage"]]
    assert [usage["total_tokens"] for usage in spent] == [45, 90]
    assert [usage["cost"] for usage in spent] == pytest.approx([0.06, 0.12])
    assert "key-of-a-test" not in "".join(
        path.read_text(encoding="utf-8", errors="replace")
        for path in (tmp_path / "runs").rglob("*")
        if path.is_file()
    )
