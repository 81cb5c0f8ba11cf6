"""What evaluate returns and what a reader of the same directory says are the same, for any run."""

import json
import shutil
from zlib import crc32

import pytest
from cut_short import cut_short

import limpet
from limpet.errors import JournalError
from limpet.run.reading import RunReader
from limpet.run.results.item_result import result_of
from limpet.run.results.summary import Numbers

ROWS = [{"id": f"q{n}", "question": f"Say {n}", "answer": str(n), "note": "x"} for n in range(5)]


def last_word(question):
    return question.split()[-1]


def correct(output, expected):
    return output == expected


def length(output, item):
    return {"length": len(output), "noted": item.row["note"] == "x"}


def evaluate(run, rows=ROWS, workflow=last_word, limit=None, evaluators=None, **options):
    options = {"version": "1", "retry": 0, "fail_fast": False, **options}
    scored_by = [correct, length] if evaluators is None else evaluators
    return limpet.evaluate(
        limpet.Dataset(rows, limit=limit), workflow, scored_by, run=run, **options
    )


def told(record):
    names = (
        "id", "trial", "input", "expected", "output", "trace", "metadata", "scores", "error",
        "score_errors", "score_usage", "status", "seconds", "attempts", "usage", "at", "row", "key",
        "masked", "saw_masked", "version", "redo",
    )  # fmt: skip
    return {name: getattr(record, name) for name in names}


def assert_the_same(result, run):
    with RunReader(run) as reader:
        items = list(reader.items())
    summary = assert_the_items_add_up(run)
    assert [told(one) for one in items] == [told(one) for one in result._records]
    assert [result_of(one) for one in items] == result.items
    assert summary == {name: result.summary[name] for name in summary}
    written = json.loads((run / "summary.json").read_text())
    assert summary == {name: written[name] for name in summary}


def assert_the_items_add_up(run):
    """Compare the summary, which reads columns, with the sum of the items, which reads all.

    The summary that the session saved is read from `index/numbers`: it is added up once more
    without.
    """
    with RunReader(run) as reader:
        summary = reader.summary()
        numbers = Numbers(reader.evaluators, reader.trials, reader.run_file.scales)
        for item in reader.items():
            numbers.add(item)
        saved = run / "index" / "numbers"
        if saved.exists():
            saved.rename(run / "saved")
            assert summary == reader.summary()
            (run / "saved").rename(saved)
    assert summary == numbers.summary()
    return summary


def failing(run):
    def workflow(question):
        return 1 / 0 if question == "Say 2" else last_word(question)

    return evaluate(run, workflow=workflow)


def failed_scores(run):
    return evaluate(run, [{**ROWS[0], "note": 3}, {"id": "q9", "question": "Say 9"}])


def stopped(run):
    calls = []

    def workflow(question):
        calls.append(question)
        if len(calls) == 3:
            raise limpet.errors.QuotaExhaustedError("nothing left")
        return limpet.Output(last_word(question), limpet.Usage(3, 4), [{"type": "think"}])

    return cut_short(evaluate, run, workflow=workflow, pace=1)


def redone(run):
    evaluate(run)
    return evaluate(run, workflow=lambda question: "1", redo=limpet.Redo(items=["q1"]))


def redo_that_failed(run):
    evaluate(run)
    return evaluate(run, workflow=lambda question: 1 / 0, redo=True)


def kept_by_decision(run):
    evaluate(run, ROWS[:3])
    return evaluate(run, workflow=lambda question: "new", version="2", on_change="keep")


def masked(run):
    def workflow(question):
        return "the key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"

    return evaluate(run, workflow=workflow)


def trials(run):
    evaluate(run)
    return evaluate(run, trials=3)


def edited_expected(run):
    evaluate(run)
    return evaluate(run, [{**ROWS[0], "answer": "zero"}, *ROWS[1:]])


def edited_note(run):
    evaluate(run)
    return evaluate(run, [{**ROWS[0], "note": "y"}, *ROWS[1:]])


def reordered(run):
    evaluate(run)
    return evaluate(run, ROWS[::-1])


def equal_rows(run):
    return evaluate(run, [{**ROWS[0], "id": name} for name in "abc"])


def odd_values(run):
    rows = [{**ROWS[0], "question": "Say ~float:nan", "extra": {"when": float("inf"), 1: b"x"}}]
    return evaluate(run, rows)


def damaged_items(run):
    evaluate(run)
    (run / "items.jsonl").write_text("{}\n")
    return evaluate(run)


def failed_then_completed(run):
    failing(run)
    return evaluate(run)


def two_selections(run):
    evaluate(run, limit=2)
    return evaluate(run, limit=4)


