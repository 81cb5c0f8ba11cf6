"""The same run on Ray: one that is local, and clusters that lose nodes, refuse, or are not there.

The cases of the other files hold for Ray as well; here is what only Ray can do to a run.

Whatever needs a cluster is slow: its start takes 10 s of processor time, and a run in which
somebody is killed another 9 s: a minute for one of each kind. In `make test`, the script of the
how-to page runs on a local Ray (tests/docs), and the tests here that need no cluster run.
"""

import importlib.machinery
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from e2e.servers import peer, silence, site, unanswered_port

import limpet
from tests.engines.project import (
    ONE,
    PROCESSES,
    Project,
    environ,
    is_alive,
    stat,
    wait_until,
)
from tests.engines.ray_autoscaler import AutoscaledRay
from tests.engines.ray_cluster import RayCluster
from tests.engines.test_kills import IN_FLIGHT, assert_whole, half_way, kill
from tests.engines.test_time import Counting, evaluate
from tests.engines.test_time import make as make_client

HAS_RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(
    not HAS_RAY, reason="Ray is not installed: pip install 'limpet[ray]' to test it"
)


@pytest.fixture(scope="module")
def nodes():
    cluster = RayCluster(f"ray-{os.getpid()}")
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(nodes):
    """A cluster of two nodes, also if a test before has killed one."""
    for name in {"first", "second"} - set(nodes.nodes):
        nodes.add(name)
    return nodes


CODE = """
async def answer(item):
    record(item)
    if int(item.id[1:]) >= 8:  # the first eight are free
        await asyncio.wait([asyncio.create_task(told(word)) for word in ("go", item.id)],
                           return_when=asyncio.FIRST_COMPLETED)
    return item.expected


def score(output, item):
    record(item, "score")
    return 1
"""


def make(folder, rows=20):
    more = f"pace: {IN_FLIGHT}\nretry: 0\n"
    return Project(folder, CODE, rows=rows, evaluators={"score": "APP:score"}, more=more)


def on_cluster(project, cluster, **ray):
    """Have the project use this cluster; return the environment of its commands."""
    config = {"ray": {"address": cluster.address, "workers": 2, **ray}}
    project.write_config(
        {"score": "APP:score"},
        f"pace: {IN_FLIGHT}\nretry: 0\nengine: {json.dumps(config)}\n",
    )
    project.mark = cluster.env["LIMPET_TEST_MARK"] + "|" + project.mark
    return {**cluster.env, "LIMPET_TEST_MARK": project.mark}


# ---- without Ray --------------------------------------------------------------------------------


@pytest.mark.parametrize("found", [None, importlib.machinery.ModuleSpec("ray", None)])
def test_without_the_extra_one_message_names_it(tmp_path, monkeypatch, found):
    """Also where a folder is called ray: Python takes it for a package."""
    real = importlib.util.find_spec
    find = lambda name, *more: found if name == "ray" else real(name, *more)
    monkeypatch.setattr(importlib.util, "find_spec", find)
    project = make(tmp_path)
    with pytest.raises(limpet.errors.SetupError, match="Ray, which is not installed") as caught:
        project.evaluate("ray")
    assert "limpet[ray]" in caught.value.hint
    assert project.calls == []


