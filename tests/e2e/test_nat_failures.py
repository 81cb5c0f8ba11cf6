"""Where `nat eval` fails its users, by the numbers of the facts we have of it: each done better."""

import json
import subprocess

import pytest
from e2e import ready_limpet
from e2e.nat_server import column, go, make, output, wait_until
from e2e.project import COMMAND, run


@pytest.mark.slow  # test_nat_run kills one, and goes on
def test_1_results_are_on_disk_while_it_runs(tmp_path, server):
    make(tmp_path)
    server.free = 3
    server.gate.clear()
    process = ready_limpet.Popen(
        [*COMMAND, "run", "config.yml", "--endpoint", server.url], cwd=tmp_path,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(lambda: len(column(tmp_path)) == 3 and len(column(tmp_path, "correct")) == 3)
        assert process.poll() is None
    finally:
        server.gate.set()
        assert process.wait(100) == 0


def test_1_cleanup_keeps_the_old_results_and_says_so(tmp_path, server):
    make(tmp_path, general="    output: {dir: ./out, cleanup: true}\n")
    assert go(tmp_path, server).returncode == 0
    before = (tmp_path / "out/workflow_output.jsonl").read_bytes()
    done = go(tmp_path, server)
    assert done.returncode == 0
    (kept,) = tmp_path.glob("out.*")
    assert (kept / "workflow_output.jsonl").read_bytes() == before
    assert f"the finished run in {tmp_path / 'out'} is kept as {kept}" in done.stderr
    assert len(server.asked) == 12


def test_1_without_a_word_on_cleanup_a_finished_run_is_gone_on_with(tmp_path, server):
    make(tmp_path, general="    output: {dir: ./out}\n")
    assert go(tmp_path, server).returncode == go(tmp_path, server).returncode == 0
    assert len(server.asked) == 6
    assert list(tmp_path.glob("out.*")) == []


def test_1_a_plan_sets_nothing_aside(tmp_path, server):
    make(tmp_path, general="    output: {dir: ./out, cleanup: true}\n")
    assert go(tmp_path, server).returncode == 0
    done = go(tmp_path, server, "--plan")
    assert done.stdout.startswith("6 items × 1 trial: 0 kept, 6 new")
    assert list(tmp_path.glob("out.*")) == []


def test_1_a_directory_that_holds_more_than_results_is_not_moved(tmp_path, server):
    make(tmp_path)
    text = (tmp_path / "config.yml").read_text(encoding="utf-8").replace("./out", ".")
    (tmp_path / "config.yml").write_text(text, encoding="utf-8")
    (tmp_path / "workflow_output.json").write_text("[]", encoding="utf-8")
    done = go(tmp_path, server)
    assert done.returncode == 2
    assert "give the output its own directory" in done.stderr
    assert (tmp_path / "workflow_output.json").read_text() == "[]"


def test_2_the_only_evaluator_raising_is_1_and_everything_is_written(tmp_path, server):
    (tmp_path / "judges.py").write_text(
        "from limpet import PermanentError\n\ndef bad(output):\n    raise PermanentError(output)\n"
    )
    make(tmp_path)
    text = (tmp_path / "config.yml").read_text(encoding="utf-8")
    (tmp_path / "config.yml").write_text(
        text.replace("{_type: exact_match}", "{_type: python, function: judges.bad}")
    )
    done = go(tmp_path, server, "--no-fail-fast")
    assert done.returncode == 1
    assert [row["generated_answer"] for row in output(tmp_path)] == [str(n) for n in range(6)]
    scores = output(tmp_path, "correct")
    assert scores["average_score"] is None
    assert all(one["score"] is None and one["error"] for one in scores["eval_output_items"])


def test_2_no_evaluators_still_writes_the_answers(tmp_path, server):
    make(tmp_path)
    text = (tmp_path / "config.yml").read_text(encoding="utf-8")
    (tmp_path / "config.yml").write_text(text[: text.index("  evaluators:")], encoding="utf-8")
    assert go(tmp_path, server).returncode == 0
    assert len(output(tmp_path)) == 6


def test_3_completed_entries_are_skipped_with_an_endpoint_and_nothing_is_deleted(tmp_path, server):
    make(tmp_path, general="    output: {dir: ./out, cleanup: true}\n")
    assert go(tmp_path, server).returncode == 0
    assert go(tmp_path, server, "--skip_completed_entries").returncode == 0
    assert len(server.asked) == 6
    assert list(tmp_path.glob("out.*")) == []


def test_4_an_edited_question_or_model_is_asked_again_and_scores_are_kept(tmp_path, server):
    make(tmp_path)
    assert go(tmp_path, server).returncode == 0
    rows = json.loads((tmp_path / "data.json").read_text(encoding="utf-8"))
    rows[2]["question"] = "Repeat once more 2"
    (tmp_path / "data.json").write_text(json.dumps(rows), encoding="utf-8")
    assert go(tmp_path, server).returncode == 0
    assert server.asked[6:] == ["Repeat once more 2"]
    text = (tmp_path / "config.yml").read_text(encoding="utf-8")
    (tmp_path / "config.yml").write_text(text.replace("meta/llama", "meta/other"), encoding="utf-8")
    done = go(tmp_path, server)
    assert done.returncode == 0
    assert "workflow changed (llms) → 6 calls of workflow" in done.stderr
    assert len(server.asked) == 7 + 6


def test_5_a_failure_on_the_servers_side_is_a_failure_and_the_rest_is_done(tmp_path, server):
    make(tmp_path)
    server.broken = {"Repeat 1"}
    done = go(tmp_path, server)
    assert done.returncode == 1
    assert [row["id"] for row in output(tmp_path) if row["generated_answer"] is None] == ["001"]
    assert len(column(tmp_path)) == 5
    assert output(tmp_path, "correct")["average_score"] == 1.0


def test_5_values_that_are_no_text_and_long_lines_are_answers(tmp_path, server):
    server.answer = lambda question: {"long": "x" * 2**20, "n": 1}
    assert go(make(tmp_path, rows=2), server).returncode == 0
    assert output(tmp_path)[0]["generated_answer"]["n"] == 1


def test_5_a_server_that_is_down_is_2_and_nothing_is_scored(tmp_path):
    done = run(make(tmp_path), "config.yml", "--endpoint", "http://127.0.0.1:9")
    assert done.returncode == 2
    assert "127.0.0.1:9" in done.stderr
    assert not (tmp_path / "out/correct_output.json").exists()


def test_6_a_judge_that_raises_is_not_0_and_n_is_told(tmp_path, server):
    (tmp_path / "judges.py").write_text(
        "from limpet import PermanentError\n\ndef some(output):\n"
        "    if output == '3':\n        raise PermanentError('no')\n    return 1\n"
    )
    make(tmp_path, evaluators="    judged: {_type: python, function: judges:some}\n")
    assert go(tmp_path, server).returncode == 1
    scores = output(tmp_path, "judged")
    assert scores["average_score"] == 1.0
    assert scores["_limpet"]["completed"] == 5
    (failed,) = [one for one in scores["eval_output_items"] if one["error"]]
    assert (failed["id"], failed["score"]) == ("003", None)


@pytest.mark.slow  # tests/unit/pacing holds it
def test_7_max_concurrency_is_the_most_in_flight(tmp_path, server):
    make(tmp_path, rows=12)
    server.gate.clear()
    process = ready_limpet.Popen(
        [*COMMAND, "run", "config.yml", "--endpoint", server.url], cwd=tmp_path,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(lambda: len(server.asked) == 4)
    finally:
        server.gate.set()
        assert process.wait(100) == 0
    assert server.most_in_flight == 4


def test_8_values_are_not_coerced_and_duplicate_ids_are_said(tmp_path, server):
    make(tmp_path)
    rows = [
        {"id": "001", "question": "Say 1e5", "answer": "1e5", "when": "2026-01-02"},
        {"id": "1e5", "question": "12 34", "answer": "34", "when": "2026-01-03"},
        {"id": "001", "question": "Say again", "answer": "again", "when": None},
        {"id": "4", "question": None, "answer": "x", "when": None},
    ]
    (tmp_path / "data.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    done = go(tmp_path, server)
    assert done.returncode == 0
    assert [(row["id"], row["when"]) for row in output(tmp_path)] == [
        ("001", "2026-01-02"), ("1e5", "2026-01-03"),
    ]  # fmt: skip
    assert output(tmp_path, "correct")["average_score"] == 1.0
    assert "2 rows skipped" in done.stderr
    assert "the same id as line" in done.stderr
    summary = json.loads((tmp_path / "out/summary.json").read_bytes())
    assert len(summary["bad_rows"]) == 2


def test_9_the_toolkit_is_not_needed_for_a_served_workflow(tmp_path, server):
    done = subprocess.run(
        [COMMAND[0], "-X", "importtime", *COMMAND[1:],
         "run", "config.yml", "--endpoint", server.url],
        cwd=make(tmp_path), capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not modules & {"nat", "pandas"}
