"""No secret of the environment is in any file of a run or on the screen, by the real command."""

import json
import os

import pytest
from e2e import ready_limpet

KEY = "sk-Planted/0123+456789"
JWT = "eyJhbGciOiJIUzI1NiJ9." + "Planted0" * 100 + ".c2ln"
APP = '''
"""Leaks the key in every way it can."""
import json
import os
import pathlib

import limpet

KEY = os.environ.get("SERVICE_TOKEN") or os.environ.get("MY_API_KEY")
SEEN = pathlib.Path(__file__).with_name("seen.txt")


class Odd:
    def __repr__(self):
        return "<Odd " + KEY + ">"


def answer(question):
    if question == "raise":
        try:
            raise KeyError(KEY)
        except KeyError as error:
            error.add_note("a note: " + KEY)
            raise limpet.PermanentError("401 for " + KEY) from error
    if question == "odd":
        return Odd()
    if question == "stop":
        raise limpet.errors.QuotaExhaustedError("no more for " + KEY, hint="top it up")
    if question == "tokenizer":
        return "cl100k_base"
    if question == "database":
        return "postgres"
    return limpet.Output({KEY: "it is " + KEY}, trace=[{"tool": json.dumps({"key": KEY})}])


def judge(output):
    with SEEN.open("a") as file:
        file.write(json.dumps(output) + "\\n")
    return limpet.Score(1, explanation="because of " + KEY)


def broken(output):
    raise RuntimeError("judge met " + KEY)
'''
ENVIRONMENT = {
    **os.environ,
    "TOKENIZER": "cl100k_base",
    "POSTGRES_PASSWORD": "postgres",
}
FORMS = ("Planted", "UGxhbnRlZ")  # in base64 too


def make(folder, questions, evaluators, more=""):
    rows = [{"id": one, "question": one, "answer": one} for one in questions]
    rows = [{**row, "answer": EXPECTED.get(row["id"], "x")} for row in rows]
    folder.joinpath("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    folder.joinpath("app.py").write_text(APP)
    folder.joinpath("eval.yml").write_text(
        f"dataset: rows.jsonl\nworkflow: app:answer\nevaluators:\n{evaluators}"
        f"retry: 0\nrun: run\n{more}"
    )


EXPECTED = {"tokenizer": "cl100k_base", "database": "postgres"}


def run(folder, *arguments, **variables):
    return ready_limpet.run(arguments, cwd=folder, env={**ENVIRONMENT, **variables})


def leaks(folder):
    return [
        (file.name, form)
        for file in (folder / "run").rglob("*")
        if file.is_file()
        for form in FORMS
        if form.encode() in file.read_bytes()
    ]


@pytest.mark.parametrize("variables", [{"MY_API_KEY": KEY}, {"SERVICE_TOKEN": JWT}])
def test_no_file_and_no_screen_has_the_key_and_the_right_answers_score(tmp_path, variables):
    make(
        tmp_path,
        ["plain", "raise", "odd", "tokenizer", "database"],
        "  right: exact_match\n  judge: app:judge\n  broken: app:broken\n",
    )
    done = run(tmp_path, "run", "--set", "name=x", **variables)
    assert done.returncode == 1, done.stderr
    assert leaks(tmp_path) == []
    summary = json.loads((tmp_path / "run" / "summary.json").read_bytes())
    assert summary["scores"]["right"]["mean"] == 2 / 3
    # An answer, two failures of the workflow, three reasons and one, three failures of `broken`.
    assert summary["masked"] == 10
    assert "secrets are masked in 10 lines on disk" in done.stderr
    assert "Planted" in (tmp_path / "seen.txt").read_text()  # the evaluator saw it as it is
    shown = [
        done.stdout + done.stderr,
        *(
            run(tmp_path, *command, **variables).stdout
            for command in (
                ["show", "run", "--failed"],
                ["show", "run", "--item", "plain"],
                ["show", "run", "--json"],
                ["status", "run"],
                ["export", "run", "--to", "jsonl"],
            )
        ),
    ]
    assert all(shown)
    assert [one for one in shown if "Planted" in one] == []
    assert "secrets masked in: workflow, right, judge, broken" in " ".join(shown[2].split())
    assert "secrets are masked in 10 lines on disk" in shown[4]


def test_a_machine_that_watches_sees_no_key(tmp_path):
    make(tmp_path, ["plain", "raise", "odd"], "  judge: app:judge\n")
    done = run(tmp_path, "run", "--json", MY_API_KEY=KEY)
    assert "attempt_failed" in done.stdout
    assert [form for form in FORMS if form in done.stdout + done.stderr] == []


def test_a_stop_says_why_without_the_key(tmp_path):
    make(tmp_path, ["stop"], "  judge: app:judge\n")
    for flags in ([], ["--json"], ["--quiet"]):
        done = run(tmp_path, "run", *flags, MY_API_KEY=KEY)
        assert done.returncode == 3
        assert "Planted" not in done.stdout + done.stderr
        assert "no more for [redacted]" in done.stdout + done.stderr
    assert leaks(tmp_path) == []


def test_the_command_that_is_repeated_has_no_key_and_still_runs(tmp_path):
    make(tmp_path, ["stop"], "  judge: app:judge\n")
    (tmp_path / "eval.yml").rename(tmp_path / "postgres.yml")
    done = run(tmp_path, "run", "postgres.yml", "--set", f"workflow.version={KEY}", MY_API_KEY=KEY)
    assert "limpet run postgres.yml --set 'workflow.version=[redacted]'" in done.stderr
    assert leaks(tmp_path) == []


def test_masking_turned_off_leaves_answers_as_they_are(tmp_path):
    make(tmp_path, ["plain"], "  judge: app:judge\n", "mask: false\n")
    done = run(tmp_path, "run", MY_API_KEY=KEY)
    assert done.returncode == 0, done.stderr
    (line,) = (tmp_path / "run" / "workflow_output.jsonl").read_text().splitlines()
    assert json.loads(line)["output"] == {KEY: f"it is {KEY}"}
    assert "masked" not in json.loads(line)["_limpet"]


def test_an_evaluator_added_later_is_said_to_see_masked_text(tmp_path):
    make(tmp_path, ["plain"], "  judge: app:judge\n")
    run(tmp_path, "run", MY_API_KEY=KEY)
    (tmp_path / "seen.txt").unlink()
    make(tmp_path, ["plain"], "  judge: app:judge\n  second: app:judge\n")
    done = run(tmp_path, "run", MY_API_KEY=KEY)
    assert "second scores 1 answer with secrets masked" in done.stderr
    assert "second scored 1 answer with secrets masked" in done.stderr
    assert json.loads((tmp_path / "seen.txt").read_text()) == {"[redacted]": "it is [redacted]"}


def test_setting_up_that_fails_shows_no_long_key(tmp_path):
    make(tmp_path, ["plain"], "  judge: app:judge\n")
    (tmp_path / "app.py").write_text(APP + "\nraise ValueError('no ' + KEY)\n")
    done = run(tmp_path, "run", SERVICE_TOKEN=JWT)
    assert done.returncode == 2
    assert "no [redacted]" in done.stderr
    assert "Planted" not in done.stderr


def test_the_schema_knows_masking():
    schema = json.loads(ready_limpet.run(["schema"]).stdout)
    assert schema["properties"]["mask"]["anyOf"][0]["type"] == "boolean"
