"""`limpet report`: its files, messages and exit codes."""

import os
import re
import shutil

import pytest
from scored_runs import command, make, rows

from limpet.report import terminal

HOSTILE = (
    '</code></details> | @all www.x.y ![x](http://x.y/z) `` <script> \x1b[2J\u202e\x00 "&\n# H'
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    dataset = rows(30)
    answers = {"base": "1" * 20 + "0" * 9 + "f", "new": "1" * 14 + "0" * 13 + "eff"}
    for name, scores in answers.items():
        make(folder / "runs" / name, scores, dataset=dataset, say=lambda *_: HOSTILE)
    return folder


def report(*words, cwd):
    terminal.stderr_console.cache_clear()  # it is that of the command before
    done = command("report", *words, cwd=cwd)
    assert "Traceback" not in done.out + done.err
    return done


def test_it_writes_report_html_and_says_where_and_how_large(runs):
    done = report("new", cwd=runs)
    assert (done.code, done.out) == (0, "")
    assert re.fullmatch(r"wrote report\.html \(\d+\.\d kB\)\n", done.err)
    assert (runs / "report.html").read_text().startswith("<!doctype html>")


def test_it_says_what_was_left_out(runs):
    make(runs / "runs" / "large", "1" * 30, say=lambda *_: os.urandom(60_000).hex())
    done = report("large", "-o", "large.html", "--max-size", "1", cwd=runs)
    assert done.code == 0
    assert re.search(r"the texts of \d+ of 30 answers are in this file", " ".join(done.err.split()))
    assert (runs / "large.html").stat().st_size <= 1_000_000


def test_markdown_alone_writes_no_page(runs, tmp_path):
    done = report(runs / "runs" / "new", "--markdown", "report.md", cwd=tmp_path)
    assert done.code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


def test_markdown_has_the_headline_failures_the_worst_and_the_comparison(runs):
    report("new", "--against", "base", "--markdown", "x.md", cwd=runs)
    text = (runs / "x.md").read_text()
    shown = command("show", "new", cwd=runs).out
    interval = re.search(r"0\.\d+–0\.\d+", shown)[0]
    assert interval in text
    assert "the model refused" in text
    assert "the judge refused" in text
    assert re.search(r"\| 2 \| <code>workflow</code> \| permanent \|", text)
    assert "<summary>worst <code>correct</code></summary>" in text
    compared = command("compare", "base", "new", "--json", cwd=runs).json
    assert f"{compared['new'][0]['scores']['correct']['delta']:+.3f}" in text
    # What a model wrote makes no markup, no mention and no line of its own.
    assert "@all" not in text
    assert "</code></details> |" not in text
    assert "www.x" not in text
    assert "\x1b" not in text
    assert "\n# H" not in text
    assert text.count("<details>") == text.count("</details>")


def test_markdown_counts_trials_from_nought_as_every_command_does(tmp_path):
    make(tmp_path / "runs" / "two", "10 1f", trials=2)
    report("two", "--markdown", "x.md", cwd=tmp_path)
    text = (tmp_path / "x.md").read_text()
    worst = text.partition("<details>")[2]
    assert re.findall(r"trial (\d)\)", text) == ["1"]  # the one that failed
    assert re.findall(r"</code> trial (\d)", worst) == ["1", "0", "0"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "does not exist"),
        (["new", "--against", "nowhere"], "does not exist"),
        (["new", "-o", "x.txt"], "does not end in .html"),
        (["new", "-o", "-"], "does not end in .html"),
        (["new", "--max-size", "0"], "--max-size"),
        (["new", "--max-size", "nan"], "--max-size"),
        (["."], "is not a run"),
        (["runs/new/run.json"], "is not a run"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(runs, tmp_path, words, message):
    shutil.copytree(runs / "runs", tmp_path / "runs")
    done = report(*words, cwd=tmp_path)
    assert done.code == 2
    assert message in " ".join(done.err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


FILES = ("run.json", "items.jsonl", "workflow_output.jsonl", "summary.json", "correct_output.jsonl",
         "events.jsonl", "failures.jsonl")  # fmt: skip


@pytest.mark.quick(4)
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", ["gone", "empty", "torn", "noise"])
def test_a_damaged_run_is_reported_as_far_as_it_can_be_read_or_refused(
    runs, tmp_path, file, damage
):
    shutil.copytree(runs / "runs" / "new", tmp_path / "new")
    target = tmp_path / "new" / file
    content = target.read_bytes()
    if damage == "gone":
        target.unlink()
    else:
        target.write_bytes(
            {"empty": b"", "torn": content[: len(content) // 2], "noise": b"\xff{\n" * 9}[damage]
        )
    done = report("new", "-o", "x.html", "--markdown", "x.md", cwd=tmp_path)
    assert done.code in (0, 2), done.err
    if done.code == 2:
        assert done.err.startswith("error: ")
        assert not (tmp_path / "x.html").exists()


def test_no_run_at_all_is_said(tmp_path):
    done = report(cwd=tmp_path)
    assert done.code == 2
    assert "there is no run here" in done.err


def test_runs_that_cannot_be_compared_are_said(runs, tmp_path):
    make(
        tmp_path / "other",
        "10",
        dataset=[{"id": "x", "question": "a"}, {"id": "y", "question": "b"}],
    )
    done = report(runs / "runs" / "new", "--against", "other", cwd=tmp_path)
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert not (tmp_path / "report.html").exists()
