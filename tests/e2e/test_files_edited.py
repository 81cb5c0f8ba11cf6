"""A prompt or a rubric in a file is edited: old and new results are never mixed unmarked."""

import json

import pytest
from e2e import ready_limpet

APP = """
import subprocess
from pathlib import Path

HERE = Path(__file__).parent


def answer(question):
    said = (HERE / "prompt.txt").read_text().strip() + " " + question
    if (HERE / "edit.txt").exists() and question == "3":
        # By another process: what a run writes itself is not what it was made from.
        subprocess.run(["/bin/sh", "-c", "printf edited > prompt.txt"], cwd=HERE, check=True)
    return said


def judge(output):
    return float((HERE / "rubric.txt").read_text())
"""
ROWS = 30


@pytest.fixture
def project(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "prompt.txt").write_text("one")
    (tmp_path / "rubric.txt").write_text("0")
    rows = [f"{number},{number}" for number in range(ROWS)]
    (tmp_path / "rows.csv").write_text("\n".join(["id,question", *rows]))
    (tmp_path / "eval.yml").write_text(
        "name: trial\ndataset: rows.csv\nworkflow: app:answer\nevaluators: {judge: app:judge}\n"
        "pace: 1\nretry: 0\n"
    )
    return tmp_path


def limpet(folder, *words):
    done = ready_limpet.run([*words], cwd=folder)
    assert done.returncode in (0, 1, 3), done.stderr
    return done


def told(folder):
    """Return what each command says of the run."""
    items = [json.loads(line) for line in limpet(folder, "show", "--json").stdout.splitlines()]
    run = json.loads(limpet(folder, "list", "--json").stdout.splitlines()[0])
    return items, run, limpet(folder, "status").stdout, limpet(folder, "list").stdout


@pytest.mark.slow  # as answers of an earlier prompt
def test_scores_of_an_earlier_rubric_do_not_count(project):
    limpet(project, "run")
    (project / "rubric.txt").write_text("1")
    limpet(project, "run", "--limit", "3")
    items, run, _, _ = told(project)
    assert {name: score["mean"] for name, score in run["scores"].items()} == {"judge": 1}
    assert [item["id"] for item in items if item["scores"]] == ["0", "1", "2"]
    summary = json.loads((project / "runs/trial/summary.json").read_bytes())
    numbers = summary["evaluators"]["judge"]
    assert (numbers["completed"], numbers["not_run"]) == (3, ROWS - 3)
    assert summary["scores"]["judge"]["mean"] == 1
    limpet(project, "run")
    assert told(project)[1]["scores"]["judge"]["mean"] == 1


def test_answers_of_an_earlier_prompt_are_marked_everywhere(project):
    limpet(project, "run")
    (project / "prompt.txt").write_text("two")
    limpet(project, "run", "--limit", "3")
    items, run, status, listed = told(project)
    assert [item["id"] for item in items if item["by_current_version"]] == ["0", "1", "2"]
    assert [item["id"] for item in items if item["output"].startswith("two")] == ["0", "1", "2"]
    assert run["by_current_version"] == 3
    assert f"3 of {ROWS}" in status
    assert f"3 of {ROWS}" in listed
    limpet(project, "run", "--redo")
    items, run, _, _ = told(project)
    assert all(item["by_current_version"] and item["output"][:3] == "two" for item in items)
    assert run["by_current_version"] is None


def test_a_prompt_edited_while_the_run_runs_is_said_and_marked(project):
    (project / "edit.txt").touch()
    done = limpet(project, "run")
    assert "prompt.txt changed during the run" in done.stderr
    (project / "edit.txt").unlink()
    items, run, status, _ = told(project)
    earlier = [item["id"] for item in items if not item["by_current_version"]]
    assert earlier == ["0", "1", "2", "3"]
    assert run["by_current_version"] == ROWS - 4
    assert f"{ROWS - 4} of {ROWS}" in status
    again = limpet(project, "run")
    assert "answers redone: 4" in again.stderr
    assert all(item["output"].startswith("edited") for item in told(project)[0])


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[content.index(b"prompt.txt")] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [flip_a_bit, lambda path: path.unlink()])
def test_a_damaged_list_of_files_makes_nothing_again_unasked(project, damage):
    limpet(project, "run")
    home = project / "runs" / "trial"
    columns = [home / "workflow_output.jsonl", home / "judge_output.jsonl"]
    before = [column.read_bytes() for column in columns]
    damage(home / "files.jsonl")
    asked = ready_limpet.run(["run"], cwd=project)
    assert asked.returncode == 2
    said = f"files.jsonl is damaged: the files that the answers of {ROWS} of {ROWS} items were made"
    assert said in asked.stderr
    assert " changed" not in asked.stderr
    kept = limpet(project, "run", "--keep")
    assert "the files that the scores of judge were made from are unknown; the scores are kept" in (
        kept.stderr
    )
    limpet(project, "run")  # the decision stays
    assert [column.read_bytes() for column in columns] == before

    (project / "prompt.txt").write_text("two")
    assert f"changed (prompt.txt); answers redone: {ROWS}" in limpet(project, "run").stderr
    assert "damaged" not in limpet(project, "run").stderr
    assert len(columns[0].read_bytes().splitlines()) == 2 * ROWS


def test_why_says_what_the_run_does_with_a_kept_answer_whose_file_changed(project):
    limpet(project, "run")
    (project / "app.py").write_text(APP.replace('" " + question', '": " + question'))
    limpet(project, "run", "--keep")
    kept = limpet(project, "why", "--item", "5").stdout
    assert "workflow  kept" in kept
    (project / "prompt.txt").write_text("two")
    said = " ".join(limpet(project, "why", "--item", "5").stdout.split())
    assert "workflow runs again answered by an earlier version; since then" in said
    assert "`prompt.txt` changed (" in said
    limpet(project, "run")
    assert {item["output"] for item in told(project)[0]} == {f"two: {n}" for n in range(ROWS)}
