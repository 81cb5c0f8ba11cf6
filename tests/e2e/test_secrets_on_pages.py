"""What a page shows of a configuration."""

import json

from e2e import ready_limpet

from limpet.view.setup_answers import setup_answer
from limpet.view.viewed_runs import Labeller, ViewedRun


def test_credentials_that_nobody_declared_are_neither_kept_nor_shown(tmp_path):
    key = "sk-SECRET0123456789abcdefXYZ"
    (tmp_path / "app.py").write_text("def answer(question, args=None):\n    return question\n")
    (tmp_path / "rows.jsonl").write_text('{"id": "a", "question": "q"}\n')
    (tmp_path / "eval.yml").write_text(
        "name: first\ndataset: rows.jsonl\nworkflow: {python: app:answer, args: {args: ['"
        + key + "', \"curl -H 'X-Api-Key: abcdef123456'\"]}}\n"
    )  # fmt: skip
    done = ready_limpet.run(["run"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert key not in (tmp_path / "runs/first/run.json").read_text()
    opened = ViewedRun(tmp_path / "runs/first", Labeller())
    with opened.reader:
        shown = json.dumps(setup_answer(opened)["configuration"])
    assert "SECRET" not in shown
    assert "abcdef123456" not in shown
    assert "app:answer" in shown
