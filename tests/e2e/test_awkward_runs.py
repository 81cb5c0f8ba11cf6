"""User code, streams and disks that behave badly: the run goes on, or says what happened."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from e2e import ready_limpet
from e2e.project import COMMAND, answered, calls, make, run
from e2e.terminal import Terminal

import limpet


def with_app(folder, source, *, rows=5, workflow="app:answer", more=""):
    make(folder, rows=rows, workflow=workflow, more=more)
    (folder / "app.py").write_text(source, encoding="utf-8")
    return folder


_SLOW = pytest.mark.slow  # what repeats itself

# ---- user code ----------------------------------------------------------------------------------


def test_a_workflow_that_calls_sys_exit_fails_its_own_cell_only(tmp_path):
    with_app(
        tmp_path,
        "import sys\nasync def answer(question):\n    if question.endswith('1'): sys.exit(0)\n"
        "    return question[-1]\n",
    )
    done = run(tmp_path)
    assert done.returncode == 1
    assert re.search(r"^workflow +4/5 +1", done.stdout, re.M)
    shown = run(tmp_path, "runs/trial", "--failed", command="show")
    assert "the workflow raised SystemExit: 0" in shown.stdout


@pytest.mark.parametrize(
    ("source", "more"),
    [
        ("import sys\nsys.exit(0)\n", ""),
        ("import sys\ndef answer(q): return q\ndef rows(): sys.exit(0)\n", "rows"),
    ],
    ids=["at import", "in the dataset"],
)
def test_sys_exit_before_the_run_is_said_and_never_0(tmp_path, source, more):
    with_app(tmp_path, source)
    if more:
        text = (tmp_path / "eval.yml").read_text(encoding="utf-8")
        text = text.replace("dataset: rows.jsonl", "dataset: {python: app:rows}")
        (tmp_path / "eval.yml").write_text(text, encoding="utf-8")
    done = run(tmp_path)
    assert done.returncode == 2
    assert "SystemExit" in done.stderr or "sys.exit" in done.stderr
    assert 'File "app.py"' in done.stderr  # where they did it
    assert "limpet/" not in done.stderr  # and no frame of ours


def test_a_thread_that_never_ends_does_not_hold_the_terminal(tmp_path):
    with_app(
        tmp_path,
        "import threading, time\ndef answer(question):\n"
        "    threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "    return question[-1]\n",
        rows=1,
    )
    assert run(tmp_path).returncode == 0


def test_what_user_code_writes_to_stdout_is_not_data(tmp_path):
    with_app(
        tmp_path,
        "import os, subprocess\nprint('at import')\ndef answer(question):\n"
        "    print('printed'); os.write(1, b'written\\n'); subprocess.run(['echo', 'echoed'])\n"
        "    return question[-1]\n",
        rows=2,
    )
    events = run(tmp_path, "--json")
    assert [json.loads(line)["event"] for line in events.stdout.splitlines()][-1] == "ended"
    for word in ("at import", "printed", "written", "echoed"):
        assert word in events.stderr
    plain = run(tmp_path, "--set", "run=runs/second")
    assert plain.stdout.startswith("step")
    assert "printed" not in plain.stdout


def test_the_path_of_the_run_is_right_though_user_code_goes_elsewhere(tmp_path):
    with_app(tmp_path, "import os\nos.chdir('/')\ndef answer(question): return question[-1]\n")
    assert run(tmp_path).stderr.splitlines()[-1] == "see the results: limpet show runs/trial"


def test_ctrl_c_is_answered_though_user_code_blocks_the_loop(tmp_path):
    with_app(
        tmp_path,
        "import time, pathlib\nasync def answer(question):\n"
        "    pathlib.Path('here').touch()\n"
        "    while not pathlib.Path('go').exists(): time.sleep(0.01)\n    return question[-1]\n",
    )
    screen = Terminal([*COMMAND, "run"], cwd=tmp_path)
    while not (tmp_path / "here").exists():
        assert screen.process.poll() is None
        time.sleep(0.01)
    screen.press_ctrl_c()
    screen.wait_for("stopping: .* press again to stop now")
    (tmp_path / "go").touch()
    assert screen.wait() == 130
    assert screen.said.splitlines()[-1].startswith("resume with: ")
    screen.close()


# ---- streams ------------------------------------------------------------------------------------


@pytest.mark.slow  # test_script_shows closes one, and the next one is full
@pytest.mark.parametrize(
    "redirection",
    ["2>&-", "2>/dev/full", ">&-", "2>&1 | head -1 >head.txt; exit ${PIPESTATUS[0]}"],
)
def test_a_stream_that_is_closed_or_full_does_not_end_the_run(tmp_path, redirection):
    make(tmp_path)
    command = f"{' '.join(COMMAND)} run {redirection}"
    done = subprocess.run(["/bin/bash", "-c", command], cwd=tmp_path, timeout=250, check=False)
    assert len(answered(tmp_path)) == 20
    assert (tmp_path / "runs/trial/summary.json").exists()
    assert done.returncode in (0, 141)  # 141: nobody read the summary


def test_output_that_cannot_be_written_is_said_and_the_rest_too(tmp_path):
    make(tmp_path)
    with Path("/dev/full").open("w") as full:
        done = ready_limpet.run_python(
            [*COMMAND, "run"], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True,
            timeout=250, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "see the results: limpet show runs/trial" in done.stderr
    assert "error: cannot write the output: No space left on device" in done.stderr


@pytest.mark.parametrize(
    "commands", [["run"], pytest.param(["run", "show", "status", "list"], marks=_SLOW)]
)
def test_a_terminal_without_utf_8_gets_all_of_it(tmp_path, commands):
    make(tmp_path)
    for command in commands:
        done = run(tmp_path, command=command, env={**os.environ, "PYTHONIOENCODING": "ascii"})
        assert done.returncode == 0, done.stderr


# ---- signals ------------------------------------------------------------------------------------


def test_a_signal_while_the_files_are_written_does_not_keep_them_from_it(tmp_path):
    with_app(
        tmp_path,
        "import os, signal\nreplace = os.replace\n"
        "def interrupted(source, target):\n"
        "    if str(target).endswith('summary.json'):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    replace(source, target)\n"
        "os.replace = interrupted\n"
        "def answer(question): return question[-1]\n",
    )
    done = run(tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "runs/trial/summary.json").exists()
    assert done.stderr.splitlines()[-1] == "see the results: limpet show runs/trial"


@pytest.mark.slow  # the next one is interrupted in its set-up
def test_ctrl_c_while_the_workflow_is_imported_says_how_to_go_on(tmp_path):
    with_app(tmp_path, "import pathlib, time\npathlib.Path('here').touch()\ntime.sleep(600)\n")
    process = ready_limpet.Popen([*COMMAND, "run"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "here").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=100)
    assert process.returncode == 130
    assert said.strip().startswith("error: interrupted\n")
    assert said.splitlines()[-1].startswith("hint: finished results are on disk; resume with: ")


def test_ctrl_c_while_the_workflow_is_set_up_ends_it(tmp_path):
    with_app(
        tmp_path,
        "import asyncio, pathlib\nclass Bot:\n    async def setup(self):\n"
        "        pathlib.Path('here').touch(); await asyncio.sleep(600)\n"
        "    async def __call__(self, question): return question\n",
        workflow="app:Bot",
    )
    screen = Terminal([*COMMAND, "run"], cwd=tmp_path)
    while not (tmp_path / "here").exists():
        assert screen.process.poll() is None
        time.sleep(0.01)
    screen.press_ctrl_c()
    assert screen.wait() == 130
    assert screen.said.splitlines()[-1].startswith("resume with: ")
    screen.close()


def test_when_the_terminal_closes_it_stops_in_good_order(tmp_path):
    make(tmp_path, workflow="app:answer_when_told", free=5, more="pace: 4\n")
    screen = Terminal([*COMMAND, "run"], cwd=tmp_path)
    screen.wait_for(r"5/20 .*4 in flight")
    os.kill(screen.process.pid, signal.SIGHUP)
    assert screen.wait() == 129
    assert "2 seconds" in screen.said
    assert (tmp_path / "runs/trial/summary.json").exists()
    screen.close()


# ---- what is asked for --------------------------------------------------------------------------


def test_files_that_cannot_be_written_at_the_end_are_exit_code_3(tmp_path):
    make(tmp_path)
    (tmp_path / "runs/trial/summary.json").mkdir(parents=True)
    (tmp_path / "runs/trial/events.jsonl").touch()
    (tmp_path / "runs/trial/workflow_output.jsonl").touch()
    done = run(tmp_path)
    assert done.returncode == 3, done.stderr
    assert "cannot be written" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("resume with: ")


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", ["v1.json", "a.jsonl", "x.txt"])
def test_a_run_may_be_called_like_a_file(tmp_path, name):
    make(tmp_path, rows=2)
    done = run(tmp_path, "--set", f"name={name}")
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == f"see the results: limpet show runs/{name}"
    shown = run(tmp_path, f"runs/{name}", command="show").stdout.splitlines()
    assert [line.split()[0] for line in shown[2:5]] == ["q0", "q1", "correct"]


@pytest.mark.quick(2)
@pytest.mark.parametrize("output", ["rows.jsonl", "rows.jsonl/x", "app.py"])
def test_an_output_that_cannot_be_a_run_is_bad_configuration(tmp_path, output):
    make(tmp_path, rows=2)
    for arguments in ([], ["--plan"]):
        done = run(tmp_path, "--set", f"run={output}", *arguments)
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
    assert calls(tmp_path) == []


@pytest.mark.parametrize(
    "text",
    ["[]", *(pytest.param(one, marks=_SLOW) for one in ('{"sessions": 5}', '{"evaluators": 3}'))],
)
def test_a_run_json_that_makes_no_sense_is_said(tmp_path, text):
    make(tmp_path, rows=2)
    run(tmp_path)
    (tmp_path / "runs/trial/run.json").write_text(text, encoding="utf-8")
    for command, arguments in (("run", []), ("run", ["--plan"]), ("list", [])):
        done = run(tmp_path, *arguments, command=command)
        assert done.returncode == (0 if command == "list" else 2), done.stderr
        assert "Traceback" not in done.stderr


def test_a_dataset_function_that_fails_is_bad_configuration(tmp_path):
    with_app(tmp_path, "def answer(q): return q\ndef rows(): raise ValueError('no rows today')\n")
    done = run(tmp_path, "--set", "dataset.path=", "--set", "dataset.python=app:rows")
    assert done.returncode == 2, done.stderr
    assert "no rows today" in done.stderr
    assert 'File "app.py", line 2, in rows' in done.stderr  # the user's own frames
    assert "limpet/" not in done.stderr  # and none of ours


SCORES = """
def answer(question): return question[-1]
def label(output): return "great"
def several(output): return {"tone": 0.5, "word": "good"}
"""


def test_labels_and_several_scores_are_told_everywhere(tmp_path):
    with_app(tmp_path, SCORES, rows=2, more="  lab: app:label\n  multi: app:several\n")
    events = [json.loads(line) for line in run(tmp_path, "--json").stdout.splitlines()]
    told = {one["step"]: one for one in events if one["event"] == "finished"}
    assert told["lab"]["label"] == "great"
    assert told["multi"]["scores"]["tone"]["value"] == 0.5
    exported = run(tmp_path, "--to", "jsonl", command="export").stdout.splitlines()
    row = json.loads(exported[0])
    assert (row["lab"], row["multi.tone"], row["multi.word"]) == ("great", 0.5, "good")
    parquet = run(tmp_path, "--to", "parquet", "--output", "out.parquet", command="export")
    assert parquet.returncode == 0, parquet.stderr
    shown = run(tmp_path, command="show").stdout
    head, _, first, *_ = (line.split() for line in shown.splitlines())
    assert head[-3:] == ["lab", "multi.tone", "multi.word"]
    assert first[-3:] == ["great", "0.5", "good"]
    assert run(tmp_path, "--fail-under", "multi.tone=0.5").returncode == 0
    assert run(tmp_path, "--fail-under", "multi.tone=0.6").returncode == 1
    whole = run(tmp_path, "--fail-under", "multi=0.1")
    assert "multi has several scores: --fail-under needs one of multi.tone" in whole.stderr


def test_a_floor_has_to_be_a_number_and_redo_excludes_keep(tmp_path):
    make(tmp_path)
    assert run(tmp_path, "--fail-under", "correct=nan").returncode == 2
    both = run(tmp_path, "--redo", "--keep")
    assert both.returncode == 2
    assert "--redo and --keep cannot be combined" in both.stderr


def test_trying_again_does_not_mean_leaving_it(tmp_path):
    make(tmp_path, workflow="app:fail_some", more="retry: 0\n")
    done = run(tmp_path, "--no-retry-failed")
    assert "--no-retry-failed" not in done.stderr.splitlines()[-1]


def test_csv_on_a_terminal_is_not_obeyed_by_it(tmp_path):
    with_app(tmp_path, "def answer(question): return '\\x1b]0;pwn\\x07'\n", rows=1)
    run(tmp_path)
    screen = Terminal([*COMMAND, "export", "--to", "csv"], cwd=tmp_path)
    assert screen.wait() == 0
    assert "\x1b]0;pwn" not in screen.transcript
    assert "pwn" in screen.said
    screen.close()
    assert "\x1b]0;pwn" in run(tmp_path, "--to", "csv", command="export").stdout


def test_a_secret_in_the_configuration_is_not_written_down(tmp_path):
    make(tmp_path, rows=1)
    secret = {**os.environ, "OPENAI_API_KEY": "sk-verysecret1234"}
    done = run(tmp_path, "--set", "workflow.version=sk-verysecret1234", env=secret)
    assert done.returncode == 0, done.stderr
    for path in (tmp_path / "runs").rglob("*"):
        assert path.is_dir() or b"sk-verysecret1234" not in path.read_bytes(), path


def test_status_knows_that_a_run_is_stopping_and_that_a_copy_is_none(tmp_path):
    make(tmp_path, workflow="app:answer_when_told", free=5, more="pace: 4\n")
    screen = Terminal([*COMMAND, "run"], cwd=tmp_path)
    screen.wait_for(r"5/20 .*4 in flight")
    subprocess.run(["/bin/cp", "-r", "runs/trial", "runs/copy"], cwd=tmp_path, check=True)
    assert json.loads(run(tmp_path, "runs/copy", "--json", command="status").stdout)["state"] == (
        "cut off"
    )
    screen.press_ctrl_c()
    screen.wait_for("stopping")
    # The screen knows it first: the event is written by a thread of its own.
    while b'"stopping"' not in (tmp_path / "runs/trial/events.jsonl").read_bytes():
        os.sched_yield()
    told = json.loads(run(tmp_path, "runs/trial", "--json", command="status").stdout)
    assert (told["state"], told["stopping"]) == ("running", True)
    (tmp_path / "go").touch()
    assert screen.wait() == 130
    screen.close()


def test_a_table_higher_than_the_terminal_is_wiped_away(tmp_path):
    names = "".join(f"  e{n:02}: exact_match\n" for n in range(30))
    make(tmp_path, workflow="app:answer_when_told", free=5, more=f"{names}pace: 4\n")
    screen = Terminal([*COMMAND, "run"], cwd=tmp_path, columns=80, lines=12)
    screen.wait_for(r"workflow +━.* 5/20", r"… \d+ more steps\s*\n.*so far")
    (tmp_path / "go").touch()
    assert screen.wait() == 0
    assert "━" not in screen.said
    screen.close()


def test_an_evaluation_that_is_called_like_a_file_keeps_its_columns_apart(tmp_path):
    rows = [{"id": "q1", "question": "a", "answer": "a"}]
    result = limpet.evaluate(
        rows, lambda question: question, [limpet.exact_match()], run=tmp_path / "run.json",
        version="1",
    )  # fmt: skip
    assert result.summary["scores"]["exact_match"]["mean"] == 1
    assert (tmp_path / "run.json" / "exact_match_output.jsonl").exists()
