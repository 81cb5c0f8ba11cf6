"""Plain functions that do not end when their time is up: their threads stay, their processes go."""

import signal

import pytest

import limpet
from tests.engines.project import Project, is_alive, wait_until

SLOW = pytest.mark.slow
TIMEOUT_S = 1
CODE = """
BEGAN = []


def sleep():
    time.sleep(600)


def loop():
    while True:
        pass


def end_late():
    time.sleep(TIMEOUT_S + 0.4)


def is_alive(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def answer(item):
    record(item)
    attempts = HERE / f"attempts-{item.id}"
    attempts.open("a").write(".")
    if "hang" in item.row and len(attempts.read_text()) <= item.row.get("times", 99):
        globals()[item.row["hang"]]()
    if item.row.get("last"):
        first = int((HERE / "calls.txt").read_text().split()[2])
        while is_alive(first):
            time.sleep(0.01)
    time.sleep(0.1)
    return item.expected


def answer_when_told(item):
    # The first call hangs. Who begins after its time was up waits for the test.
    record(item)
    BEGAN.append(time.monotonic())
    if item.id == "q0":
        time.sleep(600)
    if time.monotonic() - BEGAN[0] > 4:
        while not (HERE / "go").exists():
            time.sleep(0.01)
    time.sleep(0.1)
    return item.expected
""".replace("TIMEOUT_S", str(TIMEOUT_S))


def make(folder, rows, hanging, **more):
    project = Project(folder, CODE, rows=rows, **more)
    for number in hanging:
        project.rows[number]["hang"] = "sleep"
    return project


def retired(project):
    return [event for event in project.events() if event.get("event") == "worker_retired"]


def test_a_worker_with_a_thread_that_hangs_is_replaced_and_its_neighbours_run_once(tmp_path):
    project = make(tmp_path, 100, [0])
    project.rows[-1]["last"] = True  # it ends when the first worker is gone
    project.write_rows()
    result = project.evaluate({"processes": 1}, timeout=TIMEOUT_S, pace=3)
    assert {item.id: item.error["class"] for item in result.failed} == {"q0": "timeout"}
    assert set(project.counts().values()) == {1}
    first, second = dict.fromkeys(call.pid for call in project.calls)  # one after the other
    assert project.calls[-1].pid == second
    assert [event["threads"] for event in retired(project)] == [1]
    assert not [event for event in project.events() if event.get("event") == "worker_lost"]
    assert not is_alive(first)


@SLOW
@pytest.mark.parametrize("hang", ["sleep", "loop"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_call_that_hangs_once_is_tried_again_elsewhere(tmp_path, workers, hang):
    project = make(tmp_path, 60, [1])
    project.rows[1] |= {"hang": hang, "times": 1}
    project.write_rows()
    result = project.evaluate({"processes": workers}, timeout=TIMEOUT_S, pace=3, retry=2)
    assert not result.failed
    assert project.counts() == {f"q{n}": 1 + (n == 1) for n in range(60)}
    assert len(project.pids) <= workers + 1


@SLOW
@pytest.mark.parametrize("workers", [1, 2])
def test_calls_that_all_hang_all_fail_and_leave_nothing_behind(tmp_path, workers):
    project = make(tmp_path, 8, range(8), more=f"timeout: {TIMEOUT_S}\npace: 2\nretry: 0\n")
    project.write_rows()
    done = project.run("--set", f"engine={{processes: {workers}}}", "--set", "fail_fast=false")
    assert done.returncode == 1, done.stderr
    assert project.failures() == {f"q{n}": "timeout" for n in range(8)}
    assert set(project.counts().values()) == {1}
    assert done.stderr.count("the thread of an abandoned call is still running in") == 1
    wait_until(lambda: not project.left_over(), "its processes to end", 20)


@SLOW
def test_a_function_that_ends_shortly_after_its_time_costs_no_worker(tmp_path):
    project = make(tmp_path, 30, [0])
    project.rows[0]["hang"] = "end_late"
    project.write_rows()
    result = project.evaluate({"processes": 1}, timeout=TIMEOUT_S, pace=2)
    assert [item.id for item in result.failed] == ["q0"]
    assert retired(project) == []
    assert len(project.pids) == 1


@SLOW
def test_a_call_that_hangs_at_the_end_does_not_hold_it_up(tmp_path):
    project = make(tmp_path, 3, [2])
    project.write_rows()
    result = project.evaluate({"processes": 1}, timeout=TIMEOUT_S, retry=limpet.Retry(1))
    assert [item.id for item in result.failed] == ["q2"]
    assert project.counts() == {"q0": 1, "q1": 1, "q2": 2}
    wait_until(lambda: not any(map(is_alive, project.pids)), "its workers to end", 20)


@SLOW
@pytest.mark.parametrize("interrupts", [0, 1, 2])
def test_a_retired_worker_finishes_what_it_has_unless_it_is_interrupted_twice(tmp_path, interrupts):
    project = make(
        tmp_path, 200, [], workflow="answer_when_told",
        more="timeout: 4\npace: 3\nretry: 0\nengine: {processes: 1}\n",
    )  # fmt: skip
    with project.started() as process:
        wait_until(lambda: retired(project), "the worker to be retired")
        if interrupts:
            process.send_signal(signal.SIGINT)
            wait_until(lambda: "stopping" in process.stderr.readline(), "a word")
        if interrupts == 2:
            process.send_signal(signal.SIGINT)
        else:
            project.tell()
        _, said = process.communicate(timeout=100)
    assert process.returncode == (130 if interrupts else 1), said
    assert set(project.counts().values()) == {1}
    answered = set(project.recorded())
    if interrupts < 2:
        assert answered == set(project.counts()) - {"q0"}
    assert len(answered) == len(project.recorded())
    wait_until(lambda: not project.left_over(), "its processes to end", 20)
