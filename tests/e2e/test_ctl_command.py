"""Orders to a run from other terminals: real processes, real sockets."""

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest
from e2e import project, ready_limpet
from e2e.project import COMMAND
from e2e.terminal import Terminal

import limpet
from limpet.journal.journal import Journal
from limpet.journal.layout import layout_at

RUN = "runs/trial"


@pytest.fixture(autouse=True)
def own_runtime_folder(tmp_path_factory, monkeypatch):
    """Let each test have a folder for sockets of its own, with a short name."""
    folder = tmp_path_factory.mktemp("x")
    folder.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder
    while started:  # by a test that failed
        started.pop().kill()


started = []


def start(folder, *words):
    process = ready_limpet.Popen(
        [*COMMAND, "run", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    started.append(process)
    return process


def ctl(folder, *words):
    return ready_limpet.run(["ctl", RUN, *words], cwd=folder)


def until(condition, patience_s=60.0):
    deadline = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return found


def events(folder, kind):
    lines = (folder / RUN / "events.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def go(folder):
    (folder / "go").touch()


def go_when_it_stops(folder):
    until(lambda: events(folder, "stopping"))
    go(folder)


def waiting(folder, *, rows=40, free=4, more="pace: {concurrency: 2}\n"):
    """Make a project whose calls wait after the first few."""
    return project.make(folder, rows=rows, workflow="app:answer_when_told", free=free, more=more)


def test_a_paused_run_that_is_killed_says_so_and_goes_on_when_it_is_resumed(tmp_path):
    folder = waiting(tmp_path)
    process = start(folder)
    until(lambda: len(project.calls(folder)) == 6)
    done = ctl(folder, "pause")
    assert (done.returncode, done.stderr) == (0, "paused: 2 calls in flight may end\n")
    go(folder)
    until(lambda: len(project.answered(folder)) == 6)
    time.sleep(0.5)
    assert len(project.calls(folder)) == 6  # nothing new starts
    status = ready_limpet.run(["status", RUN], cwd=folder).stdout
    assert "paused: limpet ctl runs/trial resume" in status
    process.kill()
    process.communicate()

    refused = project.run(folder)
    assert refused.returncode == 3
    assert "limpet ctl paused this run at 20" in refused.stderr
    assert "hint: limpet ctl runs/trial resume && " in refused.stderr
    assert len(project.calls(folder)) == 6
    again = ctl(folder, "pause")
    assert again.returncode == 2
    assert "is not running, and is paused" in again.stderr
    assert "no longer paused" in ctl(folder, "resume").stderr
    assert project.run(folder).returncode == 0
    assert len(project.calls(folder)) == 40  # none of the finished ones twice
    assert [event["order"] for event in events(folder, "order")] == ["pause", "resume"]


def test_on_a_terminal_a_paused_run_asks_whether_to_go_on(tmp_path):
    folder = waiting(tmp_path, rows=6)
    process = start(folder)
    until(lambda: len(project.calls(folder)) == 6)
    assert ctl(folder, "pause").returncode == 0
    process.kill()
    process.communicate()
    go(folder)
    for answer, code in (("n", 3), ("y", 0)):
        terminal = Terminal([*COMMAND, "run"], cwd=folder)
        try:
            terminal.wait_for(r"paused this run at", r"go on\? \[Y/n\]")
            terminal.press(f"{answer}\n")
            assert terminal.wait() == code
        finally:
            terminal.close()
    assert len(project.answered(folder)) == 6


def test_a_script_whose_run_is_paused_gets_an_error_that_says_what_to_do(tmp_path):
    folder = waiting(tmp_path, rows=6)
    process = start(folder)
    until(lambda: len(project.calls(folder)) == 6)
    assert limpet.control(folder / RUN).pause().startswith("paused")
    process.kill()
    process.communicate()
    rows = [{"id": "q0", "question": "Repeat 0"}]
    with pytest.raises(limpet.errors.RunPausedError, match="nothing was done") as caught:
        limpet.evaluate(rows, lambda question: question, run=folder / RUN, show=False)
    assert "resume, then run it again" in caught.value.hint


def test_stop_under_load_is_answered_when_all_is_on_disk_and_the_run_goes_on(tmp_path):
    folder = project.make(tmp_path, rows=3000, seconds=0.05, more="pace: {concurrency: 100}\n")
    process = start(folder)
    until(lambda: len(project.calls(folder)) > 300)
    done = ctl(folder, "stop")
    assert done.returncode == 0
    told = int(done.stderr.removeprefix("stopped: ").split(" of ")[0].replace(",", ""))
    out, _ = process.communicate()
    assert process.returncode == 3, out
    assert "limpet ctl stop" in out
    calls, answers = project.calls(folder), project.answered(folder)
    assert len(answers) == len(set(answers)) == told == len(calls) < 3000
    assert project.run(folder).returncode == 0
    assert len(project.calls(folder)) == len(set(project.calls(folder))) == 3000


def test_two_terminals_give_orders_at_once_and_each_is_answered(tmp_path):
    folder = waiting(tmp_path)
    process = start(folder)
    until(lambda: len(project.calls(folder)) == 6)
    said = []

    def order(words):
        control = limpet.control(folder / RUN)
        for _ in range(15):
            said.append((words[0], control.order(*words)))

    every = (["pause"], ["resume"], ["pace", "3"], ["retry", "q4"])
    threads = [threading.Thread(target=order, args=(words,)) for words in every]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 60
    assert {done for name, done in said if name == "retry"} == {"tried again: q4"}
    go(folder)
    ctl(folder, "resume")
    process.communicate()
    assert process.returncode == 0
    orders = [event["order"] for event in events(folder, "order")]
    assert len(orders) == 61
    assert sorted(project.answered(folder)) == sorted(f"q{n}" for n in range(40))


def test_what_cannot_be_done_is_one_sentence_and_changes_nothing(tmp_path):
    folder = waiting(tmp_path)
    assert ctl(folder, "pause").returncode == 2  # no run yet
    process = start(folder)
    until(lambda: len(project.calls(folder)) == 6)
    for words, sentence in {
        ("fly",): "fly: is not an order",
        ("pace", "0"): "pace 0: is not written like this",
        ("pace", "--", "-3"): "pace -3: is not written like this",
        ("pace", "1e3"): "pace 1e3: is not written like this",
        ("pace",): "pace: is not written like this",
        ("pace", "3", "--endpoint", "x"): "x: no such endpoint",
        ("pause", "now"): "pause now: is not written like this",
        ("retry",): "retry: is not written like this",
        ("retry", "q4", "q99"): "q99: no such item in this run",
        ("retry", "q0"): "q0: not in flight",
        ("skip", "q7", "nono"): "nono: no such item in this run",
        ("budget", "cost=0"): "budget['cost']=0.0: must be a finite number above 0",
        ("budget", "coins=40"): "budget: 'coins' is unknown; the kinds are cost, tokens, calls",
        ("budget", "cost"): "budget['cost']='': must be a number above 0",
        ("stop", "--endpoint", "x"): "stop x: is not written like this",
    }.items():
        refused = ctl(folder, *words)
        assert refused.returncode == 2, words
        assert refused.stderr.startswith(f"error: {sentence}"), refused.stderr
        assert len(refused.stderr.split("\n\nhint: ")[0].strip().split("\n")) == 1
    assert events(folder, "order") == []
    assert len(project.calls(folder)) == 6
    go(folder)
    process.communicate()
    assert process.returncode == 0
    refused = ctl(folder, "stop")
    assert (refused.returncode, refused.stderr.split("\n")[0]) == (
        2,
        "error: runs/trial: is not running",
    )


def test_skipped_items_are_left_unrun_and_are_in_the_bounds(tmp_path):
    folder = waiting(tmp_path)
    process = start(folder)
    until(lambda: len(project.calls(folder)) == 6)
    # Two are in flight, the others have not begun: more than would stop the run if they failed.
    ids = [f"q{n}" for n in (4, 5, 20, 21, 22, 23, 24)]
    done = ctl(folder, "skip", *ids)
    assert (done.returncode, done.stderr) == (
        0,
        "skipped: q4, q5, q20, q21, q22 and 2 more; 2 calls given up\n",
    )
    go(folder)
    out, _ = process.communicate()
    assert process.returncode == 1, out
    summary = json.loads((folder / RUN / "summary.json").read_text(encoding="utf-8"))
    assert summary["workflow"]["failed"] == {"skipped": 7}
    assert summary["scores"]["correct"]["bounds"]["missing"] == 7
    asked = project.calls(folder)
    assert not {f"Repeat {n}" for n in (20, 21, 22, 23, 24)} & set(asked)
    assert project.run(folder).returncode == 0  # the next session runs them
    assert len(project.answered(folder)) == 40


def test_retry_gives_up_the_call_in_flight_and_asks_again(tmp_path):
    folder = waiting(tmp_path)
    process = start(folder)
    until(lambda: len(project.calls(folder)) == 6)
    assert ctl(folder, "retry", "q4").stderr == "tried again: q4\n"
    until(lambda: project.calls(folder).count("Repeat 4") == 2)
    go(folder)
    process.communicate()
    assert process.returncode == 0
    assert project.calls(folder).count("Repeat 4") == 2
    assert project.answered(folder).count("q4") == 1


def test_the_pace_changes_at_once_and_auto_again(tmp_path):
    folder = waiting(tmp_path)
    process = start(folder)
    until(lambda: len(project.calls(folder)) == 6)
    assert ctl(folder, "pace", "7").stderr == "workflow: 7 at a time\n"
    until(lambda: len(project.calls(folder)) == 11)
    time.sleep(0.3)
    assert len(project.calls(folder)) == 11
    assert ctl(folder, "pace", "auto").stderr == "workflow: auto\n"
    until(lambda: len(project.calls(folder)) == 20)  # 16 to begin with
    go(folder)
    process.communicate()
    assert process.returncode == 0


@pytest.mark.parametrize("order", ["pause", "stop", "skip"])
def test_orders_reach_a_run_whose_calls_are_in_processes(tmp_path, order):
    folder = waiting(tmp_path, more="engine: {processes: 2}\n")
    process = start(folder)
    until(lambda: len(project.calls(folder)) >= 6)
    if order == "pause":
        # An async function has more calls in a worker than there are workers.
        assert ctl(folder, "pause").returncode == 0
        begun = len(project.calls(folder))
        go(folder)
        time.sleep(1.0)
        assert len(project.calls(folder)) <= begun + 2
        assert ctl(folder, "pace", "5").returncode == 0
        assert ctl(folder, "resume").returncode == 0
    elif order == "skip":
        assert ctl(folder, "skip", "q4").stderr == "skipped: q4; 1 call given up\n"
        go(folder)
    else:
        going = threading.Thread(target=go_when_it_stops, args=(folder,))
        going.start()
        assert "on disk" in ctl(folder, "stop").stderr
        going.join()
    out, _ = process.communicate()
    assert process.returncode == {"pause": 0, "stop": 3, "skip": 1}[order], out
    project.run(folder)
    assert len(project.answered(folder)) == 40


def test_a_variant_of_a_matrix_is_named_by_its_directory(tmp_path):
    folder = waiting(tmp_path, more="pace: {concurrency: 2}\nmatrix: {trials: [1, 2]}\n")
    process = start(folder)
    until(lambda: len(project.calls(folder)) == 6)
    refused = ctl(folder, "pause")
    assert refused.returncode == 2
    assert "this directory is not a run\n\nhint: there is runs/trial/" in refused.stderr
    (variant,) = [path.parent for path in (folder / RUN).glob("*/LOCK")]
    assert limpet.control(variant).pause().startswith("paused")
    assert limpet.control(variant).resume() == "resumed"
    go(folder)
    process.communicate()
    assert process.returncode == 0


@pytest.mark.parametrize("stall", ["wait", "retry"])
def test_sigusr1_prints_where_every_call_in_flight_stands(tmp_path, stall):
    folder = waiting(tmp_path, more=f"pace: {{concurrency: 2}}\nstall: {{do: {stall}}}\n")
    process = start(folder)
    until(lambda: len(project.calls(folder)) == 6)
    process.send_signal(signal.SIGUSR1)
    lines = []
    while not re.fullmatch(
        r"[2-6] calls in flight\n", lines[-1] if lines else ""
    ):  # some scores, too
        lines.append(next(process.stdout))
    assert process.poll() is None
    go(folder)
    out, _ = process.communicate()
    assert process.returncode == 0, out
    for id_ in ("q4", "q5"):
        (line,) = [line.rstrip() for line in lines if line.startswith(f"workflow {id_}, ")]
        assert "attempt 1, " in line
        assert line.endswith(" in answer_when_told")
        assert ": at app.py:" in line


# ---- the socket -------------------------------------------------------------------------------


def socket_of(folder, runtime):
    real = os.path.realpath(folder / RUN)
    name = hashlib.sha256(os.fsencode(real)).hexdigest()[:24]
    return runtime / "limpet" / f"{name}.ctl"


def test_a_socket_that_a_killed_run_left_is_replaced(tmp_path, own_runtime_folder):
    folder = waiting(tmp_path)
    process = start(folder)
    until(lambda: len(project.calls(folder)) == 6)
    path = socket_of(folder, own_runtime_folder)
    assert path.is_socket()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert path.is_socket()
    assert "is not running" in ctl(folder, "pause").stderr
    process = start(folder)
    until(lambda: len(project.calls(folder)) == 8)
    assert ctl(folder, "pace", "3").returncode == 0
    go(folder)
    process.communicate()
    assert process.returncode == 0
    assert not path.exists()


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_what_is_no_socket_of_ours_stays_and_the_run_goes_on(tmp_path, own_runtime_folder, kind):
    folder = waiting(tmp_path)
    path = socket_of(folder, own_runtime_folder)
    path.parent.mkdir(mode=0o700)
    if kind == "file":
        path.write_text("not yours", encoding="utf-8")
    else:
        path.mkdir()
    process = start(folder)
    until(lambda: len(project.calls(folder)) == 6)
    refused = ctl(folder, "pause")
    assert refused.returncode == 2
    assert "takes no orders" in refused.stderr
    go(folder)
    out, _ = process.communicate()
    assert process.returncode == 0
    assert out.count("limpet ctl cannot reach this run") == 1
    assert path.is_file() == (kind == "file")
    assert path.is_dir() == (kind == "directory")


def test_a_folder_that_others_can_open_is_not_used(tmp_path, own_runtime_folder):
    folder = project.make(tmp_path, rows=3)
    (own_runtime_folder / "limpet").mkdir(mode=0o755)
    done = project.run(folder)
    assert done.returncode == 0
    assert "limpet ctl cannot reach this run" in done.stderr
    assert list((own_runtime_folder / "limpet").iterdir()) == []


def test_junk_on_the_socket_disturbs_nothing(tmp_path, own_runtime_folder):
    folder = waiting(tmp_path)
    process = start(folder)
    until(lambda: len(project.calls(folder)) == 6)
    path = str(socket_of(folder, own_runtime_folder))
    answers = []
    for junk in (b"\n", b"{}\n", b"[1]\n", b"\xff\xfe\n", b"[" * 60_000 + b"\n",
                 b'["pause", 1]\n', b'[["pause"]]\n', b"[]\n", b'["pau\\u0000se"]\n'):  # fmt: skip
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(path)
            peer.sendall(junk)
            answers.append(json.loads(peer.makefile().readline() or "{}"))
    assert all(answer.get("error") for answer in answers), answers
    with socket.socket(socket.AF_UNIX) as peer, suppress(BrokenPipeError):  # it is cut off
        peer.connect(path)
        peer.sendall(b"x" * 1_200_000)
    idle = [socket.socket(socket.AF_UNIX) for _ in range(10)]
    for peer in idle:
        peer.connect(path)  # and says nothing
    assert ctl(folder, "pace", "3").returncode == 0
    go(folder)
    out, _ = process.communicate()
    assert process.returncode == 0
    assert "Exception" not in out
    for peer in idle:
        peer.close()


@pytest.mark.parametrize(
    ("holder", "sentence"),
    [
        (
            {"boot_id": "another", "host": "far.away"},
            "is run by a process on far.away, not on this",
        ),
        ({"uid": 4711}, "of another user"),
    ],
)
def test_a_run_of_another_machine_or_another_user_is_refused(tmp_path, holder, sentence):
    folder = waiting(tmp_path, rows=8)
    process = start(folder)
    until(lambda: len(project.calls(folder)) == 6)
    lock = folder / RUN / "LOCK"
    who = json.loads(lock.read_text(encoding="utf-8"))
    lock.write_text(json.dumps({**who, **holder}) + "\n", encoding="utf-8")
    refused = ctl(folder, "pause")
    assert refused.returncode == 2
    assert sentence in refused.stderr
    assert events(folder, "order") == []
    go(folder)
    process.communicate()


def test_a_run_that_is_being_prepared_or_is_ending_says_so(tmp_path):
    folder = project.make(tmp_path, rows=3)
    project.run(folder)
    with Journal(layout_at(folder / RUN)):
        refused = ctl(folder, "pause")
    assert refused.returncode == 2
    assert "takes no orders now: it is being prepared, or is ending" in refused.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_cannot_give_orders(tmp_path, own_runtime_folder):
    folder = waiting(tmp_path, rows=8)
    process = start(folder)
    until(lambda: len(project.calls(folder)) == 6)
    path = socket_of(folder, own_runtime_folder)
    os.link(path, own_runtime_folder / "moved")  # as if they could open the folder
    path.chmod(0o777)
    own_runtime_folder.chmod(0o711)
    code = (
        "import os, socket\nos.setuid(65534)\npeer = socket.socket(socket.AF_UNIX)\n"
        "peer.connect('moved')\n"
        "peer.sendall(b'[\"stop\"]\\n')\nprint(repr(peer.recv(100)))"
    )
    command = [sys.executable, "-c", code]
    said = subprocess.run(
        command, cwd=own_runtime_folder, capture_output=True, text=True, check=False
    )
    cut = ("BrokenPipeError", "ConnectionResetError")  # its order may come too late to be read
    assert said.stdout == "b''\n" or any(map(said.stderr.count, cut)), said
    assert process.poll() is None
    own_runtime_folder.chmod(0o700)
    go(folder)
    process.communicate()
    assert process.returncode == 0
