"""What users of the real toolkit would lose, pay twice, or read differently: none of it.

Runs that are cut and killed at random, several configurations and datasets in one output directory,
directories and journals that cannot be written.
"""

import json
import os
import random
import shutil
import subprocess
from collections import Counter

import pytest
from e2e.nat_server import column, output, serving, wait_until
from peers.nat_environment import UnavailableError, nat_environment
from peers.nat_eval_project import CLEANUP, COMMAND_S, QUICK, SIX, SLOW, Project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # the first one makes the environment


@pytest.fixture(scope="module")
def commands():
    try:
        return nat_environment()
    except UnavailableError as error:
        pytest.skip(f"the NeMo Agent Toolkit cannot be installed here: {error}")


@pytest.fixture
def project(commands, tmp_path):
    return Project(commands, tmp_path / "project")


def ask_also(project, name, *questions):
    """Write a second dataset."""
    data = project.folder / "data.json"
    kept = data.read_bytes() if data.exists() else None
    project.ask(*questions)
    data.rename(project.folder / name)
    if kept is not None:
        data.write_bytes(kept)


def test_limpet_does_not_pay_twice_after_a_session_over_another_dataset(project):
    project.use_limpet().configure(*CLEANUP)
    project.ask(*SIX)
    ask_also(project, "smoke.json", "Repeat smoke")
    project.killed(until=lambda: len(column(project.folder)) == 4, hold="Wait")
    project.calls()
    for asked in (1, 0):
        said = project.evaluate("--dataset", "smoke.json")
        assert sum(project.calls().values()) == asked
    assert f"{project.folder}/data.json is not finished" in said
    project.evaluate()
    assert project.calls() == Counter(SLOW)
    assert list(project.folder.glob("out.2*")) == []
    project.evaluate()  # now it is finished: it starts anew, as cleanup says
    assert project.calls() == Counter(SIX)


def test_averages_are_rounded_as_the_toolkit_rounds(project):
    project.configure("{_type: exact_match}", "{_type: corpus_equal}")
    project.ask("Repeat a0", "Repeat a1", "Repeat a2")
    data = project.folder / "data.json"
    data.write_text(data.read_text(encoding="utf-8").replace('"answer": "a1"', '"answer": "b"'))
    project.evaluate()
    theirs = output(project.folder, "correct")["average_score"]
    shutil.rmtree(project.folder / "out")
    project.use_limpet().evaluate()
    assert output(project.folder, "correct")["average_score"] == theirs == 0.67


def test_a_step_that_the_toolkit_rejects_is_left_out_with_a_line(project):
    project.configure("{_type: exact_match}", "{_type: corpus_equal}")
    project.ask(*QUICK)
    with serving() as server:
        server.odd = {"Repeat a1"}
        said = project.use_limpet().evaluate("--endpoint", server.url)
    assert said.count("is left out: the toolkit rejects it") == 1
    assert "q1: step 3 is left out" in said
    assert output(project.folder, "correct")["average_score"] == 1.0


def test_an_output_directory_inside_another_ones_lives(project):
    project.use_limpet()
    outer = (project.folder / "config.yml").read_text(encoding="utf-8")
    inner = outer.replace("output_dir: ./out", "output: {dir: ./out/deep/inner, cleanup: true}")
    (project.folder / "inner.yml").write_text(inner, encoding="utf-8")
    project.configure(*CLEANUP)
    project.ask(*SIX)
    inside = ("--config_file", "inner.yml")
    project.killed(
        *inside, until=lambda: len(column(project.folder, where="out/deep/inner")) == 4, hold="Wait"
    )
    for _ in range(2):  # the second one sets the first one's results aside, and nothing else
        project.evaluate()
    project.calls()
    project.evaluate(*inside)
    assert project.calls() == Counter(SLOW)
    assert len(output(project.folder, where="out/deep/inner")) == 6


