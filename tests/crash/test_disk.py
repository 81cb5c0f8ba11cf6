"""Disks get full, fail and are slow: what was acknowledged is there, and the error says what to do.

The failures are the system's own, made to happen by strace, by a small disk or by a limit.
"""

import asyncio
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress

import pytest
from crash.laboratory import (
    STEP,
    WRITING_PROCESS,
    acknowledged_in,
    append_all,
    assert_all_there,
    column_at,
    index_at,
    key_of,
    outcome_of,
    record_of,
    reopen,
    reports_of,
    run,
    start,
    write,
)
from e2e import ready_limpet
from e2e.project import COMMAND, make

import limpet
from limpet.errors import DiskFullError, JournalError
from limpet.journal import Cell, CellStatus, ColumnReader, Journal, Outcome, verify
from limpet.run.api import Arguments, _options, _request
from limpet.run.executing.session import EvaluationSession

FILLER = "filler"


def of_size(size):
    return lambda number: size


def injected(strace, home, *rules, at_column=True):
    """The words that make system calls on a column fail as the rules say.

    strace counts `when=` for each thread apart, and only calls that touch the path.
    """
    names = ",".join(rule.split(":")[0] for rule in rules)
    path = ["-P", str(column_at(home))] if at_column else []
    inject = [word for rule in rules for word in ("-e", f"inject={rule}")]
    return [*strace, *path, "-e", f"trace={names}", *inject]


def refusals_in(reports):
    return {report["refused"]: report for report in reports if "refused" in report}


# ---- failures of write ---------------------------------------------------------------------------


@pytest.mark.quick(2)
@pytest.mark.parametrize("when", ["1", "3", "2..4", "3+4"])
def test_a_write_that_fails_harms_no_other_record(tmp_path, strace, when):
    before = injected(strace, tmp_path, f"writev:error=EIO:when={when}")
    reports, code = run({"path": tmp_path, "count": 12}, before=before)
    acknowledged, refused = acknowledged_in(reports), refusals_in(reports)
    assert code == 0
    assert refused
    assert sorted([*acknowledged, *refused]) == list(range(12))
    for report in refused.values():
        assert report["type"] == "JournalError"
        assert str(column_at(tmp_path)) in report["text"]
        assert "Input/output error" in report["text"]
        assert report["hint"]
    assert_all_there(tmp_path, acknowledged, of_size(100))
    reader = ColumnReader(column_at(tmp_path))
    assert not [number for number in refused if key_of(number) in reader]
    assert verify(tmp_path).is_sound  # each failed write was cut back at once
    reopen(tmp_path)


