"""Appending, reading, and what is acknowledged when."""

import asyncio
import json
import os
import subprocess
import sys
import threading

import pytest

from limpet.errors import JournalError, RunLockedError
from limpet.fingerprints.keys import digest
from limpet.journal import (
    Cell,
    CellStatus,
    ColumnReader,
    Failure,
    Journal,
    Outcome,
    recovery,
    repair,
    verify,
)
from limpet.journal import column as column_module


def outcome(number, record=None, **more):
    cell = Cell("workflow", f"q{number}", 0, digest(number))
    return Outcome(cell, record={"n": number} if record is None else record, **more)


def append_all(path, outcomes, **options):
    async def main():
        with Journal(path, **options) as journal:
            column = journal.column("workflow")
            return await asyncio.gather(*(column.append(one) for one in outcomes))

    return asyncio.run(main())


def read_all(path):
    with Journal(path) as journal:
        column = journal.column("workflow")
        entries = column.read_many([digest(n) for n in range(99)])
        return {key: entry.record for key, entry in entries}


def lines(path):
    return path.read_bytes().splitlines(keepends=True)


def test_what_was_acknowledged_can_be_read_by_others_at_once(tmp_path):
    async def main():
        with Journal(tmp_path) as journal:
            await journal.column("workflow").append(outcome(1))
            reader = ColumnReader(tmp_path / "workflow_output.jsonl")
            assert reader.read(digest(1)).record == {"n": 1}
            assert digest(1) in reader
            assert digest(2) not in reader
            assert reader.read(digest(2)) is None

    asyncio.run(main())


def test_successes_and_failures_go_to_files_of_their_own(tmp_path):
    failure = Failure("timeout", "too slow", "TimeoutError", ({"attempt": 1, "class": "timeout"},))
    append_all(tmp_path, [outcome(1), outcome(2, {}, status=CellStatus.FAILED, failure=failure)])
    assert [json.loads(one)["n"] for one in lines(tmp_path / "workflow_output.jsonl")] == [1]
    (failed,) = [json.loads(one) for one in lines(tmp_path / "failures.jsonl")]
    assert failed["_limpet"]["class"] == "timeout"
    assert failed["error"] == {"type": "TimeoutError", "message": "too slow", "class": "timeout"}
    assert failed["attempts"] == [{"attempt": 1, "class": "timeout"}]
    assert (failed["id"], failed["step"]) == ("q2", "workflow")


def test_an_event_goes_to_the_event_log_and_asks_nobody_to_wait(tmp_path):
    with Journal(tmp_path) as journal:
        journal.log_event("paused", why="no room")
    (event,) = [json.loads(one) for one in lines(tmp_path / "events.jsonl")]
    assert (event["event"], event["why"]) == ("paused", "no room")


def test_events_are_written_while_more_of_them_keep_coming(tmp_path):
    events = tmp_path / "events.jsonl"
    with Journal(tmp_path) as journal:
        while not events.stat().st_size:  # no record, no pause
            journal.log_event("started")
    assert all(json.loads(line)["event"] == "started" for line in lines(events))


def test_the_first_record_of_a_key_wins_unless_a_generation_is_higher(tmp_path):
    again = [outcome(1, {"v": "first"}), outcome(1, {"v": "second"})]
    forced = [outcome(2, {"v": "first"}), outcome(2, {"v": "forced"}, generation=1)]
    append_all(tmp_path, [*again, *forced, outcome(2, {"v": "late"})])
    expected = {digest(1): {"v": "first"}, digest(2): {"v": "forced"}}
    assert read_all(tmp_path) == expected
    for index in (tmp_path / "index").iterdir():
        index.unlink()
    assert read_all(tmp_path) == expected
    assert len(lines(tmp_path / "workflow_output.jsonl")) == 5  # nothing is ever deleted


