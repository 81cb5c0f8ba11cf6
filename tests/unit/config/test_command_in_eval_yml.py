"""Programs in an eval.yml: `command`, short and in full."""

import asyncio
import json
from pathlib import Path

import pytest

import limpet
from limpet.config import json_schema, load_config, load_matrix
from limpet.errors import ConfigError
from limpet.shapes import Item


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "rows.jsonl").write_text('{"id": "a", "question": "Q"}\n', encoding="utf-8")
    (tmp_path / "agent.py").write_text("1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(workflow, more=""):
    Path("eval.yml").write_text(f"dataset: rows.jsonl\nworkflow: {workflow}\n{more}")


def loaded(workflow, *overrides):
    written(workflow)
    return load_config("eval.yml", overrides)


def prepared(workflow, *overrides):
    return loaded(workflow, *overrides).prepare().workflow


def answer(workflow):
    async def call():
        await workflow.open()
        try:
            return await workflow.call(Item("a", "Q", None, {"id": "a", "question": "Q"}))
        finally:
            await workflow.close()

    return asyncio.run(call()).value


def refusal(workflow):
    with pytest.raises(ConfigError) as caught:
        loaded(workflow).prepare()
    return str(caught.value), caught.value.hint


def test_a_string_a_list_and_the_long_form_are_the_same():
    short = prepared("{command: 'python agent.py {{question}}'}")
    listed = prepared("{command: [python, agent.py, '{{question}}']}")
    long = prepared("{command: {argv: [python, agent.py, '{{question}}']}}")
    assert short.fingerprint == listed.fingerprint == long.fingerprint
    assert "file agent.py" in short.fingerprint
    assert (short.name, short.endpoint) == ("command", None)


def test_it_runs_next_to_the_file_wherever_limpet_runs(folder, tmp_path_factory, monkeypatch):
    written("{command: pwd}")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    workflow = load_config(folder / "eval.yml").prepare().workflow
    assert answer(workflow) == str(folder)
    (folder / "inner").mkdir()
    (folder / "eval.yml").write_text(
        "dataset: rows.jsonl\nworkflow: {command: {argv: pwd, cwd: inner}}\n"
    )
    assert answer(load_config(folder / "eval.yml").prepare().workflow) == str(folder / "inner")


def test_every_option_arrives(monkeypatch):
    monkeypatch.setenv("SEED", "7")
    workflow = prepared(
        "{command: {argv: [sh, -c, 'echo {\\\"s\\\": $SEEDED$1}', sh, '${SEED}'], "
        "env: {SEEDED: '${SEED}'}, answer: $.s, max_output_mb: 1}, version: '2'}"
    )
    assert answer(workflow) == 77
    assert "version" in workflow.fingerprint


def test_a_set_goes_below_the_short_form():
    assert answer(prepared("{command: echo 1}", "workflow.command.answer=json")) == 1


def test_a_matrix_varies_the_command():
    written("{command: cat}", "matrix: {workflow.command: [echo a, [echo, b]]}\n")
    answers = [
        answer(load_config("eval.yml", variant=variant).prepare().workflow)
        for variant in load_matrix("eval.yml").variants
    ]
    assert answers == ["a", "b"]


@pytest.mark.parametrize(
    ("workflow", "said", "hint"),
    [
        ("{command: 3}", ".command: must be a mapping", None),
        ("{command: [cat, 3]}", ".command: must be a list of strings, or a string", None),
        ("{command: []}", ".command: must not be empty", "for example"),
        ("{command: {cwd: x}}", ".command: argv is missing", "write workflow: {command: python"),
        ("{command: cat a | wc}", ".command: there is no shell, so '|'", '"sh", "-c"'),
        ("{command: 'cat {{question'}", ".command: '{{question' has no '}}'", None),
        ("{command: [sh, -c, 'x {{question}}']}", "would run a row of the dataset as code", "$1"),
        ("{command: {argv: cat, answer: xml}}", ".command.answer: must be text, json", "$.answer"),
        ("{command: cat, args: {x: 1}}", ".args: works only with python", "argv for command"),
        ("{command: cat, http: http://x}", ".command: cannot be used with http", None),
        ("{command: {argv: cat, env: {A: 1}}}", ".command.env.A: must be a string", "quotes"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(workflow, said, hint):
    text, given = refusal(workflow)
    assert text.startswith("eval.yml:2: workflow")
    assert said in text
    if hint is not None:
        assert hint in given


def test_a_column_that_is_missing_is_said_before_the_first_call():
    for argv in ("cat {{nocol}}", "[cat, '{{nocol}}']", "{argv: [cat, '{{nocol}}']}"):
        ready = loaded(f"{{command: {argv if argv[0] in '[{' else repr(argv)}}}").prepare()
        with pytest.raises(ConfigError, match=r"eval\.yml:2: .*there is no column 'nocol'"):
            limpet.plan(ready.dataset, ready.workflow, save=False)


def test_a_secret_is_neither_stored_nor_part_of_the_identity(monkeypatch):
    monkeypatch.setenv("SERVICE_KEY", "sk-abcdefgh-12345678")
    text = (
        "{command: {argv: [cat, --api-key, sk-zyxwvu-87654321], env: {API_KEY: '${SERVICE_KEY}'}}}"
    )
    config = loaded(text)
    public = json.dumps(config.public)
    assert "sk-zyxwvu" not in public
    assert "sk-abcdefgh" not in public
    assert "${SERVICE_KEY}" in public
    workflow = config.prepare().workflow
    assert {"sk-abcdefgh-12345678", "sk-zyxwvu-87654321"} <= set(workflow.secrets)


def test_the_schema_has_its_forms():
    kinds = json_schema()["$defs"]["WorkflowSection"]["properties"]
    types = [form.get("type") for form in kinds["command"]["anyOf"]]
    assert types == ["string", "array", None]
