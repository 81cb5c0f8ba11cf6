"""The live file of the real toolkit's runs is what the final file will be, whoever runs them."""

import json
from collections import Counter

import pytest
from e2e.nat_server import column, output, serving
from peers.nat_environment import UnavailableError, nat_environment
from peers.nat_eval_project import CLEANUP, QUICK, SIX, SLOW, Project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # the first one makes the environment

FILTER = (
    "output_dir: ./out",
    "output: {dir: ./out, cleanup: true, workflow_output_step_filter: [TOOL_START, LLM_END]}",
)
BARE = ("file_path: data.json", "file_path: data.json\n      structure: {disable: true}")


@pytest.fixture(scope="module")
def commands():
    try:
        return nat_environment()
    except UnavailableError as error:
        pytest.skip(f"the NeMo Agent Toolkit cannot be installed here: {error}")


@pytest.fixture(params=["nat eval", "limpet run"])
def project(request, commands, tmp_path):
    made = Project(commands, tmp_path / "project")
    return made if request.param == "nat eval" else made.use_limpet()


def as_set(rows):
    """Return rows in an order that is the same for live and final files."""
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def types_of(rows):
    return {step["payload"]["event_type"] for row in rows for step in row["intermediate_steps"]}


@pytest.mark.parametrize("reps", [1, 2])
def test_it_is_the_final_file_line_by_line(project, reps):
    project.ask(*QUICK)
    project.evaluate("--reps", str(reps))
    final = output(project.folder)
    assert as_set(project.live()) == as_set(final)
    assert len(final) == 4 * reps
    assert types_of(final) == {"LLM_END", "TOOL_END"}
    assert not {"_limpet", "_crc"} & {name for row in project.live() for name in row}


def test_it_has_the_steps_of_the_filter(project):
    project.configure(*FILTER)
    project.ask(*QUICK)
    project.evaluate()
    assert as_set(project.live()) == as_set(output(project.folder))
    assert types_of(project.live()) == {"TOOL_START", "LLM_END"}


def test_without_a_structure_it_has_the_outputs(project):
    project.configure(*BARE)
    project.configure("_type: limpet_repeat", "_type: limpet_objects")
    project.ask(*QUICK)
    project.evaluate(code=1 if project.words[1] == "run" else 0)  # nothing is expected there
    final = output(project.folder)
    assert all(isinstance(row, dict) for row in final)
    assert as_set(project.live()) == as_set(final)


def test_of_a_served_workflow_it_is_the_final_file_too(project):
    project.ask(*QUICK)
    with serving() as server:
        server.broken = {"Repeat a2"}
        code = 1 if project.words[1] == "run" else 0
        project.evaluate("--endpoint", server.url, code=code)
    final = [row for row in output(project.folder) if row["generated_answer"] is not None]
    assert len(final) == 3  # what failed has no line
    assert as_set(project.live()) == as_set(final)


def test_it_has_each_item_the_moment_it_is_finished(project):
    project.configure(*CLEANUP)
    project.ask(*SIX)
    project.killed(until=lambda: len(project.live()) == 4, hold="Wait")
    before = project.live()
    assert {row["question"] for row in before} == set(QUICK)
    assert types_of(before) == {"LLM_END", "TOOL_END"}
    project.calls()
    project.evaluate()
    assert project.calls() == Counter(SLOW)
    assert as_set(project.live()) == as_set(output(project.folder))
    assert as_set(before) == as_set(row for row in project.live() if row["question"] in QUICK)


def test_a_line_that_cannot_be_written_is_logged_and_harms_no_other(commands, tmp_path):
    project = Project(commands, tmp_path / "project")
    project.configure("_type: limpet_repeat", "_type: limpet_awkward")
    project.ask("Repeat a0", "Tuple a1", "Repeat a2")
    said = project.evaluate()
    assert sorted(row["generated_answer"] for row in project.live()) == ["a0", "a2"]
    assert "workflow_output.jsonl: a line could not be written" in said
    assert "TypeError: keys must be str" in said


def test_an_item_that_is_redone_has_one_line(commands, tmp_path):
    project = Project(commands, tmp_path / "project").use_limpet()
    project.ask(*QUICK)
    project.evaluate()
    project.calls()
    project.evaluate("--redo-item", "q1")
    assert project.calls() == Counter(["Repeat a1"])
    assert as_set(project.live()) == as_set(output(project.folder))
    project.evaluate()
    assert as_set(project.live()) == as_set(output(project.folder))


# ---- directories of before, and of the other command --------------------------------------------


def stopped(project):
    """Stop a run of six items when four have their answers."""
    project.ask(*SIX)
    project.killed(until=lambda: len(project.live()) == 4, hold="Wait")
    project.calls()
    return project


def test_a_run_of_before_is_resumed_and_its_column_gets_its_new_name(commands, tmp_path):
    project = stopped(Project(commands, tmp_path / "project").use_limpet())
    out = project.folder / "out"
    (out / "workflow_column.jsonl").rename(out / "workflow_output.jsonl")
    project.evaluate()
    assert project.calls() == Counter(SLOW)
    assert len(column(project.folder)) == 6
    assert as_set(project.live()) == as_set(output(project.folder))


def test_limpet_sets_aside_what_a_killed_nat_eval_has_left(commands, tmp_path):
    project = stopped(Project(commands, tmp_path / "project"))
    left = project.live()
    said = project.use_limpet().evaluate()
    assert "holds results of nat eval: they are kept as" in said
    assert project.calls() == Counter(SIX)
    assert as_set(project.live()) == as_set(output(project.folder))
    [aside] = project.folder.glob("out.2*")
    lines = (aside / "workflow_output.jsonl").read_text(encoding="utf-8").splitlines()
    assert as_set(map(json.loads, lines)) == as_set(left)


@pytest.mark.parametrize("cleanup", [True, False])
def test_nat_eval_does_not_delete_a_run_of_limpet(commands, tmp_path, cleanup):
    project = stopped(Project(commands, tmp_path / "project").use_limpet())
    if cleanup:
        project.configure(*CLEANUP)
    project.words = [commands / "nat", "eval"]
    said = project.evaluate()
    assert project.calls() == Counter(SIX)
    assert as_set(project.live()) == as_set(output(project.folder))
    aside = list(project.folder.glob("out.2*"))
    assert len(aside) == cleanup
    if cleanup:
        assert "held a run of Limpet: it is kept as" in said
        (project.folder / "out").rename(project.folder / "theirs")
        aside[0].rename(project.folder / "out")
    project.use_limpet().evaluate()
    assert project.calls() == Counter(SLOW)


def test_a_run_of_before_is_not_overwritten_by_nat_eval(commands, tmp_path):
    project = stopped(Project(commands, tmp_path / "project").use_limpet())
    out = project.folder / "out"
    (out / "workflow_column.jsonl").rename(out / "workflow_output.jsonl")
    project.words = [commands / "nat", "eval"]
    project.evaluate()
    project.calls()
    project.use_limpet().evaluate()
    assert project.calls() == Counter(SLOW)