@pytest.mark.parametrize(("generation", "expected"), [(0, "first"), (1, "second")])
def test_the_index_knows_which_record_of_a_key_wins(tmp_path, generation, expected):
    again = outcome(1, {"v": "second"}, generation=generation)
    append_all(tmp_path, [outcome(1, {"v": "first"}), outcome(2), again])
    append_all(tmp_path, [outcome(3)])  # the last lines are read from the column
    reader = ColumnReader(
        tmp_path / "workflow_output.jsonl", tmp_path / "index" / "workflow_output.idx"
    )
    assert reader.read(digest(1)).record == {"v": expected}
    assert len(reader) == 3


def test_what_cannot_be_encoded_is_a_failure_that_says_so(tmp_path):
    (recorded, fine) = append_all(tmp_path, [outcome(1, {"v": object()}), outcome(2)])
    assert recorded.status is CellStatus.FAILED
    assert recorded.failure.kind == "encoding"
    assert fine.status is CellStatus.COMPLETED
    (failed,) = [json.loads(one) for one in lines(tmp_path / "failures.jsonl")]
    assert "has no JSON form" in failed["error"]["message"]
    assert "<object object at" in failed["repr"]
    assert set(read_all(tmp_path)) == {digest(2)}


def test_even_a_failure_with_odd_attempts_is_recorded(tmp_path):
    failure = Failure("permanent", "x" * 9999, "E", ({"attempt": object()},))
    append_all(tmp_path, [outcome(1, {}, status=CellStatus.FAILED, failure=failure)])
    (failed,) = [json.loads(one) for one in lines(tmp_path / "failures.jsonl")]
    assert len(failed["error"]["message"]) == 2000
    assert "object object" in failed["attempts"][0]


def test_small_records_are_encoded_on_the_loop_and_large_ones_on_the_writers_thread(
    tmp_path, monkeypatch
):
    where, real = {}, column_module.encode_outcome

    def note(outcome):
        where[outcome.cell.id] = threading.current_thread().name
        return real(outcome)

    monkeypatch.setattr(column_module, "encode_outcome", note)
    large = [outcome(2, {"v": "x" * 50_000}), outcome(3, {"v": [["y" * 30_000]] * 2})]
    append_all(tmp_path, [outcome(1), *large])
    assert where == {"q1": "MainThread", "q2": "limpet-journal", "q3": "limpet-journal"}


def test_the_event_loop_touches_no_file(tmp_path, monkeypatch):
    touched = []
    calls = ("open", "write", "writev", "fsync", "fdatasync", "ftruncate", "pwrite")

    def spy(name, real):
        def call(*arguments, **more):
            if threading.current_thread() is threading.main_thread() and watching:
                touched.append(name)
            return real(*arguments, **more)

        return call

    watching = False
    for name in calls:
        monkeypatch.setattr(os, name, spy(name, getattr(os, name)))

    async def main():
        nonlocal watching
        journal = await asyncio.to_thread(Journal, tmp_path)
        column = await asyncio.to_thread(journal.column, "workflow")
        watching = True
        journal.log_event("began")
        await asyncio.gather(*(column.append(outcome(n)) for n in range(50)))
        await column.append(outcome(50, {"v": "x" * 3_000_000}))
        watching = False
        await asyncio.to_thread(journal.close)

    asyncio.run(main())
    assert touched == []
    assert len(read_all(tmp_path)) == 51


@pytest.mark.parametrize("durability", ["sync", "flush"])
def test_each_policy_syncs_as_it_promises(tmp_path, monkeypatch, durability):
    synced = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (synced.append(fd), real(fd)))

    async def main():
        with Journal(tmp_path, durability=durability) as journal:
            column = journal.column("workflow")
            synced.clear()
            for group in range(5):
                await asyncio.gather(*(column.append(outcome(group * 10 + n)) for n in range(10)))

    asyncio.run(main())
    if durability == "sync":
        assert 5 <= len(synced) < 50
    else:
        assert synced == []


