"""A session of a large run notes its totals while it runs; readers add only what came later."""

import asyncio

import pytest

import limpet
from limpet.journal.event_log import EventLog
from limpet.run.executing import totals_keeper
from limpet.run.executing.totals_keeper import TotalsKeeper
from limpet.run.reading import RunReader
from limpet.run.reading.growing_totals import AddedLines

ROWS = [{"id": f"q{n}", "question": n} for n in range(40)]


def evaluate(run, meanwhile=lambda _: None, **options):
    """Evaluate, and call a function before each answer with the number of calls so far."""
    calls = []

    async def answer(question):
        calls.append(question)
        await asyncio.to_thread(meanwhile, len(calls))
        return question % 7

    def good(output):
        return output > 2

    return limpet.evaluate(
        ROWS, answer, {"good": good}, run=limpet.Run(run, durability="flush"), version="1",
        pace=1, **options,
    )  # fmt: skip


@pytest.fixture
def every_byte(monkeypatch):
    monkeypatch.setattr(totals_keeper, "_LEAST_BYTES", 1)
    monkeypatch.setattr(totals_keeper, "_LEAST_CELLS", 1)


@pytest.fixture
def lines_added(monkeypatch):
    """How many answers each reading adds."""
    added = []
    add = AddedLines._add_answers

    def counted(self, cells, lines):
        added.append(len(cells))
        return add(self, cells, lines)

    monkeypatch.setattr(AddedLines, "_add_answers", counted)
    return added


def test_what_a_running_session_noted_is_not_added_up_again(tmp_path, every_byte, lines_added):
    seen = {}

    def look(calls):
        if calls == 20:
            keeper = TotalsKeeper(tmp_path / "run")
            with RunReader(tmp_path / "run") as reader:
                assert keeper.note(reader)
        if calls == 30:
            lines_added.clear()
            with RunReader(tmp_path / "run") as reader:
                assert reader.state == "running"
                seen["summary"] = reader.summary()
            seen["added"] = sum(lines_added)
            (tmp_path / "run" / "index" / "totals").unlink()
            with RunReader(tmp_path / "run") as reader:
                assert reader.summary() == seen["summary"]

    evaluate(tmp_path / "run", look)
    completed = seen["summary"]["workflow"]["completed"]
    assert 25 <= completed < 40
    assert seen["added"] <= completed - 18


def test_a_session_notes_its_totals_on_its_own(tmp_path, every_byte, monkeypatch):
    monkeypatch.setattr(totals_keeper, "_EVERY_S", 0.001)
    note = tmp_path / "run" / "index" / "totals"
    found = []

    def wait_for_a_note(calls):
        for _ in range(100_000 if calls == 40 else 0):
            if note.exists():
                found.append(note.stat().st_size)
                return

    evaluate(tmp_path / "run", wait_for_a_note)
    assert found


def test_a_small_run_is_not_noted(tmp_path):
    evaluate(tmp_path / "run")
    assert not (tmp_path / "run" / "index" / "totals").exists()


def test_a_run_that_redoes_results_is_not_noted_and_read_as_ever(tmp_path, every_byte):
    evaluate(tmp_path / "run")
    looked = []

    def look(calls):
        if calls == 20:
            keeper = TotalsKeeper(tmp_path / "run")
            with RunReader(tmp_path / "run") as reader:
                looked.append(keeper.note(reader))

    evaluate(tmp_path / "run", look, redo=True)
    assert looked == [False]


def test_a_session_whose_note_cannot_be_written_goes_on_and_says_so(
    tmp_path, every_byte, monkeypatch, caplog
):
    monkeypatch.setattr(totals_keeper, "_EVERY_S", 0.001)
    (tmp_path / "run" / "index" / "totals").mkdir(parents=True)
    (tmp_path / "run" / "LOCK").touch()

    def wait_for_the_warning(calls):
        for _ in range(100_000 if calls == 40 else 0):
            if "totals are not noted" in caplog.text:
                return

    result = evaluate(tmp_path / "run", wait_for_the_warning)
    assert result.summary["workflow"]["completed"] == 40
    assert "totals are not noted" in caplog.text


@pytest.mark.parametrize("damage", ["", "the note", "the events"])
def test_calls_in_flight_are_the_same_with_the_events_that_were_noted_or_without(
    tmp_path, every_byte, monkeypatch, damage
):
    run, applied, seen = tmp_path / "run", [], {}
    note, events, apply = run / "index" / "events", run / "events.jsonl", EventLog._apply

    def counted(self, event):
        applied.append(event)
        apply(self, event)

    def look(calls):
        if calls == 20:
            with RunReader(run) as reader:
                assert TotalsKeeper(run).note(reader)
            assert note.read_text().count('"workflow"') >= 1
        if calls == 30:
            for _ in range(100_000):  # until the others have ended, and it is written
                scored = (run / "good_output.jsonl").read_bytes().count(b"\n")  # the last, too
                if scored == 29 and in_flight(run) == {"workflow": [("q29", 1)], "good": []}:
                    break
            if damage == "the note":
                note.write_bytes(note.read_bytes().replace(b'"end": ', b'"end": 1'))
            if damage == "the events":
                events.write_bytes(events.read_bytes().replace(b'"q1"', b'"Q1"'))
            applied.clear()
            seen["with"], seen["read"] = in_flight(run), len(applied)
            note.unlink()
            applied.clear()
            seen["without"], seen["all"] = in_flight(run), len(applied)

    monkeypatch.setattr(EventLog, "_apply", counted)
    evaluate(run, look)
    assert seen["with"] == seen["without"] == {"workflow": [("q29", 1)], "good": []}
    if damage:
        assert seen["read"] == seen["all"]
    else:
        assert seen["read"] <= seen["all"] - 20


def in_flight(run):
    """Return the ids and attempts of the calls in flight, by step."""
    with RunReader(run) as reader:
        return {
            step.name: [(call.id, call.attempt) for call in step.in_flight]
            for step in reader.snapshot(whole=False).steps
        }
