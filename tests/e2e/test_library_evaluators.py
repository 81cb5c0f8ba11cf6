"""Another library's evaluator in an eval.yml, with `inputs` where names differ."""

import json
import sys

import pytest
from e2e import ready_limpet

JUDGES = """
calls = open("calls", "a")
prompt = "Does {context} say {outputs}?"

def create(prompt):
    def _wrapped_evaluator(*, inputs=None, outputs=None, reference_outputs=None, **kwargs):
        calls.write("x")
        calls.flush()
        asked = prompt.format(outputs=outputs, **kwargs)
        return {"key": "score", "score": outputs in kwargs["context"], "comment": asked}

    _wrapped_evaluator.__module__ = "openevals.llm"
    return _wrapped_evaluator

correctness = create(prompt)
"""
CONFIG = """
dataset: rows.jsonl
workflow: bot:answer
evaluators:
  grounded: {python: "judges:correctness", inputs: {context: "{{documents}}"}}
"""


def limpet(folder, config=CONFIG):
    (folder / "eval.yml").write_text(config)
    command = [sys.executable, "-m", "limpet", "run", "eval.yml"]
    return ready_limpet.run_python(command, cwd=folder, capture_output=True, text=True, check=False)


def project(folder):
    rows = [{"id": "a", "input": "?", "documents": "yes and no"}, {"id": "b", "input": "?"}]
    rows[1]["documents"] = "no"
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "bot.py").write_text("def answer(question):\n    return 'yes'\n")
    (folder / "judges.py").write_text(JUDGES)


@pytest.mark.slow  # peers/test_phoenix_evaluators has it in one process
def test_its_fields_are_filled_from_the_dataset_and_an_edited_prompt_runs_it_again(tmp_path):
    project(tmp_path)
    done = limpet(tmp_path)
    assert done.returncode == 0, done.stderr
    (column,) = (tmp_path / "runs").glob("*/grounded_output.jsonl")
    scores = {line["id"]: line for line in map(json.loads, column.read_text().splitlines())}
    assert (scores["a"]["value"], scores["b"]["value"]) == (True, False)
    assert scores["a"]["explanation"] == "Does yes and no say yes?"
    limpet(tmp_path)
    assert len((tmp_path / "calls").read_text()) == 2, "nothing changed"
    (tmp_path / "judges.py").write_text(JUDGES.replace("Does {context}", "Would {context}"))
    limpet(tmp_path)
    assert len((tmp_path / "calls").read_text()) == 4


def test_a_field_that_nothing_fills_is_an_error_before_the_first_call(tmp_path):
    project(tmp_path)
    done = limpet(tmp_path, CONFIG.replace(', inputs: {context: "{{documents}}"}', ""))
    assert done.returncode == 2
    assert "context" in done.stderr
    assert not (tmp_path / "runs").exists()