def test_a_run_does_not_import_ray_in_the_driver(tmp_path):
    program = (
        "import sys, limpet, limpet.cli.main\n"
        "import limpet.config.config, limpet.engines.ray.lines, limpet.engines.ray.foreman\n"
        "rows = [{'id': 'a', 'question': 'b'}]\n"
        "limpet.evaluate(rows, 'os.path:basename', save=False, show=False)\n"
        "limpet.plan(rows, 'os.path:basename', save=False, engine='ray')\n"
        "print(any(name == 'ray' or name.startswith('ray.') for name in sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "False", done.stderr


# ---- a local one --------------------------------------------------------------------------------


@needs_ray
@pytest.mark.slow
def test_a_local_ray_gives_the_same_run_and_goes_away(tmp_path):
    project = make(tmp_path)
    project.tell()
    env = {"RAY_USAGE_STATS_ENABLED": "0"}
    done = project.run(engine="ray", env=env)
    assert done.returncode == 0, done.stderr
    assert_whole(project)
    assert project.driver not in project.pids
    wait_until(lambda: not project.left_over(), "Ray to end", 60)
    project.forget_calls()
    assert project.run(engine=ONE).returncode == 0
    assert project.run(engine=PROCESSES).returncode == 0
    assert project.calls == []


@needs_ray
@pytest.mark.slow
def test_a_local_ray_is_gone_when_its_driver_was_killed(tmp_path, short_folder):
    """Its processes and its folder; and no file in it ever has its token."""
    project = make(tmp_path)
    env = {"RAY_USAGE_STATS_ENABLED": "0", "TMPDIR": str(short_folder)}
    with project.started(engine="ray", env=env) as process:
        half_way(project)
        name = "RAY_AUTH_TOKEN="
        found = {one for pid in project.left_over() for one in environ(pid) if name in one}
        [secret] = {one.removeprefix(name).encode() for one in found}
        files = [file for file in short_folder.rglob("*") if file.is_file()]
        assert files
        assert not any(secret in file.read_bytes() for file in files)
        assert not any(name in one for pid in project.pids for one in environ(pid))
        kill([process.pid])
        process.communicate()
        wait_until(lambda: not any(map(is_alive, project.pids)), "its workers to follow", 30)
        wait_until(lambda: not project.left_over(), "Ray to end", 90)
        wait_until(lambda: not of_ray(short_folder), "its folder to go")
    project.tell()
    assert project.run(engine=PROCESSES).returncode == 0
    assert_whole(project, most_again=IN_FLIGHT)


def of_ray(folder):
    """Return what Ray has in a folder for temporary files; our sockets may stay after a kill."""
    return [file for file in folder.iterdir() if file.name != f"limpet-{os.getuid()}"]


@pytest.fixture
def short_folder():
    """The names of sockets are short, and so must be the folder that they are in."""
    with tempfile.TemporaryDirectory(prefix="lrt-") as name:
        yield Path(name)


RAY_IN_A_HURRY = """
import pathlib

def init(**options):
    with (pathlib.Path(__file__).parent / "starts").open("a") as starts:
        starts.write("x")
        if starts.tell() < 2:
            raise Exception("The current node timed out during startup. This could happen …")
    raise ValueError("something else")
"""


def test_a_start_that_took_ray_too_long_is_tried_again(tmp_path):
    """Ray's own limits are short for a machine that is busy. What else is wrong stays wrong."""
    project = make(tmp_path)
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").write_text(RAY_IN_A_HURRY, encoding="utf-8")
    with pytest.raises(limpet.errors.SetupError, match="something else"):
        project.evaluate({"ray": {"address": "local"}})
    assert (tmp_path / "ray" / "starts").read_text() == "xx"
    assert project.calls == []


# ---- whoever dies -------------------------------------------------------------------------------


def in_flight(project):
    """Return the processes that run a call now."""
    done = set(project.recorded())
    return {call.pid for call in project.calls if call.id not in done and is_alive(call.pid)}


# Each returns a process that runs calls and must end by it.


def kill_a_child(project, cluster, driver):
    child = in_flight(project).pop()
    kill([child])
    return child


def kill_an_actor(project, cluster, driver):
    child = in_flight(project).pop()
    _, parent = stat(child)
    assert Path(f"/proc/{parent}/cmdline").read_bytes().startswith(b"ray::Foreman")
    kill([parent])
    return child


def kill_a_raylet(project, cluster, driver):
    child = in_flight(project).pop()
    cluster.kill(cluster.node_of(child))
    return child


def kill_the_driver(project, cluster, driver):
    child = in_flight(project).pop()
    kill([driver])
    return child


def come_and_go(project, cluster, driver):
    """A node comes, takes calls, and goes with them."""
    cluster.add("late")
    wait_until(lambda: started(project) == 3, "a worker on the late node")
    waiting = iter(project.rows[8:])
    while True:
        for child in in_flight(project):
            if cluster.node_of(child) == "late":
                cluster.remove("late")
                return child
        id_ = next(waiting)["id"]
        project.tell(id_)
        wait_until(lambda id_=id_: id_ in project.recorded(), "an answer")


def started(project):
    return sum(event["event"] == "worker_started" for event in project.events())


DISTURBANCES = {
    "a child": kill_a_child,
    "an actor": kill_an_actor,
    "a raylet": kill_a_raylet,
    "a node that came": come_and_go,
    "the driver": kill_the_driver,
}


def disturbed(folder, cluster, who, short_folder):
    """Run, disturb it half-way, let it go on, and look at what is there.

    Returns:
        The project, and the environment of its commands.
    """
    rows, workers = (150, 3) if who == "a node that came" else (20, 2)
    project = make(folder, rows)
    env = {**on_cluster(project, cluster, workers=workers), "TMPDIR": str(short_folder)}
    with project.started(env=env) as process:
        half_way(project)
        child = DISTURBANCES[who](project, cluster, process.pid)
        wait_until(lambda: not is_alive(child), "the end of its calls")
        project.tell()
        out, err = process.communicate(timeout=250)
        assert process.returncode == (-signal.SIGKILL if who == "the driver" else 0), out + err
        assert "memory" not in err  # which Ray names as a cause that is possible
        assert who != "an actor" or "was lost: its Ray actor died" in err
        wait_until(lambda: not any(map(is_alive, project.pids)), "its workers to follow", 30)
        wait_until(lambda: not of_ray(short_folder), f"these to go: {of_ray(short_folder)}", 30)
    if who != "the driver":
        assert_whole(project, most_again=IN_FLIGHT)
        assert sum(project.counts().values()) > len(project.rows)
    return project, env


def goes_on(project, env, then=None):
    """Run again what a driver that was killed has left, with any engine."""
    acknowledged, called = set(project.recorded()), len(project.calls)
    words = ["--set", "engine=null"] if then else []
    done = project.run(*words, engine=then or ONE, env=env)
    assert done.returncode == 0, done.stderr
    again = {call.id for call in project.calls[called:] if call.step == "workflow"}
    assert not again & acknowledged
    assert_whole(project, most_again=IN_FLIGHT)


@needs_ray
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("turn", range(10))
@pytest.mark.parametrize("who", DISTURBANCES)
def test_whoever_is_lost_only_what_was_in_flight_runs_again(
    tmp_path, short_folder, cluster, who, turn
):
    project, env = disturbed(tmp_path, cluster, who, short_folder)
    if who == "the driver":
        goes_on(project, env, [ONE, PROCESSES, None][turn % 3])


LEAVES = """
import asyncio, json, os, sys
from limpet.engines.ray.gateway import Gateway
from limpet.engines.ray.settings import CONNECT, START


async def main():
    gateway = Gateway(lambda messages: None, sys.exit)
    gateway.receive((CONNECT, json.loads(sys.argv[1])))
    gateway.receive((START, 1))  # it begins to look for room
    gateway.flush()
    await asyncio.sleep(0)  # it looks


asyncio.run(main())
assert not sys.modules["ray"].is_initialized()
assert "RAY_ENABLE_AUTO_CONNECT" not in os.environ  # the user's code would inherit it
"""


@needs_ray
@pytest.mark.slow
def test_a_gateway_that_has_left_starts_no_ray_of_its_own(tmp_path, short_folder, cluster):
    """Ray's functions start a Ray where none is connected, and something may be under way."""
    said = {"where": cluster.address, "workers": 1, "resources": {"CPU": 1}, "runtime_env": "{}",
            "log": str(tmp_path / "gateway.log"), "setting": {}}  # fmt: skip
    env = {**os.environ, **cluster.env, "TMPDIR": str(short_folder)}
    subprocess.run([sys.executable, "-c", LEAVES, json.dumps(said)], env=env, check=True)
    assert list(short_folder.iterdir()) == []


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_good_order(tmp_path, cluster, signum):
    project = make(tmp_path)
    env = on_cluster(project, cluster)
    with project.started(env=env) as process:
        half_way(project)
        os.killpg(process.pid, signum)
        wait_until(lambda: "stopping" in process.stderr.readline(), "a word")
        project.tell()
        process.communicate(timeout=100)
        assert process.returncode == 128 + signum
        wait_until(lambda: not any(map(is_alive, project.pids)), "its workers to end", 30)
    assert set(project.recorded()) >= {f"q{n}" for n in range(8)}
    assert project.run(env=env).returncode == 0
    assert_whole(project, most_again=IN_FLIGHT)


@needs_ray
@pytest.mark.slow
def test_a_call_that_dies_on_ray_is_named_there_too(tmp_path, cluster):
    code = """
def answer(item):
    record(item)
    if item.id == "q3":
        os._exit(7)
    return item.expected


def score(output):
    return 1
"""
    project = Project(tmp_path, code, rows=10)
    env = on_cluster(project, cluster)
    done = project.run(env=env)
    assert done.returncode == 1, done.stderr
    assert project.failures() == {"q3": "worker_died"}
    assert len(project.recorded()) == len(set(project.recorded())) == 9


@needs_ray
@pytest.mark.slow
def test_events_name_the_node(tmp_path, cluster):
    project = make(tmp_path)
    project.tell()
    done = project.run("--json", env=on_cluster(project, cluster))
    assert done.returncode == 0, done.stderr
    taken = [json.loads(line) for line in done.stdout.splitlines() if '"taken"' in line]
    assert {one["id"] for one in taken} == {row["id"] for row in project.rows}
    # The host, Ray's own name of the node, and the process.
    named = re.compile(re.escape(socket.gethostname()) + r"/[0-9a-f]{6}:(\d+)")
    assert {int(named.fullmatch(one["worker"])[1]) for one in taken} == project.pids
    assert any(one["event"] == "worker_started" for one in project.events())


# ---- secrets ------------------------------------------------------------------------------------

SECRET = "sk-Proj-0123456789-abcdefghij"  # noqa: S105 - nobody's


@needs_ray
@pytest.mark.slow
def test_a_secret_that_the_workers_lack_is_named_and_never_sent(tmp_path, cluster):
    code = """
def answer(item):
    record(item)
    return "key of " + str(len(os.environ["LIMPET_TEST_API_KEY"]))


def score(output):
    return 1
"""
    project = Project(tmp_path, code, rows=2)
    env = on_cluster(project, cluster)
    done = project.run(env={**env, "LIMPET_TEST_API_KEY": SECRET})
    assert done.returncode == 2, done.stdout + done.stderr
    assert "LIMPET_TEST_API_KEY" in done.stderr
    assert SECRET not in done.stderr
    assert project.calls == []


# ---- a cluster that refuses ---------------------------------------------------------------------


def refused_soon(project, *words, env=None):
    """A clear error within 15 s, before the first call, and nothing is left over."""
    began = time.monotonic()
    done = project.run(env={"RAY_USAGE_STATS_ENABLED": "0", **(env or {})})
    seconds = time.monotonic() - began
    assert done.returncode == 2, done.stdout + done.stderr
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert str(word).lower() in done.stderr.lower(), done.stderr
    assert project.calls == []
    assert seconds < 15
    wait_until(lambda: not project.left_over(), "its processes to end", 20)


@needs_ray
@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:PORT",
        pytest.param("ray://127.0.0.1:PORT", marks=pytest.mark.slow),
        pytest.param("no.such.host.invalid:6379", marks=pytest.mark.slow),
        "nonsense",
    ],
)
def test_an_address_at_which_nobody_is_is_named(tmp_path, address):
    project = make(tmp_path)
    address = address.replace("PORT", str(unanswered_port()))
    project.write_config(more=f"engine: {json.dumps({'ray': {'address': address}})}\n")
    refused_soon(project, address.removeprefix("ray://"))


