"""`limpet run` as a person sees it: in a real terminal, watched, stopped, killed, resumed."""

import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from e2e.nat_server import make as make_nat
from e2e.nat_server import serving
from e2e.project import COMMAND, answered, calls, make, run
from e2e.terminal import Terminal

RUN = [*COMMAND, "run", "eval.yml"]
AGAIN = f"{Path(sys.executable).name} -m limpet"


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def start(command=RUN, **options):
        opened.append(Terminal(command, cwd=tmp_path, **options))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def wait_until(condition, timeout=250):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_progress_is_shown_and_a_clean_summary_is_left(tmp_path, terminal):
    make(tmp_path, workflow="app:answer_when_told", free=12, more="pace: 4\n")
    screen = terminal()
    screen.wait_for(
        r"workflow +━.* 12/20 .*4 in flight", r"correct +━.* 12/20", r"\n *[\d.]+ s so far"
    )
    (tmp_path / "go").touch()
    assert screen.wait() == 0
    assert "━" not in screen.said
    lines = screen.said.splitlines()
    assert lines[0] == "trial · runs/trial"
    planned = "20 items × 1 trial: 0 kept, 20 new → 20 calls of workflow, 20 of correct"
    assert lines[1].startswith(planned)
    assert re.search(r"^workflow +20/20 *$", screen.said, re.M)
    assert re.search(r"^correct +20/20 +1.000 \(0.84–1.00\) *$", screen.said, re.M)
    assert lines[-1] == "see the results: limpet show runs/trial"
    assert "\x1b[?25l" not in screen.transcript  # the cursor was never hidden


def test_the_mean_of_a_resumed_run_has_what_was_kept(tmp_path, terminal):
    make(tmp_path, rows=10, workflow="app:answer_when_told", free=10, more="pace: 4\n")
    rows = (tmp_path / "rows.jsonl").read_text(encoding="utf-8")
    wrong = rows.replace('"answer": "1"', '"answer": "one"')
    (tmp_path / "rows.jsonl").write_text(wrong, encoding="utf-8")
    assert run(tmp_path, "--limit", "4").returncode == 0  # one of them is wrong
    app = (tmp_path / "app.py").read_text(encoding="utf-8")
    (tmp_path / "app.py").write_text(app.replace(">= 10", ">= 6"), encoding="utf-8")
    screen = terminal([*RUN, "--keep"])
    screen.wait_for(r"workflow .* 6/10 .*4 in flight", r"correct 0\.833 of 6 so far")
    (tmp_path / "go").touch()
    assert screen.wait() == 0


def test_it_follows_the_terminal_when_that_gets_narrow(tmp_path, terminal):
    make(tmp_path, workflow="app:answer_when_told", free=7, more="pace: 4\n")
    screen = terminal()
    screen.wait_for(r"7/20 .*4 in flight")
    screen.resize(44, 20)
    screen.wait_for(r"workflow +7/20[^━\n]*\n *correct +7/20[^━\n]*\n *4 in flight")
    assert max(len(line) for line in screen.shown.splitlines()) <= 44
    (tmp_path / "go").touch()
    assert screen.wait() == 0


def test_a_narrow_terminal_from_the_start_tears_nothing(tmp_path, terminal):
    make(tmp_path, workflow="app:answer_when_told", free=7, more="pace: 4\n")
    screen = terminal(columns=30)
    screen.wait_for(r"workflow +7/20")
    (tmp_path / "go").touch()
    assert screen.wait() == 0
    assert len(re.findall(r"^workflow", screen.said, re.M)) == 1
    assert "20/20" in screen.said


def test_ctrl_c_once_lets_calls_in_flight_end_and_says_how_to_go_on(tmp_path, terminal):
    make(tmp_path, workflow="app:answer_when_told", free=5, more="pace: 4\n")
    screen = terminal()
    screen.wait_for(r"5/20 .*4 in flight")
    screen.press_ctrl_c()
    screen.wait_for("stopping: 4 calls in flight, press again to stop now")
    asked = len(calls(tmp_path))
    (tmp_path / "go").touch()
    assert screen.wait() == 130
    assert len(calls(tmp_path)) == asked == 9
    assert len(answered(tmp_path)) == 9
    assert "gave up" not in screen.said
    assert re.search(r"^workflow +9/20 +11", screen.said, re.M)
    assert screen.said.splitlines()[-1] == f"resume with: {AGAIN} run eval.yml"
    again = terminal()
    assert again.wait() == 0
    assert "9 kept, 11 new → 11 calls of workflow" in again.said
    assert len(calls(tmp_path)) == 20