def test_a_run_whose_answers_cannot_be_written_says_so_without_a_traceback(tmp_path, strace):
    make(tmp_path)
    column = tmp_path / "runs" / "trial" / "workflow_output.jsonl"
    before = [*strace, "-P", str(column), "-e", "trace=writev", "-e", "inject=writev:error=EIO"]
    done = subprocess.run(
        [*before, *COMMAND, "run"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert f"{column}: q0 could not be written: Input/output error" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_group_whose_write_fails_is_tried_again_record_by_record(tmp_path, strace):
    before = injected(strace, tmp_path, "writev:error=EIO:when=2..3")
    config = {"path": tmp_path, "count": 60, "at_once": 30}
    reports, _ = run(config, before=before)
    acknowledged, refused = acknowledged_in(reports), refusals_in(reports)
    assert len(refused) <= 2
    assert sorted([*acknowledged, *refused]) == list(range(60))
    assert_all_there(tmp_path, acknowledged, of_size(100))
    reopen(tmp_path)


def test_half_a_line_that_cannot_be_truncated_is_trimmed_by_recovery(tmp_path, strace):
    # The second record's first megabyte is written, the rest fails, and so does the repair.
    rules = "writev:error=EIO:when=4+", "ftruncate:error=EIO:when=1+"
    before = injected(strace, tmp_path, *rules)
    config = {"path": tmp_path, "count": 3, "sizes": [1_500_000]}
    reports, _ = run(config, before=before)
    assert acknowledged_in(reports) == [0]
    assert list(refusals_in(reports)) == [1, 2]
    assert not verify(tmp_path).is_sound
    write(tmp_path, [outcome_of(7)])
    assert_all_there(tmp_path, [0], of_size(1_500_000))
    assert_all_there(tmp_path, [7], of_size(100))
    assert verify(tmp_path).is_sound
    assert list((tmp_path / "torn").iterdir())


@pytest.mark.quick(2)
@pytest.mark.parametrize("durability", ["sync", "flush"])
def test_interrupted_system_calls_are_made_again(tmp_path, strace, durability):
    rules = "writev:error=EINTR:when=1+2", "fdatasync:error=EINTR:when=1+2"
    before = injected(strace, tmp_path, *rules)
    config = {"path": tmp_path, "count": 10, "sizes": [3_000], "durability": durability}
    reports, code = run(config, before=before)
    assert code == 0
    assert acknowledged_in(reports) == list(range(10))
    assert_all_there(tmp_path, range(10), of_size(3_000))


def test_writes_that_take_only_some_bytes_are_gone_on_with(tmp_path):
    sizes = [10, 60_000, 2_500_000, 3]
    config = {"path": tmp_path, "count": 20, "sizes": sizes, "at_once": 5, "short_writes": True}
    reports, code = run(config)
    assert code == 0
    assert sorted(acknowledged_in(reports)) == list(range(20))
    assert_all_there(tmp_path, range(20), lambda number: sizes[number % 4])
    assert verify(tmp_path).is_sound


def test_an_index_that_cannot_be_written_costs_no_record(tmp_path, strace):
    home = tmp_path
    before = [*strace, "-P", str(index_at(home)), "-e", "trace=writev"]
    before += ["-e", "inject=writev:error=ENOSPC:when=2+"]
    reports, _ = run({"path": home, "count": 10}, before=before, stderr=subprocess.DEVNULL)
    assert acknowledged_in(reports) == list(range(10))
    assert_all_there(home, range(10), of_size(100))
    reopen(home)
    assert ColumnReader(column_at(home), index_at(home)).state.index == "good"


# ---- failures of sync ----------------------------------------------------------------------------


@pytest.mark.parametrize("when", [1, 3])
def test_a_sync_that_fails_ends_it_and_names_the_records_in_doubt(tmp_path, strace, when):
    before = injected(strace, tmp_path, f"fdatasync:error=EIO:when={when}")
    reports, _ = run({"path": tmp_path, "count": 6}, before=before)
    acknowledged, refused = acknowledged_in(reports), refusals_in(reports)
    assert acknowledged == list(range(when - 1))
    assert list(refused) == list(range(when - 1, 6))
    [trouble] = [report for report in reports if "trouble" in report]
    for report in [trouble, *refused.values()]:
        text = report.get("trouble") or report["text"]
        assert str(column_at(tmp_path)) in text
        assert f"q{when - 1}" in text
        assert "in doubt" in text
        assert "check the disk" in report["hint"]
    assert_all_there(tmp_path, acknowledged, of_size(100))
    reader = ColumnReader(column_at(tmp_path), index_at(tmp_path))
    assert not [number for number in refused if key_of(number) in reader]
    reopen(tmp_path)


def test_a_failed_sync_is_never_asked_again(tmp_path, strace):
    log = tmp_path / "calls"
    home = tmp_path / "journal"
    before = [*strace[:-1], str(log), "-P", str(column_at(home))]
    before += ["-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync:error=EIO:when=2"]
    run({"path": home, "count": 6, "at_once": 3}, before=before)
    calls = log.read_text().splitlines()
    failed = next(number for number, line in enumerate(calls) if "EIO" in line)
    assert not [line for line in calls[failed + 1 :] if "sync(" in line]


def test_all_records_of_a_group_whose_sync_failed_are_refused(tmp_path, strace):
    before = injected(strace, tmp_path, "fdatasync:error=EIO:when=2")
    reports, _ = run({"path": tmp_path, "count": 40, "at_once": 20}, before=before)
    acknowledged, refused = acknowledged_in(reports), refusals_in(reports)
    assert sorted([*acknowledged, *refused]) == list(range(40))
    assert refused
    assert_all_there(tmp_path, acknowledged, of_size(100))
    reader = ColumnReader(column_at(tmp_path))
    assert len(reader) == len(acknowledged)


# ---- no room -------------------------------------------------------------------------------------


def fill(place):
    """Leave no room; return what to delete to make some."""
    filler = place / FILLER
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return filler


def test_with_room_again_the_same_process_goes_on(small_disk):
    home = small_disk / "journal"
    filler = small_disk / FILLER
    filler.write_bytes(b"x" * 1_000_000)
    config = {"path": home, "count": 40, "sizes": [50_000], "at_once": 3}
    with start(config) as process:
        reports = []
        for report in reports_of(process):
            reports.append(report)
            if report.get("trouble"):
                assert report["type"] == "DiskFullError"
                assert str(column_at(home)) in report["trouble"]
                assert "No space left" in report["trouble"]
                assert " needed" in report["trouble"]
                assert "free some space" in report["hint"]
                waiting = len(acknowledged_in(reports))
                reader = ColumnReader(column_at(home))
                assert reader.state.torn_bytes == 0, "the partial batch is still there"
                filler.unlink()
    assert 0 < waiting < 25
    # 40 × 50 KB do not fit into 2 MB either: see that it went on, and make no more room.
    assert {"trouble": None} in reports
    assert len(acknowledged_in(reports)) > waiting


def test_records_that_waited_for_room_are_written_when_there_is_some(small_disk):
    home = small_disk / "journal"
    told, release = [], asyncio.Event()

    async def go(journal, column, filler):
        loop = asyncio.get_running_loop()
        journal.listeners.append(lambda trouble: loop.call_soon_threadsafe(tell, trouble))

        def tell(trouble):
            told.append(trouble)
            release.set()

        waiting = [column.append(outcome_of(number, 30_000)) for number in range(1, 9)]
        await release.wait()
        assert not [one for one in waiting if one.done()]
        waiting[3].cancel()
        await asyncio.sleep(0)
        filler.unlink()
        return await asyncio.gather(*waiting, return_exceptions=True)

    with Journal(home) as journal:
        column = journal.column(STEP)
        asyncio.run(append_all(column, [outcome_of(0)]))
        answers = asyncio.run(go(journal, column, fill(small_disk)))
    assert isinstance(told[0], DiskFullError)
    assert [type(answer).__name__ for answer in answers].count("CancelledError") == 1
    assert sum(isinstance(answer, Outcome) for answer in answers) == 7
    assert_all_there(home, [0], of_size(100))
    assert_all_there(home, range(1, 9), of_size(30_000))  # also the one whose waiter went away
    assert verify(home).is_sound


def test_when_patience_ends_the_error_says_what_to_do_and_nothing_is_harmed(small_disk):
    home = small_disk / "journal"
    config = {"path": home, "count": 60, "sizes": [50_000], "patience_s": 0.2, "linger": True}
    with start(config) as process:
        reports = []
        for report in reports_of(process):
            reports.append(report)
            if "refused" in report:
                assert report["type"] == "DiskFullError"
                assert str(column_at(home)) in report["text"]
                assert "free some space" in report["hint"]
            if len(acknowledged_in(reports)) + len(refusals_in(reports)) == 60:
                process.stdin.close()
    acknowledged = acknowledged_in(reports)
    assert 10 < len(acknowledged) < 60
    assert verify(home).is_sound
    assert_all_there(home, acknowledged, of_size(50_000))


def test_no_room_by_strace_is_waited_out(tmp_path, strace):
    before = injected(strace, tmp_path, "writev:error=ENOSPC:when=3")
    reports, code = run({"path": tmp_path, "count": 6}, before=before)
    assert code == 0
    assert acknowledged_in(reports) == list(range(6))
    assert [report["trouble"] is None for report in reports if "trouble" in report] == [False, True]
    assert_all_there(tmp_path, range(6), of_size(100))


def test_opening_where_there_is_no_room_says_what_to_do_and_loses_nothing(small_disk):
    home = small_disk / "journal"
    write(home, [outcome_of(number) for number in range(20)])
    with column_at(home).open("ab") as file:
        file.write(b"torn" * 3000)
    filler = fill(small_disk)
    with pytest.raises(JournalError) as refused, Journal(home) as journal:
        journal.column(STEP)
    assert str(home) in str(refused.value)
    assert "space" in refused.value.hint
    filler.unlink()
    assert_all_there(home, range(20), of_size(100))
    reopen(home)


# ---- files that may not grow ---------------------------------------------------------------------


def test_one_record_that_is_too_large_harms_no_other(tmp_path):
    sizes = [1_000, 1_000, 400_000, 1_000]
    config = {"path": tmp_path, "count": 40, "sizes": sizes, "at_once": 8}
    reports, code = run({**config, "most_file_bytes": 100_000})
    acknowledged, refused = acknowledged_in(reports), refusals_in(reports)
    assert code == 0
    assert list(refused) == [number for number in range(40) if number % 4 == 2]
    for report in refused.values():
        assert report["type"] == "RecordNotWrittenError"
        assert str(column_at(tmp_path)) in report["text"]
        assert "File too large" in report["text"]
        assert "run again" in report["hint"]
    assert verify(tmp_path).is_sound
    assert_all_there(tmp_path, acknowledged, lambda number: sizes[number % 4])
    reopen(tmp_path)


FOREIGN = """
import asyncio, os, resource, sys
from limpet.journal import Journal
sys.path.insert(0, sys.argv[2])
from crash.laboratory import STEP, column_at, outcome_of

async def go(column):
    await column.append(outcome_of(0))
    with column.path.open("ab") as other:
        other.write(b'{"by": "others", "text": "' + b"x" * 150 + b'"}\\n')
    await column.append(outcome_of(1))
    os.write(1, b"acknowledged\\n")
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, resource.RLIM_INFINITY))
    try:
        await column.append(outcome_of(2, 20_000))
    except Exception as error:
        os.write(1, b"refused\\n")

with Journal(sys.argv[1]) as journal:
    asyncio.run(go(journal.column(STEP)))
"""


def test_a_failed_write_after_a_line_by_others_cuts_nothing_that_was_acknowledged(tmp_path):
    tests = str(WRITING_PROCESS.parent.parent)
    done = ready_limpet.run_python(
        [sys.executable, "-c", FOREIGN, str(tmp_path), tests], capture_output=True, check=False
    )
    assert done.stdout == b"acknowledged\nrefused\n"
    assert_all_there(tmp_path, [0, 1], of_size(100))


# ---- waiters and values --------------------------------------------------------------------------


def test_a_cancelled_waiter_disturbs_no_other_and_its_record_is_written(tmp_path):
    async def go(column):
        waiting = [column.append(outcome_of(number, 5_000)) for number in range(200)]
        for number in range(0, 200, 3):
            waiting[number].cancel()
        return await asyncio.gather(*waiting, return_exceptions=True)

    with Journal(tmp_path) as journal:
        answers = asyncio.run(go(journal.column(STEP)))
    for number, answer in enumerate(answers):
        assert isinstance(answer, Outcome if number % 3 else asyncio.CancelledError)
    assert_all_there(tmp_path, range(200), of_size(5_000))


def test_a_waiter_cancelled_while_the_disk_is_slow_keeps_its_record(tmp_path, monkeypatch):
    size, count = 1_000_000, 24
    may_write, real = threading.Event(), os.writev

    def slow_disk(fd, parts):
        may_write.wait(100)
        return real(fd, parts)

    async def go(column):
        monkeypatch.setattr(os, "writev", slow_disk)
        waiting = [column.append(outcome_of(number, size)) for number in range(count)]
        waiting[-1].cancel()
        may_write.set()
        return await asyncio.gather(*waiting, return_exceptions=True)

    with Journal(tmp_path, durability="flush") as journal:
        answers = asyncio.run(go(journal.column(STEP)))
    assert isinstance(answers[-1], asyncio.CancelledError)
    assert all(isinstance(answer, Outcome) for answer in answers[:-1])
    assert_all_there(tmp_path, range(count), of_size(size))


class Opaque:
    def __repr__(self):
        return "<an opaque thing>"


class Spiteful:
    def __repr__(self):
        raise RuntimeError("no")


class Panicking:
    """As some libraries written in other languages do: their panics are no Exceptions."""

    def model_dump(self):
        raise BaseException("panic")


def failures_in(home):
    lines = (home / "failures.jsonl").read_bytes().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Opaque(), "opaque thing"),
        ({"in": [Opaque()]}, "opaque thing"),
        (Spiteful(), "repr raised"),
        (object, "class 'object'"),
        ({"x": lambda: 0}, "lambda"),
    ],
)
def test_a_value_that_cannot_be_kept_is_a_failure_that_shows_it(tmp_path, value, shown):
    bad = Outcome(Cell(STEP, "bad", 0, key_of("bad")), record=value)
    with Journal(tmp_path) as journal:
        column = journal.column(STEP)
        good, answer = asyncio.run(append_all(column, [outcome_of(0), bad]))
        assert key_of("bad") not in column
    assert good.status is CellStatus.COMPLETED
    assert answer.status is CellStatus.FAILED
    assert answer.failure.kind == "encoding"
    [failure] = failures_in(tmp_path)
    assert failure["id"] == "bad"
    assert failure["error"]["class"] == "encoding"
    assert shown in failure["repr"]
    assert_all_there(tmp_path, [0], of_size(100))
    assert key_of("bad") not in ColumnReader(column_at(tmp_path))