@needs_ray
def test_a_wrong_address_in_the_environment_is_named(tmp_path):
    project = make(tmp_path)
    address = f"127.0.0.1:{unanswered_port()}"
    project.write_config(more="engine: ray\n")
    refused_soon(project, address, env={"RAY_ADDRESS": address})


@needs_ray
def test_a_server_that_is_no_ray_is_not_waited_for(tmp_path):
    """It takes the connection and says nothing: who probes by connecting alone hangs here."""
    project = make(tmp_path)
    with peer(silence) as other:
        address = other.url.removeprefix("http://")
        project.write_config(more=f"engine: {json.dumps({'ray': {'address': address}})}\n")
        refused_soon(project, address)


@needs_ray
@pytest.mark.slow
def test_another_version_is_named(tmp_path):
    """By what Ray itself says when it compares them, which it does before anything else."""
    program = (
        "from ray._private.utils import check_version_info\n"
        "from limpet.engines.ray.connecting import refusal\n"
        "try:\n"
        "    check_version_info({'ray_version': '2.9.3', 'python_version': '3.9.99'}, 'here')\n"
        "except RuntimeError as error:\n"
        "    print(refusal('head:6379', error))\n"
    )
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "head:6379 has another version" in said
    assert "2.9.3" in said
    assert "3.9.99" in said


