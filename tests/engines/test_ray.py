"""The same run on Ray: one that is local, and clusters that lose nodes, refuse, or are not there.

The cases of the other files hold for Ray as well; here is what only Ray can do to a run.
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
import time
from pathlib import Path

import pytest
from e2e.servers import peer, silence, unanswered_port

import limpet
from tests.engines.project import (
    ONE,
    PROCESSES,
    Project,
    is_alive,
    marked,
    wait_until,
)
from tests.engines.ray_cluster import RayCluster, actors
from tests.engines.test_kills import IN_FLIGHT, assert_whole, half_way, kill, make

HAS_RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(
    not HAS_RAY, reason="Ray is not installed: pip install 'limpet[ray]' to test it"
)
pytestmark = [pytest.mark.xdist_group("ray")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ray")
    cluster = RayCluster(folder, f"ray-{os.getpid()}")
    yield cluster
    cluster.close()


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
    with pytest.raises(limpet.SetupError, match="Ray, which is not installed") as caught:
        project.evaluate("ray")
    assert "limpet[ray]" in caught.value.hint
    assert project.calls == []


def test_a_run_does_not_import_ray_in_the_driver(tmp_path):
    program = (
        "import sys, limpet, limpet.cli.main\n"
        "import limpet.config.config, limpet.engines.ray.lines, limpet.engines.ray.foreman\n"
        "rows = [{'id': 'a', 'question': 'b'}]\n"
        "limpet.evaluate(rows, 'os.path:basename', run=False, show=False)\n"
        "limpet.plan(rows, 'os.path:basename', run=False, engine='ray')\n"
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
def test_a_local_ray_is_gone_when_its_driver_was_killed(tmp_path):
    project = make(tmp_path)
    with project.started(engine="ray", env={"RAY_USAGE_STATS_ENABLED": "0"}) as process:
        half_way(project)
        kill([process.pid])
        process.communicate()
        wait_until(lambda: not any(map(is_alive, project.pids)), "its workers to follow", 30)
        wait_until(lambda: not project.left_over(), "Ray to end", 90)
    project.tell()
    assert project.run(engine=PROCESSES).returncode == 0
    assert_whole(project, most_again=IN_FLIGHT)


# ---- whoever dies -------------------------------------------------------------------------------


def in_mid_run(folder, cluster, disturb, *, code=0, **ray):
    """Run, disturb it half-way, let it go on; return the project."""
    project = make(folder)
    env = on_cluster(project, cluster, **ray)
    with project.started(env=env) as process:
        half_way(project)
        disturb(project, process)
        project.tell()
        out, err = process.communicate(timeout=250)
        assert process.returncode == code, out + err
    return project, env


def kill_a_child(project, process):
    kill([pid for pid in project.pids if is_alive(pid)][:1])


def kill_an_actor(project, process):
    # Only those of this cluster: they have the environment of its nodes.
    found = actors(marked(project.mark.partition("|")[0]))
    assert found, "no actor of Ray runs"
    kill(found[:1])


def kill_the_driver(project, process):
    kill([process.pid])


DISTURBANCES = {"a child": kill_a_child, "an actor": kill_an_actor}


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize("who", ["a child", "an actor"])
def test_whoever_of_them_is_killed_only_what_was_in_flight_runs_again(tmp_path, cluster, who):
    project, _ = in_mid_run(tmp_path, cluster, DISTURBANCES[who])
    assert_whole(project, most_again=IN_FLIGHT)


@needs_ray
@pytest.mark.slow
def test_a_raylet_that_is_killed_takes_nothing_with_it(tmp_path, cluster):
    cluster.tell("add", "victim", 1)
    project, _ = in_mid_run(
        tmp_path, cluster, lambda project, process: cluster.tell("kill", "victim"), workers=3
    )
    assert_whole(project, most_again=IN_FLIGHT)


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize("then", [ONE, PROCESSES, None], ids=str)
def test_a_driver_that_is_killed_loses_nothing_and_any_engine_goes_on(tmp_path, cluster, then):
    project, env = in_mid_run(tmp_path, cluster, kill_the_driver, code=-signal.SIGKILL)
    acknowledged, called = set(project.recorded()), len(project.calls)
    wait_until(lambda: not any(map(is_alive, project.pids)), "its workers to follow", 30)
    words = ["--set", "engine=null"] if then else []
    done = project.run(*words, engine=then or ONE, env=env)
    assert done.returncode == 0, done.stderr
    again = {call.id for call in project.calls[called:] if call.step == "workflow"}
    assert not again & acknowledged
    assert_whole(project, most_again=IN_FLIGHT)


@needs_ray
@pytest.mark.slow
def test_a_node_that_comes_later_takes_work_and_one_that_goes_leaves_it(tmp_path, cluster):
    def disturb(project, process):
        cluster.tell("add", "late", 1)
        cluster.tell("remove", "late")

    project, _ = in_mid_run(tmp_path, cluster, disturb, workers=3)
    assert_whole(project, most_again=IN_FLIGHT)


@needs_ray
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("turn", range(10))
@pytest.mark.parametrize("who", ["a child", "an actor", "a raylet", "a node comes and goes"])
def test_again_and_again(tmp_path, cluster, who, turn):
    name = f"node{turn}"
    if who == "a raylet":
        cluster.tell("add", name, 1)

    def comes_and_goes(project, process):
        cluster.tell("add", name, 1)
        cluster.tell("remove", name)

    disturb = {
        **DISTURBANCES,
        "a raylet": lambda project, process: cluster.tell("kill", name),
        "a node comes and goes": comes_and_goes,
    }[who]
    project, _ = in_mid_run(tmp_path, cluster, disturb, workers=3)
    assert_whole(project, most_again=IN_FLIGHT)


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
    note(item)
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
    note(item)
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
    "address", ["127.0.0.1:PORT", "ray://127.0.0.1:PORT", "no.such.host.invalid:6379", "nonsense"]
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
    assert "head:6379 is of another version" in said
    assert "2.9.3" in said
    assert "3.9.99" in said


@needs_ray
@pytest.mark.slow
def test_a_token_that_is_not_the_clusters_is_named(tmp_path, cluster):
    project = make(tmp_path)
    (tmp_path / "token").write_text("not-the-token-of-the-cluster-at-all")
    env = on_cluster(project, cluster)
    done = project.run(env={**env, "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")})
    assert done.returncode == 2, done.stderr
    assert "RAY_AUTH_TOKEN_PATH" in done.stderr
    assert project.calls == []


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
    note(item)
    return (HERE / "prompt.txt").read_text()


def score(output):
    return 1
"""
    project = Project(tmp_path, code.replace("note(item)", ""), rows=2)
    (tmp_path / "prompt.txt").write_text("be brief")
    env = on_cluster(project, cluster, runtime_env={"working_dir": "."})
    assert project.run(env=env).returncode == 0
    again = project.run("--plan", env=env)
    assert "2 kept" in again.stdout + again.stderr
    (tmp_path / "prompt.txt").write_text("be wordy")
    again = project.run("--plan", env=env)
    assert "2 kept" not in again.stdout + again.stderr
    assert "prompt.txt" in again.stdout + again.stderr


@needs_ray
@pytest.mark.slow
def test_waiting_for_workers_is_shown_and_the_run_begins_with_the_first(tmp_path, cluster):
    project = make(tmp_path)
    project.tell()
    env = on_cluster(project, cluster, workers=8)  # more than there is room for
    done = project.run("--json", env=env)
    assert done.returncode == 0, done.stderr
    assert_whole(project)


# ---- the how-to page ----------------------------------------------------------------------------


@needs_ray
@pytest.mark.slow
def test_the_script_of_the_how_to_page_does_what_it_says(tmp_path):
    page = (Path(__file__).parents[2] / "docs/how-to/ray.md").read_text(encoding="utf-8")
    script = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    (tmp_path / "squares.py").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "squares.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == re.search(r"# → (.*)", script)[1]