def test_a_value_that_cannot_be_kept_is_shown_cut_to_size(tmp_path):
    bad = Outcome(Cell(STEP, "bad", 0, key_of("bad")), record=["x" * 300_000, Opaque()])
    with Journal(tmp_path) as journal:
        asyncio.run(append_all(journal.column(STEP), [bad]))
    assert (tmp_path / "failures.jsonl").stat().st_size < 20_000


HOLDS_ITSELF = """
import asyncio, os, sys
from limpet.fingerprints.keys import digest
from limpet.journal import Cell, Journal, Outcome

knot = {}
eval(sys.argv[2])
with Journal(sys.argv[1]) as journal:
    column = journal.column("workflow")
    async def go():
        return await column.append(Outcome(Cell("workflow", "knot", 0, digest(0)), record=knot))
    os.write(1, asyncio.run(go()).status.value.encode())
"""


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "knotted",
    [
        "knot.update(a=knot)",
        "knot.update(a=[1, knot])",
        "knot.update(a=float('nan'), b=[knot])",
    ],
)
def test_a_value_that_holds_itself_is_a_failure_too(tmp_path, knotted):
    with ready_limpet.Popen(
        [sys.executable, "-c", HOLDS_ITSELF, str(tmp_path), knotted], stdout=subprocess.PIPE
    ) as process:
        try:
            answer, _ = process.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            answer = b"it goes round and round for ever"
        finally:
            process.kill()
    assert answer == b"failed"
    assert "knot" in failures_in(tmp_path)[0]["id"]


