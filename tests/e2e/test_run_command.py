"""`limpet run` as scripts and machines see it: piped, as JSON, by its exit code."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from e2e import ready_limpet
from e2e.project import COMMAND, answered, calls, make, run

from limpet.cli.commands import cli

AGAIN = f"{Path(sys.executable).name} -m limpet"


def events_of(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


# ---- what is said, and where --------------------------------------------------------------------


def test_piped_it_says_plain_lines_and_the_summary_is_all_of_stdout(tmp_path):
    done = run(make(tmp_path), "eval.yml")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    table = [line.split() for line in done.stdout.splitlines() if not line.startswith("─")]
    assert table == [
        ["step", "done", "mean", "(95%)"],
        ["workflow", "20/20"],
        ["correct", "20/20", "1.000", "(0.84–1.00)"],
    ]
    talk = done.stderr.splitlines()
    assert talk[0] == "trial · runs/trial"
    assert talk[-1] == "see the results: limpet show runs/trial"


def test_quiet_says_nothing_but_errors(tmp_path):
    make(tmp_path)
    done = run(tmp_path, "--quiet", "eval.yml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = run(tmp_path, "--quiet", "--fail-under", "correct=1.5")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: correct is 1, below 1.5\n"


def test_json_is_one_object_per_event_and_user_output_goes_to_stderr(tmp_path):
    done = run(make(tmp_path, rows=3, workflow="app:talkative"), "--json")
    assert done.returncode == 0
    events = events_of(done)
    assert events[0]["event"] == "planned"
    finished = {(one["step"], one["id"]) for one in events if one["event"] == "finished"}
    assert finished == {(step, f"q{n}") for step in ("workflow", "correct") for n in range(3)}
    scores = [one["value"] for one in events if one.get("step") == "correct" and "value" in one]
    assert scores == [True, True, True]
    assert events[-1]["event"] == "ended"
    assert events[-1]["exit_code"] == 0
    assert events[-1]["summary"]["scores"]["correct"]["mean"] == 1.0
    assert done.stderr.count("user code says") == 3


def test_a_reader_of_the_events_that_goes_away_does_not_end_the_run(tmp_path):
    make(tmp_path, rows=100)
    process = ready_limpet.Popen(
        [*COMMAND, "run", "--json"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert json.loads(process.stdout.readline())["event"] == "planned"
    process.stdout.close()
    process.wait()
    assert len(answered(tmp_path)) == 100


def test_terminal_escapes_in_an_error_are_made_harmless(tmp_path):
    done = run(make(tmp_path, workflow="app:fail_some", more="retry: 0\n"), "eval.yml")
    assert done.returncode == 1
    assert "\x1b" not in done.stdout + done.stderr


# ---- exit codes ---------------------------------------------------------------------------------


def test_a_run_with_failures_ends_with_1_and_says_where_to_look(tmp_path):
    done = run(make(tmp_path, workflow="app:fail_some", more="retry: 0\n"), "eval.yml")
    assert done.returncode == 1
    assert re.search(r"^workflow +18/20 +2", done.stdout, re.M)
    assert "workflow failed: 2 ValueError" in done.stderr
    assert done.stderr.splitlines()[-2:] == [
        "see why: limpet show runs/trial --failed",
        f"try again: {AGAIN} run eval.yml",
    ]


def test_a_mean_under_its_floor_ends_with_1(tmp_path):
    make(tmp_path)
    assert run(tmp_path, "--fail-under", "correct=1").returncode == 0
    done = run(tmp_path, "--fail-under", "correct=1.01")
    assert done.returncode == 1
    assert "correct is 1, below 1.01" in done.stderr


@pytest.mark.parametrize(
    ("floor", "said"),
    [
        ("corect=1", "unknown evaluator 'corect'; did you mean 'correct'?"),
        ("correct", "must be NAME=NUMBER, for example correct=0.9"),
        ("correct=high", "must be NAME=NUMBER, for example correct=0.9"),
    ],
)
def test_a_floor_that_makes_no_sense_is_said_before_anything_runs(tmp_path, floor, said):
    done = run(make(tmp_path), "--fail-under", floor)
    assert done.returncode == 2
    assert said in done.stderr
    assert calls(tmp_path) == []


def test_an_empty_account_ends_with_3_and_can_be_resumed(tmp_path):
    make(tmp_path, workflow="app:out_of_quota", more="pace: 1\n")
    done = run(tmp_path, "eval.yml")
    assert done.returncode == 3
    assert "stopped: the account is empty" in done.stderr
    assert done.stderr.splitlines()[-1] == f"resume with: {AGAIN} run eval.yml"
    assert answered(tmp_path) == [f"q{n}" for n in range(5)]


def test_a_run_that_another_process_holds_is_refused_with_2(tmp_path):
    make(tmp_path, workflow="app:hang", more="pace: 1\n")
    holder = ready_limpet.Popen(
        [*COMMAND, "run", "--json"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        while json.loads(holder.stdout.readline())["event"] != "started":
            pass
        done = run(tmp_path, "eval.yml")
    finally:
        holder.kill()
        holder.communicate()
    assert done.returncode == 2
    assert f"process {holder.pid}" in done.stderr or f"pid {holder.pid}" in done.stderr
    assert "hint:" in done.stderr


# ---- options ------------------------------------------------------------------------------------


def test_plan_says_what_would_be_done_and_does_nothing(tmp_path):
    make(tmp_path)
    done = run(tmp_path, "--plan")
    text = "20 items × 1 trial: 0 kept, 20 new → 20 calls of workflow, 20 of correct"
    text += "\ntokens, cost and time unknown: fewer than 5 cells of workflow have run"
    assert (done.returncode, done.stdout, done.stderr) == (0, text + "\n", "")
    told = json.loads(run(tmp_path, "--plan", "--json").stdout)
    assert (told["text"], told["calls"]) == (text, 40)
    unknown = dict.fromkeys(("tokens", "cost", "seconds", "from"))
    calls_ = {"low": 20.0, "high": 20.0}
    assert told["forecast"] == {"calls": calls_, "unseen": ["workflow"], **unknown}
    assert calls(tmp_path) == []
    assert not (tmp_path / "runs").exists()


def edit_workflow(folder):
    app = (folder / "app.py").read_text(encoding="utf-8")
    old, new = "await asyncio.sleep(0.01)\n    return", "await asyncio.sleep(0.02)\n    return"
    assert old in app
    (folder / "app.py").write_text(app.replace(old, new), encoding="utf-8")


def test_a_changed_workflow_asks_for_redo_or_keep(tmp_path):
    make(tmp_path, rows=101)
    run(tmp_path)
    edit_workflow(tmp_path)
    done = run(tmp_path)
    assert done.returncode == 2
    assert "the workflow changed after the answers of 101 of 101 items were made: `answer`" in (
        done.stderr
    )
    cells = "(from 101 cells of an earlier version in this run); tokens and cost unknown"
    assert re.search(
        "hint: --redo runs the workflow again: 101 calls of workflow, up to 101 of correct: "
        rf"about 101 calls, [\d.–]+ s {re.escape(cells)}\n"
        "      --keep keeps the existing answers: no calls\n"
        "      --set name=NEW keeps both, as two runs for limpet compare\n",
        done.stderr,
    )
    assert len(calls(tmp_path)) == 101
    kept = run(tmp_path, "--keep")
    assert kept.returncode == 0
    assert len(calls(tmp_path)) == 101


@pytest.mark.slow  # test_run_in_a_terminal and test_small_answers
def test_the_hint_after_a_trial_says_how_many_calls_its_commands_make(tmp_path):
    make(tmp_path, rows=104)
    run(tmp_path)
    edit_workflow(tmp_path)
    assert run(tmp_path, "--limit", "3").returncode == 0
    asks = run(tmp_path).stderr
    assert "3 kept, 101 from an earlier version, workflow changed (answer)" in " ".join(
        asks.split()
    )
    [redo, keep] = re.findall(r"(?:again|answers): (\w+) calls", asks)
    made = len(calls(tmp_path))
    assert run(tmp_path, "--keep").returncode == 0
    assert (keep, len(calls(tmp_path))) == ("no", made)
    assert run(tmp_path, "--redo").returncode == 0
    assert (redo, len(calls(tmp_path)) - made) == ("104", 104)


def test_a_few_cheap_answers_of_a_changed_workflow_are_made_anew_and_it_is_said(tmp_path):
    make(tmp_path, rows=3)
    run(tmp_path)
    edit_workflow(tmp_path)
    planned = " ".join(run(tmp_path, "--plan").stdout.split())
    took = r"\(0\.\d s of calls\)"
    assert re.search(rf"0 kept, 3 redone {took}, workflow changed \(answer\) → 3 calls", planned)
    told = json.loads(run(tmp_path, "--plan", "--json").stdout)["plan"]
    assert told["workflow"]["made_again"]["answers"] == 3
    assert len(calls(tmp_path)) == 3
    done = run(tmp_path)
    assert done.returncode == 0
    said = " ".join(done.stderr.split())
    assert re.search(rf"the workflow changed \(answer\); answers redone: 3 {took}", said)
    assert len(calls(tmp_path)) == 6
    assert "redone" not in run(tmp_path).stderr


def test_redo_runs_a_changed_workflow_anew(tmp_path):
    make(tmp_path)
    run(tmp_path)
    edit_workflow(tmp_path)
    assert run(tmp_path, "--redo").returncode == 0
    assert len(calls(tmp_path)) == 40


def test_what_failed_is_tried_again_unless_asked_not_to(tmp_path):
    make(tmp_path, workflow="app:fail_some", more="retry: 0\n")
    run(tmp_path)
    left = run(tmp_path, "--no-retry-failed")
    assert left.returncode == 1
    assert "18 kept, 2 failed before, not retried → no calls" in left.stderr
    assert (
        "18 kept, 2 failed before → 2 calls of workflow" in run(tmp_path, "--retry-failed").stderr
    )


def test_limit_trials_and_set_override_the_file(tmp_path):
    make(tmp_path)
    done = run(tmp_path, "--limit", "3", "--trials", "2", "--set", "evaluators.near.type=numeric")
    assert done.returncode == 0
    assert "3 of 20 items × 2 trials" in done.stderr
    assert re.search(r"^near +6/6 +1", done.stdout, re.M)
    wrong = run(tmp_path, "--set", "trails=2")
    assert wrong.returncode == 2
    assert "trails" in wrong.stderr
    assert "trials" in wrong.stderr


def test_relative_paths_are_relative_to_the_file(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    make(home)
    done = run(tmp_path, "home/eval.yml")
    assert done.returncode == 0
    assert len(answered(home)) == 20
    assert done.stderr.splitlines()[-1] == "see the results: limpet show home/runs/trial"


def test_eval_yml_is_the_default(tmp_path):
    assert run(make(tmp_path, rows=1)).returncode == 0


def test_the_configuration_is_kept_without_the_values_of_the_environment(tmp_path):
    make(tmp_path, rows=1, more="timeout: ${WHICH}\n")
    done = run(tmp_path, env={**os.environ, "WHICH": "97"})
    assert done.returncode == 0
    about = (tmp_path / "runs" / "trial" / "run.json").read_text(encoding="utf-8")
    assert json.loads(about)["configuration"]["timeout"] == "${WHICH}"


# ---- the command itself -------------------------------------------------------------------------


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom limpet.cli.commands import cli\n"
        "for words in ([], *([name] for name in cli.commands)):\n"
        "    cli([*words, '--help'], prog_name='limpet', standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=250, check=True
    )
    assert done.stdout.count("Usage: limpet") == 1 + len(cli.commands)
    imported = done.stderr.split()
    heavy = {"pydantic", "yaml", "rich", "asyncio", "orjson", "tqdm", "aiohttp", "numpy"}
    assert heavy.isdisjoint(imported)
    rooms = {name.split(".")[1] for name in imported if name.startswith("limpet.")}
    known = {"cli", "secrets", "json_values", "arguments", "text", "foreign", "errors"}
    assert rooms <= known | {"integrations"}
    of_others = {name for name in imported if name.startswith("limpet.integrations.")}
    names = ("kinds", "nat", "nat.flags")
    assert of_others == {f"limpet.integrations.{name}" for name in names}


def test_reading_a_run_imports_nothing_that_runs_one(tmp_path):
    make(tmp_path, rows=1)
    assert run(tmp_path).returncode == 0
    code = (
        "import sys\nfrom limpet.cli.commands import cli\n"
        "cli(['status', 'runs/trial'], standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, capture_output=True, text=True, timeout=250, check=True,
    )  # fmt: skip
    assert "workflow" in done.stdout
    imported = done.stderr.split()
    assert {"pydantic", "yaml", "tqdm", "aiohttp", "numpy"}.isdisjoint(imported)
    rooms = {name.split(".")[1] for name in imported if name.startswith("limpet.")}
    assert rooms.isdisjoint({"config", "evaluators", "executors", "pacing", "workflows"})


@pytest.mark.parametrize("name", cli.commands)
def test_each_command_explains_itself_as_the_list_says(name):
    done = ready_limpet.run([name, "--help"])
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: limpet {name} ")


def test_an_unknown_command_names_the_nearest():
    done = ready_limpet.run(["rnu"])
    assert done.returncode == 2
    assert "unknown command 'rnu'; did you mean 'run'?" in done.stderr


def test_the_shell_can_complete_commands():
    # Not `-m`: completion asks for the installed command by its name.
    limpet = Path(sys.executable).with_name("limpet")
    words = {"COMP_WORDS": "limpet st", "COMP_CWORD": "1", "_LIMPET_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [limpet],
        env={**os.environ, **words},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert "plain,status" in done.stdout
