"""A script that calls `limpet.evaluate()` shows its run on a terminal, and little in a pipe."""

import signal
import subprocess
import sys

import pytest
from e2e import ready_limpet
from e2e.terminal import Terminal

SCRIPT = """
import pathlib, sys, threading, time
import limpet

GO = pathlib.Path(__file__).with_name("go")


def answer(question):
    while int(question) > 3 and not GO.exists():
        time.sleep(0.02)
    if question == "2":
        print("the workflow says two")
    return question


def fail(question):
    raise ValueError("\\x1b[31mno")


def evaluate(run="runs/one", workflow=answer, **options):
    rows = [{"id": f"q{n}", "question": str(n), "answer": str(n % 10)} for n in range(20)]
    return limpet.evaluate(rows, workflow, ["exact_match"], run, **options)


if __name__ == "__main__":
    result = MAIN
    print("the script goes on")
"""


@pytest.fixture
def script(tmp_path):
    def write(main="evaluate()"):
        (tmp_path / "script.py").write_text(SCRIPT.replace("MAIN", main), encoding="utf-8")
        return [sys.executable, "script.py"]

    return write


@pytest.mark.parametrize(
    "columns", [60, *(pytest.param(n, marks=pytest.mark.slow) for n in (80, 200))]
)
def test_on_a_terminal_it_shows_the_plan_the_steps_and_the_summary(script, tmp_path, columns):
    terminal = Terminal(script(), cwd=tmp_path, columns=columns)
    terminal.wait_for(r"20 items × 1 trial", r"workflow .* 4/20", r"exact_match .* 4/20")
    if columns >= 64:
        assert "━━━" in terminal.shown
    (tmp_path / "go").touch()
    assert terminal.wait() == 0
    for line in (
        "the workflow says two",
        "step         done  mean",
        "exact_match 20/20   0.5",
        "see the results: limpet show runs/one",
    ):
        assert " ".join(line.split()) in " ".join(terminal.said.split())
    assert terminal.said.rstrip().endswith("the script goes on")
    assert "4/20" not in terminal.said  # the live table is gone
    assert all(len(line) <= columns for line in terminal.said.splitlines())


def test_show_false_shows_nothing(script, tmp_path):
    (tmp_path / "go").touch()
    terminal = Terminal(script("evaluate(show=False)"), cwd=tmp_path)
    assert terminal.wait() == 0
    assert terminal.said.split("\n")[:2] == ["the workflow says two", "the script goes on"]


@pytest.mark.slow  # unit/report/test_script_view has it
def test_in_a_pipe_a_short_run_says_nothing(script, tmp_path):
    (tmp_path / "go").touch()
    done = ready_limpet.run_python(
        script(), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "the workflow says two\nthe script goes on\n"
    assert done.stderr == ""


def test_in_a_pipe_a_long_run_says_a_line_soon(script, tmp_path):
    with ready_limpet.Popen(
        script(), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        line = process.stderr.readline()
        (tmp_path / "go").touch()
        rest = process.stderr.read()
    assert line.startswith("workflow 4/20, exact_match 4/20 · ")
    assert rest == ""


@pytest.mark.slow  # into a pipe it is tested too
def test_what_a_script_prints_into_a_file_arrives_there(script, tmp_path):
    (tmp_path / "go").touch()
    command = ["sh", "-c", f"{' '.join(script())} > printed.txt"]
    terminal = Terminal(command, cwd=tmp_path)
    assert terminal.wait() == 0
    assert "see the results" in terminal.said
    printed = (tmp_path / "printed.txt").read_text()
    assert printed == "the workflow says two\nthe script goes on\n"


def test_ctrl_c_says_that_it_stops_and_how_to_resume(script, tmp_path):
    terminal = Terminal(script(), cwd=tmp_path)
    terminal.wait_for(r"workflow .* 4/20")
    terminal.press_ctrl_c()
    terminal.wait_for("in flight, press again to stop now")
    terminal.press_ctrl_c()
    terminal.wait_for("run the script again to resume")
    assert terminal.wait() == -signal.SIGINT
    assert "KeyboardInterrupt: the run was interrupted; run it again to resume" in terminal.said
    assert "the script goes on" not in terminal.said


@pytest.mark.slow  # in a pipe they are tested too
def test_failures_are_named_and_harmless(script, tmp_path):
    main = "evaluate(workflow=fail, fail_fast=False, retry=0)"
    terminal = Terminal(script(main), cwd=tmp_path)
    assert terminal.wait() == 0
    assert "workflow failed: 20 ValueError" in terminal.said
    assert "input 0 failed" not in terminal.said
    assert "see why: limpet show runs/one --failed" in terminal.said
    assert "\x1b[31mno" not in terminal.transcript


def test_in_a_pipe_failures_say_nothing_and_a_stop_is_one_line(script, tmp_path):
    failing = script("evaluate(workflow=fail, fail_fast=False, retry=0)")
    done = ready_limpet.run_python(
        failing, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    stopped = script("evaluate('runs/two', workflow=fail, retry=0)")
    done = ready_limpet.run_python(
        stopped, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    first, *_, hint = done.stderr.splitlines()
    assert first == "the first failure, for q0:"
    assert (
        done.stderr.count("\nstopping: the workflow failed 5 times for the same reason: Val") == 1
    )
    assert hint.startswith("hint: fix it and run again: finished results are kept")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_script_and_one_line_says_how_to_go_on(script, tmp_path, signum):
    command = script("evaluate(), evaluate('runs/two')")
    with ready_limpet.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stderr.readline()  # it runs
        process.send_signal(signum)
        out, err = process.communicate(timeout=100)
    assert process.returncode == 128 + signum
    assert "the script goes on" not in out
    assert [line for line in err.splitlines() if "resume" in line] == [
        "stopping: the run was interrupted; run it again to resume"
    ]
    assert (tmp_path / "runs/one/summary.json").exists()
    assert not (tmp_path / "runs/two").exists()


@pytest.mark.slow  # one run is shown in other tests
def test_of_two_runs_at_once_one_is_shown(script, tmp_path):
    main = (
        "[threading.Thread(target=evaluate, args=(f'runs/{n}',)) for n in range(2)]\n"
        "    for thread in result: thread.start()\n"
        "    for thread in result: thread.join()"
    )
    terminal = Terminal(script(main), cwd=tmp_path)
    terminal.wait_for(r"workflow .* 4/20")
    (tmp_path / "go").touch()
    assert terminal.wait() == 0
    assert "Traceback" not in terminal.said
    assert terminal.said.rstrip().endswith("the script goes on")
    assert terminal.said.count("see the results") >= 1


@pytest.mark.quick(2)
@pytest.mark.parametrize("stream", ["stderr", "stdout"])
@pytest.mark.parametrize(
    "gone", ["sys.{}.close()", pytest.param("setattr(sys, '{}', None)", marks=pytest.mark.slow)]
)
def test_a_stream_that_is_gone_does_not_end_a_run(script, tmp_path, stream, gone):
    (tmp_path / "go").touch()
    command = script(f"{gone.format(stream)}, evaluate(workflow=str.upper)")
    text = (tmp_path / "script.py").read_text().replace('    print("the script goes on")\n', "")
    (tmp_path / "script.py").write_text(text + '    GO.with_name("end").touch()\n')
    terminal = Terminal(command, cwd=tmp_path)
    terminal.wait()
    assert (tmp_path / "end").exists(), terminal.said
