"""User code that forks, or closes files that are not its own: bounded, said, and nothing lost."""

import json
import signal
import sys
from itertools import product
from pathlib import Path

import pytest
from e2e import ready_limpet

from limpet.journal import verify

FORKING = """
import asyncio, os, sys, limpet

HOME = os.getpid()
DO, WHERE, RUN = sys.argv[1:]
LOCK = asyncio.Lock()

def fork():
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1] >> 8
    print("child", flush=True)
    if DO == "exit": sys.exit(7)
    if DO == "exit with a text": sys.exit("that was it")
    if DO == "raise": raise ValueError("in the child")
    if DO == "interrupt": raise KeyboardInterrupt
    return "in the child"

async def fork_and_wait():
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1] >> 8
    await asyncio.get_event_loop_policy().get_event_loop().create_future()

def act(number):
    return fork() if number == 1 else number

async def act_async(number):
    if number == 1:
        return await fork_and_wait() if DO == "wait" else fork()
    await asyncio.sleep(0.01)
    return number

def told(item):
    if item.id == "1":
        told.status = fork()

act = act_async if "async" in WHERE else act
rows = [{"id": str(one), "input": one} for one in range(4)]
if "map" in WHERE:
    outputs = limpet.map(act, range(4), journal=RUN + ".jsonl", version="1", retry=0).outputs
elif "score" in WHERE:
    def good(output):
        return act(output)
    same = limpet.evaluate(rows, lambda x: x, [good], RUN, version="1", retry=0)
    outputs = [one.scores["good"].value for one in same.items]
elif "hook" in WHERE:
    same = limpet.evaluate(rows, lambda x: x, (), RUN, version="1", watcher=told)
    outputs = [0, told.status, 2, 3] if len(same.items) == 4 else None
else:
    same = limpet.evaluate(rows, act, (), RUN, version="1", retry=0)
    outputs = [one.output.value for one in same.items]
print("outputs", outputs, os.getpid() == HOME, flush=True)
"""


def python(code, *arguments, timeout=250):
    return ready_limpet.run_python(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


STATUSES = {"exit": 7, "exit with a text": 1, "raise": 1, "interrupt": 130, "return": 0}
OTHERS = ["async map", "plain map", "score", "hook"]


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("do", "where"),
    [
        *(
            # Each way to come back once, and exit() in both worlds, is enough for a quick look.
            pytest.param(do, where, marks=[pytest.mark.slow] if number in {2, 5, 6, 9} else [])
            for number, (do, where) in enumerate(product(STATUSES, ["async", "plain"]))
        ),
        *(pytest.param("exit", one, marks=pytest.mark.slow) for one in OTHERS),
    ],
)
def test_a_forked_child_that_comes_back_ends_with_its_own_status(do, where, tmp_path):
    status = STATUSES[do]
    done = python(FORKING, do, where, tmp_path / "run")
    assert done.stdout.splitlines() == ["child", f"outputs [0, {status}, 2, 3] True"], done.stderr
    assert done.returncode == 0
    assert ("that was it" in done.stderr) == (do == "exit with a text")
    assert ("ValueError: in the child" in done.stderr) == (do == "raise")
    path = tmp_path / ("run.jsonl" if "map" in where else "run")
    assert verify(path).is_sound


def test_a_forked_child_that_waits_on_our_loop_is_ended(tmp_path):
    done = python(FORKING, "wait", "async", tmp_path / "run")
    assert done.stdout.splitlines() == ["outputs [0, 1, 2, 3] True"], done.stderr
    assert "a forked child returned to the run's event loop" in done.stderr
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert "ended" in about["sessions"][-1]


TERMINATED = """
import asyncio, os, signal, sys, limpet

WHERE, RUN = sys.argv[1:]

def terminate():
    pid = os.fork()
    if not pid:
        signal.alarm(60)  # ends it if SIGTERM does not
        while True:
            signal.pause()
    os.kill(pid, signal.SIGTERM)
    return os.WTERMSIG(os.waitpid(pid, 0)[1])

async def on_the_loop(row):
    return terminate()

def in_a_thread(row):
    return terminate()

async def in_an_executor(row):
    return terminate()

act = globals()[WHERE]
if WHERE == "in_an_executor":
    print(*limpet.AsyncExecutor(act, termination_signal=signal.SIGTERM).run([1])[0])
else:
    print(limpet.evaluate([{"input": 1}], act, (), RUN, version="1", retry=0).items[0].output.value)
"""


@pytest.mark.parametrize("where", ["on_the_loop", "in_a_thread", "in_an_executor"])
def test_a_forked_child_ends_on_sigterm(where, tmp_path):
    """As `multiprocessing.Pool.terminate` expects of its children."""
    done = python(TERMINATED, where, tmp_path / "run")
    assert done.stdout.split() == [str(int(signal.SIGTERM))], done.stderr


CLOSING = """
import asyncio, os, sys, time, limpet

RUN, WHERE, MODE = sys.argv[1:]

def close_all():
    if MODE == "all":
        os.closerange(3, 1000)
    else:  # those that lead to a file of the run
        for fd in range(3, 1000):
            try:
                name = os.readlink(f"/proc/self/fd/{fd}")
            except OSError:
                continue
            if name.endswith(MODE):
                os.close(fd)
                os.open(RUN + ".precious", os.O_RDWR | os.O_CREAT)  # gets the number

def act(number):
    if number == 5:
        close_all()
    return number

async def act_async(number):
    await asyncio.sleep(0.01)
    return act(number)

fn = act_async if WHERE == "async" else act
rows = [{"id": str(one), "input": one} for one in range(50)]
options = {"version": "1", "pace": 2, "retry": 0}

def told(item):
    print("acknowledged", item.id, flush=True)

try:
    limpet.evaluate(rows, fn, (), RUN, watcher=told, **options)
    reason = None
except limpet.LimpetError as error:
    reason = error
print("reason", reason, "|", getattr(reason, "hint", None), flush=True)
"""


@pytest.mark.quick(2)
@pytest.mark.parametrize("where", ["async", pytest.param("plain", marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", ["all", "LOCK", "workflow_output.jsonl"])
def test_code_that_closes_our_files_ends_the_run_with_a_reason_and_loses_nothing(
    where, mode, tmp_path
):
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("there is no /proc here")
    run = tmp_path / "run"
    done = python(CLOSING, run, where, mode)
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("reason "), done.stderr
    assert "closed" in lines[-1]
    acknowledged = {line.split()[1] for line in lines if line.startswith("acknowledged")}
    column = (run / "workflow_output.jsonl").read_bytes().split(b"\n")[:-1]
    assert acknowledged <= {json.loads(line)["id"] for line in column}
    assert len(acknowledged) < 50
    precious = tmp_path / "run.precious"
    assert not precious.exists() or precious.read_bytes() == b""
    again = python(CLOSING.replace("number == 5", "False"), run, where, mode)
    assert again.stdout.splitlines()[-1] == "reason None | None"
    assert verify(run).is_sound
