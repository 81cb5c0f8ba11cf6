"""`limpet run`: its summary, `--fail-under`, `--against`, and the keys of an evaluator."""

import json

import pytest

from tests.numbers import references as ref
from tests.numbers.command import limpet, refused
from tests.numbers.projects import Project
from tests.numbers.reading import about, bounds, compare, compared, interval, says, score
from tests.numbers.runs import make


def ended(done):
    return json.loads(done.out.splitlines()[-1])


def test_the_summary_of_a_run_has_the_interval_and_its_method(tmp_path):
    done = Project(tmp_path, "1111111100").run()
    assert done.code == 0
    assert "95%" in done.out
    assert "wilson" in done.said.lower()
    assert all(says(done.out, end) for end in ref.wilson(8, 10))


def test_the_summary_of_a_run_with_failures_is_headed_by_its_bounds(tmp_path):
    done = Project(tmp_path, "11111111ff").run()
    assert done.code == 1
    assert says(done.out, ref.wilson(8, 10)[0])
    assert "completed" in done.said


# ---- --fail-under -------------------------------------------------------------------------------

UNDER = {
    "all right": ("1" * 10, "correct=0.9", 0, None),
    "one wrong of ten, and not under": ("1" * 9 + "0", "correct=0.9", 0, None),
    "two wrong of ten": ("1" * 8 + "00", "correct=0.9", 1, 0.8),
    "two failed of ten count as worst": ("1" * 8 + "ff", "correct=0.9", 1, 0.8),
    "all failed is the worst there is": ("f" * 6, "correct=0.5", 1, 0.0),
}


@pytest.mark.parametrize(("answers", "floor", "code", "mean"), UNDER.values(), ids=UNDER)
def test_fail_under_looks_at_the_mean_with_failures_as_worst(tmp_path, answers, floor, code, mean):
    end = ended(Project(tmp_path, answers).run("--fail-under", floor, "--json"))
    assert interval(end["summary"]["scores"]["correct"]) or "1" not in answers
    assert end["exit_code"] == code
    if mean is not None:
        assert says(end["why"], mean) or f"{mean:g}" in end["why"]
        assert ("worst" in end["why"]) == ("f" in answers)


def test_the_worst_is_the_end_of_the_declared_range(tmp_path):
    project = Project(tmp_path, "1111f", evaluator="stars", keys=", range: [1, 5]")
    end = ended(project.run("--fail-under", "correct=2.9", "--json"))
    assert end["exit_code"] == 1
    assert "2.6" in end["why"]  # four of three stars, and one


# ---- what an eval.yml says of an evaluator ------------------------------------------------------


def test_range_and_group_are_keys_of_an_evaluator(tmp_path):
    project = Project(
        tmp_path,
        "110111" * 4,
        evaluator="stars",
        keys=", range: [1, 5], group: topic, higher_is_better: true",
        topic=lambda n: f"doc {n // 3}",
    )
    done = project.run()
    assert done.code == 0, done.said
    low, high = interval(score(project.path))
    assert 1 <= low < 2 + 5 / 6 < high <= 5


WRONG_KEYS = {
    "a range upside down": (", range: [5, 1]", "range"),
    "a range of one number": (", range: [5]", "range"),
    "a range of words": (", range: [low, high]", "range"),
    "an empty range": (", range: [1, 1]", "range"),
    "a group that is a list": (", group: [a, b]", "group"),
    "higher_is_better that is a word": (", higher_is_better: often", "higher_is_better"),
    "a group that no row has": (", group: document", "document"),
}


@pytest.mark.parametrize(("keys", "word"), WRONG_KEYS.values(), ids=WRONG_KEYS)
def test_a_wrong_key_is_an_error_before_the_first_call(tmp_path, keys, word):
    project = Project(tmp_path, "1101", keys=keys, topic=lambda n: "x")
    done = project.run()
    refused(done, word)
    assert "unknown key" not in done.err
    assert "unexpected" not in done.err
    assert project.calls == []


def test_declaring_a_range_later_runs_nothing_again(tmp_path):
    project = Project(tmp_path, "1101", evaluator="stars")
    project.run()
    project.write(evaluator="stars", keys=", range: [1, 5]")
    done = project.run()
    assert done.code == 0, done.said
    assert len(project.calls) == 4
    assert "4 kept" in done.err
    assert interval(score(project.path)) == about(
        ref.scaled(ref.effective_wilson, [3, 3, 2, 3], 1, 5)
    )


