"""What the README shows runs as it stands, and it stays a page that one reads to its end."""

import os
import re

from doc_blocks import ROOT, blocks
from e2e.project import run
from model_server import model_server

README = ROOT / "README.md"
MOST_LINES = 130
PEERS = "Inspect", "promptfoo", "NeMo Evaluator", "Phoenix", "pydantic-evals", "DeepEval", "MLflow"


def reply(request, _number):
    """Answer a question, or judge that an answer is correct."""
    if "response_format" not in request:
        return "Paris"
    return {"reason": "It is the same city.", "label": "correct"}


def test_its_eval_yml_runs_as_it_stands(tmp_path):
    (block,) = blocks(README, "yaml")
    assert len(block.text.splitlines()) <= 10
    (tmp_path / "questions.csv").write_text(
        "question,answer\nWhat is the capital of France?,Paris\nAnd of Italy?,Rome\n",
        encoding="utf-8",
    )
    with model_server(reply) as server:  # the address is all that differs
        assert block.text.count("https://api.openai.com/v1") == 1
        text = block.text.replace("https://api.openai.com/v1", server.url)
        (tmp_path / "eval.yml").write_text(text, encoding="utf-8")
        done = run(tmp_path, env={**os.environ, "OPENAI_API_KEY": "sk-of-the-readme"})
    assert done.returncode == 0, done.stderr
    assert re.search(r"^correct +2/2 +1\.000", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^exact +2/2 +0\.500", done.stdout, re.MULTILINE), done.stdout
    assert len(server.requests) == 2 + 2 * 3  # three votes for each answer
    assert "no price" not in done.stdout + done.stderr


def test_it_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    (block,) = blocks(README, "python")
    code = [line for line in block.text.splitlines() if line and not line.startswith("# →")]
    assert len(code) <= 10


def test_it_and_the_page_beside_others_name_the_same_tools_in_the_same_versions():
    page = ROOT / "docs/explanation/beside-others.md"
    table = README.read_text(encoding="utf-8").partition("| **Limpet** |")[2]
    others = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    assert [other.rpartition(" ")[0] for other in others] == list(PEERS)
    text = page.read_text(encoding="utf-8")
    for other in others:
        name, _, version = other.rpartition(" ")
        assert re.search(rf"^\| {name} \| {re.escape(version)}", text, re.MULTILINE), other