def test_a_live_file_without_a_line_does_not_make_results_of_nat_eval_a_run(project):
    project.ask(*QUICK)
    project.evaluate("--endpoint", "http://127.0.0.1:9")  # nobody answers
    assert project.live() == []
    project.evaluate()
    project.calls()
    said = project.use_limpet().evaluate("--skip-completed-entries")
    assert "holds results of nat eval: they are kept as" in said
    assert "4 imported" in said
    assert project.calls() == Counter()
    assert output(project.folder, "correct")["average_score"] == 1.0


def test_limpet_imports_what_a_killed_nat_eval_has_left(project):
    project.ask(*SIX)
    project.killed(until=lambda: len(project.live()) == 4, hold="Wait")
    project.calls()
    assert "4 imported" in project.use_limpet().evaluate("--skip-completed-entries")
    assert project.calls() == Counter(SLOW)


def test_answers_that_no_final_file_has_can_be_imported(project):
    project.configure("    correct: {_type: exact_match}", "    {}")
    project.ask(*QUICK)
    said = project.evaluate()
    rows = project.folder / "out.journal.ended" / "answers.jsonl"
    assert f"import them: limpet import {rows} --into CONFIG" in said
    project.words = [project.commands / "limpet", "import", rows, "--into", "config.yml"]
    done = subprocess.run(
        **{**project.command(), "args": project.words}, capture_output=True, text=True, check=False
    )
    assert "4 imported" in done.stdout + done.stderr


def test_a_cleanup_spares_the_journal_of_a_directory_inside(project):
    outer = (project.folder / "config.yml").read_text(encoding="utf-8")
    inner = outer.replace("output_dir: ./out", "output: {dir: ./out/inner, cleanup: true}")
    (project.folder / "inner.yml").write_text(inner, encoding="utf-8")
    project.configure(*CLEANUP)
    project.ask(*SIX)
    inside = ("--config_file", "inner.yml")
    project.killed(
        *inside, until=lambda: len(column(project.folder, where="out/inner.journal")) == 4,
        hold="Wait",
    )  # fmt: skip
    project.evaluate()
    project.calls()
    assert "4 of 6 answers found" in project.evaluate(*inside)
    assert project.calls() == Counter(SLOW)


def test_what_changes_no_answer_does_not_ask_again(project):
    project.ask(*SIX)
    project.killed(until=project.reached(4, 6), hold="Wait")
    project.calls()
    same = ("--override", "eval.general.max_concurrency", "1", "--dataset", "data.json")
    assert "4 of 6 answers found" in project.evaluate(*same)
    assert project.calls() == Counter(SLOW)


# ---- what cannot be written ---------------------------------------------------------------------


@pytest.fixture
def mortal(project):
    """The project, with a command for which permissions count, even if root runs it."""
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may write everywhere, and there is no setpriv to take that away")
        words = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner", "--"]
        project.words = [*words, *project.words]
    return project


def closed(path):
    """Make a directory and what is in it read-only."""
    for one in (path, *path.rglob("*")):
        one.chmod(0o555 if one.is_dir() else 0o444)


def opened(path):
    for one in (path, *path.rglob("*")):
        one.chmod(0o755 if one.is_dir() else 0o644)


def test_a_journal_that_may_not_be_written_is_left_alone_and_nat_eval_runs(mortal):
    mortal.ask(*SIX)
    mortal.killed(until=mortal.reached(4, 6), hold="Wait")
    mortal.calls()
    journal = mortal.folder / "out.journal"
    closed(journal)
    assert "limpet: no journal" in mortal.evaluate()
    assert mortal.calls() == Counter(SIX)
    assert output(mortal.folder, "correct")["average_score"] == 1.0
    opened(journal)
    assert "4 of 6 answers found" in mortal.evaluate()
    assert mortal.calls() == Counter(SLOW)


def test_where_no_journal_may_be_made_it_is_said_and_nat_eval_runs(mortal):
    mortal.ask(*QUICK)
    (mortal.folder / "out").mkdir()
    mortal.calls_file.touch()
    command = mortal.command()
    mortal.folder.chmod(0o555)  # the journal would lie in it, beside the output directory
    said = subprocess.run(
        **command, capture_output=True, text=True, timeout=COMMAND_S, check=True
    ).stderr
    mortal.folder.chmod(0o755)
    assert "limpet: no journal" in said
    assert mortal.calls() == Counter(QUICK)
    assert output(mortal.folder, "correct")["average_score"] == 1.0