def test_a_value_whose_reading_panics_leaves_no_waiter_waiting(tmp_path):
    panicking = Outcome(Cell(STEP, "panic", 0, key_of("panic")), record=Panicking())

    async def go(column):
        waiting = [column.append(one) for one in (outcome_of(0), panicking, outcome_of(1))]
        done, pending = await asyncio.wait(waiting, timeout=100)
        return [one.exception() for one in done], pending

    with Journal(tmp_path) as journal:
        column = journal.column(STEP)
        answers, pending = asyncio.run(go(column))
        assert not pending
        assert isinstance(asyncio.run(append_all(column, [outcome_of(2)]))[0], Outcome)
    assert_all_there(tmp_path, [2], of_size(100))


@pytest.mark.parametrize("key", ["abc", "", "z" * 32, "0" * 34, "é" * 16, "ab " * 11, "A" * 32])
def test_a_key_that_is_none_is_refused_or_kept_and_harms_no_other(tmp_path, key):
    async def go(column):
        bad = Outcome(Cell(STEP, "bad", 0, key), record={"a": 1})
        try:
            await column.append(bad)
        except Exception as error:
            refused = error
        else:
            refused = None
        return refused, await column.append(outcome_of(0))

    with Journal(tmp_path) as journal:
        column = journal.column(STEP)
        refused, _ = asyncio.run(go(column))
        if refused is None:
            assert column.read(key).record == {"a": 1}
    if refused is None:
        assert ColumnReader(column_at(tmp_path), index_at(tmp_path)).read(key) is not None
    assert_all_there(tmp_path, [0], of_size(100))


