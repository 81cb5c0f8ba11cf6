"""How an engine is chosen, what a wrong choice says, and what is shown of the workers."""

import importlib
import json
import os

import pytest

import limpet
from tests.engines.project import ONE, PROCESSES, WORKER, Project, both_engines, wait_until
from tests.numbers.command import limpet as command
from tests.numbers.command import refused

CODE = """
async def answer(item):
    record(item)
    return item.expected


async def answer_when_told(item):
    record(item)
    await told()
    return item.expected


def score(output, item):
    record(item, "score")
    return 1
"""
SCORE = {"score": "APP:score"}


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path, CODE, rows=4, evaluators=SCORE)


# ---- chosen well --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        "engine: {processes: 1}\n",
        pytest.param(None, marks=pytest.mark.slow),
        pytest.param("engine: processes\n", marks=pytest.mark.slow),
        pytest.param("engine: {processes: 2}\n", marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_file_or_the_command_line_says_it(project, more):
    project.write_config(SCORE, more or "")
    done = project.run(**({} if more else {"engine": PROCESSES}))
    assert done.returncode == 0, done.stderr
    assert project.driver not in project.pids
    if more and "1" in more:
        assert len(project.pids) == 1
    assert set(project.counts().values()) == set(project.counts("score").values()) == {1}


def test_the_command_line_goes_before_the_file_and_set_can_take_it_away(project):
    project.write_config(SCORE, "engine: procesess\n")  # never reached
    done = project.run("--set", "engine=null")
    assert done.returncode == 0, done.stderr
    assert project.pids == {project.driver}
    project.forget_calls()
    project.write_config(SCORE, "engine: {processes: 0}\n")
    assert project.run("--redo", "--set", "engine.processes=1").returncode == 0


@pytest.mark.slow  # test_same_run and others do
@pytest.mark.parametrize(
    "engine", ["processes", pytest.param({"processes": 1}, marks=pytest.mark.slow)], ids=str
)
def test_a_script_says_it(project, engine):
    result = project.evaluate(engine, {"score": "APP:score"})
    assert result.summary["workflow"]["completed"] == 4
    assert os.getpid() not in project.pids


@pytest.mark.parametrize("step", ["workflow", pytest.param("score", marks=pytest.mark.slow)])
def test_one_step_may_have_an_engine_and_the_other_has_none(project, step):
    workflow = {"python": "APP:answer"}
    score = {"python": "APP:score"}
    {"workflow": workflow, "score": score}[step]["engine"] = {"processes": 1}
    project.write_config({"score": score}, workflow=workflow)
    done = project.run()
    assert done.returncode == 0, done.stderr
    by_step = {
        name: {call.pid for call in project.calls if call.step == name}
        for name in ("workflow", "score")
    }
    other = {"workflow": "score", "score": "workflow"}[step]
    assert by_step[other] == {project.driver}
    assert project.driver not in by_step[step]


def test_another_engine_for_a_step_changes_no_result(project):
    assert project.run().returncode == 0
    project.forget_calls()
    project.write_config(SCORE, workflow={"python": "APP:answer", "engine": {"processes": 1}})
    assert project.run().returncode == 0
    assert project.calls == []


@both_engines
def test_a_plan_is_the_same_says_the_engine_and_starts_nobody(project, engine):
    done = project.run("--plan", engine=engine)
    assert done.returncode == 0, done.stderr
    plan = "4 items × 1 trial: 0 kept, 4 new → 4 calls of workflow, 4 of score"
    where = "" if engine == ONE else "; workflow and score on "
    assert done.stdout.startswith(f"{plan}{where}")
    assert project.calls == []
    assert not project.left_over()
    assert not project.path.exists()


@pytest.mark.slow  # test_steps asks a model no more than once
@both_engines
def test_a_finished_run_makes_no_call_and_needs_no_worker(project, engine):
    assert project.run(engine=engine).returncode == 0
    project.forget_calls()
    # What cannot be imported in a worker is not missed: nothing is to be done there.
    done = project.run(engine=engine)
    assert done.returncode == 0, done.stderr
    assert project.calls == []


def test_no_more_workers_start_than_there_are_cells(project):
    project.rows = project.rows[:2]
    project.write_rows()
    project.evaluate({"processes": 64})
    started = [event for event in project.events() if event.get("event") == "worker_started"]
    assert len(started) == 2


def test_the_schema_for_editors_knows_it(project):
    schema = command("schema").out
    assert '"engine"' in schema
    assert "processes" in schema


def test_help_names_it():
    assert "--engine" in command("run", "--help").out


# ---- chosen badly -------------------------------------------------------------------------------

WRONG = {
    "a typo": "procesess",
    "another case": "Processes",
    "threads": "threads",
    "nothing": "''",
    "a number": "4",
    "true": "true",
    "a list": "[processes]",
    "no workers": "{processes: 0}",
    "fewer than none": "{processes: -2}",
    "half a worker": "{processes: 1.5}",
    "too many": "{processes: 10000}",
    "workers in words": "{processes: many}",
    "workers that are true": "{processes: true}",
    "two engines": "{processes: 2, ray: {address: auto}}",
    "no engine at all": "{}",
    "a key that is not known": "{procs: 2}",
    "a key that is not known, deeper": "{processes: {wrkers: 2}}",
    "memory in words": "{processes: {workers: 1, memory: lots}}",
    "no memory": "{processes: {workers: 1, memory: 0}}",
    "negative memory": "{processes: {workers: 1, memory: -2GB}}",
    "an address for processes": "{processes: {workers: 1, address: auto}}",
    "ray with nonsense": "{ray: 7}",
    "ray with a key that is not known": "{ray: {adress: auto}}",
    "ray with no workers": "{ray: {workers: 0}}",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_engine_is_an_error_before_the_first_call(project, name):
    project.write_config(SCORE, f"engine: {WRONG[name]}\n")
    done = command("run", cwd=project.folder)
    refused(done, "engine")
    assert "unknown key 'engine'" not in done.err
    assert "eval.yml:6" in done.err  # with its line
    assert project.calls == []
    assert not project.path.exists()


def test_a_typo_is_told_what_was_meant(project):
    project.write_config(SCORE, "engine: procesess\n")
    assert "processes" in command("run", cwd=project.folder).err
    refused(command("run", "--engine", "procesess", cwd=project.folder), "processes")
    for spelling in ("processes:4", "{processes: 4}", "none"):  # what takes them is named
        done = command("run", "--engine", spelling, cwd=project.folder)
        refused(done, "--set 'engine={processes: 4}'; for none, --set engine=null")


@pytest.mark.parametrize("step", ["workflow", "evaluator"])
@pytest.mark.parametrize("value", ["procesess", "{processes: 0}"])
def test_a_wrong_engine_of_a_step_names_the_step(project, step, value):
    engine = f"engine: {value}"
    workflow = "APP:answer" if step == "evaluator" else f"{{python: 'APP:answer', {engine}}}"
    score = "APP:score" if step == "workflow" else f"{{python: 'APP:score', {engine}}}"
    (project.folder / "eval.yml").write_text(
        f"dataset: rows.jsonl\nworkflow: {workflow}\nevaluators:\n  score: {score}\n".replace(
            "APP", project.module
        )
    )
    done = command("run", cwd=project.folder)
    refused(done, "engine", {"workflow": "workflow", "evaluator": "score"}[step])
    assert project.calls == []


@pytest.mark.parametrize(
    "engine",
    ["procesess", "", 2, True, ["processes"], {}, {"processes": 0}, {"processes": -1},
     {"processes": 1.5}, {"processes": 10_000}, {"processes": 2, "ray": {}}, ...,
     b"processes"],
    ids=repr,
)  # fmt: skip
def test_a_script_is_told_too_before_anything_is_opened(project, engine):
    with pytest.raises((TypeError, ValueError, limpet.LimpetError), match="engine"):
        project.evaluate(engine)
    assert project.calls == []
    assert not project.path.exists()


@pytest.mark.parametrize("function", [limpet.plan, limpet.evaluate])
def test_an_engine_is_refused_the_same_by_plan(project, function):
    with project.importable(), pytest.raises((TypeError, ValueError), match="engine"):
        function(project.rows, project.workflow, run=project.path, engine="procesess")


# ---- what is shown ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pace", "said"), [(64, "(2 calls of score at a time, not 64)"), (2, ""), ("auto", "")]
)
def test_the_plan_says_where_workers_are_fewer_than_the_pace(project, pace, said):
    with project.importable():
        plan = limpet.plan(
            project.rows,
            project.workflow,
            [importlib.import_module(project.module).score],
            run=project.path,
            engine={"processes": {"workers": 2}},
            pace=pace,
        )
    assert "on 2 workers" in str(plan)
    assert ("at a time" in str(plan)) == bool(said)
    assert said in str(plan)


def test_events_and_the_story_on_disk_name_the_worker_that_ran_a_cell(project):
    done = project.run("--json", engine=WORKER)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    for call in project.calls:
        of_cell = [one for one in events if (one.get("step"), one.get("id")) == call[:2]]
        told = json.dumps([{**one, "id": "", "seconds": 0} for one in of_cell])
        assert str(call.pid) in told, told
    story = (project.path / "events.jsonl").read_text()
    assert all(str(pid) in story for pid in project.pids)


def test_progress_and_status_show_the_workers(tmp_path):
    project = Project(tmp_path, CODE, rows=4, workflow="answer_when_told")
    with project.started("--json", engine=WORKER) as process:
        wait_until(lambda: len(project.calls) == 4, "four calls")
        status = json.loads(project.command("status", "--json"))
        assert "worker" in json.dumps(status)
        line = wait_until(
            lambda: (line := process.stdout.readline()) and '"progress"' in line and line,
            "progress",
        )
        while "worker" not in line:  # the first ones are from before the workers were there
            line = process.stdout.readline()
            assert line
        project.tell()
        process.communicate(timeout=100)
