"""Whoever is killed, in mid-run: nothing acknowledged is lost, nothing recorded twice."""

import contextlib
import os
import random
import signal

import pytest

from tests.engines.project import (
    ONE,
    PROCESSES,
    SLOW_ONE,
    Project,
    is_alive,
    several_workers,
    shared_memory,
    stat,
    wait_until,
    zombies_of,
)

SLOW = pytest.mark.slow
CODE = """
async def answer(item):
    record(item)
    if int(item.id[1:]) >= 8:  # the first eight are free
        await told()
    await asyncio.sleep(0.01)
    return item.expected


async def answer_slowly(item):
    record(item)
    await asyncio.sleep(0.02)
    return item.expected


def score(output, item):
    record(item, "score")
    return 1
"""
IN_FLIGHT = 6


def make(folder, rows=20, **more):
    settings = {"more": f"pace: {IN_FLIGHT}\nretry: 0\n"} | more
    return Project(folder, CODE, rows=rows, evaluators={"score": "APP:score"}, **settings)


def half_way(project):
    """Wait until the free ones are on disk, with their scores, and others are in flight."""
    free = {f"q{n}" for n in range(8)}
    wait_until(lambda: free <= set(project.recorded("score_output")), "the first answers")
    wait_until(lambda: len(project.counts()) == 8 + IN_FLIGHT, "the next calls")


def assert_whole(project, *, most_again=0):
    """Everything is there, once; only what was in flight was called again."""
    for column in ("workflow_output", "score_output"):
        assert sorted(project.recorded(column)) == sorted(row["id"] for row in project.rows)
    again = sum(project.counts().values()) - len(project.rows)
    assert again <= most_again
    assert all(project.counts()[f"q{n}"] == 1 for n in range(8))
    assert project.records("failures") == []
    result = project.result
    assert result.state == "finished"
    assert result.summary["workflow"]["completed"] == len(project.rows)


def kill(pids, signum=signal.SIGKILL):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)


def end(process, code=0):
    out, err = process.communicate(timeout=250)
    assert process.returncode == code, out + err
    return err


# ---- workers ------------------------------------------------------------------------------------


def workers(project, driver):
    return [pid for pid in project.pids if pid != driver and is_alive(pid)]


@pytest.mark.parametrize(
    ("signum", "which"),
    [
        (signal.SIGKILL, slice(1)),
        pytest.param(signal.SIGKILL, slice(None), marks=SLOW),
        pytest.param(signal.SIGSEGV, slice(1), marks=SLOW),
        pytest.param(signal.SIGTERM, slice(None), marks=SLOW),
    ],
    ids=["kill -9 of one", "kill -9 of all", "segfault of one", "SIGTERM of all"],
)
def test_killed_workers_are_replaced_and_their_cells_run_again(tmp_path, signum, which):
    project = make(tmp_path)
    with project.started(engine=PROCESSES) as process:
        half_way(project)
        found = workers(project, process.pid)
        assert found
        kill(found[which], signum)
        wait_until(
            lambda: not any(is_alive(pid) for pid in found[which]), "the killed ones to be gone"
        )
        wait_until(lambda: not zombies_of(process.pid), "its dead to be buried", 20)
        project.tell()
        end(process)
        assert not project.left_over()
    assert_whole(project, most_again=IN_FLIGHT)


@SLOW
def test_a_cell_whose_worker_is_killed_by_others_twice_is_not_blamed_for_it(tmp_path):
    """It runs alone then, and completes there."""
    project = make(tmp_path)
    with project.started(engine=PROCESSES) as process:
        half_way(project)
        for deaths in (1, 2):
            found = workers(project, process.pid)
            before = len(project.calls)
            kill(found)
            # At least one runs again; after the second death, each alone.
            wait_until(lambda before=before: len(project.calls) > before, f"again, {deaths}")
        project.tell()
        end(process)
    assert_whole(project, most_again=2 * IN_FLIGHT)


