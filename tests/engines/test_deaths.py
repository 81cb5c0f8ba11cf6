"""Calls that end, block or flood their worker: the guilty item is named, nobody else pays.

In one process each of these ends the run, or freezes it: they only run on processes. What is the
same in one process is in the other files.
"""

import collections
import json
import os
from pathlib import Path

import pytest

from tests.engines.project import (
    PROCESSES,
    WORKER,
    Project,
    is_alive,
    shared_memory,
    wait_until,
    zombies_of,
)

CODE = """
import faulthandler

faulthandler.disable()


def die(how):
    if how == "segfault":
        ctypes.string_at(0)
    elif how == "exit 7":
        os._exit(7)
    elif how == "exit 0":
        os._exit(0)
    elif how == "abort":
        os.abort()
    elif how == "kill -9":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "SIGTERM":
        if threading.current_thread() is threading.main_thread():  # nowhere else may it be set
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    elif how == "a thread":
        threading.Thread(target=os._exit, args=(3,)).start()
        time.sleep(60)
    elif how == "an exec":
        os.execv("/bin/true", ["true"])
    elif how == "closes all files":
        os.closerange(3, 4096)
    elif how == "stack overflow":
        sys.setrecursionlimit(10**9)
        def down():
            return repr(type("T", (), {"__repr__": lambda self: down()})())
        down()


async def answer(item):
    record(item)
    if "die" in item.row:
        await asyncio.sleep(0.05)  # with its neighbours in flight
        die(item.row["die"])
    await asyncio.sleep(0.1)
    return item.expected


def answer_in_a_thread(item):
    record(item)
    if "die" in item.row:
        time.sleep(0.05)
        die(item.row["die"])
    time.sleep(0.1)
    return item.expected


def score(output, item):
    record(item, "score")
    if "die" in item.row:
        die(item.row["die"])
    return 1


async def plain(item):
    record(item)
    return item.expected
"""
DEATHS = ["segfault", "exit 7", "exit 0", "abort", "kill -9", "SIGTERM", "a thread", "an exec",
          "closes all files"]  # fmt: skip


