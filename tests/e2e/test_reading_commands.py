"""The commands that read runs, started as people start them."""

import csv
import io
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from cut_short import cut_short
from e2e import ready_limpet

import limpet

ROWS = [{"id": f"q{n}", "question": f"Say {n}", "answer": str(n)} for n in range(4)]
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\r\nsecond line"
FORBIDDEN = ["\x1b", "\x07", "\x9b", "\u202e", "\r"]


def command(*arguments, cwd, **environment):
    return ready_limpet.run(arguments, cwd=cwd, env={**os.environ, "TZ": "UTC", **environment})


def last_word(question):
    if question == "Say 2":
        raise ValueError("two is too much")
    return question.split()[-1]


def correct(output, expected):
    return limpet.Score(output == expected, explanation=f"it is {output}")


def length(output):
    return {"letters": len(output), "words": 1}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that each test has a copy of."""
    path = tmp_path_factory.mktemp("finished") / "first"
    limpet.evaluate(ROWS, last_word, [correct, length], run=path, retry=0)
    return path


@pytest.fixture
def home(tmp_path, finished):
    """A directory with one run: three answers, one failure."""
    shutil.copytree(finished, tmp_path / "runs/first")
    return tmp_path


# ---- status -------------------------------------------------------------------------------------


def test_status_says_how_far_it_is_and_what_to_do_next(home):
    done = command("status", cwd=home)
    assert done.returncode == 0
    assert done.stderr == ""
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0] == "runs/first: finished, 1 failed"
    assert "workflow 3/4 1" in lines
    assert "correct 3/3 1 without an answer" in lines
    assert re.fullmatch(r"session 1 · began .* · ran \S+ s · last active \d+ s ago", lines[-2])
    assert "workflow failed: 1 ValueError" in lines
    assert lines[-1].startswith("see why: limpet show runs/first --failed")


def test_status_and_list_say_that_the_last_session_was_limited(tmp_path):
    def out_of_quota(question):
        if question == "Say 1":
            raise limpet.errors.QuotaExhaustedError("nothing left")
        return question.split()[-1]

    run = tmp_path / "runs/first"
    cut_short(limpet.evaluate, ROWS, out_of_quota, [correct], run=run, version="1", pace=1)
    assert command("status", cwd=tmp_path).stdout.startswith("runs/first: stopped")
    limited = limpet.Dataset(ROWS, limit=3)
    limpet.evaluate(limited, lambda question: "1", [correct], run=run, version="1")
    lines = command("status", cwd=tmp_path).stdout.splitlines()
    assert lines[0] == "runs/first: limited to 3 of 4 items"
    assert "the last session finished what it selected: 3 of 4 items" in lines
    assert lines[-1].startswith("for the rest, run the same command without a limit")
    assert "limited" in command("list", cwd=tmp_path).stdout


def test_status_as_json_is_one_object(home):
    done = command("status", "runs/first", "--json", cwd=home)
    status = json.loads(done.stdout)
    assert (status["state"], status["kind"], status["sessions"]) == ("finished", "evaluation", 1)
    assert [(one["name"], one["total"], one["done"]) for one in status["steps"]] == [
        ("workflow", 4, 3), ("correct", 3, 3), ("length", 3, 3),
    ]  # fmt: skip
    assert status["steps"][0]["failed"] == {"transient": 1}


DAMAGED = {
    "torn": ('{"sessions": [', "run.json: cannot be read, using its copy"),
    "not an object": ("[]", "run.json: must be a JSON object, so some details are missing"),
}


@pytest.mark.parametrize(("text", "said"), DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["text", "json"])
def test_status_says_once_on_stderr_that_run_json_is_damaged(home, text, said, flags):
    (home / "runs/first/run.json").write_text(text, encoding="utf-8")
    done = command("status", *flags, cwd=home)
    assert done.returncode == 0
    assert done.stderr.count("run.json") == 1
    assert said in " ".join(done.stderr.split())
    assert "run.json" not in done.stdout


@pytest.mark.parametrize("name", ["status", "show", "verify", "repair"])
def test_a_run_that_is_not_there_ends_with_2_and_names_the_nearest(home, name):
    done = command(name, "runs/frist", cwd=home)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: runs/frist: this run does not exist\n\nhint: did you mean runs/first?\n"
    )


def test_without_any_run_status_says_how_to_make_one(tmp_path):
    done = command("status", cwd=tmp_path)
    assert done.returncode == 2
    assert "hint: name a run, or make one" in done.stderr


def test_a_run_is_found_by_its_name_or_from_inside(home):
    assert command("status", "first", cwd=home).stdout.startswith("runs/first: finished")
    assert command("status", cwd=home / "runs/first").stdout.startswith(".: finished")


HANGING = """
    import asyncio, pathlib, sys
    import limpet

    async def answer(question):
        while question != "Say 0" and not pathlib.Path(sys.argv[2]).exists():
            await asyncio.sleep(0.01)
        return question

    rows = [{"id": f"q{n}", "question": f"Say {n}"} for n in range(4)]
    limpet.evaluate(rows, answer, [], run=sys.argv[1], pace=4)