@needs_ray
@pytest.mark.slow
def test_a_token_that_is_not_the_clusters_is_named(tmp_path, cluster):
    project = make(tmp_path)
    (tmp_path / "token").write_text("not-the-token-of-the-cluster-at-all")
    env = {**on_cluster(project, cluster), "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")}
    refused_soon(project, "refused the connection", "RAY_AUTH_TOKEN_PATH", env=env)


@needs_ray
@pytest.mark.slow
def test_resources_that_no_node_has_are_named(tmp_path, cluster):
    project = make(tmp_path)
    env = on_cluster(project, cluster, resources={"num_gpus": 64})
    refused_soon(project, "gpu", env=env)


@needs_ray
@pytest.mark.slow
def test_code_that_the_workers_lack_is_named_with_its_cure(tmp_path, cluster):
    """Workers elsewhere do not have this folder: a module's name alone means nothing to them."""
    project = make(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "readme.txt").write_text("no code")
    env = on_cluster(project, cluster, runtime_env={"working_dir": "other"})
    refused_soon(project, project.module, "working_dir", env=env)


@needs_ray
@pytest.mark.slow
def test_code_that_is_sent_along_is_found(tmp_path, cluster):
    project = make(tmp_path)
    project.tell()
    env = on_cluster(project, cluster, runtime_env={"working_dir": "."})
    done = project.run(env=env)
    assert done.returncode == 0, done.stderr
    assert sorted(project.recorded()) == sorted(row["id"] for row in project.rows)


