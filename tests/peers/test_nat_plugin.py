"""The real `nat eval` with our plug-in: killed, run again, and compared with an undisturbed one."""

import json
import signal
import subprocess
from collections import Counter

import pytest
from e2e.nat_server import column, output, serving
from peers.nat_environment import UnavailableError, environment_variables, nat_environment
from peers.nat_eval_project import CLEANUP, COMMAND_S, JOBS, QUICK, SIX, SLOW, Project, final

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # the first one makes the environment


@pytest.fixture(scope="module")
def commands():
    try:
        return nat_environment()
    except UnavailableError as error:
        pytest.skip(f"the NeMo Agent Toolkit cannot be installed here: {error}")


@pytest.fixture
def project(commands, tmp_path):
    return Project(commands, tmp_path / "interrupted")


@pytest.fixture
def undisturbed(commands, tmp_path):
    return Project(commands, tmp_path / "undisturbed")


@pytest.mark.parametrize(("output_block", "reps"), [(CLEANUP, 1), (JOBS, 2)])
def test_a_killed_run_resumes_with_the_same_command(project, undisturbed, output_block, reps):
    flags = ("--reps", str(reps))
    for where in (project, undisturbed):
        where.configure(*output_block)
        where.ask(*SIX)
    project.killed(*flags, until=project.reached(4 * reps, 6 * reps), hold="Wait")
    in_flight = project.calls() - Counter(QUICK * reps)
    assert in_flight == Counter(SLOW * reps)
    said = project.evaluate(*flags)
    assert f"{4 * reps} of {6 * reps} answers found" in said
    assert project.calls() == in_flight  # and nothing else
    undisturbed.evaluate(*flags, LIMPET_NAT_JOURNAL="0")
    assert final(project) == final(undisturbed)
    assert project.journals() == []


def test_a_killed_run_of_a_served_workflow_resumes(project, undisturbed):
    questions = [f"Repeat b{n}" for n in range(12)]
    for where in (project, undisturbed):
        where.configure(*CLEANUP)
        where.ask(*questions)
    with serving() as server:
        flags = ("--endpoint", server.url)
        server.free = 5
        server.gate.clear()
        project.killed(*flags, until=lambda: project.journaled() == 5 and len(server.asked) == 9)
        server.gate.set()
        in_flight = server.asked[5:]
        server.asked.clear()
        assert "5 of 12 answers found" in project.evaluate(*flags)
        assert sorted(server.asked) == sorted(in_flight + questions[9:])
        undisturbed.evaluate(*flags)
    assert final(project) == final(undisturbed)
    assert project.journals() == []


def test_restored_answers_have_their_own_steps_and_usage(project):
    project.ask(*SIX)
    project.killed(until=project.reached(4, 6), hold="Wait")
    before = {
        record["_limpet"]["id"]: record["steps"]
        for record in column(project.folder, where="out.journal")
    }
    said = project.evaluate()
    for row in output(project.folder)[:4]:
        wanted = [
            step
            for step in before[row["id"]]
            if step["payload"]["event_type"] in ("LLM_END", "TOOL_END")
        ]
        assert row["intermediate_steps"] == wanted
    # From the first restored step to the last new one: the toolkit started again meanwhile.
    [runtime] = [line.split()[-1] for line in said.splitlines() if "Total Runtime" in line]
    assert float(runtime.removesuffix("s")) > 1


def test_a_run_killed_while_it_scores_has_all_its_answers(project):
    project.ask(*QUICK)
    project.killed(until=project.reached(4, 4), hold="scores")
    project.calls()
    project.evaluate()
    assert project.calls() == Counter()
    assert output(project.folder, "correct")["average_score"] == 1.0


def test_an_interrupted_run_resumes(project):
    project.ask(*SIX)
    with project.held(until=project.reached(4, 6), hold="Wait") as process:
        process.send_signal(signal.SIGINT)
        process.wait(COMMAND_S)
    project.calls()
    project.evaluate()
    assert project.calls() == Counter(SLOW)


def test_an_edited_question_of_a_killed_run_runs_again_and_no_other(project):
    project.ask(*SIX)
    project.killed(until=project.reached(4, 6), hold="Wait")
    project.calls()
    project.ask("Repeat a0", "Repeat again a1", *SIX[2:])
    project.evaluate()
    assert project.calls() == Counter(["Repeat again a1", *SLOW])
    assert [row["generated_answer"] for row in output(project.folder)] == [
        question.split()[-1] for question in SIX
    ]
    assert project.journals() == []