def test_somebody_told_of_trouble_who_fails_himself_leaves_no_waiter_waiting(small_disk):
    def on_trouble(trouble):
        raise RuntimeError("whoever should be told is gone")

    async def go(column, filler):
        waiting = column.append(outcome_of(1, 30_000))
        done, pending = await asyncio.wait([waiting], timeout=100)
        assert not pending, "nobody will ever answer it"
        assert isinstance(waiting.exception(), JournalError)

    home = small_disk / "journal"
    with Journal(home, patience_s=1) as journal:
        journal.listeners.append(on_trouble)
        column = journal.column(STEP)
        asyncio.run(append_all(column, [outcome_of(0)]))
        asyncio.run(go(column, fill(small_disk)))
    (small_disk / FILLER).unlink()
    assert_all_there(home, [0], of_size(100))


def test_what_a_killed_process_left_unsynced_is_synced_before_it_counts(tmp_path, strace):
    home, log = tmp_path / "journal", tmp_path / "calls"
    # Killed between its write and its sync: the record is with the system, not on the disk.
    before = injected(strace, home, "fdatasync:signal=KILL:error=EIO:when=1")
    reports, _ = run({"path": home, "count": 1}, before=before)
    assert acknowledged_in(reports) == []
    assert key_of(0) in ColumnReader(column_at(home))
    # The next process finds it and builds on it, and has nothing to append.
    before = [*strace[:-1], str(log), "-P", str(column_at(home)), "-e", "trace=fdatasync,fsync"]
    reports, _ = run({"path": home, "count": 0}, before=before)
    assert {"closed": True} in reports
    assert "sync(" in log.read_text(), "it counts as done, and a power cut would take it away"
    assert record_of(0) == ColumnReader(column_at(home)).read(key_of(0)).record