@needs_ray
@pytest.mark.slow
def test_a_file_that_is_sent_along_and_read_counts_by_its_name_here(tmp_path, cluster):
    code = """
def answer(item):
    record(item)
    return (HERE / "prompt.txt").read_text()


def score(output):
    return 1
"""
    project = Project(tmp_path, code.replace("record(item)", ""), rows=2)
    (tmp_path / "prompt.txt").write_text("be brief")
    env = on_cluster(project, cluster, runtime_env={"working_dir": "."})
    assert project.run(env=env).returncode == 0
    again = project.run("--plan", env=env)
    assert "2 kept" in again.stdout + again.stderr
    (tmp_path / "prompt.txt").write_text("be wordy")
    again = project.run("--plan", env=env)
    assert "2 kept" not in again.stdout + again.stderr
    assert "prompt.txt" in again.stdout + again.stderr


# ---- room and pace ------------------------------------------------------------------------------


def waits(project):
    """Return how many workers were waited for, as events say it."""
    events = project.events()
    return [one["waiting"] for one in events if one["event"] == "waiting_for_workers"]


@needs_ray
@pytest.mark.slow
def test_waiting_for_workers_is_shown_and_the_run_begins_with_the_first(tmp_path, cluster):
    project = make(tmp_path)
    env = on_cluster(project, cluster, workers=8)  # there is room for two
    with project.started(env=env) as process:
        half_way(project)
        wait_until(lambda: waits(project)[-1:] == [6], "a word of it")
        project.tell()
        _, err = process.communicate(timeout=250)
        assert process.returncode == 0, err
    assert_whole(project)


@needs_ray
@pytest.mark.slow
def test_an_autoscaler_adds_the_first_node_and_the_run_begins(tmp_path, short_folder):
    """It adds one and no more: who waited for both workers would wait for ever."""
    cluster = AutoscaledRay(short_folder, f"ray-{os.getpid()}-a")
    try:
        project = make(tmp_path)
        project.tell()
        done = project.run(env=on_cluster(project, cluster, workers=2))
        assert done.returncode == 0, done.stderr
    finally:
        cluster.close()
    assert_whole(project)
    assert waits(project)[:1] == [2]
    assert "Ray has no room yet" in done.stderr
    assert started(project) == 1


@needs_ray
@pytest.mark.slow
def test_a_servers_limit_is_kept_and_used_as_by_one_process(tmp_path, cluster, monkeypatch):
    """Efficiency: what the server took of what it would have taken, within 2 points."""
    for name, value in cluster.env.items():
        monkeypatch.setenv(name, value)
    on_ray = {"ray": {"address": cluster.address, "workers": 2}}
    rate, burst, rows = 50, 20, 500
    refused, efficiency = {}, {}
    for name, engine in {"one": ONE, "ray": on_ray}.items():
        counting = Counting(seconds=0.1, rate=rate, burst=burst)
        with site(counting) as server:
            project = make_client(tmp_path / name, server.url, rows=rows)
            result = evaluate(project, engine, "answer", {"judge": "APP:shares"}, retry=5)
        assert not result.failed
        came = [moment for moments in counting.arrivals.values() for moment in moments]
        refused[name] = counting.refused
        efficiency[name] = (2 * rows - burst) / (rate * (max(came) - min(came)))
    sys.stdout.write(f"{refused} {efficiency}\n")
    assert (
        refused["ray"] <= refused["one"] + 4 * rows // 100
    )  # in real time: a busy machine is late
    assert efficiency["ray"] >= efficiency["one"] - 0.02
