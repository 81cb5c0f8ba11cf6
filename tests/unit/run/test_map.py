"""A map that keeps what it did."""

import asyncio
import contextvars
import dataclasses
import decimal
import json
import logging
import threading
from pathlib import Path

import pytest
from cut_short import cut_short

import limpet
from limpet import PermanentError, TransientError
from limpet.executors import ExecutionStatus
from limpet.journal import Journal, repair
from limpet.types import MapResult


async def double(x):
    return 2 * x


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


class Counting:
    """A function that counts its calls. With a version, as each test makes its own."""

    def __init__(self, function=lambda x: 2 * x):
        self.calls = []
        self._function = function

    def map(self, inputs, journal, **options):
        async def call(x):
            self.calls.append(x)
            return self._function(x)

        options.setdefault("version", "1")
        return limpet.map(call, inputs, journal=journal, **options)


def test_a_map_without_a_journal_is_just_a_map():
    result = limpet.map(double, range(5))
    assert result.outputs == [0, 2, 4, 6, 8]
    assert (result.kept, result.ran, result.failures, result.stop_reason) == (0, 5, [], None)
    assert [one.status for one in result.details] == [ExecutionStatus.COMPLETED] * 5


def test_a_plain_function_runs_in_threads_at_the_same_time():
    together = threading.Barrier(3, timeout=20)

    def wait(x):
        together.wait()
        return x

    assert limpet.map(wait, [1, 2, 3], pace=3).outputs == [1, 2, 3]


def test_a_lambda_around_an_async_function_is_awaited():
    assert limpet.map(lambda x: double(x), [1, 2]).outputs == [2, 4]


def test_the_journal_is_the_column_itself_with_its_notes_beside_it(tmp_path):
    path = tmp_path / "out.jsonl"
    limpet.map(double, [1, "a"], journal=path)
    assert [(line["input"], line["output"]) for line in lines(path)] == [(1, 2), ("a", "aa")]
    assert {one.name for one in (tmp_path / "out.jsonl.d").iterdir()} == {
        "LOCK",
        "events.jsonl",
        "failures.jsonl",
        "identity.json",
        "index",
        "run.json",
    }


def test_a_directory_works_too(tmp_path):
    limpet.map(double, [1], journal=tmp_path / "runs")
    assert lines(tmp_path / "runs" / "map_output.jsonl")[0]["output"] == 2
    assert limpet.map(double, [1], journal=tmp_path / "runs").kept == 1


def test_what_is_on_disk_is_kept_and_only_the_rest_runs(tmp_path):
    counting, path = Counting(), tmp_path / "out.jsonl"
    counting.map([1, 2, 3], path)
    result = counting.map([4, 3, 2, 1], path)
    assert result.outputs == [8, 6, 4, 2]
    assert (result.kept, result.ran) == (3, 1)
    assert counting.calls == [1, 2, 3, 4]
    assert repr(result) == "<MapResult: 4 inputs, 3 kept, 1 ran>"
    assert all(one.status is ExecutionStatus.COMPLETED for one in result.details)


def test_equal_inputs_are_told_apart_and_an_inserted_one_shifts_nothing(tmp_path):
    counting, path = Counting(), tmp_path / "out.jsonl"
    assert counting.map(["a", "a"], path).outputs == ["aa", "aa"]
    assert counting.map(["x", "a", "a", "a"], path).outputs == ["xx", "aa", "aa", "aa"]
    assert counting.calls == ["a", "a", "x", "a"]


def test_a_key_says_who_an_input_is(tmp_path):
    counting, path = Counting(lambda row: row["text"]), tmp_path / "out.jsonl"
    rows = [{"id": "a", "text": "one"}, {"id": "b", "text": "two"}]
    counting.map(rows, path, key=lambda row: row["id"])
    result = counting.map([{"id": "b", "text": "changed"}], path, key=lambda row: row["id"])
    assert (result.kept, result.outputs) == (1, ["two"])
    assert [line["_limpet"]["id"] for line in lines(path)] == ["a", "b"]


