"""Runs that several requests use at once."""

import json
import shutil
import threading

import pytest
from multidict import MultiDict
from scored_runs import make

import limpet
from limpet.view.item_answers import item_answer, near_answer
from limpet.view.run_answers import run_answer
from limpet.view.viewed_runs import ViewedRuns


@pytest.fixture
def runs(tmp_path):
    make(tmp_path / "one", "1010")
    opened = ViewedRuns(tmp_path)
    yield opened
    opened.close()


def items_in(opened):
    opened.run_table.refresh()
    return [item.id for item in opened.run_table.read(range(len(opened.run_table)))]


def test_a_run_is_not_closed_under_who_reads_it(runs):
    with runs.use("one") as opened:
        before = items_in(opened)
        runs.forget("one")  # as after a wrong question on another page
        assert items_in(opened) == before


def test_who_waited_for_a_run_that_was_forgotten_gets_it_opened_anew(runs):
    found = []

    def wait():
        with runs.use("one") as other:
            found.append((other, items_in(other)))

    with runs.use("one") as opened:
        before = items_in(opened)
        waiting = threading.Thread(target=wait)
        waiting.start()
        runs.forget("one")
    waiting.join()
    assert found[0][1] == before
    assert found[0][0] is not opened


def test_a_run_that_took_the_place_of_another_is_opened_anew(runs, tmp_path):
    with runs.use("one") as opened:
        assert len(items_in(opened)) == 4
    for answers in ("0" * 6, "1" * 60):  # longer ones could be taken for more of the same
        shutil.rmtree(tmp_path / "one")
        make(tmp_path / "one", answers)
        with runs.use("one") as other:
            items = items_in(other)
            assert len(items) == len(set(items)) == len(answers)
            assert (other.reader.state, other.reader.remarks) == ("finished", [])
            rows = list(other.run_table.read(range(len(answers))))
            assert [row.output["score"] for row in rows] == [float(one) for one in answers]


def test_a_run_that_goes_on_stays_open(runs, tmp_path):
    with runs.use("one") as opened:
        assert len(items_in(opened)) == 4
    make(tmp_path / "one", "101010")
    with runs.use("one") as other:
        assert other is opened
        assert len(items_in(other)) == 6


def test_a_call_in_flight_names_its_trial(tmp_path):
    seen = []
    runs = ViewedRuns(tmp_path)

    def look(question):
        before = len(seen)
        while len(seen) == before:  # the start of the call is being written
            with runs.use("one") as opened:
                calls = run_answer(opened, "one", can_label=False)["in_flight"]
            names = [(call["id"], call["trial"]) for call in calls]
            seen.extend(name for name in names if name not in seen)
        return question

    rows = [{"id": "a", "question": "?"}]
    limpet.evaluate(rows, look, run=tmp_path / "one", trials=3, pace=1)
    runs.close()
    assert seen == [("a", 0), ("a", 1), ("a", 2)]


def test_a_run_without_its_items_says_what_is_not_shown(runs, tmp_path):
    (tmp_path / "one/items.jsonl").unlink()
    with runs.use("one") as opened:
        about = run_answer(opened, "one", can_label=False)
    (remark,) = about["remarks"]
    assert remark.startswith("items.jsonl is missing, so inputs and expected values are not shown")


@pytest.mark.parametrize("id_", ["\ud800\udc00", "~\ud800\udc00\ud800", "\U00010000", "\ud800"])
def test_an_id_of_halves_of_characters_is_found_with_its_failed_attempts(runs, tmp_path, id_):
    def fails(question):
        raise ValueError("never")

    limpet.evaluate([{"id": id_, "question": "q"}], fails, run=tmp_path / "halves", retry=1,
                    fail_fast=False, show=False)  # fmt: skip
    with runs.use("halves") as opened:
        opened.run_table.refresh()
        known = opened.run_table.table.ids[0]  # two halves are read as one character
        answer = item_answer(opened, MultiDict(id=json.dumps(known)))
        assert (answer["status"], len(answer["attempts"])) == ("failed", 2)
        assert near_answer(opened, MultiDict(id=json.dumps(known)))["at"] == 0
