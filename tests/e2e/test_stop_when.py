"""`--stop-when` at the command line: it stops when it is enough, with 0, and can go on."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from e2e import ready_limpet
from e2e.project import COMMAND, answered, calls, make, run

from limpet.datasets.selection import rank

AGAIN = f"{Path(sys.executable).name} -m limpet"
APP = """

async def wrong_at_times(question):
    note(question)
    n = int(question.split()[-1])
    wrong = n * 7919 % 10 < 3
    await asyncio.sleep(0.03 if wrong else 0.003)
    return "wrong" if wrong else str(n)
"""
ORDER = sorted((f"q{n}" for n in range(300)), key=lambda id_: rank(0, id_))


@pytest.fixture
def project(tmp_path):
    make(tmp_path, rows=300, workflow="app:wrong_at_times", more="pace: 8\n")
    with (tmp_path / "app.py").open("a", encoding="utf-8") as app:
        app.write(APP)
    return tmp_path


def add(project, more):
    with (project / "eval.yml").open("a", encoding="utf-8") as file:
        file.write(more)


def summary(project):
    return json.loads((project / "runs/trial/summary.json").read_bytes())


def test_it_stops_with_0_and_says_where_and_how_to_go_on(project):
    done = run(project, "--stop-when", "correct=0.1")
    assert done.returncode == 0
    said = summary(project)["stop_when"]
    width = f"correct ± {said['scores']['correct']['half_width']:.3g} (wanted ± 0.1)"
    lines = done.stderr.splitlines()
    assert f"stopped at {said['items']} of 300 items: {width}" in lines
    assert lines[-2:] == [
        "see the results: limpet show runs/trial",
        f"run the other items, too: {AGAIN} run",
    ]
    assert len(calls(project)) == said["items"] < 200
    status = run(project, "trial", command="status").stdout
    assert status.startswith("runs/trial: enough\n")
    assert f"\nstopped at {said['items']} of 300 items: {width}\n" in status
    assert "for the rest, run the same command without stop_when" in status
    data = json.loads(run(project, "trial", "--json", command="status").stdout)
    assert (data["state"], data["stop_when"]) == ("enough", said)
    assert " enough " in run(project, command="list").stdout
    again = run(project, "--stop-when", "correct=0.1")
    assert again.returncode == 0
    assert f"stopped at {said['items']} of 300 items: {width}" in again.stderr
    assert len(calls(project)) == said["items"]
    assert run(project).returncode == 0
    assert sorted(calls(project)) == sorted(f"Repeat {n}" for n in range(300))
    assert "finished" in run(project, "trial", command="status").stdout


def test_what_failed_is_still_said_by_the_exit_code(project):
    app = (project / "app.py").read_text(encoding="utf-8")
    failing = app.replace("    wrong = n *", "    assert n % 30\n    wrong = n *")
    (project / "app.py").write_text(failing, encoding="utf-8")
    add(project, "retry: 0\nstop_when: {correct: 0.15}\n")
    done = run(project)
    assert done.returncode == 1
    assert "stopped at " in done.stderr


@pytest.mark.slow  # --set is tested for other keys
def test_in_the_file_it_is_switched_off_by_set(project):
    add(project, "stop_when: {correct: 0.1}\n")
    done = run(project)
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == (
        f"run the other items, too: {AGAIN} run --set stop_when=null"
    )
    plan = run(project, "--plan", "--stop-when", "correct=0.05").stdout.splitlines()
    assert plan[0].endswith("fewer if correct ± 0.05 is reached sooner")
    assert "fewer" not in run(project, "--plan", "--set", "stop_when=null").stdout
    assert run(project, "--no-evaluators", "--plan").returncode == 0


def test_kill_9_in_the_middle_and_it_takes_the_same_items_in_the_same_order(project):
    command = [*COMMAND, "run", "--stop-when", "correct=0.1"]
    with ready_limpet.Popen(command, cwd=project, stderr=subprocess.DEVNULL) as process:
        while len(answered(project)) < 40 and process.poll() is None:
            time.sleep(0.001)  # leave the processor to it
        process.kill()
    begun = calls(project)
    assert 40 <= len(begun) < 120
    assert {f"q{text.split()[-1]}" for text in begun} == set(ORDER[: len(begun)])
    kept = set(answered(project))
    done = run(project, "--stop-when", "correct=0.1")
    assert done.returncode == 0
    said = summary(project)["stop_when"]
    assert said["reached"]
    assert "outside" not in said
    assert set(answered(project)) == set(ORDER[: said["items"]])
    now = {f"q{text.split()[-1]}" for text in calls(project)[len(begun) :]}
    assert now.isdisjoint(kept)


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        (
            "corect=0.1",
            "--stop-when corect=0.1: unknown evaluator 'corect'; did you mean 'correct'",
        ),
        ("correct=0", "--stop-when correct=0: the half-width must be above 0"),
        ("correct=-1", "--stop-when correct=-1: the half-width must be above 0"),
        ("correct=nan", "must be NAME=NUMBER, for example correct=0.02"),
        ("correct=inf", "must be NAME=NUMBER, for example correct=0.02"),
        ("correct", "must be NAME=NUMBER, for example correct=0.02"),
    ],
)
def test_a_goal_that_means_nothing_ends_with_2_before_the_first_call(project, goal, said):
    done = run(project, "--stop-when", goal)
    assert done.returncode == 2
    assert said in done.stderr
    assert not calls(project)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("stop_when: {corect: 0.1}", "stop_when: unknown evaluator 'corect'"),
        ("stop_when: {correct: 0}", "stop_when.correct: must be above 0, not 0"),
        ("stop_when: {correct: .nan}", "stop_when.correct: must be a finite number"),
        ("stop_when: 0.1", "stop_when: must be a mapping of keys to values, not 0.1"),
    ],
)
def test_one_in_the_file_is_reported_with_its_line(project, more, said):
    add(project, f"{more}\n")
    done = run(project)
    assert done.returncode == 2
    assert f"eval.yml:7: {said}" in done.stderr
    assert not calls(project)


@pytest.mark.slow  # a matrix, and a stop, are tested apart
def test_each_variant_of_a_matrix_stops_by_itself(project):
    app = (project / "app.py").read_text(encoding="utf-8")
    app = app.replace("wrong_at_times(question)", "wrong_at_times(question, share=3)")
    (project / "app.py").write_text(app.replace("10 < 3", "10 < share"), encoding="utf-8")
    text = (project / "eval.yml").read_text(encoding="utf-8")
    text = text.replace("workflow: app:wrong_at_times", "workflow: {python: 'app:wrong_at_times'}")
    (project / "eval.yml").write_text(text, encoding="utf-8")
    add(project, "stop_when: {correct: 0.1}\nmatrix: {workflow.args.share: [0, 4]}\n")
    done = run(project)
    assert done.returncode == 0
    items = [
        json.loads(path.read_bytes())["stop_when"]["items"]
        for path in sorted((project / "runs/trial").glob("*/summary.json"))
    ]
    assert len(items) == 2
    assert items[0] < items[1] < 300