def test_two_inputs_with_one_key_are_an_error_that_names_both(tmp_path):
    with pytest.raises(ValueError, match="key= returned 'a' for inputs 0 and 2"):
        Counting().map([1, 2, 3], tmp_path / "out.jsonl", key=lambda x: "ab"[x % 2 == 0])


def test_an_input_without_a_json_form_needs_a_key(tmp_path):
    path, things = tmp_path / "out.jsonl", [object(), object()]
    with pytest.raises(TypeError, match="input 0 .* pass key="):
        limpet.map(id, things, journal=path)
    result = limpet.map(lambda _: 1, things, journal=path, key=things.index)
    assert result.outputs == [1, 1]
    assert "input" not in lines(path)[0]


def test_a_failed_input_is_recorded_apart_and_runs_again(tmp_path):
    path, broken = tmp_path / "out.jsonl", {"b"}

    def maybe(x):
        if x in broken:
            raise PermanentError(f"no {x}")
        return x.upper()

    counting = Counting(maybe)
    result = counting.map(["a", "b"], path)
    assert result.outputs == ["A", limpet.executors.UNSET]
    (failure,) = result.failures
    assert (failure.index, failure.input, str(failure.error)) == (1, "b", "no b")
    assert (result.ran, result.kept, result.not_run) == (2, 0, 0)
    (recorded,) = lines(tmp_path / "out.jsonl.d" / "failures.jsonl")
    assert recorded["error"]["class"] == "permanent"
    broken.clear()
    again = counting.map(["a", "b"], path)
    assert again.outputs == ["A", "B"]
    assert counting.calls == ["a", "b", "b"]


def test_every_attempt_of_a_failure_is_recorded(tmp_path):
    def fail(x):
        raise TransientError("busy")

    Counting(fail).map(
        [1],
        tmp_path / "o.jsonl",
        retry=limpet.Retry(max_retries=2, backoff=limpet.executors.Backoff(base_s=0)),
        pace=1,
    )
    (recorded,) = lines(tmp_path / "o.jsonl.d" / "failures.jsonl")
    assert [one["attempt"] for one in recorded["attempts"]] == [1, 2, 3]
    assert {one["class"] for one in recorded["attempts"]} == {"transient"}
    assert recorded["_limpet"]["attempts"] == 3


def test_an_output_without_a_json_form_is_a_failure_that_says_so(tmp_path):
    result = Counting(lambda x: object() if x else "fine").map([0, 1], tmp_path / "out.jsonl")
    assert result.outputs == ["fine", limpet.executors.UNSET]
    assert "cannot be stored as JSON" in str(result.failures[0].error)
    assert result.details[1].status is ExecutionStatus.FAILED


def test_a_first_run_and_a_resumed_one_give_the_same(tmp_path):
    counting = Counting(lambda x: {"t": (1, x), "nan": float("inf")})
    first = counting.map([1, 2], tmp_path / "out.jsonl")
    second = counting.map([1, 2], tmp_path / "out.jsonl")
    assert first.outputs == second.outputs == [{"t": [1, x], "nan": float("inf")} for x in (1, 2)]
    assert second.kept == 2


# ---- when the function changes ------------------------------------------------------------------


async def version_one(x):
    return f"one {x}"


async def version_two(x):
    return f"two {x}"


def test_a_changed_function_is_an_error_that_says_what_changed(tmp_path):
    path = tmp_path / "out.jsonl"
    limpet.map(version_one, ["a", "b"], journal=path)
    before = path.read_bytes()
    with pytest.raises(
        limpet.FunctionChangedError,
        match=r"`version_one` \(no longer used\), `version_two` \(now used\)",
    ) as caught:
        limpet.map(version_two, ["a", "b", "c"], journal=path)
    assert "2 of 3 inputs" in str(caught.value)
    assert 'on_change="redo"' in caught.value.hint
    assert path.read_bytes() == before
    # Nothing is held: the next call may choose.
    assert limpet.map(version_one, ["a"], journal=path).kept == 1


