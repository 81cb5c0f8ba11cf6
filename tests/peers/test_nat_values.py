"""The real toolkit and Limpet on the same data: ids, values and names are the same in their files.

What the two write is compared, and the toolkit scores what Limpet left of a run.
"""
# ruff: noqa: F401, F811 - fixtures are imported, and named again where they are used

import json

import pytest
from e2e.nat_server import output
from e2e.project import run
from peers.test_nat import commands, configure, nat_eval, one_server, project, server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

CASES = [
    {"id": 100, "case": 7, "question": "Repeat a0", "answer": "a0", "x": 1.5},
    {"id": 101, "case": 8, "question": "Repeat a1", "answer": "b", "x": float("nan")},
]


def dataset(folder, data, more):
    configure(project(folder, data), "file_path: data.json", f"file_path: data.json\n      {more}")
    return folder


def of_both(tmp_path, server, commands, data, more, *flags):
    """Return what the two wrote: the answers and the scores of each."""
    theirs, ours = (dataset(tmp_path / whose, data, more) for whose in ("theirs", "ours"))
    nat_eval(commands, theirs, "--endpoint", server.url, *flags)
    done = run(ours, "config.yml", "--endpoint", server.url, *flags)
    assert done.returncode == 0, done.stderr
    return [(answers(folder), scores(folder)) for folder in (theirs, ours)]


def answers(folder, where="out"):
    # As strings: NaN does not equal itself.
    rows = [
        {k: v for k, v in row.items() if "steps" not in k} for row in output(folder, where=where)
    ]
    return [json.dumps(row) for row in rows]


def scores(folder, where="out"):
    items = output(folder, "correct", where=where)["eval_output_items"]
    return [json.dumps([item["id"], item["score"]]) for item in items]


@pytest.mark.parametrize("flags", [(), ("--reps", "2")])
def test_ids_nan_and_scores_are_written_as_the_toolkit_writes_them(
    commands,
    server,
    tmp_path,
    flags,
):
    theirs, ours = of_both(tmp_path, server, commands, CASES, "id_key: case", *flags)
    assert ours == theirs
    assert '"x": NaN' in theirs[0][1]


STRUCTURE = "structure: {generated_answer_key: got, trajectory_key: steps}"


def test_names_of_the_structure_are_those_of_the_toolkit(commands, server, tmp_path):
    data = [{**row, "generated_answer": "the dataset's own"} for row in CASES]
    theirs, ours = of_both(tmp_path, server, commands, data, STRUCTURE)
    assert ours == theirs
    assert set(output(tmp_path / "ours")[0]) == set(output(tmp_path / "theirs")[0])


def test_the_toolkit_scores_the_export_of_a_killed_run_with_its_own_configuration(
    commands,
    server,
    tmp_path,
):
    data = [*CASES, {"id": 102, "question": "Raise a2", "answer": "a2", "x": 1}]
    dataset(tmp_path, data, STRUCTURE)
    done = run(tmp_path, "config.yml", "--endpoint", server.url, "--max-retries", "0")
    assert done.returncode == 1
    for file in (tmp_path / "out").glob("*.json"):
        if file.name not in ("run.json", "identity.json"):
            file.unlink()  # they are written at the end
    export = ("out", "--to", "nat", "--output", "exported")
    assert run(tmp_path, *export, command="export").returncode == 0
    again = ("--override", "eval.general.output_dir", "scored")
    nat_eval(
        commands, tmp_path, "--skip_workflow", "--dataset", "exported/workflow_output.json", *again
    )
    assert scores(tmp_path, "scored") == ["[100, 1.0]", "[101, 0.0]", "[102, 0.0]"]


def test_what_the_toolkit_wrote_with_nan_is_imported(commands, server, tmp_path):
    data = [{**CASES[0], "only": "here"}, CASES[1]]  # so the other row has NaN there
    dataset(tmp_path, data, "id_key: case")
    nat_eval(commands, tmp_path, "--endpoint", server.url)
    assert "NaN" in (tmp_path / "out/workflow_output.json").read_text(encoding="utf-8")
    server.forget()
    configure(tmp_path, "./out", "./res.out")
    (tmp_path / "out").rename(tmp_path / "res.out")
    done = run(tmp_path, "config.yml", "--endpoint", server.url, "--skip-completed-entries")
    assert done.returncode == 0, done.stderr
    assert server.asked() == []
    lines = (tmp_path / "res.out/workflow_output.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["_limpet"]["usage"]["total_tokens"] for line in lines] == [10, 10]
