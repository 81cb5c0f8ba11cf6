"""`limpet why` as a user types it, after an edit, for an item, for files of NAT and for scripts."""

import json
import os
import re
import shutil
import sys

import pytest
from e2e import ready_limpet
from e2e.nat_server import go, serving
from e2e.nat_server import make as make_nat
from e2e.project import make, run

import limpet

ESCAPES = ["\x1b", "\x07", "\x9b", "\u202e", "\r"]


def edit(folder, old, new, file="app.py"):
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new), encoding="utf-8")


def why(folder, *arguments, **more):
    done = run(folder, *arguments, command="why", **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def files(folder):
    """Return every file of a run, with its content and when it was written."""
    return {
        one: (one.read_bytes(), one.stat().st_mtime_ns)
        for one in sorted((folder / "runs").rglob("*"))
        if one.is_file()
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A project whose run is finished, and that each test has a copy of."""
    folder = tmp_path_factory.mktemp("finished")
    make(folder, rows=4)
    assert run(folder).returncode == 0
    return folder


@pytest.fixture
def done(tmp_path, finished):
    return shutil.copytree(finished, tmp_path, dirs_exist_ok=True)


def test_it_says_what_counts_and_after_an_edit_the_very_lines(done):
    for target in ([], ["trial"], ["runs/trial"], ["eval.yml"]):
        said = why(done, *target)
        assert said.startswith(
            "runs/trial · compared with the current code\n\nworkflow: unchanged; no earlier version"
        )
        counts = "  covers 2 functions, 1 value, 1 library: --all lists them\n"
        assert said.count("\n") == 7
        assert counts in said
        said = why(done, *target, "--all")
        assert re.search(r"functions +answer, note\n", said)
        assert "settings    exact_match" in said
    edit(done, "file.write(question", "file.write('asked ' + question")
    before = files(done)
    said = why(done)
    assert "workflow: changed after its results were made, 1 difference\n  note\n" in said
    assert "    -         file.write(question + " in said
    assert "    +         file.write('asked ' + question + " in said
    assert max(map(len, said.splitlines())) <= 80
    assert why(done, "eval.yml") == said
    assert files(done) == before


def test_the_question_and_the_plan_show_the_lines_too(tmp_path):
    done = make(tmp_path, rows=101)  # so many that an edit asks
    assert run(done).returncode == 0
    edit(
        done,
        "question.split()[-1]\n\n\nasync def answer_when",
        "question\n\n\nasync def answer_when",
    )
    asked = run(done)
    assert asked.returncode == 2
    for said in (asked.stderr, run(done, "--plan").stdout):
        assert "-     return question.split()[-1]\n" in said
        assert "+     return question\n" in said
    data = json.loads(run(done, "--plan", "--json").stdout)
    [one] = data["plan"]["workflow"]["differences"]
    assert one["name"] == "answer"
    assert "+     return question" in one["lines"]


def test_an_item_is_explained_in_every_case(tmp_path):
    make(tmp_path, rows=6, workflow="app:fail_some", more="retry: 0\n")
    assert run(tmp_path, "--limit", "5").returncode == 1
    edit(tmp_path, "Repeat 1", "Repeat one 1", file="rows.jsonl")
    said = {n: " ".join(why(tmp_path, "--item", f"q{n}").split()) for n in (0, 1, 3, 5)}
    assert "workflow kept answered by the current code (" in said[0]
    assert "its row was edited since it was answered: question (" in said[1]
    assert "runs again failed with ValueError: cannot do" in said[3]
    assert "workflow runs never answered" in said[5]
    edit(tmp_path, "return question.split()[-1]\n\n\ndef out", "return question\n\n\ndef out")
    asked = " ".join(why(tmp_path, "--item", "q0").split())
    assert "runs again answered by an earlier version; since then `fail_some` changed" in asked
    assert "correct runs again depends on the answer" in asked
    missing = run(tmp_path, "--item", "q9", command="why")
    assert missing.returncode == 2
    assert "there is no item q9" in missing.stderr
    assert "did you mean q" in missing.stderr


def test_a_redo_that_is_not_done_is_said(done):
    about = json.loads((done / "runs/trial/run.json").read_bytes())
    about["redo"] = [{"generation": 5, "steps": ["workflow"], "items": ["q2"], "fingerprints": {}}]
    (done / "runs/trial/run.json").write_text(json.dumps(about), encoding="utf-8")
    assert "forced by an unfinished redo" in why(done, "--item", "q2")
    assert "answered by the current code" in why(done, "--item", "q1")


def test_it_is_there_as_data(done):
    edit(done, "await asyncio.sleep(0.01)", "await asyncio.sleep(0.02)")
    data = json.loads(why(done, "--json", "--item", "q1"))
    assert (data["run"], data["looked"]) == ("runs/trial", "now")
    step = data["steps"]["workflow"]
    assert step["parts"]["note"]["kind"] == "function"
    assert [one["name"] for one in step["differences"]] == ["answer"]
    assert data["item"][0]["facts"][0]["verdict"] == "runs again"


def test_what_was_set_on_the_command_line_is_set_again(done):
    assert run(done, "--set", "workflow.python=app:talkative", "--redo").returncode == 0
    assert "workflow: unchanged since it last ran" in why(done)


def test_a_project_that_was_moved_is_found(done, tmp_path_factory):
    to = tmp_path_factory.mktemp("moved") / "here"
    done.rename(to)
    assert "compared with the current code" in why(to)


def test_where_the_code_cannot_be_looked_at_what_is_on_disk_is_told(done):
    edit(done, "import asyncio", "import asyncio, not_there_at_all")
    said = why(done)
    assert "records on disk only" in said
    assert "note: the current code cannot be inspected" in said
    assert "functions" in said
    assert run(done, "eval.yml", command="why").returncode == 2
    (done / "eval.yml").unlink()
    assert "note: eval.yml no longer exists" in why(done)


def test_a_run_of_a_script_is_compared_with_itself(tmp_path):
    (tmp_path / "script.py").write_text(
        "import sys, limpet\nP = sys.argv[1]\ndef answer(q): return q + P\n"
        "rows = [{'id': 'a', 'input': 'x'}]\n"
        "limpet.evaluate(rows, answer, run='runs/script', on_change='redo')\n",
        encoding="utf-8",
    )
    for word in ("one", "two"):
        ready_limpet.run_python([sys.executable, "script.py", word], cwd=tmp_path, check=True)
    said = why(tmp_path)
    assert "records on disk only, without the code" in said
    assert "workflow: unchanged since it last ran; its last change: " in said
    assert '    - "one"\n    + "two"\n' in said
    assert "answered by the code that last ran" in why(tmp_path, "--item", "a")
    assert run(tmp_path, "--item", "b", command="why").returncode == 2


def test_a_file_of_nat_is_compared_block_by_block(tmp_path):
    with serving() as server:
        make_nat(tmp_path)
        assert go(tmp_path, server).returncode == 0
        assert "workflow: unchanged; no earlier version recorded" in why(tmp_path, "out")
        edit(tmp_path, "temperature: 0.0", "temperature: 0.5, api_key: hunter2-deep", "config.yml")
        said = why(tmp_path, "out")
    assert "compared with the current code" in said
    assert "workflow: changed after its results were made, 1 difference\n  llms\n" in said
    assert re.search(r'-  +"temperature": 0.0,\n +\+  +"temperature": 0.5,\n', said)
    assert "hunter2" not in said


def test_hostile_names_and_values_are_shown_as_text(tmp_path):
    hostile = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\r"
    scope = {"__name__": "__main__"}
    exec("V = {}\ndef answer(q): return q", scope)  # noqa: S102 - as a notebook does
    answer = scope["answer"]
    answer.__dict__[f"odd {hostile}"] = hostile
    at = tmp_path / "runs/odd"
    rows = [{"id": hostile + "!" * n, "input": "x"} for n in range(101)]
    limpet.evaluate(rows, answer, run=at)
    answer.__dict__[f"odd {hostile}"] = hostile + "2"
    with pytest.raises(limpet.FunctionChangedError):
        limpet.evaluate(rows, answer, run=at)
    for arguments in ([], ["--item", hostile], ["--json"], ["--item", f"{hostile}?"]):
        done = run(tmp_path, *arguments, command="why")
        assert not [one for one in ESCAPES if one in done.stdout + done.stderr]


def test_no_secret_is_on_disk_or_on_the_screen(tmp_path):
    make(tmp_path, rows=101)
    app = (tmp_path / "app.py").read_text(encoding="utf-8")
    code = (
        app + '\n\nANSWER = "one"\nasync def ask(q, api_key="hunter2-deep"):\n    return ANSWER\n'
    )
    code += 'async def keyed(q):\n    return await ask(q, api_key="hunter2-deep")\n'
    (tmp_path / "app.py").write_text(code, encoding="utf-8")
    edit(tmp_path, "app:answer", "app:keyed", file="eval.yml")
    environment = {**os.environ, "SERVICE_TOKEN": "battery-horse-77z"}
    assert run(tmp_path, env=environment).returncode == 0
    edit(tmp_path, '"one"', '"two battery-horse-77z"')
    edit(tmp_path, "return await ask(q,", "return await ask(q + q,")
    for arguments, command in (([], "why"), (["--json"], "why"), ([], "run"), (["--plan"], "run")):
        done = run(tmp_path, *arguments, command=command, env=environment)
        assert "two" in done.stdout + done.stderr
        assert "hunter2" not in done.stdout + done.stderr
        assert "horse" not in done.stdout + done.stderr
    for file in files(tmp_path):
        assert b"hunter2" not in file.read_bytes()
        assert b"horse" not in file.read_bytes()


def test_a_file_that_was_read_is_told_with_its_lines_for_the_step_and_for_an_item(tmp_path):
    make(tmp_path, rows=101)
    read = "async def answer(question):\n    open('prompts/answer.txt').read()\n"
    edit(tmp_path, "async def answer(question):\n", read)
    prompt = tmp_path / "prompts" / "answer.txt"
    prompt.parent.mkdir()
    prompt.write_text("Be brief.\nBe kind.\npassword=hunter2-hunter2-hunter2\n", encoding="utf-8")
    secret = {**os.environ, "ADMIN_PASSWORD": "hunter2-hunter2-hunter2"}
    assert run(tmp_path, env=secret).returncode == 0
    assert ", 1 file read: --all lists them\n" in why(tmp_path)
    assert re.search(r"files read +prompts/answer\.txt\n", why(tmp_path, "--all"))
    prompt.write_text("Be long.\nBe kind.\npassword=hunter2-hunter2-hunter2\n", encoding="utf-8")
    asked = run(tmp_path, env=secret)
    assert asked.returncode == 2
    told = "  prompts/answer.txt\n    - Be brief.\n    + Be long.\n      Be kind.\n"
    assert "prompts/answer.txt changed after the answers of 101 of 101 items" in asked.stderr
    assert told in asked.stderr
    assert told in why(tmp_path, "--item", "q1", env=secret)
    assert "since then prompts/answer.txt" in why(tmp_path, "--item", "q1", env=secret)
    kept = b"".join(one for one, _ in files(tmp_path).values())
    assert b"hunter2" not in kept
    data = json.loads(why(tmp_path, "--json", env=secret))
    assert data["steps"]["workflow"]["files_read"] == ["prompts/answer.txt"]
    assert data["steps"]["workflow"]["differences"][0]["lines"][0] == "- Be brief."


def test_a_file_that_only_rows_of_before_were_made_of_is_no_change(tmp_path):
    make(tmp_path, rows=2)
    read = "async def answer(question):\n    open('prompt.txt').read()\n"
    edit(tmp_path, "async def answer(question):\n", read)
    (tmp_path / "prompt.txt").write_text("one", encoding="utf-8")
    assert run(tmp_path).returncode == 0
    rows = next(one for one in tmp_path.iterdir() if one.suffix in (".jsonl", ".json", ".csv"))
    rows.write_text(rows.read_text(encoding="utf-8").replace("Repeat 0", "Repeat 00"))
    assert run(tmp_path).returncode == 0
    (tmp_path / "prompt.txt").write_text("two", encoding="utf-8")
    assert run(tmp_path, "--redo").returncode == 0
    assert "changed after its results were made" not in why(tmp_path)


@pytest.mark.slow  # the next one looks for a secret everywhere
def test_a_secret_that_a_changed_file_sets_is_not_shown(tmp_path):
    make(tmp_path, rows=101)
    read = "async def answer(question):\n    open('settings.ini').read()\n"
    edit(tmp_path, "async def answer(question):\n", read)
    (tmp_path / "settings.ini").write_text("tone = kind\npassword = a-Horse-battery-9\n")
    assert run(tmp_path).returncode == 0
    (tmp_path / "settings.ini").write_text("tone = dry\npassword = b-Staple-correct-7\n")
    asked = run(tmp_path)
    assert "- tone = kind" in asked.stderr
    assert "+ tone = dry" in asked.stderr
    kept = b"".join(one for one, _ in files(tmp_path).values()).decode(errors="replace")
    for secret in ("a-Horse-battery-9", "b-Staple-correct-7"):
        assert secret not in asked.stderr + asked.stdout + why(tmp_path) + kept
