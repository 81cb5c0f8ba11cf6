"""The real toolkit and Limpet on the same data: ids, values and names are the same in their files.

What the two write is compared, and the toolkit scores what Limpet left of a run.
"""
# ruff: noqa: F401, F811 - fixtures are imported, and named again where they are used

import json

import pytest
from e2e.nat_server import output
from e2e.project import run
from peers.nat_environment import PARTS, ROOT
from peers.test_nat import (
    ask,
    commands,
    configure,
    nat_eval,
    one_server,
    project,
    rows,
    server,
    toolkit,
)

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
    lines = (tmp_path / "res.out/workflow_column.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["_limpet"]["usage"]["total_tokens"] for line in lines] == [10, 10]


def test_a_real_stream_without_a_part_is_an_empty_answer(server, tmp_path):
    (item,) = ask(server, tmp_path, rows("Silent"), path="/tokens/full").items
    assert (item.status, item.output.value) == ("completed", "")


# ---- a plug-in of one's own ---------------------------------------------------------------------

GREETING = """
from nat.builder.evaluator import EvaluatorInfo
from nat.builder.function_info import FunctionInfo
from nat.cli.register_workflow import register_evaluator, register_function
from nat.data_models.evaluator import EvaluatorBaseConfig
from nat.data_models.function import FunctionBaseConfig
from nat.plugins.eval.data_models.evaluator_io import EvalOutput, EvalOutputItem


class GreetConfig(FunctionBaseConfig, name="limpet_greet"):
    greeting: str = ""
    times: int = 1


@register_function(config_type=GreetConfig)
async def greet(config, builder):
    async def answer(input_message: str) -> str:
        return config.greeting * config.times + input_message.split()[-1]

    yield FunctionInfo.from_fn(answer, description="Greets.")


class LengthConfig(EvaluatorBaseConfig, name="limpet_length"):
    pass


@register_evaluator(config_type=LengthConfig)
async def length(config, builder):
    async def evaluate(eval_input):
        items = [
            EvalOutputItem(id=item.id, score=len(item.output_obj), reasoning={})
            for item in eval_input.eval_input_items
        ]
        return EvalOutput(average_score=None, eval_output_items=items)

    yield EvaluatorInfo(config=config, evaluate_fn=evaluate, description="How long it is.")
"""


def greeting(folder, data):
    """Write a project with a workflow and an evaluator of its own; return its variables."""
    plugin = folder / "plugin"
    (plugin / "greeting-1.0.dist-info").mkdir(parents=True)
    (plugin / "greeting.py").write_text(GREETING, encoding="utf-8")
    about = "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n"
    (plugin / "greeting-1.0.dist-info/METADATA").write_text(about, encoding="utf-8")
    points = "[nat.components]\ngreeting = greeting\n"
    (plugin / "greeting-1.0.dist-info/entry_points.txt").write_text(points, encoding="utf-8")
    configure(project(folder, data), "_type: limpet_repeat", "_type: limpet_greet")
    return {"PYTHONPATH": f"{PARTS / 'plugin'}:{plugin}:{ROOT / 'src'}"}


def test_overrides_and_unknown_keys_do_what_they_do_in_the_toolkit(commands, tmp_path):
    flags = ("--override", "workflow.greeting", "007", "--override", "workflow.times", "2")
    answered = {}
    for whose, command in (("theirs", ("nat", "eval")), ("ours", ("limpet", "run"))):
        variables = greeting(tmp_path / whose, CASES)
        configure(
            tmp_path / whose,
            "    max_concurrency: 4\n",
            "    max_concurrency: 4\n    verbose: true\n    max_concurency: 3\n",
        )
        where = ("--config_file", "config.yml", *flags)
        toolkit(commands, tmp_path / whose, *command, *where, **variables)
        answered[whose] = [row["generated_answer"] for row in output(tmp_path / whose)]
        effective = (tmp_path / whose / "out/config_effective.yml").read_text(encoding="utf-8")
        assert "greeting: '007'" in effective
    assert answered["ours"] == answered["theirs"] == ["007007a0", "007007a1"]


def test_the_toolkit_scores_what_was_run_without_evaluators(commands, server, tmp_path):
    variables = greeting(tmp_path, CASES)
    configure(tmp_path, "correct: {_type: exact_match}", "long: {_type: limpet_length}")
    endpoint = ("config.yml", "--endpoint", server.url)
    refused = run(tmp_path, *endpoint)
    assert refused.returncode == 2
    assert run(tmp_path, *endpoint, "--no-evaluators").returncode == 0
    command = refused.stderr.partition("installed: nat ")[2].split()
    assert command[-1] == "out/workflow_output.json"
    toolkit(commands, tmp_path, "nat", *command, **variables)
    items = output(tmp_path, "long")["eval_output_items"]
    assert [(item["id"], item["score"]) for item in items] == [(100, 2), (101, 2)]
