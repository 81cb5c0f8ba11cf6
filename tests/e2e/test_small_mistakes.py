"""A word that is nearly right, a file of another kind: what is said, and what is never done."""

import json
import os

import pytest
from e2e.project import calls, make, run


@pytest.mark.parametrize("word", ["rum", "rmm", "rem", "r"])
def test_what_deletes_is_never_the_suggestion(tmp_path, word):
    done = run(tmp_path, command=word)
    assert done.returncode == 2
    assert f"unknown command '{word}'" in done.stderr
    assert "'rm'" not in done.stderr


def test_what_is_meant_by_rum_is_run(tmp_path):
    assert "did you mean 'run'?" in run(tmp_path, command="rum").stderr


@pytest.mark.parametrize("flag", ["corect=0.9", "corect=", "corect"])
def test_a_misspelt_evaluator_of_a_gate_gets_the_name_that_is_there(tmp_path, flag):
    make(tmp_path)
    done = run(tmp_path, "--fail-under", flag)
    assert done.returncode == 2
    assert "correct" in done.stderr.replace("corect", "")
    assert "corect=0.9" not in done.stderr.removeprefix(f"error: --fail-under {flag}")
    assert calls(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ("id;question;answer\n1;Repeat 1;1\n", 'delimiter: ";"'),
        ("id;question;answer\n1;Repeat 1, then stop;1\n", 'delimiter: ";"'),
        ("id|question|answer\n1|Repeat 1|1\n", 'delimiter: "|"'),
        ("id\tquestion\tanswer\n1\tRepeat 1\t1\n", r'delimiter: "\t"'),
        ("id,question,answer\n1,Répète 1,1\n", "encoding: latin-1"),
        ("id,quéstion,answer\n1,Repeat 1,1\n", "encoding: latin-1"),
    ],
)
def test_a_csv_of_another_form_gets_the_setting_that_reads_it(tmp_path, content, hint):
    make(tmp_path)
    (tmp_path / "rows.csv").write_bytes(content.encode("latin-1"))
    done = run(tmp_path, "--set", "dataset=rows.csv")
    assert done.returncode == 2
    assert f"hint: {hint}" in done.stderr or f" {hint} (in Python: " in done.stderr
    key, value = hint.split(": ")
    path, setting = "--set=dataset.path=rows.csv", f"--set=dataset.{key}={value}"
    of_input = ["--set", "dataset.input=quéstion"] if "quéstion" in content else []
    assert run(tmp_path, path, setting, *of_input).returncode == 0


def test_utf_16_gets_the_setting_that_reads_it(tmp_path):
    make(tmp_path)
    (tmp_path / "rows.csv").write_bytes("id,question,answer\n1,Repeat 1,1\n".encode("utf-16"))
    assert "encoding: utf-16" in run(tmp_path, "--set", "dataset=rows.csv").stderr
    right = ("--set=dataset.path=rows.csv", "--set=dataset.encoding=utf-16")
    assert run(tmp_path, *right).returncode == 0


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.csv", "rows.parquet"])
def test_a_pipe_or_a_device_is_no_dataset_and_is_not_waited_for(tmp_path, name):
    make(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    (tmp_path / f"zero{name}").symlink_to("/dev/zero")
    for dataset in (name, f"zero{name}"):
        done = run(tmp_path, "--set", f"dataset={dataset}")
        assert done.returncode == 2
        assert f"{dataset} is a pipe or a device, not a file" in done.stderr


def test_a_misspelt_resource_of_ray_gets_the_name_that_is_there(tmp_path):
    make(tmp_path, more="engine: {ray: {resources: {num_cpu: 4}}}\n")
    done = run(tmp_path)
    assert done.returncode == 2
    assert "did you mean 'num_cpus'?" in done.stderr


@pytest.mark.parametrize("patch", ["lambda *a, **k: 'patched'", "lambda value, **k: b'{}'"])
def test_code_that_replaces_json_dumps_damages_no_file_of_the_run(tmp_path, patch):
    make(tmp_path)
    with (tmp_path / "app.py").open("a") as app:
        app.write(f"import json\njson.dumps = {patch}\n")
    assert run(tmp_path).returncode == 0
    home = tmp_path / "runs" / "trial"
    for name in ("run.json", "identity.json", "summary.json"):
        assert isinstance(json.loads((home / name).read_bytes()), dict)
    assert run(tmp_path).returncode == 0
    assert len(calls(tmp_path)) == 20


def test_a_disk_that_fails_to_read_is_said_without_a_traceback(tmp_path):
    make(tmp_path)
    assert run(tmp_path).returncode == 0
    column = tmp_path / "runs" / "trial" / "workflow_output.jsonl"
    column.unlink()
    column.symlink_to("/proc/self/mem")  # a file whose first byte is an I/O error
    done = run(tmp_path, "runs/trial", command="show")
    assert done.returncode == 2
    assert done.stderr.startswith("error: a file or the output: cannot be read or written: Input/")
    assert "hint: check the disk" in done.stderr


TOPIC = "def about(output, topic):\n    return topic in output\n"


def test_an_evaluator_takes_a_column_by_its_name_and_depends_on_it_alone(tmp_path):
    make(tmp_path, rows=3, more="  about: judges:about\n")
    (tmp_path / "judges.py").write_text(TOPIC)
    rows = [{"id": n, "question": f"Repeat {n}", "answer": "x", "topic": "1"} for n in range(3)]

    def ask():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "rows.jsonl").write_text(text)
        assert run(tmp_path).returncode == 0
        column = tmp_path / "runs" / "trial" / "about_output.jsonl"
        return [json.loads(line)["value"] for line in column.read_text().splitlines()]

    assert sorted(ask()) == [False, False, True]
    rows[0]["note"] = "of no interest"
    assert len(ask()) == 3
    rows[0]["topic"] = "0"
    assert ask()[3:] == [True]


def test_an_evaluator_that_takes_a_column_that_is_not_there_is_refused(tmp_path):
    make(tmp_path, more="  about: judges:about\n")
    (tmp_path / "judges.py").write_text(TOPIC.replace("topic", "qestion"))
    done = run(tmp_path)
    assert done.returncode == 2
    assert "the evaluator about needs the column 'qestion': the dataset has id, " in done.stderr
    assert "hint: did you mean 'question'?" in done.stderr
    assert calls(tmp_path) == []


def test_a_run_below_a_loop_of_links_is_a_plain_error(tmp_path):
    make(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    done = run(tmp_path, "--set", "run=loop/x")
    assert done.returncode == 2
    assert "internal error" not in done.stderr
    assert "loop/x: the journal cannot be opened" in done.stderr