def test_redo_makes_all_again_and_the_old_results_stay_in_the_file(tmp_path):
    path = tmp_path / "out.jsonl"
    limpet.map(version_one, ["a", "b"], journal=path)
    result = limpet.map(version_two, ["a", "b"], journal=path, on_change="redo")
    assert (result.kept, result.outputs) == (0, ["two a", "two b"])
    assert len(lines(path)) == 4
    # Now it is the function of this journal, and needs no more answer.
    assert limpet.map(version_two, ["a", "b"], journal=path).kept == 2
    # Back to the old one: its results are still true.
    assert limpet.map(version_one, ["a", "b"], journal=path).outputs == ["one a", "one b"]


def test_keep_keeps_the_old_results_and_runs_what_is_missing(tmp_path):
    path = tmp_path / "out.jsonl"
    limpet.map(version_one, ["a", "b"], journal=path)
    result = limpet.map(version_two, ["a", "b", "c"], journal=path, on_change="keep")
    assert (result.kept, result.outputs) == (2, ["one a", "one b", "two c"])
    # The answer holds from now on.
    assert limpet.map(version_two, ["a", "c"], journal=path).outputs == ["one a", "two c"]


def test_a_declared_version_stands_for_the_code(tmp_path):
    path = tmp_path / "out.jsonl"
    limpet.map(version_one, ["a"], journal=path, version="7")
    assert limpet.map(version_two, ["a"], journal=path, version="7").outputs == ["one a"]
    with pytest.raises(limpet.FunctionChangedError, match="version"):
        limpet.map(version_two, ["a"], journal=path, version="8")


def test_a_change_that_touches_no_asked_input_needs_no_answer(tmp_path):
    path = tmp_path / "out.jsonl"
    limpet.map(version_one, ["a"], journal=path)
    assert limpet.map(version_two, ["b"], journal=path).outputs == ["two b"]


def test_redo_is_heard_also_after_keep(tmp_path):
    path = tmp_path / "out.jsonl"
    limpet.map(version_one, ["a"], journal=path)
    limpet.map(version_two, ["a"], journal=path, on_change="keep")
    result = limpet.map(version_two, ["a"], journal=path, on_change="redo")
    assert result.outputs == ["two a"]
    assert limpet.map(version_two, ["a"], journal=path).outputs == ["two a"]


def test_results_of_any_earlier_function_are_asked_about(tmp_path):
    path = tmp_path / "out.jsonl"
    limpet.map(version_one, ["a", "b"], journal=path)
    limpet.map(version_two, ["c"], journal=path)
    with pytest.raises(limpet.FunctionChangedError, match="2 of 3 inputs"):
        limpet.map(version_two, ["a", "b", "c"], journal=path)


def test_a_redo_that_was_cut_short_goes_on_without_being_asked_again(tmp_path):
    path, broken = tmp_path / "out.jsonl", {"b"}

    def two(x):
        if x in broken:
            raise PermanentError("not yet")
        return f"two {x}"

    Counting(lambda x: f"one {x}").map(["a", "b"], path)
    counting = Counting(two)
    counting.map(["a", "b"], path, version="2", on_change="redo")
    broken.clear()
    assert counting.map(["a", "b"], path, version="2").outputs == ["two a", "two b"]
    assert counting.calls == ["a", "b", "b"]


def test_what_new_code_makes_is_never_recorded_as_the_old_codes(tmp_path):
    path = tmp_path / "out.jsonl"
    limpet.map(version_one, ["a"], journal=path)
    limpet.map(version_two, ["a", "c"], journal=path, on_change="keep")
    # Back to the old code: what the new code made in between is not its own.
    with pytest.raises(limpet.FunctionChangedError, match="1 of 2 inputs"):
        limpet.map(version_one, ["a", "c"], journal=path)