def make(folder, deaths, rows=16, **more):
    """Return a project in which these items end their process, spread among innocent ones."""
    settings = {"more": "pace: 8\nretry: 0\n"} | more
    project = Project(folder, CODE, rows=rows, **settings)
    guilty = {}
    for position, how in enumerate(deaths):
        row = project.rows[(1 + position * (rows // len(deaths))) % rows]
        row["die"] = how
        guilty[row["id"]] = how
    project.write_rows()
    return project, guilty


def assert_only_the_guilty_failed(project, guilty, step="workflow", column="workflow_output"):
    everyone = {row["id"] for row in project.rows}
    assert project.failures() == dict.fromkeys(guilty, "worker_died")
    assert sorted(project.recorded(column)) == sorted(everyone - set(guilty))  # each once
    counts = project.counts(step)
    assert all(1 < counts[id_] <= 3 for id_ in guilty), counts
    result = project.result
    for item in result.items:
        if item.id not in guilty:
            assert item.status.value.startswith("completed")


@pytest.fixture(scope="module")
def died(tmp_path_factory):
    before = shared_memory()
    project, guilty = make(tmp_path_factory.mktemp("died"), ["segfault", "exit 7"])
    done = project.run(engine=PROCESSES)
    return project, guilty, done, before


def test_each_guilty_item_is_named_and_its_neighbours_are_not(died):
    project, guilty, done, _ = died
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert_only_the_guilty_failed(project, guilty)


def test_nobody_says_of_an_item_that_fails_that_it_runs_again(died):
    _, _, done, _ = died
    assert "was killed by SIGSEGV, with 1 in flight" in done.stderr  # the last one, alone
    assert "run again" not in done.stderr


def test_what_is_shown_of_them_says_what_happened(died):
    project, guilty, _, _ = died
    groups = [json.loads(one) for one in project.command("show", "--failed", "--json").splitlines()]
    assert {one["class"] for one in groups} == {"worker_died"}
    for id_, how in guilty.items():
        said = project.command("show", "--item", id_).lower()
        words = {"segfault": ("sigsegv", "signal 11", "segmentation"), "exit 7": ("7",)}[how]
        assert any(word in said for word in words), said
    assert project.result.summary["workflow"]["failed"] == {"worker_died": 2}
    assert json.loads(project.command("status", "--json"))


def test_no_neighbour_was_charged_an_attempt_or_a_timeout(died):
    project, guilty, _, _ = died
    for record in project.records("failures"):
        assert record["_limpet"]["id"] in guilty
    for item in project.result.items:
        if item.id not in guilty:
            assert (item.status.value, item.attempts) == ("completed", 1)


def test_only_what_was_in_flight_ran_again(died):
    project, guilty, _, _ = died
    calls = sum(project.counts().values())
    # Three deaths of each guilty one, the last of them alone; at most 8 in flight at each other.
    assert calls <= len(project.rows) + 2 * len(guilty) + 2 * len(guilty) * 7


def test_nothing_is_left_over(died):
    project, _, _, before = died
    wait_until(lambda: not project.left_over(), "its processes to end", 20)
    assert not [pid for pid in project.pids if is_alive(pid)]
    new = shared_memory() - before
    wait_until(lambda: not new & shared_memory(), f"{new} to go", 20)


@pytest.mark.slow  # what failed on one engine is tried again: test_same_run
def test_the_next_session_runs_the_guilty_ones_again_and_nothing_else(died):
    project, guilty, _, _ = died
    project.forget_calls()
    for row in project.rows:
        row.pop("die", None)
    project.write_rows()
    # The rows of the guilty cells were fixed: only these run again.
    assert project.run(engine=PROCESSES).returncode == 0
    assert project.counts() == dict.fromkeys(guilty, 1)


@pytest.mark.slow
@pytest.mark.parametrize("workflow", ["answer", "answer_in_a_thread"])
@pytest.mark.parametrize("how", DEATHS)
def test_whatever_way_it_dies(tmp_path, how, workflow):
    project, guilty = make(tmp_path, [how], workflow=workflow)
    done = project.run(engine=PROCESSES)
    assert done.returncode == 1, done.stderr
    assert_only_the_guilty_failed(project, guilty)
    wait_until(lambda: not project.left_over(), "its processes to end", 20)


def test_an_evaluator_that_dies_costs_its_score_and_no_answer(tmp_path):
    project, guilty = make(
        tmp_path, ["segfault"], rows=6, workflow="plain", evaluators={"score": "APP:score"}
    )
    done = project.run(engine=WORKER)
    assert done.returncode == 1, done.stderr
    assert set(project.counts().values()) == {1}
    assert_only_the_guilty_failed_of_scores(project, guilty)


def assert_only_the_guilty_failed_of_scores(project, guilty):
    assert project.failures() == dict.fromkeys(guilty, "worker_died")
    everyone = {row["id"] for row in project.rows}
    assert sorted(project.recorded("score_output")) == sorted(everyone - set(guilty))
    assert sorted(project.recorded()) == sorted(everyone)


@pytest.mark.slow
def test_a_workflow_that_always_dies_stops_early_and_says_so(tmp_path):
    project, _ = make(tmp_path, ["exit 7"] * 40, rows=40)
    done = project.run(engine=PROCESSES)
    assert done.returncode == 3, done.stderr
    assert "died" in done.stderr
    assert "exit" in done.stderr.lower()
    assert len(project.calls) < 150
    assert project.recorded() == []


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_many_guilty_ones_are_all_found(tmp_path, workers):
    project, guilty = make(
        tmp_path, ["segfault", "exit 7", "kill -9"] * 4, rows=48,
        more=f"pace: 12\nfail_fast: false\nengine: {{processes: {workers}}}\n",
    )  # fmt: skip
    assert project.run().returncode == 1
    assert_only_the_guilty_failed(project, guilty)


# ---- before the first call ----------------------------------------------------------------------

SETTING_UP = """
class answer:
    def setup(self):
        (HERE / "setups").open("a").write(f"{{os.getpid()}}\\n")
        {0}

    def __call__(self, item):
        record(item)
        return item.expected
"""


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("raise RuntimeError('no weights')", ["no weights"]),
        pytest.param("os._exit(5)", [], marks=pytest.mark.slow),
    ],
)
def test_a_set_up_that_fails_in_every_worker_is_one_error_before_the_first_call(
    tmp_path, what, words
):
    project = Project(tmp_path, SETTING_UP.format(what), rows=4)
    done = project.run(engine=PROCESSES)
    assert done.returncode == 2, done.stderr
    assert "error: " in done.stderr
    for word in words:
        assert word in done.stderr
    assert project.calls == []
    assert len((tmp_path / "setups").read_text().splitlines()) <= 12
    wait_until(lambda: not project.left_over(), "its processes to end", 20)


# ---- calls that block their worker --------------------------------------------------------------

BLOCKING = """
def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)


def holding_the_gil():
    ctypes.PyDLL(None).sleep(600)


def looping():
    while True:
        pass


def in_c():
    sum(range(10**15))


def deaf():
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass


async def answer(item):
    record(item)
    if "block" in item.row:
        globals()[item.row["block"]]()
    await asyncio.sleep(0.02)
    return item.expected


def answer_in_a_thread(item):
    record(item)
    if "block" in item.row:
        globals()[item.row["block"]]()
    return item.expected
"""


def blocked(folder, what, workflow="answer", timeout=2):
    project = Project(
        folder, BLOCKING, rows=12, workflow=workflow,
        more=f"pace: 4\ntimeout: {timeout}\nretry: {{max_retries: 5, max_timeouts: 0}}\n",
    )  # fmt: skip
    project.rows[3]["block"] = what
    project.write_rows()
    done = project.run(engine=PROCESSES)
    return project, done


def assert_only_the_blocking_one_timed_out(project, done):
    assert done.returncode == 1, done.stderr
    assert set(project.failures()) == {"q3"}
    assert project.failures()["q3"] in {"timeout", "worker_died"}
    everyone = {row["id"] for row in project.rows}
    assert sorted(project.recorded()) == sorted(everyone - {"q3"})
    wait_until(lambda: not project.left_over(), "its processes to end", 20)
    assert not [pid for pid in project.pids if is_alive(pid)]


def test_a_call_that_holds_the_lock_of_python_times_out_alone(tmp_path):
    assert_only_the_blocking_one_timed_out(*blocked(tmp_path, "holding_the_gil"))


@pytest.mark.slow
@pytest.mark.parametrize("workflow", ["answer", "answer_in_a_thread"])
@pytest.mark.parametrize("what", ["stopped", "holding_the_gil", "looping", "in_c", "deaf"])
def test_a_call_that_blocks_its_worker_times_out_alone(tmp_path, what, workflow):
    assert_only_the_blocking_one_timed_out(*blocked(tmp_path, what, workflow))


@pytest.mark.slow
def test_a_worker_that_was_stopped_is_replaced_long_before_its_call_would_time_out(tmp_path):
    project, done = blocked(tmp_path, "stopped", timeout=400)
    assert done.returncode in {0, 1}, done.stderr
    assert len(set(project.recorded())) >= 11


# ---- calls that misbehave otherwise -------------------------------------------------------------

FLOODING = """
def answer(item):
    record(item)
    do = item.row.get("do")
    if do == "prints":
        print("x" * 3_000_000)
        print("to stderr " * 100_000, file=sys.stderr)
        os.write(1, b"below Python" * 10_000)
    elif do == "closes stdout":
        os.close(1)
        sys.stdout = None
    elif do == "reads stdin":
        assert sys.stdin is None or sys.stdin.read() == ""
    elif do == "starts threads":
        for _ in range(50):
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    elif do == "starts a thread that stays":
        threading.Thread(target=time.sleep, args=(600,)).start()
    elif do == "starts a child":
        import subprocess
        child = subprocess.Popen(["sleep", "0.01"])
        child.wait()
        record(f"{item.id}", "child")
    elif do == "forks":
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    elif do == "uses multiprocessing":
        import multiprocessing
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.map(abs, [-1]) == [1]
    elif do == "runs a loop":
        async def inner():
            await asyncio.sleep(0)
        asyncio.run(inner())
    elif do == "takes the signals":
        assert signal.getsignal(signal.SIGINT) is not None
    elif do == "changes folder":
        os.chdir("/")
    elif do == "changes the environment":
        os.environ["PATH"] = "/nowhere"
    elif do == "counts the collector":
        import gc
        gc.disable()
    return item.expected
"""
# The one that closes stdout is the last: in its worker, nobody could write there after it.
DOINGS = ["prints", "reads stdin", "starts threads", "starts a thread that stays",
          "starts a child", "forks", "uses multiprocessing", "runs a loop", "takes the signals",
          "changes folder", "changes the environment", "counts the collector",
          "closes stdout"]  # fmt: skip


@pytest.fixture(scope="module")
def flooded(tmp_path_factory):
    project = Project(
        tmp_path_factory.mktemp("flooded"), FLOODING, rows=2 * len(DOINGS),
        more="pace: 3\nretry: 0\nfail_fast: false\n",
    )  # fmt: skip
    for row, do in zip(project.rows[::2], DOINGS, strict=True):
        row["do"] = do
    project.write_rows()
    done = project.run("--json", engine=PROCESSES)
    return project, done


@pytest.mark.parametrize("do", DOINGS)
def test_a_call_that_misbehaves_is_answered_and_so_are_its_neighbours(flooded, do):
    project, done = flooded
    [id_] = [row["id"] for row in project.rows if row.get("do") == do]
    items = {item.id: item for item in project.result.items}
    assert items[id_].error is None
    assert items[f"q{int(id_[1:]) + 1}"].status.value == "completed"


def test_what_they_print_is_not_among_the_events(flooded):
    _, done = flooded
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["event"] == "ended"
    assert done.stderr.count("to stderr") == 100_000
    assert "x" * 3_000_000 in done.stderr


def test_what_they_started_is_gone(flooded):
    project, _ = flooded
    wait_until(lambda: not project.left_over(), "its processes to end", 20)


# ---- memory -------------------------------------------------------------------------------------

BOMB = """
def answer(item):
    record(item)
    if item.id == "q3":
        held = []
        for _ in range(30):  # 1.5 GB: a bomb that does no harm where nobody stops it
            held.append(b"x" * 50_000_000)
        (HERE / "exploded").touch()
    time.sleep(0.02)
    return item.expected
"""
LIMITED = "engine: {processes: {workers: 1, memory: 600MB}}\n"


def test_a_call_that_takes_more_memory_than_a_worker_may_fails_alone(tmp_path):
    project = Project(tmp_path, BOMB, rows=10, more="pace: 4\nretry: 0\n" + LIMITED)
    done = project.run()
    assert done.returncode == 1, done.stderr
    assert set(project.failures()) == {"q3"}
    assert sorted(project.recorded()) == sorted(f"q{n}" for n in range(10) if n != 3)
    assert not (tmp_path / "exploded").exists()
    said = project.command("show", "--item", "q3").lower()
    assert "memory" in said


SHORT = """
import errno


def answer(item):
    record(item)
    if item.id == "q1" and not (HERE / "again").exists():
        (HERE / "again").touch()
        raise {0}
    return item.expected
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", ["OSError(errno.ENOMEM, 'no')", 'RuntimeError("can\'t start new thread")']
)
def test_a_call_that_gets_no_memory_because_of_its_neighbours_is_not_charged(tmp_path, what):
    project = Project(tmp_path, SHORT.format(what), rows=4)
    engine = {"processes": {"workers": 1, "memory": "1GB"}}
    result = project.evaluate(engine)
    assert [item.attempts for item in result.items] == [1, 1, 1, 1]
    assert project.counts()["q1"] == 2


DEEP = """
import json


def answer(item):
    deep = {}
    for _ in range(20_000 if item.id == "q1" else 10):
        deep = {"a": deep}
    return json.dumps(deep)[:1]
"""


def test_a_limit_of_memory_leaves_threads_the_stack_that_deep_data_needs(tmp_path):
    """Python 3.13 goes 10,000 levels deep in C, whatever the stack, and only then raises."""
    project = Project(tmp_path, DEEP, rows=4, more="retry: 0\n" + LIMITED)
    assert project.run().returncode == 1
    failed = [(one["id"], one["error"]["type"]) for one in project.records("failures")]
    assert failed == [("q1", "RecursionError")]
    assert sorted(project.recorded()) == ["q0", "q2", "q3"]


@pytest.mark.slow  # the neighbours of the one that reaches it do not either
def test_a_limit_of_memory_that_nobody_reaches_changes_nothing(tmp_path):
    project = Project(tmp_path, CODE, rows=4, workflow="plain", more=LIMITED)
    assert project.run().returncode == 0
    assert project.counts() == {f"q{n}": 1 for n in range(4)}


SHARED = """
from multiprocessing import shared_memory


def answer(item):
    memory = shared_memory.SharedMemory(create=True, size=100)
    memory.close()  # and nobody unlinks it
    return memory.name
"""


@pytest.mark.slow
def test_shared_memory_that_the_code_forgets_is_removed_at_the_end_as_in_one_process(tmp_path):
    project = Project(tmp_path, SHARED, rows=2)
    result = project.evaluate(WORKER)
    folder = Path("/dev/shm")  # noqa: S108 - where the system keeps it
    assert not [item.output.value for item in result.items if (folder / item.output.value).exists()]


# ---- in the caller's own process ----------------------------------------------------------------


@pytest.mark.slow  # test_kills looks for zombies, and this file for workers
def test_a_script_that_goes_on_after_the_run_has_no_zombies_and_no_workers(tmp_path):
    project, guilty = make(tmp_path, ["exit 7"], rows=6)
    result = project.evaluate(WORKER)
    assert [item.id for item in result.failed] == list(guilty)
    assert collections.Counter(item.status.value for item in result.items)["completed"] == 5
    assert os.getpid() not in project.pids
    wait_until(lambda: not any(map(is_alive, project.pids)), "its workers to end", 20)
    wait_until(lambda: not zombies_of(os.getpid()), "no zombies", 20)