@SLOW
def test_a_stopped_worker_that_wakes_up_too_late_records_nothing_twice(tmp_path):
    project = make(tmp_path, more=f"pace: {IN_FLIGHT}\nretry: 3\ntimeout: 3\n")
    with project.started(engine=PROCESSES) as process:
        half_way(project)
        [first, *_] = workers(project, process.pid)
        kill([first], signal.SIGSTOP)
        project.tell()
        wait_until(
            lambda: len(set(project.recorded())) == len(project.rows) or not is_alive(first),
            "the rest, or its end",
        )
        kill([first], signal.SIGCONT)
        end(process)
    ids = project.recorded()
    assert len(ids) == len(set(ids)) == len(project.rows)


def random_kills(folder, seed, kinds):
    """Kill somebody at a moment that nobody chose, run again until all is done."""
    chance = random.Random(seed)
    project = make(folder, rows=60, workflow="answer_slowly")
    sessions, code = 0, None
    while code != 0:
        sessions += 1
        assert sessions < 70, "it makes no progress"
        done, called = set(project.recorded()), len(project.calls)
        with project.started(engine=chance.choice(kinds)) as process:
            goal = len(done) + chance.randrange(1, 25)
            wait_until(
                lambda goal=goal, process=process: (
                    len(project.recorded()) >= goal or process.poll() is not None
                ),
                "some answers",
            )
            found = workers(project, process.pid)
            acknowledged = set(project.recorded())
            if chance.random() < 0.6:
                kill(found[: chance.randrange(1, 3)])
            else:
                kill([process.pid, *(found if chance.random() < 0.5 else [])])
            process.communicate(timeout=250)
            code = process.returncode
            wait_until(lambda: not project.left_over(), "its processes to end", 30)
        assert not done & {call.id for call in project.calls[called:] if call.step == "workflow"}
        assert acknowledged <= set(project.recorded())
    for column in ("workflow_output", "score_output"):
        assert sorted(project.recorded(column)) == sorted(row["id"] for row in project.rows)
    # Each death costs at most what was in flight.
    assert sum(project.counts().values()) <= 60 + 2 * sessions * IN_FLIGHT


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(20))
def test_killed_at_random_again_and_again_nothing_is_lost(tmp_path, seed):
    before = shared_memory()
    random_kills(tmp_path, seed, [PROCESSES, PROCESSES, ONE])
    new = shared_memory() - before
    wait_until(lambda: not new & shared_memory(), f"{new} to go", 30)


# ---- the driver ---------------------------------------------------------------------------------


@pytest.mark.parametrize("then", [SLOW_ONE, PROCESSES])
@pytest.mark.parametrize("first", [SLOW_ONE, PROCESSES])
def test_a_killed_driver_loses_nothing_and_any_engine_goes_on(tmp_path, first, then):
    project = make(tmp_path)
    with project.started(engine=first) as process:
        half_way(project)
        kill([process.pid])
        process.wait(timeout=60)
        wait_until(lambda: not project.left_over(), "its workers to follow", 20)
        assert project.result.state == "cut off"
    acknowledged = set(project.recorded())
    project.tell()
    called = len(project.calls)
    done = project.run(engine=then)
    assert done.returncode == 0, done.stderr
    assert (
        not {call.id for call in project.calls[called:] if call.step == "workflow"} & acknowledged
    )
    assert_whole(project, most_again=IN_FLIGHT)


@several_workers
@SLOW
def test_everything_killed_at_once_can_go_on(tmp_path, engine):
    project = make(tmp_path)
    with project.started(engine=engine) as process:
        half_way(project)
        kill([process.pid, *project.left_over()])
        process.communicate()
        wait_until(lambda: not project.left_over(), "all of them to end", 20)
    project.tell()
    assert project.run(engine=engine).returncode == 0
    assert_whole(project, most_again=IN_FLIGHT)


@several_workers
@SLOW
def test_a_driver_that_was_stopped_for_a_while_goes_on(tmp_path, engine):
    project = make(tmp_path)
    with project.started(engine=engine) as process:
        half_way(project)
        kill([process.pid], signal.SIGSTOP)
        project.tell()
        wait_until(lambda: stat(process.pid)[0] == "T", "the driver to stop")
        kill([process.pid], signal.SIGCONT)
        end(process)
    assert_whole(project)