def test_every_input_that_only_other_code_answered_is_asked_about(tmp_path):
    path = tmp_path / "out.jsonl"
    limpet.map(version_one, ["a"], journal=path)
    limpet.map(version_two, ["b"], journal=path)
    with pytest.raises(limpet.FunctionChangedError, match="1 of 2 inputs"):
        limpet.map(version_two, ["a", "b"], journal=path)


# ---- hooks, options, async ----------------------------------------------------------------------


def test_a_watcher_sees_the_index_of_the_whole_list_and_only_what_is_on_disk(tmp_path):
    path, seen = tmp_path / "out.jsonl", []
    counting = Counting()
    counting.map([1, 2], path)

    async def on_complete(finished):
        seen.append((finished.index, lines(path)[-1]["output"]))

    counting.map([1, 2, 3], path, watcher=on_complete, pace=1)
    assert seen == [(2, 6)]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_watcher_runs_in_the_context_of_its_call(tmp_path, is_async):
    """What the call set is there, and nothing of another call: a trace can be continued."""
    span, seen = contextvars.ContextVar("span", default="none"), []

    async def call(x):
        assert span.get() == "run"
        span.set(f"call {x}")
        return x

    def watch(finished):
        seen.append((finished.input, span.get()))
        span.set("watched")

    async def watch_later(finished):
        watch(finished)

    def main():
        span.set("run")
        options = {"watcher": watch_later if is_async else watch, "version": "1"}
        limpet.map(call, [1, 2, 3], journal=tmp_path / "out.jsonl", **options)

    contextvars.copy_context().run(main)
    assert sorted(seen) == [(1, "call 1"), (2, "call 2"), (3, "call 3")]


def test_amap_takes_async_inputs_and_leaves_the_loop_free(tmp_path):
    async def numbers():
        for n in range(5):
            yield n

    async def main():
        first = await limpet.amap(double, numbers(), journal=tmp_path / "out.jsonl")
        second = await limpet.amap(double, numbers(), journal=tmp_path / "out.jsonl")
        plain = await limpet.amap(double, numbers())
        return first, second, plain

    first, second, plain = asyncio.run(main())
    assert first.outputs == second.outputs == plain.outputs == [0, 2, 4, 6, 8]
    assert (first.ran, second.kept) == (5, 5)


def test_map_under_a_running_loop_works_as_in_a_notebook(tmp_path):
    async def cell():
        return limpet.map(double, [1, 2], journal=tmp_path / "out.jsonl")

    assert asyncio.run(cell()).outputs == [2, 4]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"pase": 3}, TypeError, "did you mean 'pace'"),
        ({"fail_fast": True}, TypeError, "'fail_fast' is not an option of map"),
        ({"concurency": 3}, TypeError, "not an option of map; did you mean 'pace'?"),
        ({"max_retries": 3}, TypeError, "not an option of map; did you mean 'retry'?"),
        ({"retry_failed": False}, TypeError, "'retry_failed' is not an option of map"),
        ({"on_change": "ignore"}, ValueError, "on_change='ignore'"),
        ({"version": 3}, TypeError, "version=3"),
        ({"key": "id"}, TypeError, "key='id'"),
        ({"pace": 0}, ValueError, "pace=0"),
    ],
)
def test_a_wrong_option_is_named_and_nothing_is_left_locked(tmp_path, options, error, said):
    with pytest.raises(error, match=said):
        limpet.map(double, [1], journal=tmp_path / "out.jsonl", **options)
    assert limpet.map(double, [1], journal=tmp_path / "out.jsonl").outputs == [2]


def test_an_async_iterable_needs_amap():
    async def numbers():
        yield 1

    with pytest.raises(TypeError, match="amap"):
        limpet.map(double, numbers())


def test_two_maps_cannot_write_to_one_journal(tmp_path):
    with Journal(tmp_path / "out.jsonl"), pytest.raises(limpet.errors.RunLockedError):
        limpet.map(double, [1], journal=tmp_path / "out.jsonl")