def test_ctrl_c_twice_stops_now_and_keeps_what_is_finished(tmp_path, terminal):
    make(tmp_path, workflow="app:answer_when_told", free=5, more="pace: 4\n")
    screen = terminal()
    screen.wait_for(r"5/20 .*4 in flight")
    screen.press_ctrl_c()
    screen.wait_for("press again to stop now")
    screen.press_ctrl_c()
    assert screen.wait() == 130
    assert len(answered(tmp_path)) == 5
    assert "abandoned 4 calls in flight, not recorded and possibly paid for" in screen.said
    assert screen.said.splitlines()[-1] == f"resume with: {AGAIN} run eval.yml"
    [run] = (tmp_path / "runs").iterdir()
    assert json.loads((run / "summary.json").read_text())["given_up"] == 4
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert (events[-1]["event"], events[-1]["given_up"]) == ("ended", 4)


def test_sigterm_stops_soon_though_calls_hang(tmp_path, terminal):
    make(tmp_path, workflow="app:hang", more="pace: 3\n")
    screen = terminal()
    screen.wait_for(r"3 in flight")
    os.kill(screen.process.pid, signal.SIGTERM)
    assert screen.wait() == 143
    assert screen.said.splitlines()[-1] == f"resume with: {AGAIN} run eval.yml"


def test_after_kill_9_the_same_command_goes_on_and_asks_nothing_twice(tmp_path, terminal):
    make(tmp_path, workflow="app:answer_when_told", free=12, more="pace: 4\n")
    screen = terminal()
    wait_until(lambda: len(answered(tmp_path)) == 12 and len(calls(tmp_path)) == 16)
    os.kill(screen.process.pid, signal.SIGKILL)
    screen.wait()
    kept = {f"Repeat {id_.removeprefix('q')}" for id_ in answered(tmp_path)}
    (tmp_path / "go").touch()
    again = terminal()
    assert again.wait() == 0
    assert "12 kept, 8 new → 8 calls of workflow" in again.said
    assert "4 calls were in flight when the last session was cut off" in " ".join(
        again.said.split()
    )
    asked = calls(tmp_path)
    assert [question for question in asked if question in kept and asked.count(question) > 1] == []
    assert len(set(answered(tmp_path))) == 20


def test_it_stays_calm_when_hundreds_of_cells_end_in_a_second(tmp_path, terminal):
    make(tmp_path, rows=250, seconds=0, more="pace: 64\n")
    began = time.monotonic()
    screen = terminal()
    assert screen.wait() == 0
    seconds = time.monotonic() - began
    frames = screen.transcript.count(" s so far")
    assert 1 <= frames <= 5 * seconds + 5  # five a second, not one per cell


BUCKET = """
import asyncio, time
import limpet

LEVEL, AT = 5.0, time.monotonic()

async def answer(question):
    global LEVEL, AT
    now = time.monotonic()
    LEVEL, AT = min(5.0, LEVEL + 40 * (now - AT)), now
    if LEVEL < 1:
        raise limpet.RateLimitError(retry_after=0.1)
    LEVEL -= 1
    await asyncio.sleep(0.02)
    if question.endswith("0"):
        raise limpet.PermanentError("no")
    usage = limpet.Usage(prompt_tokens=1000, completion_tokens=500)
    return limpet.Output(question.split()[-1], usage=usage)
"""


def test_what_holds_the_pace_failures_and_tokens_are_shown(tmp_path, terminal):
    make(tmp_path, rows=80)
    (tmp_path / "app.py").write_text(BUCKET, encoding="utf-8")
    screen = terminal(columns=150)
    screen.wait_for(r"/s +\d+ in flight[^$]+workflow: at the provider's limit")
    screen.wait_for(r"workflow failed: \d PermanentError")
    screen.wait_for(r"\d,\d00 tokens")
    screen.wait_for(r"about [\d.:]+ (s|min) left")
    assert screen.wait() == 1
    assert "108,000 tokens" in screen.said
    assert re.search(r"^workflow failed: 8 PermanentError", screen.said, re.M)
    assert screen.said.splitlines()[-2:] == [
        "see why: limpet show runs/trial --failed",
        f"try again: {AGAIN} run eval.yml",
    ]