@SLOW  # that one process refuses a second one, e2e/test_run_command shows
def test_while_workers_run_a_second_driver_is_refused(tmp_path):
    project = make(tmp_path)
    with project.started(engine=PROCESSES) as process:
        half_way(project)
        called = len(project.calls)
        done = project.run(engine=PROCESSES)
        assert done.returncode == 2
        assert str(process.pid) in done.stderr
        assert len(project.calls) == called
        project.tell()
        end(process)
    assert_whole(project)


# ---- signals ------------------------------------------------------------------------------------

# A terminal sends Ctrl-C to everybody in the foreground, also to workers; `kill` to one process.
TO = {"the driver": os.kill, "everybody, as a terminal does": os.killpg}
TARGETS = [pytest.param("the driver", marks=SLOW), "everybody, as a terminal does"]


@pytest.mark.parametrize("to", TARGETS)
@several_workers
def test_ctrl_c_once_lets_calls_in_flight_finish_and_starts_no_more(tmp_path, engine, to):
    project = make(tmp_path)
    with project.started(engine=engine) as process:
        half_way(project)
        TO[to](process.pid, signal.SIGINT)
        wait_until(lambda: "stopping" in process.stderr.readline(), "a word")
        project.tell()
        end(process, 130)
        assert not project.left_over()
    assert sorted(project.recorded()) == sorted(f"q{n}" for n in range(8 + IN_FLIGHT))
    assert set(project.counts().values()) == {1}
    assert project.records("failures") == []
    assert project.run(engine=engine).returncode == 0
    assert_whole(project)


PLAIN = """
def answer(item):
    record(item)
    while not (HERE / "go").exists():
        time.sleep(0.01)
    return item.expected
"""


def test_ctrl_c_begins_no_plain_function_that_waits_for_a_worker(tmp_path):
    project = Project(tmp_path, PLAIN, rows=20, more="pace: 16\nengine: {processes: 2}\n")
    with project.started() as process:
        wait_until(lambda: len(project.calls) == 2, "a call in each worker")
        process.send_signal(signal.SIGINT)
        said: list[str] = []
        wait_until(lambda: said.append(process.stderr.readline()) or "stopping" in said[-1], "it")
        assert "2 calls in flight" in said[-1]
        project.tell()
        end(process, 130)
    assert len(project.calls) == len(project.recorded()) == 2


@pytest.mark.parametrize("to", TARGETS)
@several_workers
@SLOW
def test_ctrl_c_twice_stops_at_once(tmp_path, engine, to):
    project = make(tmp_path)
    with project.started(engine=engine) as process:
        half_way(project)
        TO[to](process.pid, signal.SIGINT)
        wait_until(lambda: "stopping" in process.stderr.readline(), "a word")
        TO[to](process.pid, signal.SIGINT)
        said = end(process, 130)
        wait_until(lambda: not project.left_over(), "its workers to end", 20)
    assert f"{IN_FLIGHT} calls" in said
    assert sorted(project.recorded()) == [f"q{n}" for n in range(8)]
    assert project.records("failures") == []
    project.tell()
    assert project.run(engine=engine).returncode == 0
    assert_whole(project, most_again=IN_FLIGHT)


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
@several_workers
@SLOW  # Ctrl-C is above, and e2e/test_redo_command sends SIGTERM to one process
def test_a_signal_to_end_gives_calls_a_moment_and_leaves_nothing(tmp_path, engine, signum, to):
    project = make(tmp_path)
    with project.started(engine=engine) as process:
        half_way(project)
        TO[to](process.pid, signum)
        end(process, 128 + signum)
        wait_until(lambda: not project.left_over(), "its workers to end", 20)
    assert set(project.recorded()) >= {f"q{n}" for n in range(8)}
    assert project.records("failures") == []
    assert project.result.state == "stopped"
    project.tell()
    assert project.run(engine=engine).returncode == 0
    assert_whole(project, most_again=IN_FLIGHT)
