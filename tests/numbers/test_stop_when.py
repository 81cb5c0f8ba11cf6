"""`stop_when`: no new item once the interval is narrow enough, and nothing lost by it."""

import pytest

import limpet as library
from tests.numbers.command import refused
from tests.numbers.projects import Project
from tests.numbers.reading import bounds, interval, score, summary
from tests.numbers.runs import correct, rows

# The first half is right: in the dataset's order, an early look would see nothing else.
SORTED = "1" * 200 + "0" * 200
WIDTH = "correct=0.12"


def half_width(found):
    low, high = bounds(found) or interval(found)
    return (high - low) / 2


@pytest.mark.slow  # e2e/test_stop_when has it
def test_it_stops_when_the_half_width_is_reached_and_exits_with_0(tmp_path):
    project = Project(tmp_path, SORTED)
    done = project.run("--stop-when", WIDTH)
    assert done.code == 0, done.said
    found = score(project.path)
    assert 20 < found["completed"] < 200
    assert (interval(found)[1] - interval(found)[0]) / 2 <= 0.12
    assert "0.12" in done.said
    assert "enough" in done.said or "stop" in done.said


def test_the_file_says_it_too_and_the_summary_says_that_it_stopped(tmp_path):
    project = Project(tmp_path, SORTED, more="stop_when: {correct: 0.12}\n")
    assert project.run().code == 0
    found = summary(project.path)
    assert found["evaluators"]["correct"]["completed"] < 200
    assert "stop_when" in str(found) or "0.12" in str(found)


def test_what_was_in_flight_went_through_all_steps(tmp_path):
    library.evaluate(
        rows(400),
        lambda question: {"score": len(question) % 2 == 0},
        [correct],
        run=tmp_path / "run",
        stop_when={"correct": 0.12},
        pace=16,
        show=False,
        version="1",
    )
    found = summary(tmp_path / "run")
    answered = found["workflow"]["completed"]
    assert answered == found["evaluators"]["correct"]["completed"]
    assert answered < 400


@pytest.mark.slow  # unit/run/test_stop_when has it
def test_items_are_taken_in_a_random_order_that_is_the_same_again(tmp_path):
    orders = []
    for name in ("one", "other"):
        project = Project(tmp_path / name, SORTED)
        assert project.run("--stop-when", WIDTH).code == 0
        orders.append(project.calls)
    both = min(map(len, orders))  # how many had begun when it had enough is a matter of moments
    assert orders[0][:both] == orders[1][:both]
    assert orders[0] != sorted(orders[0], key=lambda id_: int(id_[1:]))
    mean = score(tmp_path / "one/runs/bot")["mean"]
    assert 0.25 < mean < 0.75


@pytest.mark.slow  # unit/run/test_stop_when has it
def test_without_stop_when_items_are_taken_as_the_dataset_has_them(tmp_path):
    project = Project(tmp_path, "1" * 30)
    project.run()
    assert project.calls == [f"q{n}" for n in range(30)]
    project = Project(tmp_path / "wide", "1" * 30)
    assert project.run("--stop-when", "correct=0.0001").code == 0
    assert project.calls != [f"q{n}" for n in range(30)]


@pytest.mark.slow  # unit/run/test_stop_when has it
def test_what_was_not_run_is_run_later_and_nothing_twice(tmp_path):
    project = Project(tmp_path, "10" * 60)
    assert project.run("--stop-when", "correct=0.2").code == 0
    assert len(project.calls) < 60
    assert summary(project.path)["workflow"]["not_run"] > 0
    assert project.run().code == 0
    assert sorted(project.calls) == sorted(f"q{n}" for n in range(120))


@pytest.mark.slow  # unit/run/test_stop_when has it
def test_asking_again_for_what_is_already_enough_calls_nothing(tmp_path):
    project = Project(tmp_path, "10" * 60)
    project.run("--stop-when", "correct=0.2")
    before = project.calls
    assert project.run("--stop-when", "correct=0.2").code == 0
    assert project.calls == before
    assert len(before) < 60


@pytest.mark.slow  # unit/run/test_stop_when has it
def test_asking_for_more_goes_on(tmp_path):
    project = Project(tmp_path, "10" * 60)
    project.run("--stop-when", "correct=0.2")
    before = len(project.calls)
    assert project.run("--stop-when", "correct=0.12").code == 0
    assert before < len(project.calls) < 120


def test_it_looks_first_at_thirty_items_and_then_every_ten(tmp_path):
    # An interval of fewer is not to be believed. What began meanwhile is finished: on a slow disk
    # that may be a dozen.
    project = Project(tmp_path / "wide", "10" * 60)
    assert project.run("--stop-when", "correct=0.45").code == 0
    assert 30 <= len(project.calls) < 60
    project = Project(tmp_path / "narrow", "10" * 60)
    assert project.run("--stop-when", "correct=0.15").code == 0  # 40 have 0.148
    assert 40 <= len(project.calls) < 70


@pytest.mark.slow  # unit/run/test_stop_when has it
def test_a_width_that_is_never_reached_runs_everything(tmp_path):
    project = Project(tmp_path, "10" * 15)
    assert project.run("--stop-when", "correct=0.001").code == 0
    assert len(project.calls) == 30


@pytest.mark.slow  # unit/run/test_stop_when has it
def test_failures_are_not_a_way_to_be_done_sooner(tmp_path):
    # Three in ten fail: with them as worst and best, the half-width never comes under 0.15.
    project = Project(tmp_path, "1101001fff" * 20)
    done = project.run("--stop-when", "correct=0.13")
    assert done.code == 1, done.said  # all was run, and something failed
    assert len(project.calls) == 200


@pytest.mark.slow  # unit/run/test_stop_when has it
def test_two_conditions_must_both_hold(tmp_path):
    def brief(output):
        return output["score"] > 0.5

    library.evaluate(
        rows(300),
        lambda item: {"score": 0.5 + 0.001 * (int(item.id[1:]) % 7 - 3)},
        [correct, brief],
        run=tmp_path / "run",
        stop_when={"correct": 0.1, "brief": 0.1},
        pace=1,
        show=False,
        version="1",
    )
    found = summary(tmp_path / "run")["scores"]
    assert found["correct"]["completed"] < 300
    assert all((interval(one)[1] - interval(one)[0]) / 2 <= 0.1 for one in found.values())


WRONG = {
    "an evaluator that is not there": ("corect=0.1", "corect"),
    "a width of nothing": ("correct=0", "correct"),
    "a negative width": ("correct=-0.1", "-0.1"),
    "a width that is no number": ("correct=narrow", "narrow"),
    "not a number": ("correct=nan", "nan"),
    "no width": ("correct", "correct"),
}


@pytest.mark.parametrize(("given", "word"), WRONG.values(), ids=WRONG)
def test_a_condition_that_makes_no_sense_costs_no_call(tmp_path, given, word):
    project = Project(tmp_path, "1101")
    refused(project.run("--stop-when", given), word)
    assert project.calls == []


@pytest.mark.slow  # unit/run/test_stop_when and e2e have it
def test_status_of_a_run_that_had_enough_says_so_and_how_to_run_the_rest(tmp_path):
    from tests.numbers.command import limpet

    project = Project(tmp_path, "10" * 60)
    assert project.run("--stop-when", "correct=0.2").code == 0
    done = limpet("status", project.path)
    assert "cut off" not in done.out
    assert "not run" in done.out or "limited" in done.out or "enough" in done.out