SLOW = """
import pathlib, time
while not pathlib.Path("go").exists():
    time.sleep(0.01)
def answer(question):
    return question.split()[-1]
"""


def test_what_takes_long_before_the_first_call_is_said_and_leaves_nothing(tmp_path, terminal):
    make(tmp_path)
    (tmp_path / "app.py").write_text(SLOW, encoding="utf-8")
    screen = terminal([*COMMAND, "run", "eval.yml", "--plan"])
    screen.wait_for(r"preparing the run … \d")
    (tmp_path / "go").touch()
    assert screen.wait() == 0
    assert screen.said.splitlines() == [
        "20 items × 1 trial: 0 kept, 20 new → 20 calls of workflow, 20 of correct",
        "tokens, cost and time unknown: fewer than 5 cells of workflow have run",
    ]


SLOW_DISK = """
import os, pathlib, time
replace = os.replace
def slowly(source, target):
    while str(target).endswith("summary.json") and not pathlib.Path("go").exists():
        time.sleep(0.01)
    replace(source, target)
os.replace = slowly
def answer(question):
    return question.split()[-1]
"""


def test_what_takes_long_after_the_last_call_is_said(tmp_path, terminal):
    make(tmp_path)
    (tmp_path / "app.py").write_text(SLOW_DISK, encoding="utf-8")
    screen = terminal()
    screen.wait_for(r"workflow +━.* 20/20", r"writing the result files … \d")
    (tmp_path / "go").touch()
    assert screen.wait() == 0
    assert "writing the files" not in screen.said


def test_what_scripts_print_stays_on_the_screen(tmp_path, terminal):
    script = "    output: {dir: out, custom_scripts: {tell: {script: tell.py}}}\n"
    make_nat(tmp_path, general=script)
    lines = "for n in range(6): print('line', n)\n"
    (tmp_path / "tell.py").write_text(lines, encoding="utf-8")
    with serving() as server:
        screen = terminal([*COMMAND, "run", "config.yml", "--endpoint", server.url])
        assert screen.wait() == 0
    said = screen.said.splitlines()
    first = said.index("custom_scripts: tell …")
    assert said[first + 1 : first + 7] == [f"line {n}" for n in range(6)]
    assert "━" not in screen.said


def test_no_color_is_respected(tmp_path, terminal):
    make(tmp_path, more="pace: 4\n")
    screen = terminal(env={"NO_COLOR": "1"})
    assert screen.wait() == 0
    assert not re.search(r"\x1b\[[\d;]*(3[0-7]|9[0-7])m", screen.transcript)


def test_a_change_of_many_answers_is_a_question_with_the_plan_and_what_they_took(
    tmp_path, terminal
):
    make(tmp_path, rows=103)
    assert terminal().wait() == 0
    app = (tmp_path / "app.py").read_text(encoding="utf-8")
    (tmp_path / "app.py").write_text(app.replace("sleep(0.01)", "sleep(0.02)"), encoding="utf-8")
    assert terminal([*RUN, "--limit", "2"]).wait() == 0
    for answer, code, made in (("stop", 2, 105), ("redo", 0, 206)):
        screen = terminal()
        screen.wait_for(r"redo, keep or stop\?")
        assert "the workflow changed after the answers of 101 of 103 items were made" in screen.said
        assert "redo runs the workflow again: 101 calls of workflow" in screen.said
        assert "stop runs nothing; --set name=NEW keeps both" in screen.said
        assert re.search(r"the existing results took [\d.]+ s of calls", screen.said)
        screen.press(answer + "\r")
        assert screen.wait() == code
        assert len(calls(tmp_path)) == made
        if answer == "stop":  # the flag runs all of them
            assert "hint: --redo runs the workflow again: 103 calls of workflow" in screen.said


def test_an_error_is_broken_between_words(tmp_path, terminal):
    make(tmp_path, workflow="app:answer", more="pase: 4\n")
    screen = terminal(columns=80)
    assert screen.wait() == 2
    lines = screen.said.splitlines()
    (begin,) = (at for at, line in enumerate(lines) if line.startswith("hint: "))
    hint = " ".join(lines[begin:]).split()
    assert len(lines) > begin + 1
    assert {"name,", "dataset,", "workflow,", "evaluators,", "output)"} <= {*hint}
