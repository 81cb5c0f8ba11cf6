"""`--rehearse N`: N items drawn at random are run and kept, and the rest is foreseen."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from e2e.project import COMMAND, answered, calls, make, run

from limpet.datasets.selection import rank

AGAIN = f"{Path(sys.executable).name} -m limpet"
APP = """
import limpet


def paid(question):
    note(question)
    n = int(question.split()[-1])
    counts = {"prompt_tokens": 100, "completion_tokens": 10 + n % 7}
    usage = limpet.Usage(**counts, models={"m": counts})
    return limpet.Output(question.split()[-1], usage=usage)
"""
PRICES = "prices: {m: {prompt: 10, completion: 1000}}\n"


def drawn(number, rows):
    """Return the ids that are drawn of so many rows."""
    return sorted(sorted((f"q{n}" for n in range(rows)), key=lambda id_: rank(0, id_))[:number])


@pytest.fixture
def project(tmp_path):
    make(tmp_path, rows=200, workflow="app:paid", more=PRICES)
    with (tmp_path / "app.py").open("a", encoding="utf-8") as app:
        app.write(APP)
    return tmp_path


def planned(project, *more):
    return json.loads(run(project, "--plan", "--json", *more).stdout)


def test_n_items_are_run_and_kept_and_the_rest_is_foreseen(project):
    assert planned(project)["forecast"]["from"] is None
    done = run(project, "--rehearse", "30")
    assert done.returncode == 0, done.stderr
    assert sorted(answered(project)) == drawn(30, 200)
    *_, said, see, rest = done.stderr.splitlines()
    assert re.fullmatch(
        r"rehearsed 30 items; the rest: 170 calls of workflow, 170 of correct: about 170 calls, "
        r"19k tokens, \$2\.\d\d–2\.\d\d, [\d.]+–[\d.]+ s \(from 30 cells of this run\)",
        said,
    )
    assert see == "see the results: limpet show runs/trial"
    assert rest == f"run the rest: {AGAIN} run"
    forecast = planned(project)["forecast"]
    assert forecast["from"] == "30 cells of this run"
    before = json.loads(said.partition("about ")[2].partition(" calls")[0])
    assert forecast["calls"] == {"low": before, "high": before}
    done = run(project)
    assert done.returncode == 0
    assert len(calls(project)) == 200  # nothing twice
    lines = (project / "runs/trial/workflow_output.jsonl").read_text().splitlines()[30:]
    cost = sum(json.loads(line)["_limpet"]["usage"]["cost"] for line in lines)
    assert forecast["cost"]["low"] * 0.99 < cost < forecast["cost"]["high"] * 1.01
    assert planned(project)["forecast"] is None


def test_the_same_again_runs_nothing_and_says_it_again(project):
    first = run(project, "--rehearse", "30")
    again = run(project, "--rehearse", "30")
    assert (again.returncode, len(calls(project))) == (0, 30)
    words = [done.stderr.splitlines()[-3].partition(", [")[0][:90] for done in (first, again)]
    assert words[0] == words[1]
    assert run(project, "--rehearse", "40").returncode == 0  # ten more
    assert sorted(answered(project)) == drawn(40, 200)


@pytest.mark.parametrize("number", ["200", "1000"])
def test_of_as_many_as_there_are_nothing_is_left(project, number):
    done = run(project, "--rehearse", number)
    assert done.returncode == 0
    assert "rehearsed 200 items; that was all" in done.stderr
    assert len(answered(project)) == 200


def test_a_limit_is_what_is_drawn_from(project):
    done = run(project, "--rehearse", "10", "--limit", "50")
    assert done.returncode == 0
    assert sorted(answered(project)) == drawn(10, 50)
    assert "rehearsed 10 items; the rest: 40 calls of workflow" in done.stderr
    assert done.stderr.splitlines()[-1] == f"run the rest: {AGAIN} run --limit 50"


def test_it_is_not_compared_with_anything(project):
    run(project, "--limit", "5")
    done = run(project, "--rehearse", "30", "--against", "runs/trial")
    assert done.returncode == 2
    assert "--rehearse runs a few items" in done.stderr
    assert len(calls(project)) == 5


def test_it_does_not_stop_when_the_file_says_it_is_enough(project):
    with (project / "eval.yml").open("a", encoding="utf-8") as file:
        file.write("stop_when: {correct: 0.45}\n")
    done = run(project, "--rehearse", "100")
    assert done.returncode == 0
    assert len(answered(project)) == 100
    assert "reached sooner" in planned(project)["text"]


@pytest.mark.parametrize(
    "wrong",
    [
        ["0"], ["-3"], ["many"], ["1.5"], ["nan"],
        ["30", "--fail-under", "correct=0.5"],
        ["30", "--stop-when", "correct=0.1"],
    ],
)  # fmt: skip
def test_nonsense_is_refused_and_nothing_is_done(project, wrong):
    done = run(project, "--rehearse", *wrong)
    assert done.returncode == 2, done.stderr
    assert "--rehearse" in done.stderr
    assert "hint:" in done.stderr
    assert not (project / "runs").exists()


def test_each_variant_of_a_matrix_is_rehearsed(project):
    with (project / "eval.yml").open("a", encoding="utf-8") as file:
        file.write("matrix: {trials: [1, 2]}\n")
    done = run(project, "--rehearse", "10")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("rehearsed 10 items; the rest: ") == 2
    assert "380 calls of workflow" in done.stderr
    assert len(calls(project)) == 30


def test_events_have_it_too(project):
    done = run(project, "--rehearse", "20", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (rehearsed,) = [event for event in events if event["event"] == "rehearsed"]
    assert rehearsed["forecast"]["calls"] == {"low": 180, "high": 180}
    assert rehearsed["forecast"]["from"] == "20 cells of this run"
    assert events[-1]["exit_code"] == 0


def test_what_fails_in_it_is_1(project):
    text = (project / "eval.yml").read_text().replace("app:paid", "app:fail_some")
    (project / "eval.yml").write_text(text + "retry: 0\n")
    done = run(project, "--rehearse", "60")
    assert done.returncode == 1
    assert "rehearsed 60 items; the rest: " in done.stderr


def test_killed_it_goes_on_with_the_same_items(tmp_path):
    make(tmp_path, rows=200, workflow="app:answer_when_told", free=60, more="pace: 4\n")
    command = [*COMMAND, "run", "--rehearse", "30"]
    with subprocess.Popen(command, cwd=tmp_path) as process:
        until = time.monotonic() + 60
        while len(answered(tmp_path)) < 5 and time.monotonic() < until:
            time.sleep(0.05)
        process.kill()
    kept = answered(tmp_path)
    (tmp_path / "go").touch()
    assert set(kept) < set(drawn(30, 200))
    done = run(tmp_path, "--rehearse", "30")
    assert done.returncode == 0, done.stderr
    assert sorted(answered(tmp_path)) == drawn(30, 200)
    asked = calls(tmp_path)
    assert all(asked.count(f"Repeat {id_[1:]}") == 1 for id_ in kept)
    assert "the rest: 170 calls of workflow" in done.stderr


def test_a_run_beside_it_with_the_same_steps_says_what_it_takes(project):
    run(project, "--limit", "50")
    beside = planned(project, "--set", "name=other")["forecast"]
    assert beside["from"] == "50 cells of trial"
    assert beside["calls"] == {"low": 200, "high": 200}
    assert 2 < beside["cost"]["low"] < beside["cost"]["high"] < 4
    text = (project / "app.py").read_text().replace("10 + n % 7", "11 + n % 7")
    (project / "app.py").write_text(text)
    assert planned(project, "--set", "name=other")["forecast"]["from"] is None