# ---- a run that reached its end -----------------------------------------------------------------


def test_after_a_failed_item_the_mended_workflow_answers_everything(project):
    project.own_plugin()
    project.ask("Repeat a0", "Repeat a1", "Raise a2", "Repeat a3")
    assert "INTERRUPTED" in project.evaluate()
    assert project.journals() == []  # workflow_output.json has the answers
    project.calls()
    project.edit_code("return question.rsplit(maxsplit=1)[-1]", "return 'new'")
    project.edit_code('question.startswith("Raise")', "False")
    assert "0 of 4 answers found" in project.evaluate()
    assert sum(project.calls().values()) == 4
    assert {row["generated_answer"] for row in output(project.folder)} == {"new"}


def test_after_failed_calls_of_a_served_workflow_everything_is_asked_again(project):
    project.ask(*QUICK)
    with serving() as server:
        server.broken = {"Repeat a1"}
        project.evaluate("--endpoint", server.url)
        server.asked.clear()
        server.broken = set()
        project.evaluate("--endpoint", server.url)
        assert sorted(server.asked) == QUICK
    assert output(project.folder, "correct")["average_score"] == 1.0


def test_without_evaluators_a_finished_run_is_not_replayed_and_its_answers_are_kept(project):
    project.configure("    correct: {_type: exact_match}", "    {}")
    for questions in (QUICK, QUICK[:3]):
        project.ask(*questions)
        said = project.evaluate()
        assert f"0 of {len(questions)} answers found" in said
        assert f"they are in {project.folder}/out.journal.ended" in said
        assert project.calls() == Counter(questions)
        assert project.journals() == ["out.journal.ended"]
        kept = column(project.folder, where="out.journal.ended")  # of the last one
        assert sorted(one["output"] for one in kept) == [one.split()[-1] for one in questions]


def test_a_run_ends_only_its_own_answers(project):
    project.configure(*CLEANUP)
    project.ask(QUICK[0])
    (project.folder / "data.json").rename(project.folder / "smoke.json")
    project.ask(*SIX)
    project.killed(until=project.reached(4, 6), hold="Wait")
    project.calls()
    for _ in range(2):
        project.evaluate("--dataset", "smoke.json")
        assert project.calls() == Counter(QUICK[:1])
        assert project.journals() == ["out.journal"]
    assert "4 of 6 answers found" in project.evaluate()
    assert project.calls() == Counter(SLOW)
    assert len(output(project.folder)) == 6
    assert project.journals() == []


# ---- what a killed run's answers depend on ------------------------------------------------------


def test_after_an_edit_of_the_code_a_killed_run_is_asked_everything(project):
    project.own_plugin()
    project.ask(*SIX)
    project.killed(until=project.reached(4, 6), hold="Wait")
    project.calls()
    project.edit_code("return question.rsplit(maxsplit=1)[-1]", "return 'new'")
    said = project.evaluate()
    assert "4 answers on disk are not used: the workflow's code changed afterwards" in said
    assert project.calls() == Counter(SIX)
    assert {row["generated_answer"] for row in output(project.folder)} == {"new"}
    assert project.journals() == []


def test_another_address_is_another_workflow_and_does_not_end_the_first(project):
    project.ask(*QUICK)
    with serving() as first, serving() as second:
        first.free = 2
        first.gate.clear()
        project.killed("--endpoint", first.url, until=lambda: project.journaled() == 2)
        first.gate.set()
        said = project.evaluate("--endpoint", second.url)
        assert "2 answers on disk are not used: the address changed afterwards" in said
        assert sorted(second.asked) == QUICK
        asked = set(first.asked[:2])
        first.asked.clear()
        assert "2 of 4 answers found" in project.evaluate("--endpoint", first.url)
        assert set(first.asked) == set(QUICK) - asked
    assert project.journals() == []


def test_another_judge_does_not_ask_the_workflow_again(project):
    judged = "llms: {{judge: {{_type: openai, model_name: {}, api_key: k}}}}\nworkflow:"
    project.configure("workflow:", judged.format("small"))
    project.configure(
        "exact_match}", "exact_match}\n    other: {_type: trajectory, llm_name: judge}"
    )
    project.ask(*SIX)
    project.killed(until=project.reached(4, 6), hold="Wait")
    project.calls()
    project.configure("model_name: small", "model_name: large")
    project.killed(until=lambda: project.asked() != [], hold="Wait")
    assert set(project.calls()) <= set(SLOW)