def test_no_inputs_are_no_problem(tmp_path):
    assert limpet.map(double, [], journal=tmp_path / "out.jsonl").outputs == []
    assert limpet.map(double, []).outputs == []


# ---- the disk -----------------------------------------------------------------------------------


def test_a_damaged_result_runs_again(tmp_path):
    counting, path = Counting(), tmp_path / "out.jsonl"
    counting.map([1, 2, 3], path)
    path.write_bytes(path.read_bytes().replace(b'"output":4', b'"output":5'))
    result = counting.map([1, 2, 3], path)
    assert result.outputs == [2, 4, 6]
    assert counting.calls == [1, 2, 3, 2]


def test_a_broken_disk_stops_the_run_and_says_why(tmp_path, monkeypatch):
    import errno
    import os

    counting, path = Counting(), tmp_path / "out.jsonl"
    counting.map([1], path)
    real = os.fdatasync
    asked = []

    def fdatasync(fd):
        if Path(f"/proc/self/fd/{fd}").readlink() == path:
            asked.append(fd)
            if len(asked) > 1:  # the first is made by opening
                raise OSError(errno.EIO, "Input/output error")
        real(fd)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    with pytest.raises(limpet.errors.JournalError, match="in doubt"):
        counting.map(range(1, 500), path, pace=2)
    assert len(asked) == 2  # never asked again
    assert len(counting.calls) < 100
    monkeypatch.undo()
    assert counting.map(range(1, 500), path).outputs == [2 * n for n in range(1, 500)]


def test_a_full_disk_pauses_the_calls_and_room_lets_them_go_on(tmp_path, monkeypatch, caplog):
    import errno
    import os

    from limpet.journal import writer as full_disk

    counting, path = Counting(), tmp_path / "out.jsonl"
    full, tries, calls_while_full = threading.Event(), [], []
    full.set()
    real = os.writev

    def writev(fd, parts):
        if Path(f"/proc/self/fd/{fd}").readlink() == path and full.is_set():
            calls_while_full.append(len(counting.calls))
            tries.append(fd)
            if len(tries) == 4:
                full.clear()
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, parts)

    monkeypatch.setattr(os, "writev", writev)
    monkeypatch.setattr(full_disk, "RETRY_S", 0.05)

    async def call(x):
        counting.calls.append(x)
        await asyncio.sleep(0.02)
        return 2 * x

    result = limpet.map(call, range(500), journal=path, pace=50, version="1")
    assert result.outputs == [2 * n for n in range(500)]
    # Those in flight, and those that started before it was heard; without a pause, 250.
    assert calls_while_full[-1] < 200
    assert "No space left" in caplog.text
    assert "there is space again" in caplog.text


def test_one_result_that_cannot_be_written_harms_no_other(tmp_path, monkeypatch):
    import errno
    import os

    path = tmp_path / "out.jsonl"
    real = os.writev

    def writev(fd, parts):
        if any(b"too large" in bytes(part) for part in parts):
            raise OSError(errno.EFBIG, "File too large")
        return real(fd, parts)

    monkeypatch.setattr(os, "writev", writev)
    counting = Counting(lambda x: "too large" if x == 3 else x)
    result = counting.map(range(6), path)
    assert result.outputs == [0, 1, 2, limpet.executors.UNSET, 4, 5]
    assert "File too large" in str(result.failures[0].error)
    monkeypatch.undo()
    assert counting.map(range(6), path).kept == 5


