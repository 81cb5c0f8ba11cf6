"""A broken workflow at the command line: it stops early, says where it broke, and how to go on."""

import json
import sys
from pathlib import Path

import pytest
from e2e.project import COMMAND, make, run
from e2e.servers import answering, site
from e2e.terminal import Terminal

AGAIN = f"{Path(sys.executable).name} -m limpet"
BROKEN = """

def slip(question):
    note(question)
    return {"error": "\\x1b[31mno\\x1b[0m"}["choices"]


def judge(output):
    raise TypeError(f"cannot judge \\x1b[31m {output}")
"""


def broken(folder, **options):
    make(folder, **{"rows": 500, "workflow": "app:slip"} | options)
    with (folder / "app.py").open("a", encoding="utf-8") as app:
        app.write(BROKEN)
    return folder


def test_it_ends_with_3_and_says_where_it_broke_what_was_spent_and_how_to_go_on(tmp_path):
    done = run(broken(tmp_path))
    assert done.returncode == 3
    calls = len((tmp_path / "calls.txt").read_text().splitlines())
    assert 10 <= calls <= 42
    said = done.stderr
    lines = said.splitlines()
    number = (
        (tmp_path / "app.py")
        .read_text()
        .splitlines()
        .index('    return {"error": "\\x1b[31mno\\x1b[0m"}["choices"]')
    )
    at = lines.index("Traceback (most recent call last):")
    assert lines[at - 1].startswith("the first failure, for q")
    assert lines[at + 1 : at + 4] == [
        f'  File "app.py", line {number + 1}, in slip',
        '    return {"error": "\\x1b[31mno\\x1b[0m"}["choices"]',
        "KeyError: 'choices'",
    ]
    assert (
        "error: the workflow failed 5 times for the same reason: KeyError: 'choices' "
        f"({calls} calls so far)"
    ) in lines
    stopping = [line for line in lines if line.startswith("stopping: ")]
    assert len(stopping) == 1
    assert "KeyError" not in stopping[0]
    assert lines[-2].startswith("hint: fix it and run again")
    assert "--no-fail-fast continues anyway" in lines[-2]
    assert lines[-1] == f"resume with: {AGAIN} run"
    status = run(tmp_path, command="status").stdout
    assert "\nstopped: the workflow failed" in status


@pytest.mark.parametrize("how", ["flag", "file"])
def test_it_goes_on_all_the_same_if_told_so(tmp_path, how):
    more = "" if how == "flag" else "fail_fast: false\n"
    broken(tmp_path, rows=60, more="retry: {backoff: {base: 0}}\n" + more)
    done = run(tmp_path, *(["--no-fail-fast"] if how == "flag" else []))
    assert done.returncode == 1
    assert len((tmp_path / "calls.txt").read_text().splitlines()) == 120
    assert "workflow: 50 cells in a row failed the same way: KeyError: 'choices'" in done.stderr


def test_the_flag_goes_before_the_file(tmp_path):
    broken(tmp_path, more="fail_fast: false\n")
    assert run(tmp_path, "--fail-fast").returncode == 3


def test_quiet_says_the_same_in_short(tmp_path):
    done = run(broken(tmp_path), "--quiet")
    assert (done.returncode, done.stdout) == (3, "")
    assert (
        "KeyError: 'choices'\nerror: the workflow failed 5 times for the same reason" in done.stderr
    )
    assert "\n\nhint: fix it and run again" in done.stderr


def test_machines_are_told_as_well(tmp_path):
    done = run(broken(tmp_path), "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == events[-1]["exit_code"] == 3
    assert any(one["event"] == "stopping" for one in events)


@pytest.mark.slow  # unit/run/test_fail_fast has it; of a workflow, show is above
def test_a_broken_evaluator_stops_it_and_show_says_where(tmp_path):
    broken(tmp_path, workflow="app:answer")
    text = (tmp_path / "eval.yml").read_text().replace("exact_match", "{python: app:judge}")
    (tmp_path / "eval.yml").write_text(text)
    done = run(tmp_path)
    assert done.returncode == 3
    assert "error: the evaluator correct failed 5 times for the same reason" in done.stderr
    failures = (tmp_path / "runs/trial/failures.jsonl").read_text().splitlines()
    first = json.loads(failures[0])["id"]
    shown = run(tmp_path, "runs/trial", "--item", first, command="show").stdout
    assert "in judge" in shown
    assert "TypeError: cannot judge \\x1b[31m" in shown
    assert "\x1b" not in shown + done.stderr


def test_show_of_an_item_that_failed_prints_its_traceback(tmp_path):
    broken(tmp_path)
    run(tmp_path)
    first = json.loads((tmp_path / "runs/trial/failures.jsonl").read_text().splitlines()[0])["id"]
    shown = run(tmp_path, "runs/trial", "--item", first, command="show").stdout
    assert 'File "app.py", line ' in shown
    assert "in slip" in shown


def test_a_path_that_finds_nothing_is_asked_for_once_and_stops_the_run(tmp_path):
    with site(answering({"text": "x"})) as server:
        make(tmp_path, rows=500)
        text = (tmp_path / "eval.yml").read_text()
        http = f"{{http: {{url: '{server.url}', answer: $.choices}}}}"
        (tmp_path / "eval.yml").write_text(text.replace("app:answer", http))
        done = run(tmp_path)
    assert done.returncode == 3
    assert 5 <= len(server.seen) <= 21
    assert "'$.choices' finds nothing in the response" in done.stderr


def test_in_a_terminal_all_of_it_is_on_one_screen(tmp_path):
    screen = Terminal([*COMMAND, "run", "eval.yml"], cwd=broken(tmp_path))
    try:
        assert screen.wait() == 3
        for part in ("in slip", "KeyError: 'choices'", "error: the workflow", "hint: fix it"):
            assert part in screen.shown
        assert screen.said.splitlines()[-1] == f"resume with: {AGAIN} run eval.yml"
    finally:
        screen.close()