def test_all_that_waits_is_written_and_acknowledged_as_one_group(tmp_path, monkeypatch):
    wakes = []

    async def main():
        loop = asyncio.get_running_loop()
        real = loop.call_soon_threadsafe
        with Journal(tmp_path) as journal:
            column = journal.column("workflow")
            waiting = [column.append(outcome(n)) for n in range(99)]
            monkeypatch.setattr(
                loop, "call_soon_threadsafe", lambda *call: (wakes.append(call), real(*call))
            )
            await asyncio.gather(*waiting)

    asyncio.run(main())
    assert 0 < len(wakes) < 20


def test_cancelling_one_waiter_disturbs_no_other_and_loses_nothing(tmp_path):
    async def main():
        with Journal(tmp_path) as journal:
            column = journal.column("workflow")
            waiting = [column.append(outcome(n)) for n in range(10)]
            waiting[3].cancel()
            done = await asyncio.gather(*waiting, return_exceptions=True)
            assert isinstance(done[3], asyncio.CancelledError)
            assert all(isinstance(one, Outcome) for n, one in enumerate(done) if n != 3)

    asyncio.run(main())
    assert len(read_all(tmp_path)) == 10


def test_loops_in_several_threads_may_append_to_one_journal(tmp_path):
    with Journal(tmp_path) as journal:
        column = journal.column("workflow")

        async def some(start):
            await asyncio.gather(*(column.append(outcome(n)) for n in range(start, start + 20)))

        threads = [threading.Thread(target=asyncio.run, args=(some(n),)) for n in (0, 20, 40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(read_all(tmp_path)) == 60


def test_a_closed_journal_refuses_and_says_so(tmp_path):
    async def main():
        journal = Journal(tmp_path)
        column = journal.column("workflow")
        journal.close()
        journal.close()
        with pytest.raises(JournalError, match="the journal is closed"):
            await column.append(outcome(1))
        journal.log_event("ignored")

    asyncio.run(main())


def test_a_waiter_whose_loop_is_gone_harms_nobody(tmp_path):
    journal = Journal(tmp_path)
    column = journal.column("workflow")

    async def leave():
        column.append(outcome(1))

    asyncio.run(leave())
    asyncio.run(_append_one(column, outcome(2)))
    journal.close()
    assert len(read_all(tmp_path)) == 2


async def _append_one(column, one):
    return await column.append(one)


def test_a_line_that_is_damaged_after_opening_is_said_and_not_handed_out(tmp_path, caplog):
    append_all(tmp_path, [outcome(n) for n in range(3)])
    with Journal(tmp_path) as journal:
        column = journal.column("workflow")
        path = tmp_path / "workflow_output.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"n":1', b'"n":7'))
        read = dict(column.read_many([digest(n) for n in range(3)]))
        assert set(read) == {digest(0), digest(2)}
        assert digest(1) not in column
    assert "damaged" in caplog.text


def test_verify_reports_and_changes_nothing_and_repair_mends_with_a_backup(tmp_path):
    append_all(tmp_path, [outcome(n) for n in range(5)])
    path = tmp_path / "workflow_output.jsonl"
    whole = lines(path)
    damaged = b"".join([whole[0], whole[1].replace(b'"n":1', b'"n":9'), *whole[2:], b'{"_hold'])
    path.write_bytes(damaged)
    report = verify(tmp_path)
    (state, _, _) = report.states
    assert (state.records, state.bad_lines, state.torn_bytes) == (4, [2], 7)
    assert not report.is_sound
    assert "4 records; 1 bad line (2); 7 torn bytes" in str(report)
    assert path.read_bytes() == damaged

    said = []
    repair(tmp_path, say=said.append)
    backup, torn = sorted((tmp_path / "torn").iterdir())
    assert backup.read_bytes() == damaged
    assert torn.read_bytes() == b'{"_hold'
    assert any(str(backup) in line for line in said)
    assert any("set aside" in line for line in said)
    after = verify(tmp_path)
    assert (after.states[0].torn_bytes, after.states[0].bad_lines) == (0, [2])
    assert after.states[0].index == "good"


def test_there_is_nothing_to_verify_where_there_is_no_journal(tmp_path):
    with pytest.raises(JournalError, match="no journal here"):
        verify(tmp_path / "nothing")


def test_a_reader_goes_on_reading_and_a_column_may_not_be_there_yet(tmp_path):
    reader = ColumnReader(tmp_path / "workflow_output.jsonl")
    assert len(reader) == 0
    reader.refresh()
    append_all(tmp_path, [outcome(1)])
    reader.refresh()
    assert reader.read(digest(1)).record == {"n": 1}
    append_all(tmp_path, [outcome(2), outcome(3)])
    reader.refresh()
    assert (len(reader), reader.state.records, reader.state.lines) == (3, 3, 3)
    path = tmp_path / "workflow_output.jsonl"
    path.write_bytes(lines(path)[2])  # put in its place by somebody
    reader.refresh()
    assert (digest(1) in reader, digest(3) in reader) == (False, True)


def test_the_event_log_is_opened_by_its_last_line_alone(tmp_path):
    with Journal(tmp_path) as journal:
        journal.log_event("one")
    events = tmp_path / "events.jsonl"
    events.write_bytes(b"not json\n" + events.read_bytes() + b'{"event":"tor')
    with Journal(tmp_path) as journal:
        journal.log_event("two")
    told = [line.split(b'"event":')[-1] for line in lines(events)]
    assert told == [b"not json\n", b'"one"}\n', b'"two"}\n']
    (torn,) = (tmp_path / "torn").iterdir()
    assert torn.read_bytes() == b'{"event":"tor'


def test_an_index_is_used_so_that_resume_does_not_read_the_traces(tmp_path, monkeypatch):
    append_all(tmp_path, [outcome(n, {"trace": "x" * 1000}) for n in range(50)])
    append_all(tmp_path, [outcome(n, {"trace": "x" * 1000}) for n in range(50, 60)])
    path = tmp_path / "workflow_output.jsonl"
    begun, real = [], recovery.scan

    def scan(column, places, state, *rest):
        begun.append(state.end)
        return real(column, places, state, *rest)

    monkeypatch.setattr(recovery, "scan", scan)
    reader = ColumnReader(path, tmp_path / "index" / "workflow_output.idx")
    assert begun[0] > path.stat().st_size * 0.7
    assert reader.state.index == "good"
    assert len(reader) == 60
    size = (tmp_path / "index" / "workflow_output.idx").stat().st_size
    assert size == 60 * 32


def test_a_path_that_is_somebody_elses_file_is_refused_and_untouched(tmp_path):
    dataset = tmp_path / "questions.jsonl"
    dataset.write_bytes(b'{"question": "1 + 1?"}\n')
    with pytest.raises(JournalError, match="not empty") as caught:
        Journal(dataset)
    assert "another path" in caught.value.hint
    assert dataset.read_bytes() == b'{"question": "1 + 1?"}\n'
    assert [one.name for one in tmp_path.iterdir()] == ["questions.jsonl"]


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("not a folder")
    with pytest.raises(JournalError, match="cannot be opened") as caught:
        Journal(blocker / "runs")
    assert str(blocker / "runs") in str(caught.value)


def test_a_wrong_durability_is_named():
    with pytest.raises(ValueError, match="durability='fast'"):
        Journal("x", durability="fast")


def test_without_flock_writing_is_refused_and_reading_works(tmp_path):
    append_all(tmp_path, [outcome(1)])
    script = (
        "import sys; sys.modules['fcntl'] = None\n"
        "from limpet.journal import ColumnReader, Journal\n"
        "from limpet.errors import JournalError\n"
        "from pathlib import Path\n"
        "print(len(ColumnReader(Path(sys.argv[1]) / 'workflow_output.jsonl')))\n"
        "try: Journal(sys.argv[1])\n"
        "except JournalError as error: print(error, '|', error.hint)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()
    assert first == "1"
    assert "this system has no flock" in second
    assert "WSL" in second


def test_a_file_system_in_doubt_is_warned_about(tmp_path, monkeypatch, caplog):
    from limpet.journal import journal as journal_module

    monkeypatch.setattr(journal_module, "file_system_risk", lambda path: f"{path} is on nfs4")
    Journal(tmp_path).close()
    assert "is on nfs4" in caplog.text


def test_a_second_opening_in_the_same_process_is_refused(tmp_path):
    with Journal(tmp_path), pytest.raises(RunLockedError, match="this process") as caught:
        Journal(tmp_path)
    assert caught.value.holder["pid"] == os.getpid()


def test_a_journal_that_is_moved_away_while_it_is_being_opened_is_not_the_one_that_is_written(
    tmp_path, monkeypatch
):
    from limpet.journal import lock as lock_module

    here, there = tmp_path / "run", tmp_path / "run.old"
    Journal(here).close()
    real = lock_module._take

    def take_late(fd, path):
        monkeypatch.undo()
        here.rename(there)
        here.mkdir()
        real(fd, path)

    monkeypatch.setattr(lock_module, "_take", take_late)
    with Journal(here), pytest.raises(RunLockedError):
        Journal(here)


def test_a_record_is_written_though_its_waiter_gave_up(tmp_path, monkeypatch):
    stopped = threading.Event()
    real = os.writev

    def slow_disk(fd, parts):
        stopped.wait(20)
        return real(fd, parts)

    journal = Journal(tmp_path)
    column = journal.column("workflow")
    monkeypatch.setattr(os, "writev", slow_disk)

    async def give_up():
        waiting = [column.append(outcome(n)) for n in range(10)]
        await asyncio.sleep(0)
        for one in waiting[5:]:
            one.cancel()
        # The loop ends with five of them still in line: they are finished all the same.

    asyncio.run(give_up())
    stopped.set()
    journal.close()
    monkeypatch.undo()
    assert len(read_all(tmp_path)) == 10


def test_drain_waits_for_what_was_appended_so_far(tmp_path):
    journal = Journal(tmp_path)
    column = journal.column("workflow")

    async def leave():
        for n in range(50):
            column.append(outcome(n))

    asyncio.run(leave())
    journal.drain()
    assert len(ColumnReader(tmp_path / "workflow_output.jsonl")) == 50
    journal.close()
    journal.drain()


def test_a_waiter_that_raises_keeps_no_other_waiting(tmp_path):
    """All of them are told in one turn of the loop: one must not end it for the rest."""
    told, raised = [], []

    async def main():
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        loop.set_exception_handler(lambda _, about: raised.append(about["exception"]))

        def then(recorded, failure):
            told.append((recorded.cell.id, failure))
            if len(told) == 5:
                over.set()
            if recorded.cell.id in ("q1", "q2"):
                raise ValueError(recorded.cell.id)

        with Journal(tmp_path) as journal:
            for number in range(5):
                journal.column("workflow").append_then(outcome(number), then)
            await over.wait()

    asyncio.run(main())
    assert told == [(f"q{number}", None) for number in range(5)]
    assert [str(error) for error in raised] == ["q1", "q2"]


def test_a_waiter_is_told_that_its_record_cannot_be_kept_as_it_is(tmp_path):
    async def main():
        told = asyncio.get_running_loop().create_future()
        with Journal(tmp_path) as journal:
            wrong = outcome(1, {"n": object()})
            journal.column("workflow").append_then(wrong, lambda *news: told.set_result(news))
            return await told

    recorded, failure = asyncio.run(main())
    assert failure is None
    assert recorded.status is CellStatus.FAILED
    assert (tmp_path / "failures.jsonl").stat().st_size > 0