def test_an_output_directory_that_cannot_be_written_costs_the_live_file_only(mortal):
    mortal.ask(*QUICK)
    (mortal.folder / "out").mkdir()
    closed(mortal.folder / "out")
    assert "limpet: no live file" in mortal.evaluate()
    opened(mortal.folder / "out")
    assert mortal.calls() == Counter(QUICK)
    assert mortal.journals() == ["out.journal.ended"]  # the toolkit could not write them either
    assert len(column(mortal.folder, where="out.journal.ended")) == 4


@pytest.mark.parametrize("damage", ["a flipped bit", "half a line", "zeros", "no longer a column"])
def test_a_damaged_journal_costs_the_answers_that_are_damaged(project, damage):
    project.ask(*SIX)
    project.killed(until=project.reached(4, 6), hold="Wait")
    project.calls()
    file = project.folder / "out.journal/workflow_output.jsonl"
    content = bytearray(file.read_bytes())
    if damage == "a flipped bit":
        content[len(content) // 2] ^= 1
    elif damage == "half a line":
        del content[-50:]
    elif damage == "zeros":
        content[:] = bytes(len(content))
    else:
        content[:] = b'{"output": 1}\n'
    file.write_bytes(content)
    kept = 3 if damage in ("a flipped bit", "half a line") else 0
    assert f"{kept} of 6 answers found" in project.evaluate()
    assert sum(project.calls().values()) == 6 - kept
    assert output(project.folder, "correct")["average_score"] == 1.0


# ---- kill -9, again and again -------------------------------------------------------------------


@pytest.mark.parametrize("command", ["nat eval", "limpet run"])
def test_two_configurations_in_one_output_directory_killed_at_random(project, command):
    """Two commands take turns in one output directory, and each is killed after a few answers.

    A question is asked again only if it was in flight when its command was killed.
    """
    if command == "limpet run":
        project.use_limpet()
    project.configure(*CLEANUP)
    ask_also(project, "second.json", *[f"Repeat b{n}" for n in range(12)])
    project.ask(*[f"Repeat a{n}" for n in range(12)])
    text = (project.folder / "config.yml").read_text(encoding="utf-8")
    second = text.replace("data.json", "second.json")
    (project.folder / "second.yml").write_text(second, encoding="utf-8")
    lot = random.Random(7)
    asked = Counter()
    with serving() as server:
        server.answer = lambda question: question.split()[-1]
        runs = {"first": (), "second": ("--config_file", "second.yml")}
        finished = set()
        kills = 0
        while len(finished) < len(runs):
            name = lot.choice(sorted(runs.keys() - finished))
            server.asked.clear()
            server.free = lot.randint(1, 5)
            server.gate.clear()
            flags = ("--endpoint", server.url, *runs[name])
            with (project.folder / "log.txt").open("ab") as log:
                process = subprocess.Popen(**project.command(*flags), stdout=log, stderr=log)
            free, four = server.free, server.free + 4

            def is_over(process=process, free=free, four=four):
                stuck = server.in_flight and len(server.asked) - server.in_flight >= free
                return process.poll() is not None or len(server.asked) >= four or stuck

            wait_until(is_over)
            if process.poll() is None:
                process.kill()
                kills += 1
            process.wait()
            if process.returncode == 0:
                finished.add(name)
            server.gate.set()
            wait_until(lambda: server.in_flight == 0)
            asked.update(server.asked)
    assert kills >= 4
    extra = sum(asked.values()) - 24
    assert set(asked) == {f"Repeat {letter}{n}" for letter in "ab" for n in range(12)}
    assert extra <= 4 * kills  # those in flight
    assert max(asked.values()) < kills
    rows = output(project.folder)
    assert len(rows) == 12
    assert all(row["generated_answer"] == row["answer"] for row in rows)
    live = (project.folder / "out/workflow_output.jsonl").read_text(encoding="utf-8")
    assert sorted(json.loads(line)["id"] for line in live.splitlines()) == sorted(
        row["id"] for row in rows
    )