def another_evaluator(run):
    evaluate(run)
    with_trace = limpet.evaluator(lambda output, trace: len(trace), name="length", version="2")
    of_a_field = limpet.evaluator(
        lambda item: item.row["note"] == "x", name="noted", version="1", reads=["row.note"]
    )
    return evaluate(run, evaluators=[correct, with_trace, of_a_field])


def labels_usage_and_costs(run):
    def workflow(question):
        number = int(last_word(question))
        models = {"m": {"prompt_tokens": number, "cost": 0.1 * number}}
        usage = limpet.Usage(number, 2, cost=0.1 * number, models=models)
        return limpet.Output(last_word(question), usage, [{"type": "think"}])

    def judged(output):
        value = None if output == "3" else len(output) / 3
        return limpet.Score(value, "odd" if int(output) % 2 else "even", "because"), limpet.Usage(
            1, 1
        )

    return evaluate(run, workflow=workflow, evaluators=[judged, length])


def texts_like_our_lines(run):
    """Lines are added up without decoding all of them: no text may look like their parts."""
    texts = ['"},"id":"', '},"', '"seconds":1},"', '","score":0', '{"}', "},", "\\", '\\"},"id":']

    def workflow(question):
        text = texts[int(last_word(question))]
        models = {text: {"prompt_tokens": 2}, "m{": {text: 1}, "m}": {"prompt_tokens": True}}
        return limpet.Output(text, limpet.Usage(3, 4, models=models), [{"type": text}])

    def judged(output):
        return limpet.Score(len(output), output, output)

    rows = [{"id": text, "question": f"Say {n}"} for n, text in enumerate(texts)]
    return evaluate(run, rows, workflow, evaluators=[judged])


def another_order_on_disk(run):
    """Costs are floats: their sum must not depend on the order of the lines."""

    def workflow(question):
        return limpet.Output("x", limpet.Usage(1, 1, cost=float(last_word(question))))

    numbers = ["1e16", "1", "-1e16", "0.1", "3"]
    rows = [{**row, "question": f"Say {n}"} for row, n in zip(ROWS, numbers, strict=True)]
    evaluate(run, rows, workflow)
    return evaluate(run, rows[::-1], workflow)


def redone_scores(run):
    evaluate(run)
    return evaluate(run, redo=limpet.Redo(["correct"], items=["q1", "q2"]))


def redo_that_was_stopped(run):
    evaluate(run)
    calls = []

    def workflow(question):
        calls.append(question)
        if len(calls) == 2:
            raise limpet.errors.QuotaExhaustedError("nothing left")
        return "1"

    return cut_short(evaluate, run, workflow=workflow, redo=True, pace=1)


def no_evaluators(run):
    return evaluate(run, evaluators=[])


KINDS = [
    failed_then_completed, two_selections, another_evaluator, labels_usage_and_costs,
    texts_like_our_lines, another_order_on_disk, redone_scores, redo_that_was_stopped,
    no_evaluators, evaluate, failing, failed_scores, stopped, redone, redo_that_failed, masked,
    kept_by_decision, trials, edited_expected, edited_note, reordered, equal_rows, odd_values,
    damaged_items,
]  # fmt: skip


@pytest.mark.quick(4)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_result_and_a_reader_of_its_directory_say_the_same(tmp_path, kind):
    assert_the_same(kind(tmp_path / "run"), tmp_path / "run")


def flip(path, number):
    """Change a byte in the middle of a line."""
    lines = path.read_bytes().splitlines(keepends=True)
    middle = len(lines[number]) // 2
    lines[number] = lines[number][:middle] + b"\x01" + lines[number][middle + 1 :]
    path.write_bytes(b"".join(lines))


DAMAGES = {
    "an answer": lambda run: flip(run / "workflow_output.jsonl", 1),
    "a score": lambda run: flip(run / "correct_output.jsonl", 2),
    "a key": lambda run: (run / "length_output.jsonl").write_bytes(
        (run / "length_output.jsonl").read_bytes().replace(b'"key":"', b'"key":"zz', 1)
    ),
    "all indexes": lambda run: shutil.rmtree(run / "index"),
    "the numbers": lambda run: (run / "index/numbers").unlink(),
    "the items": lambda run: (run / "items.jsonl").unlink(),
    "an item": lambda run: flip(run / "items.jsonl", 1),
    "what the steps are": lambda run: (run / "run.json").write_text("{}"),
    "a column": lambda run: (run / "correct_output.jsonl").unlink(),
    "half a line": lambda run: (run / "correct_output.jsonl").write_bytes(
        (run / "correct_output.jsonl").read_bytes()[:-30]
    ),
    "a foreign line": lambda run: (run / "workflow_output.jsonl").write_bytes(
        b'{"by":"others"}\n' + (run / "workflow_output.jsonl").read_bytes()
    ),
}