def test_a_file_made_by_a_process_that_was_killed_is_synced_into_its_directory(tmp_path, strace):
    home, log = tmp_path / "journal", tmp_path / "calls"
    write(home, [])
    column_at(home).unlink()
    column_at(home).touch()  # as a process leaves it that is killed right after making it
    before = [*strace[:-1], str(log), "-y", "-e", "trace=fsync"]
    reports, _ = run({"path": home, "count": 1}, before=before)
    assert acknowledged_in(reports) == [0]
    assert f"<{os.fspath(home)}>" in log.read_text(), "the file's name may not be on the disk"


def test_a_read_only_disk_is_said_before_anything_is_spent(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)  # noqa: S607
    asked = []
    with pytest.raises(JournalError, match="Read-only file system") as caught:
        limpet.evaluate([{"question": "why?"}], asked.append, run=small_disk / "run")
    assert "its permissions" in caught.value.hint
    assert asked == []


def test_an_evaluation_waits_for_room_on_a_full_disk(small_disk):
    answered = []

    async def answer(question):
        answered.append(question)
        return question * 3000

    def make_room(trouble):
        if trouble is not None:
            (small_disk / FILLER).unlink()

    async def main():
        rows = [{"id": str(n), "question": str(n % 10)} for n in range(40)]
        asked = Arguments(rows, answer, run=small_disk / "run", options={"pace": 4})
        evaluation = EvaluationSession(_request(asked, _options(asked)))
        evaluation.open()
        evaluation._journal.listeners.append(make_room)
        fill(small_disk)
        await evaluation.execute()
        return evaluation

    evaluation = asyncio.run(main())
    result = evaluation.finish()
    evaluation.close()
    assert result.summary["workflow"]["completed"] == 40
    assert len(answered) == 40
