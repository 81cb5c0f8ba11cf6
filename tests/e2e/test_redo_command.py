"""`limpet run --redo` and `--limit` as a user types them, killed and interrupted, calls counted."""

import json
import os
import re
import shutil
import signal
import subprocess
from collections import Counter

import pytest
from e2e import ready_limpet
from e2e.nat_server import CLEANUP, aside, go, wait_until
from e2e.nat_server import make as make_nat
from e2e.project import COMMAND, answered, calls, make, run

from limpet.cli.shown_command import without_redo
from tests.exported import exported

WORKS, BROKEN = "    await asyncio.sleep(0.01)", "    raise ValueError(question)"


def counted(folder):
    """Return what was asked since the last time."""
    asked = calls(folder)
    (folder / "calls.txt").unlink(missing_ok=True)
    return sorted(int(one.split()[-1]) for one in asked)


def about(folder):
    return json.loads((folder / "runs/trial/run.json").read_bytes())


def summary(folder):
    return json.loads((folder / "runs/trial/summary.json").read_bytes())


def edit(folder, old, new):
    app = (folder / "app.py").read_text(encoding="utf-8")
    assert old in app
    (folder / "app.py").write_text(app.replace(old, new), encoding="utf-8")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A project whose run is finished, and that each test has a copy of."""
    folder = tmp_path_factory.mktemp("finished")
    make(folder, rows=6)
    assert run(folder).returncode == 0
    assert counted(folder) == [0, 1, 2, 3, 4, 5]
    return folder


@pytest.fixture
def done(tmp_path, finished):
    return shutil.copytree(finished, tmp_path, dirs_exist_ok=True)


# ---- forcing ------------------------------------------------------------------------------------


def test_what_is_forced_runs_again_and_only_that(done):
    for flags, asked in (
        (["--redo"], [0, 1, 2, 3, 4, 5]),
        (["--redo-item", "q2", "--redo_item=q4"], [2, 4]),
        (["--redo", "--limit", "2"], [0, 1]),
        (["--redo-step", "correct"], []),
    ):
        assert run(done, *flags).returncode == 0
        assert counted(done) == asked
        assert "redo" not in about(done)
    assert run(done).returncode == 0
    assert counted(done) == []


def test_a_plan_of_a_redo_says_it_and_does_nothing(done):
    before = about(done)
    plan = run(done, "--plan", "--redo-step", "correct", "--redo-item", "q1")
    assert "1 correct forced → 1 call of correct" in plan.stdout
    assert "6 forced → 6 calls of workflow" in run(done, "--plan", "--redo").stdout
    assert about(done) == before
    assert counted(done) == []


def test_a_wrong_name_ends_with_2_and_nothing_is_done(done):
    before = about(done)
    for flags, said in (
        (["--redo-step", "corect"], "did you mean 'correct'?"),
        (["--redo-item", "q55"], "did you mean 'q5'?"),
        (["--redo", "--keep"], "--redo and --keep cannot be combined"),
        (["--redo", "--redo-item", "q1"], "use --redo or --redo-item, not both"),
        (["--redo-item", "q5", "--limit", "2"], "is not among the 2 selected items"),
    ):
        wrong = run(done, *flags)
        assert wrong.returncode == 2
        assert said in wrong.stderr
    assert about(done) == before
    assert counted(done) == []


def started_again(folder):
    """Return how many calls the story tells of that were forced."""
    story = folder / "runs/trial/events.jsonl"
    return story.read_text(encoding="utf-8").count('"generation":1')


def test_kill_9_in_a_redo_and_the_same_command_pays_for_nothing_twice(tmp_path):
    make(tmp_path, rows=12, workflow="app:answer_when_told", free=5)
    (tmp_path / "go").touch()
    assert run(tmp_path).returncode == 0
    counted(tmp_path)
    (tmp_path / "go").unlink()
    process = ready_limpet.Popen(
        [*COMMAND, "run", "--redo"], cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    with process:
        wait_until(lambda: len(answered(tmp_path)) == 17 and started_again(tmp_path) > 5)
        process.kill()
    status = run(tmp_path, "trial", command="status")
    assert "cut off" in status.stdout
    assert "to run again: workflow; until then the earlier results are kept" in status.stdout
    assert "the redo is unfinished: cancel it with --keep" in status.stdout
    assert "to go on, run the same command without --redo…" in status.stdout
    assert re.search(r"^workflow +5/12", status.stdout, re.M)
    assert "in flight when it was cut off, possibly paid for: q5" in status.stdout
    shown = run(tmp_path, "trial", "--json", command="show")
    assert len(shown.stdout.splitlines()) == 12
    counted(tmp_path)
    (tmp_path / "go").touch()
    finished = run(tmp_path, "--redo")
    assert finished.returncode == 0
    assert counted(tmp_path) == [5, 6, 7, 8, 9, 10, 11]
    assert set(Counter(answered(tmp_path)).values()) == {2}
    assert "redo" not in about(tmp_path)
    assert run(tmp_path, "--redo").returncode == 0  # that was done: this is another
    assert len(counted(tmp_path)) == 12


def test_ctrl_c_in_a_redo_ends_with_130_and_the_way_on_has_no_flag(tmp_path):
    make(tmp_path, rows=12, workflow="app:answer_when_told", free=5)
    (tmp_path / "go").touch()
    assert run(tmp_path).returncode == 0
    counted(tmp_path)
    (tmp_path / "go").unlink()
    process = ready_limpet.Popen(
        [*COMMAND, "run", "--redo", "eval.yml"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    with process:
        wait_until(lambda: len(answered(tmp_path)) == 17)
        os.kill(process.pid, signal.SIGTERM)
        talk = process.stderr.read()
    assert process.returncode == 143
    assert talk.splitlines()[-1].endswith("-m limpet run eval.yml")
    assert talk.splitlines()[-2].startswith("cancel the redo with: ")
    assert talk.splitlines()[-2].endswith("-m limpet run eval.yml --keep")
    counted(tmp_path)
    (tmp_path / "go").touch()
    assert run(tmp_path).returncode == 0
    assert counted(tmp_path) == [5, 6, 7, 8, 9, 10, 11]


def test_a_redo_of_broken_code_is_cancelled_with_keep_and_nothing_is_paid(done):
    edit(done, WORKS, BROKEN)
    broken = run(done, "--redo", "--set", "retry.max_retries=0")
    assert broken.returncode != 0
    assert "cancel the redo with: " in broken.stderr
    edit(done, BROKEN, WORKS)
    counted(done)
    unfinished = "the earlier redo is unfinished: cancel it with --keep"
    planned = run(done, "--plan").stdout
    assert "0 kept, 6 forced" in planned
    assert unfinished in planned
    before = about(done)
    kept = run(done, "--plan", "--keep").stdout
    assert "6 kept" in kept
    assert "the unfinished redo is cancelled" in kept
    assert about(done) == before
    assert run(done, "--keep").returncode == 0
    assert "redo" not in about(done)
    assert run(done).returncode == 0
    assert counted(done) == []
    assert "finished" in run(done, "trial", command="status").stdout


@pytest.mark.slow  # a kill, and a keep, are tested apart
def test_kill_9_after_keep_leaves_the_redo_cancelled(tmp_path):
    make(tmp_path, rows=12, workflow="app:answer_when_told", free=5)
    (tmp_path / "go").touch()
    assert run(tmp_path, "--limit", "10").returncode == 0
    (tmp_path / "go").unlink()
    for flag in ("--redo", "--keep"):
        counted(tmp_path)
        command = [*COMMAND, "run", flag]
        with ready_limpet.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
            wait_until(lambda: "Repeat 11" in calls(tmp_path))
            process.kill()
    assert "redo" not in about(tmp_path)
    counted(tmp_path)
    (tmp_path / "go").touch()
    assert run(tmp_path).returncode == 0
    assert counted(tmp_path) == [10, 11]


def test_keep_in_the_file_is_no_decision_to_cancel_a_redo(done):
    with (done / "eval.yml").open("a") as file:
        file.write("on_change: keep\n")
    edit(done, WORKS, BROKEN)
    assert run(done, "--redo-item", "q1", "--set", "retry.max_retries=0").returncode == 1
    assert "redo" in about(done)
    edit(done, BROKEN, WORKS)
    counted(done)
    assert run(done).returncode == 0
    assert counted(done) == [1]


@pytest.mark.parametrize(
    ("typed", "left"),
    [
        (["run", "--redo", "eval.yml"], ["run", "eval.yml"]),
        (["run", "--redo-item", "q1", "--limit", "3"], ["run", "--limit", "3"]),
        (["run", "--redo_step=correct", "--quiet"], ["run", "--quiet"]),
        (["run", "--set", "--redo", "x"], ["run", "--set", "--redo", "x"]),
        (["run", "--keep", "--redo-item", "q1"], ["run"]),
        (["run", "--keep"], ["run", "--keep"]),
    ],
)
def test_the_way_on_leaves_out_what_forces(typed, left):
    assert without_redo(typed) == left


def test_where_a_redo_fails_it_is_said_ends_with_1_and_the_earlier_score_stands(done):
    edit(done, "return question.split()[-1]\n\n\nasync def answer_when", (
        'if question.endswith("3") and GO.exists():\n        import limpet\n\n'
        '        raise limpet.PermanentError("not now")\n'
        "    return question.split()[-1]\n\n\nasync def answer_when"
    ))  # fmt: skip
    assert run(done, "--redo").returncode == 0
    (done / "go").touch()
    failed = run(done, "--redo")
    assert failed.returncode == 1
    assert "workflow: 1 failed when run again; the earlier results are kept" in failed.stderr
    assert summary(done)["scores"]["correct"]["mean"] == 1.0
    assert summary(done)["evaluators"]["correct"]["completed"] == 6
    shown = run(done, "trial", "--failed", command="show")
    assert "1 × workflow, run again: permanent, PermanentError: not now" in shown.stdout
    (done / "go").unlink()
    counted(done)
    assert run(done).returncode == 0
    assert counted(done) == [3]


# ---- mixed versions -----------------------------------------------------------------------------


def test_a_mixture_of_versions_is_said_wherever_a_mean_is(done):
    said = "2 of 8 answers are from the current version"
    edit(done, "await asyncio.sleep(0.01)\n    return", "await asyncio.sleep(0.02)\n    return")
    kept = run(done, "--keep")
    assert "0 of 6 answers are from the current version" in kept.stdout
    with (done / "rows.jsonl").open("a", encoding="utf-8") as rows:
        for n in (6, 7):
            rows.write(json.dumps({"id": f"q{n}", "question": f"Say {n}", "answer": str(n)}) + "\n")
    mixed = run(done)
    assert mixed.returncode == 0
    assert re.search(rf"^correct +8/8 +1.000 \(.*\) +{said}$", mixed.stdout, re.M)
    assert said in run(done, "trial", command="status").stdout
    assert said in run(done, "trial", command="show").stderr
    assert "correct 1.000 (0.68–1.00) (2 of 8 answers current)" in run(done, command="list").stdout
    assert summary(done)["evaluators"]["correct"]["by_current_version"] == 2
    again = run(done)  # also where there is nothing to do
    assert said in again.stdout
    assert run(done, "--redo").returncode == 0
    for command in ("status", "show", "list"):
        told = run(done, command=command)
        assert "the current version" not in told.stdout + told.stderr
    assert "by_current_version" not in summary(done)["workflow"]


# ---- a limit ------------------------------------------------------------------------------------


def test_a_limit_on_a_finished_run_is_told_as_a_selection_and_changes_no_report(done):
    before = (done / "runs/trial/summary.json").read_bytes(), exported(done / "runs/trial")
    limited = run(done, "--limit", "3")
    assert limited.returncode == 0
    assert "3 of 6 items (selected in this session)" in limited.stderr
    assert re.search(r"^workflow +3/3", limited.stdout, re.M)
    assert (done / "runs/trial/summary.json").read_bytes() == before[0]
    assert exported(done / "runs/trial") == before[1]
    status = run(done, "trial", command="status").stdout
    assert "finished" in status
    assert re.search(r"^workflow +6/6", status, re.M)
    assert "the last session selected 3 of 6 items" in status
    assert re.search(r"finished +6/6", run(done, command="list").stdout)
    assert len(run(done, "trial", "--json", command="show").stdout.splitlines()) == 6
    assert counted(done) == []


def test_first_a_limit_then_all(tmp_path):
    make(tmp_path, rows=6)
    assert run(tmp_path, "--limit", "3").returncode == 0
    assert counted(tmp_path) == [0, 1, 2]
    assert summary(tmp_path)["selection"] == {"items": 3, "of": 6}
    assert run(tmp_path).returncode == 0
    assert counted(tmp_path) == [3, 4, 5]
    assert summary(tmp_path)["n"] == 6
    assert "selection" not in summary(tmp_path)


# ---- the toolkit's configurations ---------------------------------------------------------------


@pytest.mark.slow  # an eval.yml is forced above
def test_a_configuration_of_the_toolkit_is_forced_where_it_is(tmp_path, server):
    make_nat(tmp_path, general=CLEANUP % "")
    assert go(tmp_path, server).returncode == 0
    number = len(server.asked)
    server.asked.clear()
    assert go(tmp_path, server, "--redo").returncode == 0
    assert len(server.asked) == number
    server.asked.clear()
    wrong = go(tmp_path, server, "--redo-step", "corect")
    assert (wrong.returncode, server.asked) == (2, [])
    assert go(tmp_path, server, "--limit", "2").returncode == 0
    assert server.asked == []
    rows = json.loads((tmp_path / "data.json").read_bytes())
    assert go(tmp_path, server, "--redo-item", str(rows[1]["id"])).returncode == 0
    assert server.asked == [rows[1]["question"]]
    skipped = run(tmp_path, "config.yml", "--skip-workflow", "--redo")
    assert skipped.returncode == 2
    assert "--skip-workflow calls no workflow" in skipped.stderr
    assert run(tmp_path, "config.yml", "--skip-workflow", "--redo-step", "correct").returncode == 0
    assert aside(tmp_path) == []
    whole = json.loads((tmp_path / "out/summary.json").read_bytes())
    assert whole["n"] == number
