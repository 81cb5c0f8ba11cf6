"""`limpet run` with a matrix: variants, killed and resumed, in a terminal, and as JSON."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from e2e import ready_limpet
from e2e.project import COMMAND, run
from e2e.terminal import Terminal

from limpet.journal.journal import Journal
from limpet.journal.layout import directory_at

APP = '''
"""Notes each call, and keeps the first prompt in memory, as a careless program does."""
import asyncio
import pathlib

HERE = pathlib.Path(__file__).parent
KEPT = None


async def answer(question, model="x", prompt="p1.txt"):
    global KEPT
    if KEPT is None:
        KEPT = (HERE / prompt).read_text().strip()
    with (HERE / "calls.txt").open("a") as file:
        file.write(f"{model} {prompt} {question}\\n")
    while model == "slow" and not (HERE / "go").exists():
        await asyncio.sleep(0.02)
    if model == "bad" and question.endswith("1"):
        raise ValueError("cannot")
    return KEPT + question.split()[-1]
'''


def make(folder, models="a, b", more="pace: 1\n"):
    (folder / "app.py").write_text(APP)
    (folder / "p1.txt").write_text("")
    (folder / "p2.txt").write_text("no ")
    rows = [{"id": f"q{n}", "question": f"Repeat {n}", "answer": str(n)} for n in range(3)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "eval.yml").write_text(
        "name: vary\ndataset: rows.jsonl\nworkflow: app:answer\n"
        "evaluators: {correct: exact_match}\n"
        f"matrix:\n  workflow.args.model: [{models}]\n  workflow.args.prompt: [p1.txt, p2.txt]\n"
        + more
    )
    return folder


def calls(folder):
    notes = folder / "calls.txt"
    return notes.read_text().splitlines() if notes.exists() else []


def wait_until(condition):
    deadline = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def table(text):
    """Return the rows of the printed table."""
    return [line.split() for line in text.splitlines()]


def test_variants_run_apart_and_finished_ones_cost_nothing(tmp_path):
    make(tmp_path)
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    heads, _, *rows = table(done.stdout)
    assert heads[:3] == ["model", "prompt", "correct"]
    # The prompt that the first variant keeps in memory is not the second one's.
    assert [row[:3] for row in rows] == [
        ["a", "p1.txt", "1.000"],
        ["a", "p2.txt", "0.000"],
        ["b", "p1.txt", "1.000"],
        ["b", "p2.txt", "0.000"],
    ]
    assert len(calls(tmp_path)) == 12
    again = run(tmp_path)
    assert table(again.stdout) == table(done.stdout)
    assert len(calls(tmp_path)) == 12
    (tmp_path / "p2.txt").write_text("other ")  # only its variants read it
    assert run(tmp_path).returncode == 0
    assert {line.split()[1] for line in calls(tmp_path)[12:]} == {"p2.txt"}
    listed = run(tmp_path, command="list").stdout
    assert listed.count("runs/vary/model=") == 4
    assert run(tmp_path, "runs/vary", command="status").stdout.count("finished") == 4


def test_why_shows_a_changed_argument(tmp_path):
    make(tmp_path)
    text = (tmp_path / "eval.yml").read_text().partition("matrix:")[0]
    text = text.replace("workflow: app:answer", "workflow: {python: app:answer, args: {model: m1}}")
    (tmp_path / "eval.yml").write_text(text)
    assert run(tmp_path).returncode == 0
    (tmp_path / "eval.yml").write_text(text.replace("m1", "m2"))
    why = run(tmp_path, "eval.yml", command="why").stdout
    assert "argument model" in why
    assert "m1" in why
    assert "m2" in why


@pytest.mark.slow  # test_why_command has one run
def test_why_of_a_variant_compares_it_with_its_own_values(tmp_path):
    make(tmp_path)
    assert run(tmp_path).returncode == 0
    why = run(tmp_path, "runs/vary/model=b,prompt=p2.txt", command="why").stdout
    assert "workflow: unchanged" in why


def test_only_and_plan(tmp_path):
    make(tmp_path)
    planned = run(tmp_path, "--plan", "--only", "prompt=p1.txt")
    assert planned.stdout.count("3 calls of workflow") == 2
    assert not (tmp_path / "runs").exists()
    assert run(tmp_path, "--only", "model=a", "--only", "prompt=p1.txt").returncode == 0
    assert {line.split()[0] for line in calls(tmp_path)} == {"a"}
    status = run(tmp_path, "runs/vary", command="status").stdout
    assert status.count("not begun") == 3
    wrong = run(tmp_path, "--only", "model=c")
    assert wrong.returncode == 2
    assert "its values: a, b" in wrong.stderr


def test_the_exit_code_is_the_worst_and_the_others_still_run(tmp_path):
    make(tmp_path, "bad, a", more="retry: 0\nfail_fast: false\n")
    done = run(tmp_path)
    assert done.returncode == 1
    assert [row[:4] for row in table(done.stdout)[2:]] == [
        ["bad", "p1.txt", "1.000", "(0.21–1.00)"],  # of 2 completed
        ["bad", "p2.txt", "0.000", "(0.00–0.79)"],
        ["a", "p1.txt", "1.000", "(0.44–1.00)"],
        ["a", "p2.txt", "0.000", "(0.00–0.56)"],
    ]
    assert "limpet show runs/vary/model=bad,prompt=p1.txt --failed" in done.stderr
    assert run(tmp_path, "--only", "model=a", "--fail-under", "correct=0.5").returncode == 1


def test_every_event_has_its_variant(tmp_path):
    make(tmp_path)
    lines = run(tmp_path, "--json", "--only", "model=a").stdout.splitlines()
    *events, last = map(json.loads, lines)
    assert {event["variant"] for event in events} == {
        "model=a,prompt=p1.txt",
        "model=a,prompt=p2.txt",
    }
    assert last["event"] == "matrix"
    scores = [variant["scores"] for variant in last["variants"]]
    assert [list(each) for each in scores] == [["correct"]] * 2
    assert [each["correct"]["mean"] for each in scores] == [1.0, 0.0]


def test_a_mistake_in_the_last_variant_is_found_before_the_first_call(tmp_path):
    make(tmp_path, more="")
    with (tmp_path / "eval.yml").open("a") as file:
        file.write("  trials: [1, many]\n")
    refused = run(tmp_path)
    assert refused.returncode == 2
    assert "eval.yml:8: trials: must be an integer" in refused.stderr
    assert calls(tmp_path) == []


def test_a_run_and_a_matrix_do_not_share_a_directory(tmp_path):
    make(tmp_path)
    assert run(tmp_path, "--set", "matrix=null").returncode == 0
    refused = run(tmp_path)
    assert refused.returncode == 2
    assert "is a run, made without the matrix" in refused.stderr
    only = ("--only", "model=a", "--only", "prompt=p1.txt")
    assert run(tmp_path, "--set", "name=other", *only).returncode == 0
    assert run(tmp_path, "--set", "name=other", "--set", "matrix=null").returncode == 2


def test_killed_in_the_middle_it_resumes_as_a_whole(tmp_path):
    make(tmp_path, "a, slow, b")
    child = ready_limpet.Popen(
        [*COMMAND, "run"], cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: any(line.startswith("slow") for line in calls(tmp_path)))
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    (tmp_path / "go").touch()
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    asked = calls(tmp_path)
    assert len([line for line in asked if line.startswith(("a ", "b "))]) == 12
    assert len([line for line in asked if line.startswith("slow")]) == 7  # one was in flight


@pytest.mark.slow  # Ctrl-C is tested too
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_signal_to_the_command_alone_stops_the_whole(tmp_path):
    make(tmp_path, "slow, b")
    child = ready_limpet.Popen(
        [*COMMAND, "run"], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    wait_until(lambda: calls(tmp_path))
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=200)
    assert child.returncode == 143
    assert "resume with:" in err
    assert out.count("not run") == 3
    assert not any(line.startswith("b ") for line in calls(tmp_path))


def test_ctrl_c_stops_the_whole_and_the_table_fits(tmp_path):
    make(tmp_path, "a, slow, b")
    screen = Terminal([*COMMAND, "run", "eval.yml"], cwd=tmp_path, columns=80)
    try:
        screen.wait_for("model=slow,prompt=p1.txt")
        wait_until(lambda: any(line.startswith("slow") for line in calls(tmp_path)))
        screen.press_ctrl_c()
        screen.wait_for("press again to stop now")
        (tmp_path / "go").touch()
        assert screen.wait() == 130
        assert "not run" in screen.said
        assert "resume with:" in screen.said
        assert not any(line.startswith("b ") for line in calls(tmp_path))
    finally:
        screen.close()


@pytest.mark.quick(3)
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_table_fits_the_terminal(tmp_path, columns):
    judges = "".join(f", score_number_{n}: exact_match" for n in range(6))
    make(tmp_path, "a, 'a model with a very long name that goes on and on'", more="")
    text = (tmp_path / "eval.yml").read_text().replace("exact_match}", f"exact_match{judges}}}")
    (tmp_path / "eval.yml").write_text(text)
    screen = Terminal([*COMMAND, "run"], cwd=tmp_path, columns=columns, lines=60)
    try:
        assert screen.wait() == 0
        for name in ("model", "prompt", "correct", "score_number_5", "s/call"):
            assert name in screen.said
        heads = [line for line in screen.said.splitlines() if line.startswith("model ")]
        assert (len(heads) == 1) == (columns == 200)
        assert "a model w" in screen.said
    finally:
        screen.close()


def test_a_refused_variant_does_not_keep_the_others_from_running(tmp_path):
    make(tmp_path, more="  dataset.path: [bad.jsonl, rows.jsonl]\n")
    (tmp_path / "bad.jsonl").write_text("not JSON\n")
    done = run(tmp_path, "--only", "model=a", "--only", "prompt=p1.txt")
    assert done.returncode == 2
    assert "bad.jsonl" in done.stderr
    heads, _, bad, good = table(done.stdout)
    assert heads[-1] == "state"
    assert bad[-1] == "error"
    assert good[3] == "1.000"


def test_a_child_ends_when_the_command_is_killed(tmp_path):
    make(tmp_path, "slow")
    child = ready_limpet.Popen(
        [*COMMAND, "run"], cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    wait_until(lambda: calls(tmp_path))
    child.kill()
    child.wait()
    (tmp_path / "go").touch()

    def resumed():
        return run(tmp_path).returncode == 0  # 2 while the child finishes its calls

    wait_until(resumed)
    assert len(calls(tmp_path)) <= 7


@pytest.mark.slow  # a stop and a redo are tested apart
def test_a_stopped_redo_names_the_variants_that_it_did_not_reach(tmp_path):
    make(tmp_path, "slow, b")
    (tmp_path / "go").touch()
    assert run(tmp_path).returncode == 0
    (tmp_path / "go").unlink()
    child = ready_limpet.Popen(
        [*COMMAND, "run", "--redo"], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
        stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    wait_until(lambda: len(calls(tmp_path)) > 12)
    child.send_signal(signal.SIGINT)
    (tmp_path / "go").touch()
    _, err = child.communicate(timeout=200)
    assert child.returncode == 130
    assert "then redo the rest:" in err
    assert "--redo --only model=slow,prompt=p2.txt --only model=b,prompt=p1.txt" in err


def test_secrets_of_an_env_file_are_masked_on_disk(tmp_path):
    make(tmp_path)
    text = (tmp_path / "eval.yml").read_text().partition("matrix:")[0]
    (tmp_path / "eval.yml").write_text(text.replace("app:answer", "leak:answer"))
    (tmp_path / "leak.py").write_text(
        "import os\ndef answer(question):\n    return os.environ['MY_API_KEY'] + question\n"
    )
    (tmp_path / "secrets.env").write_text("export MY_API_KEY='sk-4f9a8b7c6d5e4f3a2b1c'\n")
    assert run(tmp_path, "--no-fail-fast").returncode == 1  # not read unasked
    assert run(tmp_path, "--env-file", "secrets.env").returncode == 0
    files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert not any(b"4f9a8b7c6d5e4f3a2b1c" in path.read_bytes() for path in files)
    assert "[redacted]" in (tmp_path / "runs" / "vary" / "workflow_output.jsonl").read_text()


def test_the_directory_of_a_matrix_is_shown_exported_and_verified_as_a_whole(tmp_path):
    make(tmp_path)
    assert run(tmp_path, "--only", "model=a").returncode == 0
    shown = run(tmp_path, "runs/vary", command="show").stdout.splitlines()
    assert shown[0].split()[:3] == ["model", "prompt", "correct"]
    assert [line.split()[:2] for line in shown[2:]] == [
        ["a", "p1.txt"], ["a", "p2.txt"], ["b", "p1.txt"], ["b", "p2.txt"],
    ]  # fmt: skip
    assert shown[-1].endswith("not begun")
    first, *_ = run(tmp_path, "vary", "--json", command="show").stdout.splitlines()
    assert json.loads(first)["values"] == {"model": "a", "prompt": "p1.txt"}
    refused = run(tmp_path, "runs/vary", "--failed", command="show")
    assert refused.returncode == 2
    assert "for example runs/vary/model=a,prompt=p1.txt" in refused.stderr

    assert run(tmp_path, "runs/vary", "--output", "all.csv", command="export").returncode == 0
    with (tmp_path / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    one = len((tmp_path / "rows.jsonl").read_text().splitlines())
    assert [row["model"] for row in rows] == ["a"] * 2 * one
    assert [row["prompt"] for row in rows] == ["p1.txt"] * one + ["p2.txt"] * one
    assert {row["variant"] for row in rows} == {"model=a,prompt=p1.txt", "model=a,prompt=p2.txt"}
    assert list(rows[0])[:4] == ["variant", "model", "prompt", "id"]

    assert run(tmp_path, "runs/vary", command="verify").returncode == 0
    column = tmp_path / "runs/vary/model=a,prompt=p2.txt/workflow_output.jsonl"
    column.write_bytes(column.read_bytes() + b'{"torn')
    torn = run(tmp_path, "runs/vary", command="verify")
    assert torn.returncode == 1
    assert "6 torn bytes" in torn.stdout


@pytest.mark.slow  # test_run_command asks about one
def test_a_changed_workflow_is_asked_about_per_variant_and_stop_stops_the_whole(tmp_path):
    make(tmp_path)
    app = APP.replace("return KEPT", "import limpet\n    return limpet.Output(KEPT", 1).replace(
        "question.split()[-1]\n", "question.split()[-1], usage=limpet.Usage(cost=9))\n"
    )
    (tmp_path / "app.py").write_text(app)
    assert run(tmp_path, "--only", "prompt=p1.txt").returncode == 0
    (tmp_path / "app.py").write_text(app.replace("KEPT + question", "KEPT + '' + question"))
    made = len(calls(tmp_path))

    def answered(*answers):
        only = ["--only", "prompt=p1.txt"]
        screen = Terminal([*COMMAND, "run", *only], cwd=tmp_path, columns=100, lines=80)
        try:
            for number, answer in enumerate(answers, 1):
                screen.wait_for("(?s)" + r"redo, keep or stop\?.*" * number)
                screen.press(answer + "\r")
            return screen.wait(), screen.said
        finally:
            screen.close()

    code, said = answered("stop")
    assert (code, len(calls(tmp_path))) == (2, made)
    assert "not run" in said
    code, said = answered("keep", "redo")
    assert (code, len(calls(tmp_path))) == (0, made + 3)


def test_one_item_is_shown_in_every_variant(tmp_path):
    make(tmp_path)
    assert run(tmp_path, "--only", "model=a").returncode == 0
    text = run(tmp_path, "runs/vary", "--item", "q1", command="show").stdout
    heads = [line for line in text.splitlines() if line.startswith("model ")]
    assert heads == ["model a · prompt p1.txt", "model a · prompt p2.txt"]
    assert text.count("\nq1: completed") == 2
    lines = run(tmp_path, "vary", "--item", "q1", "--json", command="show").stdout.splitlines()
    data = [json.loads(line) for line in lines]
    assert [(each["values"]["prompt"], each["id"]) for each in data] == [
        ("p1.txt", "q1"), ("p2.txt", "q1"),
    ]  # fmt: skip
    unknown = run(tmp_path, "vary", "--item", "q7", command="show")
    assert unknown.returncode == 2
    assert "runs/vary: there is no item q7" in unknown.stderr


def test_a_matrix_is_compared_and_removed_by_its_name_and_its_runs_stay_where_they_are(tmp_path):
    make(tmp_path, "a")
    (tmp_path / "prompts").mkdir()
    for name in ("p1", "p2"):
        (tmp_path / f"{name}.txt").rename(tmp_path / "prompts" / f"{name}.txt")
    text = (tmp_path / "eval.yml").read_text()
    (tmp_path / "eval.yml").write_text(text.replace("p1.txt, p2.txt", "prompts/p1.txt"))
    assert run(tmp_path).returncode == 0
    home = tmp_path / "runs/vary"
    assert sorted(path.name for path in home.iterdir()) == ["matrix.json", "model=a,prompt=p1"]
    alone = run(tmp_path, "vary", command="compare")
    assert (alone.returncode, "only a matrix of two or more runs" in alone.stderr) == (2, True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/p1.txt").write_text("no ")
    asked = len(calls(tmp_path))
    alike = "prompts/p1.txt, other/p1.txt"
    (tmp_path / "eval.yml").write_text(text.replace("p1.txt, p2.txt", alike))
    assert run(tmp_path).returncode == 0  # alike, and the first is not asked again
    assert len(calls(tmp_path)) == asked + 3
    assert (home / "model=a,prompt=p1").is_dir()
    compared = run(tmp_path, "vary", command="compare").stdout
    assert "base  runs/vary/model=a,prompt=p1 " in compared
    assert "correct  1.000    0  -1.000" in compared
    (home / "notes.txt").touch()
    assert "no terminal to ask" in run(tmp_path, "vary", command="rm").stderr
    removed = run(tmp_path, "vary", "--yes", command="rm")
    assert removed.returncode == 0
    assert "kept, not made by Limpet: notes.txt" in removed.stderr
    assert [path.name for path in home.iterdir()] == ["notes.txt"]


def test_a_budget_is_for_all_variants(tmp_path):
    make(tmp_path, more="pace: 1\nbudget: {calls: 5}\n")
    done = run(tmp_path)
    assert done.returncode == 3, done.stderr
    assert len(calls(tmp_path)) == 5  # three of the first variant, two of the second
    assert "the budget is used up: 5 calls of 5 calls" in done.stderr
    assert "2 answers on disk; the rest: 1 call of workflow" in done.stderr
    assert "resume with: python -m limpet run --budget calls=6\n" in done.stderr
    last = run(tmp_path, "--only", "model=b,prompt=p2.txt")
    assert last.returncode == 3
    assert len(calls(tmp_path)) == 5
    first = tmp_path / "runs" / "vary" / "model=a,prompt=p1.txt"
    with Journal(directory_at(first)):  # it is running
        refused = run(tmp_path, "--only", "model=b,prompt=p2.txt")
    assert refused.returncode == 2, refused.stderr
    assert "model=a,prompt=p1.txt is running, and has the same budget" in refused.stderr
    assert run(tmp_path, "--budget", "calls=12").returncode == 0
    assert len(calls(tmp_path)) == 12
