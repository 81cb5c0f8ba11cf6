"""A run's directory that somebody sent: looking at it runs none of its code."""

import pytest
from e2e import ready_limpet

APP = """
from pathlib import Path

Path(__file__).with_name("code-ran").touch()

def answer(question):
    return question
"""
EVAL = "dataset: rows.jsonl\nworkflow: app:answer\nevaluators: {right: exact_match}\nrun: run\n"


@pytest.fixture
def sent(tmp_path):
    """A run and, beside it, the file and the code that its run.json names."""
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "eval.yml").write_text(EVAL)
    (tmp_path / "rows.jsonl").write_text('{"id": "q1", "question": "a", "answer": "b"}\n')
    assert ready_limpet.run(["run"], cwd=tmp_path).returncode == 0
    (tmp_path / "code-ran").unlink()
    return tmp_path


LOOKING = [
    "status run", "show run", "show run --item q1", "list .", "verify run", "compare run run",
    "report run", "export run --to csv", "sample run --n 1 -o s.csv", "repair run",
    "tag mine run", "rm run --yes",
]  # fmt: skip


def test_looking_at_it_runs_none_of_its_code(sent):
    for words in LOOKING:
        done = ready_limpet.run(words.split(), cwd=sent)
        assert done.returncode == 0, done.stderr
        assert not (sent / "code-ran").exists(), words


def test_why_imports_the_code_that_the_run_names_and_its_help_says_so(sent):
    assert ready_limpet.run(["why", "run"], cwd=sent).returncode == 0
    assert (sent / "code-ran").exists()
    said = ready_limpet.run(["why", "--help"], cwd=sent).stdout
    assert "code is imported" in " ".join(said.split())