def test_the_schema_knows_the_new_keys():
    schema = limpet("schema").out
    for key in ("range", "group", "higher_is_better", "stop_when"):
        assert f'"{key}"' in schema


# ---- --against ----------------------------------------------------------------------------------


def test_against_compares_at_the_end(tmp_path):
    base = Project(tmp_path / "base", "1100" * 5)
    base.run()
    new = Project(tmp_path / "new", "1110" * 5)
    done = new.run("--against", base.path)
    assert done.code == 0, done.said
    assert says(done.said, 0.25)
    assert all(says(done.said, end) for end in ref.tango(5, 0, 20))


def test_against_a_run_that_is_not_there_costs_no_call(tmp_path):
    project = Project(tmp_path, "1101")
    refused(project.run("--against", "runs/nothing"), "runs/nothing")
    assert project.calls == []


def test_against_a_run_of_other_questions_keeps_the_results_and_says_why(tmp_path):
    other = Project(tmp_path / "other", "1101", question=lambda n: f"Other {n}?")
    other.run()
    project = Project(tmp_path / "new", "1101")
    done = project.run("--against", other.path)
    assert "Traceback" not in done.said
    assert done.code == 2
    assert "row" in done.said
    assert done.said.count("no such option") == 0
    assert score(project.path)["completed"] == 4


def test_a_run_is_not_compared_with_itself_after_it_has_changed(tmp_path):
    project = Project(tmp_path, "1101")
    project.run()
    refused(project.run("--against", project.path), "itself")


# ---- runs of nat eval ---------------------------------------------------------------------------


def nat_rows(letters):
    return [
        {"id": f"q{n}", "question": f"Question {n}?", "answer": f"expected {n}",
         "generated_answer": f"q{n} is {letter}", "intermediate_steps": []}
        for n, letter in enumerate(letters)
    ]  # fmt: skip


def test_runs_of_nat_eval_that_were_imported_are_compared(tmp_path):
    projects = []
    for name, letters in (("base", "11001100"), ("new", "11101110")):
        project = Project(tmp_path / name, "f" * 8)  # nothing is to be called
        text = json.dumps(nat_rows(letters))
        (project.folder / "workflow_output.json").write_text(text, encoding="utf-8")
        done = limpet("import", "workflow_output.json", cwd=project.folder)
        assert done.code == 0, done.said
        assert project.run().code == 0
        assert project.calls == []
        projects.append(project)
    one = compared(compare(*(project.path for project in projects)))
    assert (one["n"], one["better"], one["same"], one["worse"]) == (8, 2, 6, 0)


def test_an_imported_run_that_was_never_scored_is_no_traceback(tmp_path):
    project = Project(tmp_path, "f" * 4)
    (tmp_path / "old.json").write_text(json.dumps(nat_rows("1100")), encoding="utf-8")
    limpet("import", "old.json", cwd=tmp_path)
    refused(limpet("compare", project.path, project.path), "no scores")


# ---- a selection --------------------------------------------------------------------------------


def test_what_a_limit_left_out_is_not_a_failure(tmp_path):
    done = Project(tmp_path, "1" * 20).run("--limit", "10", "--fail-under", "correct=0.9")
    assert done.code == 0, done.said
    found = score(tmp_path / "runs/bot")
    assert interval(found) == about(ref.wilson(10, 10))
    assert bounds(found) in (None, about(ref.wilson(10, 10)))


def test_a_limited_run_is_compared_over_what_it_has(tmp_path, shelf):
    make(tmp_path / "limited", "1" * 20, limit=10)
    found = compare(shelf("1" * 20), tmp_path / "limited")
    assert compared(found)["n"] == 10


@pytest.mark.slow
def test_variants_of_a_matrix_are_compared_and_the_matrix_itself_is_refused(tmp_path):
    from e2e import ready_limpet

    Project(tmp_path, "1101", more="matrix: {timeout: [60, 90]}\n")
    assert ready_limpet.run(["run"], cwd=tmp_path).returncode == 0
    one, other = sorted(path for path in (tmp_path / "runs/bot").iterdir() if path.is_dir())
    assert compared(compare(one, other))["n"] == 4
    refused(limpet("compare", one, tmp_path / "runs/bot"), "variants")