@pytest.fixture(scope="module")
def with_trials(tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "run"
    labels_usage_and_costs(run)
    evaluate(run, ROWS[:3])
    evaluate(run, [*ROWS, ROWS[0] | {"id": "again"}], trials=2)
    return run


@pytest.mark.quick(3)
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_summary_of_a_damaged_run_is_what_its_items_add_up_to(tmp_path, with_trials, damage):
    run = shutil.copytree(with_trials, tmp_path / "run")
    damage(run)
    assert_the_items_add_up(run)


@pytest.mark.parametrize("kind", [evaluate, trials, kept_by_decision], ids=lambda one: one.__name__)
def test_a_finished_run_that_is_asked_again_says_the_same(tmp_path, kind):
    first = kind(tmp_path / "run")
    options = {"version": "2"} if kind is kept_by_decision else {"trials": first.plan.trials}
    again = evaluate(tmp_path / "run", **options)
    assert again.plan.calls == 0
    assert [told(one) for one in again._records] == [told(one) for one in first._records]
    assert again.items == first.items
    assert_the_same(again, tmp_path / "run")


def test_items_holds_every_item_and_a_limit_does_not_shorten_it(tmp_path):
    result = evaluate(tmp_path / "run", limit=2)
    lines = [json.loads(line) for line in (tmp_path / "run/items.jsonl").read_text().splitlines()]
    assert [line["row"] for line in lines] == ROWS
    assert lines[3]["id"] == "q3"
    assert lines[3]["input_field"] == "question"
    assert len(lines[3]["key"]) == 32
    assert [one.id for one in result.items] == ["q0", "q1"]
    assert_the_same(result, tmp_path / "run")


def test_items_is_replaced_only_when_it_changed(tmp_path):
    path = tmp_path / "run/items.jsonl"
    evaluate(tmp_path / "run")
    first = path.stat().st_ino
    evaluate(tmp_path / "run", workflow=lambda question: "2", version="2", on_change="redo")
    assert path.stat().st_ino == first
    evaluate(tmp_path / "run", ROWS[:4], workflow=lambda question: "2", version="2")
    assert path.stat().st_ino != first


def test_a_result_is_not_that_of_a_later_session(tmp_path):
    first = evaluate(tmp_path / "run")
    evaluate(tmp_path / "run", workflow=lambda question: "2", version="2", on_change="redo")
    assert [one.output.value for one in first.items] == ["0", "1", "2", "3", "4"]


def test_a_result_whose_items_are_gone_says_so(tmp_path):
    first = evaluate(tmp_path / "run")
    evaluate(tmp_path / "run", ROWS[:2])
    with pytest.raises(JournalError, match="gone, or was started with other items since"):
        first.items  # noqa: B018 - it reads


def test_a_refresh_reads_what_is_new(tmp_path):
    evaluate(tmp_path / "run", limit=2)
    with RunReader(tmp_path / "run") as reader:
        assert len(list(reader.items())) == 2
        evaluate(tmp_path / "run")
        reader.refresh()
        assert [one.output for one in reader.items()] == ["0", "1", "2", "3", "4"]
        assert reader.snapshot().steps[0].total == 5


def test_a_refresh_tells_what_a_new_reader_tells(tmp_path):
    failing(tmp_path / "run")
    with RunReader(tmp_path / "run") as reader:
        assert reader.summary()["workflow"]["failed"]
        assert reader.snapshot().steps[0].failed
        for again in (evaluate, redone, trials, edited_note, two_selections):
            again(tmp_path / "run")
            reader.refresh()
            with RunReader(tmp_path / "run") as fresh:
                assert reader.summary() == fresh.summary()
                assert reader.snapshot().steps == fresh.snapshot().steps
                assert list(map(told, reader.items())) == list(map(told, fresh.items()))


def save(run, summary):
    """Replace the numbers that the last session saved, with their checksum."""
    path = run / "index" / "numbers"
    head, _, arrays = path.read_bytes().partition(b"\n")
    about = json.loads(head) | {"summary": summary}
    del about["crc"]
    about["crc"] = crc32(arrays, crc32(json.dumps(about).encode()))
    path.write_bytes(json.dumps(about).encode() + b"\n" + arrays)


@pytest.mark.parametrize("ended", [evaluate, failing, stopped, redo_that_failed, two_selections])
def test_the_summary_of_a_run_that_ended_is_not_added_up_again(tmp_path, ended):
    ended(tmp_path / "run")
    save(tmp_path / "run", {"n": "as saved"})
    with RunReader(tmp_path / "run") as reader:
        assert reader.summary() == {"n": "as saved"}


def test_adding_up_changes_no_file(tmp_path):
    failing(tmp_path / "run")
    (tmp_path / "run" / "index" / "numbers").unlink()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    assert_the_items_add_up(tmp_path / "run")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before


def edit(name, change):
    def apply(run):
        path = run / name
        before = path.read_bytes()
        path.write_bytes(change(before))
        assert path.read_bytes() != before

    return apply


def flipped(text):
    return lambda content: content.replace(text, bytes([text[0] ^ 4]) + text[1:], 1)


def without_last_line(content):
    return b"".join(content.splitlines(keepends=True)[:-1])


def replace_column(run):
    shutil.copy(run / "length_output.jsonl", run / "correct_output.jsonl")


def edit_saved(name, value):
    return edit("index/numbers", lambda text: text.replace(*saved_value(text, name, value), 1))


def saved_value(text, name, value):
    known = json.loads(text.partition(b"\n")[0])[name]
    return json.dumps(known).encode(), json.dumps(value).encode()


NOT_AS_NOTED = {
    "a flipped bit in an answer": edit("workflow_output.jsonl", flipped(b"seconds")),
    "a flipped bit in a score": edit("correct_output.jsonl", flipped(b'"value"')),
    "a flipped bit in a failure": edit("failures.jsonl", flipped(b"ZeroDivisionError")),
    "an answer is lost": edit("workflow_output.jsonl", without_last_line),
    "a score is lost": edit("length_output.jsonl", without_last_line),
    "a failure is lost": edit("failures.jsonl", without_last_line),
    "a torn column": edit("correct_output.jsonl", lambda content: content[:-30]),
    "a column is empty": edit("workflow_output.jsonl", lambda _: b""),
    "a column is that of another": replace_column,
    "a column is gone": lambda run: (run / "correct_output.jsonl").unlink(),
    "the failures are gone": lambda run: (run / "failures.jsonl").unlink(),
    "a flipped bit in an item": edit("items.jsonl", flipped(b"Say 1")),
    "an item is lost": edit("items.jsonl", without_last_line),
    "the items are gone": lambda run: (run / "items.jsonl").unlink(),
    "fewer trials": edit("run.json", lambda text: text.replace(b'"trials": 2', b'"trials": 1')),
    "another evaluator": edit("run.json", flipped(b"fingerprint")),
    "saved by another version": edit_saved("of", "0" * 32),
    "a flipped bit in the saved numbers": edit("index/numbers", flipped(b"as saved")),
    "a note that is cut": edit("index/numbers", lambda text: text[:-3]),
    "a note of nothing": edit("index/numbers", lambda _: b""),
    "a note that is no JSON": edit("index/numbers", lambda _: b"[]\n[]"),
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("change", NOT_AS_NOTED)
def test_a_saved_summary_is_not_believed_if_anything_differs(tmp_path, change):
    def workflow(question):
        return 1 / 0 if question == "Say 2" else last_word(question)

    evaluate(tmp_path / "run", workflow=workflow, trials=2)
    save(tmp_path / "run", {"n": "as saved"})
    NOT_AS_NOTED[change](tmp_path / "run")
    with RunReader(tmp_path / "run") as reader:
        numbers = Numbers(reader.evaluators, reader.trials, reader.run_file.scales)
        for item in reader.items():
            numbers.add(item)
        assert reader.summary() == numbers.summary()


@pytest.mark.parametrize(
    ("name", "old", "new", "incomplete"),
    [
        ("workflow_output.jsonl", b'"trial":0', b'"trial":1', ["workflow", "correct", "length"]),
        ("correct_output.jsonl", b'"trial":0', b'"trial":1', ["correct"]),
        ("summary.json", b'"completed"', b'"COMPLETED"', []),
    ],
)
def test_the_summary_of_a_complete_run_is_believed_only_if_every_byte_is_as_it_was(
    tmp_path, name, old, new, incomplete
):
    evaluate(tmp_path / "run")
    file = tmp_path / "run" / name
    before = file.read_bytes()
    file.write_bytes(before.replace(old, new, 1))
    assert file.read_bytes() != before
    summary = assert_the_items_add_up(tmp_path / "run")
    steps = {"workflow": summary["workflow"], **summary["evaluators"]}
    assert [step for step, numbers in steps.items() if numbers["completed"] < 5] == incomplete


@pytest.mark.parametrize("content", [b"{}", b"[]", b"as I like it"])
def test_a_summary_json_that_a_script_replaced_at_the_end_is_not_needed(tmp_path, content):
    evaluate(tmp_path / "run")
    with RunReader(tmp_path / "run") as reader:
        before = reader.summary()
        (tmp_path / "run" / "summary.json").write_bytes(content)
        reader.run_file.complete.files["summary.json"] = crc32(content)  # as recorded after it ran
        assert reader.summary() == before