def test_a_session_that_was_cut_off_says_which_calls_may_have_been_paid_for(tmp_path, caplog):
    path = tmp_path / "out.jsonl"
    counting = Counting()
    counting.map(["a"], path)
    about = tmp_path / "out.jsonl.d" / "run.json"
    known = json.loads(about.read_bytes())
    del known["sessions"][-1]["ended"]  # as after a kill -9
    about.write_text(json.dumps(known))
    with (tmp_path / "out.jsonl.d" / "events.jsonl").open("a") as events:
        events.write('{"event":"started","key":"' + "0" * 32 + '","id":"paid"}\n')
        events.write('{"event":"started","key":"' + "1" * 32 + '","id":"refused"}\n')
        events.write('{"event":"failed","key":"' + "1" * 32 + '","id":"refused"}\n')
    with caplog.at_level(logging.WARNING):
        counting.map(["a", "b"], path)
    assert "1 call was in flight" in caplog.text
    assert "paid for: paid" in caplog.text


def test_repair_and_map_understand_each_other(tmp_path):
    path = tmp_path / "out.jsonl"
    counting = Counting()
    counting.map([1, 2], path)
    with path.open("ab") as file:
        file.write(b'{"_limpet":{"key":"')
    repair(path, say=lambda _: None)
    assert counting.map([1, 2], path).kept == 2


def test_a_result_is_plain_to_read():
    result = MapResult(
        [1, 2], [limpet.executors.ExecutionDetails(), limpet.executors.ExecutionDetails()]
    )
    assert repr(result) == "<MapResult: 2 inputs, 0 kept, 0 ran, 2 not run>"


# ---- what a review found ------------------------------------------------------------------------


@pytest.mark.parametrize("delay_s", [0, 0.001, 0.003, 0.01, 0.03])
def test_a_cancelled_amap_lets_go_of_everything(tmp_path, delay_s):
    path = tmp_path / "out.jsonl"

    async def slow(x):
        await asyncio.sleep(0.02)
        return x

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(limpet.amap(slow, range(50), journal=path), delay_s)
        # At once, and in the same process: no lock is left behind.
        return await limpet.amap(slow, range(50), journal=path, pace=50)

    assert asyncio.run(main()).outputs == list(range(50))


def test_calls_that_hold_asyncios_threads_do_not_hold_amap(tmp_path):
    release = threading.Event()

    async def hang(x):
        return await asyncio.to_thread(release.wait, 30)

    async def main():
        inputs = range(40)  # more than asyncio has threads
        result = await limpet.amap(
            hang, inputs, journal=tmp_path / "o.jsonl", timeout=0.05, retry=0, pace=40
        )
        assert not release.is_set()
        release.set()
        return result

    assert len(asyncio.run(main()).failures) == 40


def test_inputs_that_differ_by_their_type_alone_are_told_apart(tmp_path):
    @dataclasses.dataclass
    class Cat:
        name: str

    @dataclasses.dataclass
    class Dog:
        name: str

    counting, path = Counting(repr), tmp_path / "out.jsonl"
    inputs = [Cat("x"), Dog("x"), "1.5", decimal.Decimal("1.5"), [1], (1,), {1: 2}, {"1": 2}]
    forwards = counting.map(inputs, path).outputs
    assert counting.map(inputs[::-1], path).outputs == forwards[::-1]
    assert len(counting.calls) == len(inputs)


def test_a_function_that_changes_its_input_keeps_its_result(tmp_path):
    path = tmp_path / "out.jsonl"

    async def spoil(row):
        row["parsed"] = object()
        return "fine"

    assert limpet.map(spoil, [{"q": 1}], journal=path).outputs == ["fine"]
    assert lines(path)[0]["input"] == {"q": 1}  # what it changed was its own copy
    assert limpet.map(spoil, [{"q": 1}], journal=path).kept == 1