def test_an_edited_workflow_is_asked_everything(project):
    project.ask(*SIX)
    project.killed(until=project.reached(4, 6), hold="Wait")
    project.calls()
    project.configure("_type: limpet_repeat", "_type: limpet_objects")
    assert "0 of 6 answers found" in project.evaluate()
    assert project.calls() == Counter(SIX)
    assert all('"word"' in row["generated_answer"] for row in output(project.folder))


def test_a_value_that_is_overridden_counts_and_the_block_of_the_server_does_not(project):
    project.ask(*SIX)
    project.killed(until=project.reached(4, 6), hold="Wait")
    project.calls()
    project.killed(
        *("--override", "functions.objects._type", "limpet_numbers"),
        until=project.reached(8, 6),
        hold="Wait",
    )
    assert project.calls() == Counter(SIX)
    project.configure("general:\n", "general:\n  enable_per_user_monitoring: true\n", most=1)
    project.evaluate()
    assert project.calls() == Counter(SLOW)


def test_a_finished_run_starts_anew(project):
    project.ask(*QUICK)
    for _ in range(2):
        assert "0 of 4 answers found" in project.evaluate()
        assert project.calls() == Counter(QUICK)
        assert project.journals() == []


def test_numbers_and_other_values_are_restored_as_they_were(project):
    project.configure("_type: limpet_repeat", "_type: limpet_numbers")
    project.ask("Number 1", "Number 2", "Wait 3")
    project.killed(until=project.reached(2, 3), hold="Wait")
    first = [record["output"] for record in column(project.folder, where="out.journal")]
    project.calls()
    project.evaluate()
    assert project.calls() == Counter(["Wait 3"])
    answers = [row["generated_answer"] for row in output(project.folder)]
    assert sorted(answers[:2]) == sorted(first)
    assert {type(answer) for answer in answers} == {type(answers[2])}


def test_answers_of_the_dataset_are_left_to_the_toolkit(project):
    project.ask(*QUICK)
    file = project.folder / "data.json"
    rows = json.loads(file.read_text(encoding="utf-8"))
    rows[1]["generated_answer"] = "from before"
    file.write_text(json.dumps(rows), encoding="utf-8")
    project.evaluate("--skip_completed_entries")
    assert project.calls() == Counter(QUICK) - Counter([QUICK[1]])
    assert output(project.folder)[1]["generated_answer"] == "from before"
    assert project.journals() == []


def test_it_can_be_turned_off(project):
    project.ask("Repeat a0", "Raise a1")
    said = project.evaluate(LIMPET_NAT_JOURNAL="0")
    assert "limpet" not in said.replace(str(project.folder), "").replace("limpet_", "")
    assert project.journals() == []
    assert not (project.folder / "out/workflow_output.jsonl").exists()
    assert loaded_by_nat(project.commands, LIMPET_NAT_JOURNAL="0")[0] == "EvaluationRun"


def test_a_place_that_cannot_be_written_costs_the_journal_and_nothing_else(project):
    project.ask(*QUICK)
    (project.folder / "out.journal").write_text("mine", encoding="utf-8")
    said = project.evaluate()
    assert "limpet: no journal" in said
    assert output(project.folder, "correct")["average_score"] == 1.0
    assert (project.folder / "out.journal").read_text(encoding="utf-8") == "mine"


def test_a_second_run_at_the_same_time_goes_on_without_a_journal(project):
    project.ask(*SIX)
    with project.held(until=project.reached(4, 6), hold="Wait"):
        project.calls()
        said = project.evaluate()
        assert "is writing here" in said
        assert project.calls() == Counter(SIX)
        assert output(project.folder, "correct")["average_score"] == 1.0
    project.evaluate()
    assert project.calls() == Counter(SLOW)  # the first one's answers were not touched


def loaded_by_nat(commands, **variables):
    """Return the name of the class that `nat eval` uses, and Limpet's modules that are loaded."""
    code = (
        "import sys, nat.cli.entrypoint, limpet.integrations.nat.eval_plugin as plugin;"
        "import nat.plugins.eval.cli.evaluate as command;"
        "print(command.EvaluationRun.__name__, [m for m in sys.modules if m.startswith('limpet')])"
    )
    done = subprocess.run(
        [commands / "python", "-c", code],
        env=environment_variables(**variables),
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=True,
    )
    return done.stdout.split(maxsplit=1)


def test_nat_help_imports_nothing_of_the_journal(commands):
    name, modules = loaded_by_nat(commands)
    assert name == "JournaledRun"
    assert "journal" not in modules
