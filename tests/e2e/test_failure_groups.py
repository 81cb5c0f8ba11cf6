"""`limpet show --failed`: failures by what they have in common."""

import io
import json

import pytest
from e2e import ready_limpet
from rich.console import Console

import limpet
from limpet.report.items import group_data, group_lines, grouped
from limpet.run.results.item_record import ItemRecord

ROWS = [{"id": f"q{n}", "question": f"Say {n}", "answer": str(n)} for n in range(12)]


def show(folder, *arguments):
    done = ready_limpet.run(["show", "run", "--failed", *arguments], cwd=folder)
    assert done.returncode == 0, done.stderr
    return done


def answer(question):
    n = int(question.split()[-1])
    if n % 2:
        raise limpet.PermanentError(f"request {n}: no such model '{question}'")
    if n == 4:
        raise LookupError("choices")
    return str(n)


def strict(output):
    if output in "02":
        raise ValueError(f"{output} is no answer")
    return 1


@pytest.fixture
def home(tmp_path):
    """A run with three kinds of failures."""
    limpet.evaluate(ROWS, answer, [strict], run=tmp_path / "run", version="1", retry=0, pace=1)
    return tmp_path


def test_failures_alike_are_one_group_with_a_count_and_an_example(home):
    lines = [one for one in show(home).stdout.splitlines() if one and not one.startswith("   ")]
    groups = [one for one in lines if " × " in one]
    assert groups[0].startswith("6 × workflow: permanent, PermanentError: request 1: no such model")
    assert groups[1].startswith("2 × strict: ")
    assert "ValueError: 0 is no answer" in groups[1]
    assert groups[2].startswith("1 × workflow: ")
    assert "LookupError: choices" in groups[2]
    assert "  for example q1; also q3, q5, q7, q9, q11" in lines
    assert "  item q4" in lines


def test_machines_get_an_object_for_each_group(home):
    groups = [json.loads(one) for one in show(home, "--json").stdout.splitlines()]
    assert [(one["step"], one["type"], one["count"]) for one in groups] == [
        ("workflow", "PermanentError", 6),
        ("strict", "ValueError", 2),
        ("workflow", "LookupError", 1),
    ]
    assert groups[0]["ids"] == ["q1", "q3", "q5", "q7", "q9", "q11"]
    assert groups[0]["example"]["id"] == "q1"
    assert "no such model" in groups[0]["example"]["message"]


def test_a_limit_counts_groups_and_an_evaluator_chooses_its_own(home):
    done = show(home, "--limit", "1")
    assert done.stdout.count(" × ") == 1
    assert "… and 2 more groups: --limit 3" in done.stderr
    only = show(home, "--evaluator", "strict").stdout
    assert only.startswith("2 × strict: ")
    assert "workflow" not in only


def test_nothing_failed_is_said(tmp_path):
    limpet.evaluate(ROWS, lambda question: "x", run=tmp_path / "run", version="1")
    done = show(tmp_path)
    assert (done.stdout, done.stderr.strip()) == ("", "nothing failed")
    assert show(tmp_path, "--json").stdout == ""


def test_items_that_have_not_run_are_not_taken_for_a_success(tmp_path):
    path = tmp_path / "run"
    limpet.evaluate(ROWS, lambda question: "x", run=path, version="1")
    lines = (path / "workflow_output.jsonl").read_bytes().splitlines(keepends=True)
    (path / "workflow_output.jsonl").write_bytes(b"".join(lines[2:]))
    assert show(tmp_path).stderr.strip() == "nothing failed; 2 items have not run"


def test_what_failures_say_cannot_harm_the_terminal(tmp_path):
    hostile = "\x1b]0;owned\x07\x1b[2J\u202eevil\r\nsecond line"

    def fail(question):
        raise limpet.PermanentError(hostile)

    limpet.evaluate(ROWS[:2], fail, run=tmp_path / "run", version="1")
    shown = show(tmp_path).stdout
    assert "2 × workflow" in shown
    assert not any(one in shown for one in ("\x1b", "\x07", "\u202e", "\r"))


def test_the_example_has_its_traceback():
    told = "Traceback (most recent call last):\n  File \"app.py\", line 2, in answer\nKeyError: 'x'"
    error = {"class": "mistake", "type": "KeyError", "message": "'x'", "traceback": told}
    items = [ItemRecord(f"q{n}", 0, None, None, status="failed", error=error) for n in range(3)]
    (group,) = grouped(items)
    out = io.StringIO()
    Console(file=out, width=200).print(*group_lines(group), sep="\n")
    assert "3 × workflow: mistake, KeyError: 'x'" in out.getvalue()
    assert '    File "app.py", line 2, in answer' in out.getvalue()
    assert group_data(group)["example"]["traceback"] == told