def test_two_names_of_one_file_are_one_journal(tmp_path):
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    with Journal(tmp_path / "real.jsonl"), pytest.raises(limpet.errors.RunLockedError):
        Journal(tmp_path / "link.jsonl")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "needs a path"),
        ("out.txt", "a .jsonl file or a directory"),
        ("results.jsonl.gz", "a .jsonl file or a directory"),
        ("x" * 300 + ".jsonl", "cannot be opened|not a path"),
        ("nul\0.jsonl", "not a path"),
        ("full", "not a journal"),
        ("set.json", "not a journal"),
    ],
)
def test_a_path_that_can_be_no_journal_is_said(tmp_path, monkeypatch, path, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    (tmp_path / "set.json").write_text('[{"about": "_limpet"}]')
    with pytest.raises(limpet.errors.JournalError, match=said):
        limpet.map(double, [1], journal=path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["full", "set.json"]


def test_a_suffix_in_capitals_and_a_dot_in_a_directory_are_fine(tmp_path):
    assert limpet.map(double, [1], journal=tmp_path / "OUT.JSONL").outputs == [2]
    assert (tmp_path / "OUT.JSONL").is_file()
    limpet.map(double, [1], journal=tmp_path / "v1.2")
    assert (tmp_path / "v1.2").is_dir()


def test_what_is_no_function_is_refused_at_once():
    with pytest.raises(TypeError, match="watcher=5"):
        limpet.map(double, [1], watcher=5)

    def generate(x):
        yield x

    with pytest.raises(TypeError, match="must return its result"):
        limpet.map(generate, [1])


def test_an_error_that_cannot_be_shown_is_recorded(tmp_path):
    class OddError(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    def fail(x):
        raise OddError

    Counting(fail).map([1], tmp_path / "o.jsonl", retry=0, pace=1)
    (recorded,) = lines(tmp_path / "o.jsonl.d" / "failures.jsonl")
    assert "whose str raised RuntimeError" in recorded["error"]["message"]


def test_the_policy_reaches_the_journal(tmp_path, monkeypatch):
    import os

    synced = []
    real = os.fdatasync

    def fdatasync(fd):
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    limpet.map(double, [1, 2], journal=limpet.Run(tmp_path / "flush.jsonl", durability="flush"))
    assert "flush.jsonl" not in synced
    limpet.map(double, [1, 2], journal=tmp_path / "sync.jsonl")
    assert "sync.jsonl" in synced


def test_an_exhausted_quota_stops_it_and_the_next_run_goes_on(tmp_path):
    spent = []

    def pay(x):
        if len(spent) == 3:
            raise limpet.errors.QuotaExhaustedError("nothing left")
        spent.append(x)
        return x

    counting, path = Counting(pay), tmp_path / "out.jsonl"
    stopped = cut_short(counting.map, range(6), path, pace=1)
    assert stopped.outputs == [0, 1, 2, *[limpet.executors.UNSET] * 3]
    assert (stopped.kept, stopped.ran, stopped.not_run, stopped.failures) == (0, 3, 3, [])
    assert isinstance(stopped.stop_reason, limpet.errors.QuotaExhaustedError)
    assert "3 not run, stopped: nothing left" in repr(stopped)
    spent.clear()
    again = counting.map(range(5), path, pace=1)
    assert (again.kept, again.outputs, again.stop_reason) == (3, [0, 1, 2, 3, 4], None)


def test_a_kept_result_says_how_it_came_about(tmp_path):
    path, tried = tmp_path / "out.jsonl", []

    async def second_time(x):
        tried.append(x)
        if len(tried) == 1:
            raise TransientError("busy")
        await asyncio.sleep(0.02)
        return x

    options = {
        "journal": path,
        "version": "1",
        "retry": limpet.Retry(backoff=limpet.executors.Backoff(base_s=0)),
    }
    limpet.map(second_time, [1], pace=1, **options)
    (details,) = limpet.map(second_time, [1], **options).details
    assert details.status is ExecutionStatus.COMPLETED_WITH_RETRIES
    assert details.execution_seconds >= 0.02


def test_amap_opens_the_journal_off_the_loop(tmp_path, monkeypatch):
    opened_in = []
    real = Journal.__init__

    def note(self, *arguments, **options):
        opened_in.append(threading.current_thread())
        real(self, *arguments, **options)

    monkeypatch.setattr(Journal, "__init__", note)
    asyncio.run(limpet.amap(double, [1], journal=tmp_path / "out.jsonl"))
    assert opened_in != [threading.main_thread()]