"""


@pytest.fixture
def hanging(tmp_path):
    """A run in another process: one answer is there, three wait for a file."""
    run, go = tmp_path / "runs/slow", tmp_path / "go"
    process = ready_limpet.Popen([sys.executable, "-c", textwrap.dedent(HANGING), run, go])
    wait_for(lambda: _done_and_flying(tmp_path) == (1, 3))
    yield tmp_path, process
    process.kill()
    process.wait()


def _done_and_flying(home):
    if not (home / "runs/slow/run.json").exists():
        return None
    step = json.loads(command("status", "slow", "--json", cwd=home).stdout)["steps"][0]
    return step["done"], len(step["in_flight"])


def wait_for(condition, timeout_s=30.0):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def test_a_running_run_is_watched_until_it_is_finished(hanging):
    home, process = hanging
    watching = ready_limpet.Popen(
        [sys.executable, "-m", "limpet", "status", "--watch"],
        cwd=home,
        stderr=subprocess.PIPE,
        text=True,
    )
    with watching:
        assert watching.stderr.readline() == "running: workflow 1/4 · 3 in flight\n"
        (home / "go").touch()
        rest = watching.stderr.read()
    assert rest.splitlines()[-1] == "finished: workflow 4/4"
    assert watching.returncode == 0


def test_watching_is_ended_by_an_interrupt_with_130(hanging):
    home, process = hanging
    watching = ready_limpet.Popen(
        [sys.executable, "-m", "limpet", "status", "--watch", "--json"],
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    status = json.loads(watching.stdout.readline())
    assert status["state"] == "running"
    assert status["holder"]["pid"] == process.pid
    watching.send_signal(signal.SIGINT)
    watching.communicate()
    assert watching.returncode == 130
    assert process.poll() is None


def test_a_killed_run_is_cut_off_and_its_calls_are_named(hanging):
    home, process = hanging
    process.kill()
    process.wait()
    done = command("status", cwd=home)
    assert done.stdout.startswith("runs/slow: cut off\n")
    assert "3 calls in flight when it was cut off, possibly paid for: q1, q2, q3" in done.stdout
    assert "to resume, run the same command again" in done.stdout


def test_repair_is_refused_while_another_process_writes(hanging):
    home, process = hanging
    done = command("repair", "runs/slow", cwd=home)
    assert done.returncode == 2
    assert f"process {process.pid}" in done.stderr


# ---- show ---------------------------------------------------------------------------------------


def test_show_prints_a_line_for_each_item(home):
    lines = [line.split() for line in command("show", cwd=home).stdout.splitlines()]
    assert lines[0] == ["id", "input", "output", "correct", "length.letters", "length.words"]
    assert lines[2] == ["q0", "Say", "0", "0", "yes", "1", "1"]
    assert lines[4][3:] == ["failed,", "transient:", "two", "is", "too", "much", "–", "–", "–"]


def test_show_failed_says_at_which_step_and_why(home):
    done = command("show", "first", "--failed", cwd=home)
    first, second, *_ = done.stdout.splitlines()
    assert first == "1 × workflow: transient, ValueError: two is too much"
    assert second == "  item q2"


def test_show_with_an_evaluator_gives_its_reasons(home):
    done = command("show", "--evaluator", "correct", cwd=home)
    head, _, first, *_ = (line.split() for line in done.stdout.splitlines())
    assert head == ["id", "input", "expected", "output", "correct", "explanation"]
    assert first == ["q0", "Say", "0", "0", "0", "yes", "it", "is", "0"]


def test_below_needs_to_know_which_evaluator(home):
    done = command("show", "--below", "0.5", cwd=home)
    assert done.returncode == 2
    assert "--below 0.5: name the score with --evaluator, one of: correct, length" in done.stderr
    assert "did you mean 'correct'?" in command("show", "--evaluator", "corect", cwd=home).stderr


def test_below_shows_only_lower_scores_and_never_what_has_none(tmp_path):
    def grade(output):
        return int(output) / 4

    limpet.evaluate(ROWS, last_word, [grade], run=tmp_path / "runs/x", retry=0)
    done = command("show", "--below", "0.5", "--json", cwd=tmp_path)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["q0", "q1"]


def test_show_one_item_tells_everything(home):
    out = command("show", "--item", "q2", cwd=home).stdout
    assert out.startswith("q2: failed · ")
    assert "question\n  Say 2\n" in out
    assert "error\n  two is too much\n" in out
    assert "workflow 1  transient: ValueError: two is too much" in out
    out = command("show", "--item", "q1", cwd=home).stdout
    assert "output\n  1\n" in out
    assert "correct: yes\n  explanation: it is 1\n" in out


def test_an_unknown_item_names_the_nearest(home):
    done = command("show", "--item", "q22", cwd=home)
    assert done.returncode == 2
    assert "there is no item q22" in done.stderr
    assert "did you mean q2" in done.stderr


def test_show_as_json_is_a_line_for_each_item(home):
    done = command("show", "--json", "--limit", "3", cwd=home)
    items = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["id"], one["output"], one["status"]) for one in items] == [
        ("q0", "0", "completed"), ("q1", "1", "completed"), ("q2", None, "failed"),
    ]  # fmt: skip
    whole = json.loads(command("show", "--json", "--item", "q1", cwd=home).stdout)
    assert whole["row"] == ROWS[1]
    assert whole["scores"]["correct"]["explanation"] == "it is 1"


def test_on_a_terminal_a_screenful_is_shown_and_the_rest_is_counted(tmp_path):
    rows = [{"id": f"q{n}", "question": "x"} for n in range(25)]
    limpet.evaluate(rows, str.upper, [], run=tmp_path / "runs/many", version="1")
    master, slave = pty.openpty()
    process = ready_limpet.Popen(
        [sys.executable, "-m", "limpet", "show"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "60", "NO_COLOR": "1", "TERM": "xterm"},
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    shown = read_all(master)
    assert process.wait() == 0
    assert "q19" in shown
    assert "q20" not in shown
    assert "… and 5 more: --limit 25" in shown
    assert "\x1b[3" not in shown
    assert len(command("show", cwd=tmp_path).stdout.splitlines()) == 27


def read_all(fd):
    read = b""
    while True:
        try:
            chunk = os.read(fd, 4096)
        except OSError:  # the other side is closed
            chunk = b""
        if not chunk:
            os.close(fd)
            return read.decode()
        read += chunk


def test_nothing_from_a_dataset_or_a_model_is_obeyed_by_the_terminal(tmp_path):
    def workflow(question):
        if question == "fail":
            raise ValueError(HOSTILE)
        return {"text": HOSTILE + "x" * 100_000}

    def judge(output):
        return limpet.Score(0.5, label=HOSTILE, explanation=HOSTILE, metadata={HOSTILE: HOSTILE})

    rows = [
        {"id": f"{HOSTILE}, 1", "question": HOSTILE, HOSTILE: HOSTILE},
        {"id": "b", "question": "fail"},
    ]
    limpet.evaluate(rows, workflow, [judge], run=tmp_path / "runs/bad", retry=0)
    for arguments in [
        ("status",), ("status", "--json"), ("list",), ("show",), ("show", "--failed"),
        ("show", "--evaluator", "judge"), ("show", "--json"), ("show", "--item", "b"),
        ("show", "--item", f"{HOSTILE}, 1"), ("show", "--item", f"{HOSTILE}, 1", "--json"),
        ("show", "--item", f"{HOSTILE}, 2"), ("show", "--evaluator", HOSTILE), ("verify",),
    ]:  # fmt: skip
        done = command(*arguments, cwd=tmp_path)
        assert "Traceback" not in done.stderr, arguments
        for text in FORBIDDEN:
            assert text not in done.stdout + done.stderr, arguments
    items = command("show", "--json", cwd=tmp_path).stdout.splitlines()
    assert json.loads(items[0])["id"] == f"{HOSTILE}, 1"
    assert len(command("show", cwd=tmp_path).stdout.splitlines()) == 7  # two are the items


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "arguments", [["show", "--json"], ["show", "many"], ["export", "--to", "csv"]], ids=" ".join
)
def test_whoever_stops_reading_ends_it_quietly(tmp_path, arguments):
    rows = [{"id": f"q{n}", "question": "x" * 500} for n in range(250)]
    limpet.evaluate(
        rows, str.upper, [], run=limpet.Run(tmp_path / "runs/many", durability="flush"), version="1"
    )
    process = ready_limpet.Popen(
        [sys.executable, "-m", "limpet", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


# ---- list ---------------------------------------------------------------------------------------


def test_list_shows_the_latest_run_first_with_its_means(home):
    limpet.evaluate(ROWS[:2], last_word, [correct], run=home / "runs/second")
    (home / "runs/not-a-run").mkdir()
    done = command("list", cwd=home)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines[2:]] == ["runs/second", "runs/first"]
    assert lines[2][1:5] == ["finished", "2/2", "correct", "1.000"]
    assert lines[3][1:4] == ["finished", "3/4", "1"]
    data = [json.loads(line) for line in command("list", "--json", cwd=home).stdout.splitlines()]
    assert [one["run"] for one in data] == ["runs/second", "runs/first"]
    assert {name: score["mean"] for name, score in data[0]["scores"].items()} == {"correct": 1.0}
    assert data[0]["scores"]["correct"]["interval"]["low"] < 1
    assert data[1]["scores"]["correct"]["bounds"]["missing"] == 1


def test_list_says_why_a_run_is_unreadable(home):
    column = home / "runs/first/workflow_output.jsonl"
    column.unlink()
    column.mkdir()
    done = command("list", cwd=home)
    assert done.returncode == 0
    assert "unreadable" in done.stdout
    assert "workflow_output.jsonl: this is a" in done.stdout
    assert "this is a directory" in json.loads(command("list", "--json", cwd=home).stdout)["why"]


def test_list_of_a_directory_that_is_not_there_ends_with_2(tmp_path):
    done = command("list", cwd=tmp_path)
    assert done.returncode == 2
    assert "runs: no such directory" in done.stderr


# ---- export -------------------------------------------------------------------------------------


def test_export_as_csv_has_the_columns_of_to_dataframe(home):
    done = command("export", "--to", "csv", cwd=home)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert list(rows[0]) == [
        "id", "trial", "input", "expected", "output", "status", "seconds", "attempts", "error",
        "correct", "correct.explanation", "length.letters", "length.words", "error.class",
    ]  # fmt: skip
    assert [one["output"] for one in rows] == ["0", "1", "", "3"]
    assert [one["correct"] for one in rows] == ["1", "1", "", "1"]
    assert rows[2]["error"] == "two is too much"


def test_a_text_that_a_spreadsheet_would_run_is_made_harmless(tmp_path):
    answers = ["=cmd()", "+1+1", "-1+cmd()", "@x", "\tx", "\rx", "x=1"]

    def workflow(question):
        return -5 if question == "7" else answers[int(question)]

    def grade(output):
        return -1

    rows = [{"id": f"q{n}", "question": str(n)} for n in range(8)]
    limpet.evaluate(rows, workflow, [grade], run=tmp_path / "runs/x", version="1")
    done = command("export", "--to", "csv", "--output", "x.csv", cwd=tmp_path)
    assert done.returncode == 0
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = [f"'{one}" for one in answers[:6]] + ["x=1", "-5"]
    assert [one["output"] for one in rows] == expected
    assert {one["grade"] for one in rows} == {"-1"}


def test_export_as_markdown_is_a_table_and_by_item_has_means(tmp_path):
    def workflow(question):
        return "a|b\n<b>"

    limpet.evaluate(ROWS[:1], workflow, [length], run=tmp_path / "runs/x", trials=2, version="1")
    done = command("export", "--to", "md", cwd=tmp_path)
    header, dashes, *lines = done.stdout.splitlines()
    assert header.startswith("| id | trial | input | expected | output | ")
    assert dashes.count("---") == header.count(" | ") + 1
    assert len(lines) == 2
    assert r" | a\|b<br>&lt;b&gt; | " in lines[0]
    by_item = command("export", "--to", "csv", "--by-item", cwd=tmp_path)
    [row] = csv.DictReader(io.StringIO(by_item.stdout))
    assert (row["trials"], row["length.letters"], row["length.letters.n"]) == ("2", "7.0", "2")
    refused = command("export", "--to", "nat", "--by-item", "--output", "x", cwd=tmp_path)
    assert "--by-item cannot be combined with --to nat" in refused.stderr


def test_an_excel_file_says_which_cells_were_cut(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    limpet.evaluate(ROWS[:1], lambda question: "x" * 40_000, run=tmp_path / "runs/x", version="1")
    done = command("export", "--to", "xlsx", "--output", "x.xlsx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 cell shortened to 32,767 characters: Excel holds no more" in done.stderr
    _, row = openpyxl.load_workbook(tmp_path / "x.xlsx")["results"].iter_rows(values_only=True)
    assert row[:3] == ("q0", 0, "Say 0")
    assert row[4] == "x" * 32_767


def test_export_does_not_write_over_a_file_without_being_told(home):
    (home / "out.jsonl").write_text("mine")
    refused = command("export", "--to", "jsonl", "--output", "out.jsonl", cwd=home)
    assert refused.returncode == 2
    assert (home / "out.jsonl").read_text() == "mine"
    done = command("export", "--to", "jsonl", "--output", "out.jsonl", "--force", cwd=home)
    assert done.returncode == 0
    rows = [json.loads(line) for line in (home / "out.jsonl").read_text().splitlines()]
    assert rows[1]["correct"] is True
    assert [one["id"] for one in rows] == ["q0", "q1", "q2", "q3"]


def test_export_as_parquet_can_be_read_back(tmp_path):
    duckdb = pytest.importorskip("duckdb")

    def workflow(question):
        return {"nested": [question, "\0 \ud800"]} if question == "Say 1" else question

    limpet.evaluate(ROWS, workflow, [length_of], run=tmp_path / "runs/x", version="1")
    done = command("export", "--to", "parquet", "--output", "it's.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with duckdb.connect(":memory:") as connection:
        found = connection.execute(
            "SELECT id, output, length_of FROM read_parquet(?)", [str(tmp_path / "it's.parquet")]
        ).fetchall()
    assert found[0] == ("q0", "Say 0", 5.0)
    assert json.loads(found[1][1])["nested"][0] == "Say 1"


def length_of(output):
    return len(output)


def test_export_for_nat_writes_its_files_once(home):
    done = command("export", "--to", "nat", "--output", "nat", cwd=home)
    assert done.returncode == 0
    names = {path.name for path in (home / "nat").iterdir()}
    assert names == {
        "summary.json",
        *(f"{step}_output.json" for step in ("workflow", "correct", "length")),
    }
    again = command("export", "--to", "nat", "--output", "nat", cwd=home)
    assert again.returncode == 2
    itself = command("export", "--to", "nat", "--output", "runs/first", "--force", cwd=home)
    assert "is the run itself" in itself.stderr


def test_parquet_xlsx_and_nat_need_a_place(home):
    for form in ("parquet", "xlsx", "nat"):
        done = command("export", "--to", form, cwd=home)
        assert done.returncode == 2
        assert f"--to {form} needs --output" in done.stderr


# ---- verify and repair --------------------------------------------------------------------------


def test_verify_of_a_sound_run_ends_with_0(home):
    done = command("verify", cwd=home)
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["workflow_output.jsonl", "3", "3", "sound"] in lines


def test_what_is_torn_is_found_then_mended_with_a_backup(home):
    column = home / "runs/first/workflow_output.jsonl"
    sound = column.read_bytes()
    torn = b'{"_limpet":{"key":"half'
    column.write_bytes(sound + torn)
    found = command("verify", "first", cwd=home)
    assert found.returncode == 1
    assert f"{len(torn)} torn bytes at its end" in found.stdout
    assert "limpet repair runs/first" in found.stderr
    as_json = json.loads(command("verify", "--json", cwd=home).stdout)
    assert as_json["sound"] is False
    mended = command("repair", "runs/first", cwd=home)
    assert mended.returncode == 0
    assert "backed up to" in mended.stdout
    assert "set aside in" in mended.stdout
    assert column.read_bytes() == sound
    assert command("verify", cwd=home).returncode == 0
    kept = [one.read_bytes() for one in (home / "runs/first/torn").iterdir()]
    assert any(one.startswith(sound) for one in kept)


def test_a_bad_line_is_named_by_its_number(home):
    column = home / "runs/first/correct_output.jsonl"
    lines = column.read_bytes().splitlines(keepends=True)
    column.write_bytes(lines[0] + b"garbage\n" + b"".join(lines[1:]))
    found = command("verify", cwd=home)
    assert found.returncode == 1
    assert "1 bad line (2)" in found.stdout
    mended = command("repair", "first", "--json", cwd=home)
    assert mended.returncode == 0
    assert b"garbage" in column.read_bytes()
