"""The parts of the NAT integration, each by itself."""

import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import yaml
from pydantic import BaseModel

import limpet
from limpet import PermanentError
from limpet.errors import ConfigError
from limpet.evaluators import as_evaluator
from limpet.evaluators.protocol import Scored
from limpet.integrations.nat import Flags, load_nat_config, run_directory
from limpet.integrations.nat import toolkit as toolkit_module
from limpet.integrations.nat.eval_block import DatasetBlock, Structure
from limpet.integrations.nat.finishing import with_defaults
from limpet.integrations.nat.in_process import InProcessWorkflow, PreProcessed
from limpet.integrations.nat.rows import read_dataset_rows
from limpet.integrations.nat.toolkit import Toolkit
from limpet.integrations.nat.workflow import RecordedAnswers, RowAnswers
from limpet.nat_trace import trace_of
from limpet.run.api import aevaluate
from limpet.secrets.in_configs import masked, masked_text, without_secrets
from limpet.shapes import Item


def asked(question="Q", **row):
    return Item("a", question, "A", {"id": "a", "question": question, "answer": "A", **row})


# ---- secrets ------------------------------------------------------------------------------------


def test_literal_secrets_are_masked_and_variables_stay():
    data = {"llms": {"a": {"api_key": "nvapi-1", "model": "m"}, "b": {"api_key": "${KEY}"}}}
    assert masked(data) == {
        "llms": {"a": {"api_key": "[redacted]", "model": "m"}, "b": {"api_key": "${KEY}"}}
    }
    text = "llms:\n  a: {api_key: nvapi-1, model: m}\n  b: {api_key: '${KEY}'}\n"
    assert yaml.safe_load(masked_text(text)) == masked(data)
    assert without_secrets(data) == {"llms": {"a": {"model": "m"}, "b": {}}}


# ---- recorded answers ---------------------------------------------------------------------------


@pytest.mark.parametrize("answer_there", [None, "", "  "])
def test_a_row_without_a_real_answer_fails_and_is_no_empty_answer(answer_there):
    workflow = RowAnswers(Structure(), [])
    with pytest.raises(PermanentError, match="no answer in 'generated_answer'"):
        run(workflow.call(asked(generated_answer=answer_there)))
    said = run(workflow.call(asked(generated_answer=0, intermediate_steps=[{"a": 1}])))
    assert (said.value, said.trace) == (0, [{"a": 1}])


def test_another_answer_in_a_row_is_another_fingerprint():
    names = Structure(generated_answer_key="said")
    one, same, other = (RowAnswers(names, [asked(said=said)]).fingerprint for said in "112")
    assert one == same != other


def test_an_item_that_the_run_does_not_hold_fails():
    with pytest.raises(PermanentError, match="has no answer for it"):
        run(RecordedAnswers({"a": "b"}).call(asked()))


def run(coroutine):
    import asyncio

    return asyncio.run(coroutine)


# ---- before the evaluators ----------------------------------------------------------------------


def exact(output, expected):
    return output == expected


def test_the_function_may_change_the_item_in_place_or_return_another():
    def in_place(item):
        item.output_obj = item.output_obj.upper()
        return item

    def another(item):
        return SimpleNamespace(output_obj=item.output_obj.upper())

    for function in (in_place, another):
        evaluator = PreProcessed(as_evaluator(exact), function, "expected_steps")
        scores = run(evaluator.call(Scored("a", "A", "Q", asked())))
        assert scores["score"].value is True


def test_a_function_sees_the_toolkits_steps_and_an_evaluator_a_trace():
    seen = []

    def first(item):
        seen.extend(one["payload"]["event_type"] for one in item.trajectory)
        return item.copy_with_updates(trajectory=item.trajectory[:1])

    def look(trace):
        seen.append(trace)
        return 1

    payload = {"event_type": "TOOL_END", "name": "t"}
    trace = [*trace_of([{"payload": payload}]), "think"]
    for function in (first, lambda item: item):
        evaluator = PreProcessed(as_evaluator(look), function, "expected_steps")
        run(evaluator.call(Scored("a", "A", "Q", asked(), trace)))
    assert seen == ["TOOL_END", "CUSTOM_END", trace[:1], trace]


def test_a_function_that_forgets_to_return_is_a_failure_and_no_score():
    evaluator = PreProcessed(as_evaluator(exact), lambda item: None, "expected_steps")
    with pytest.raises(PermanentError, match="returned None"):
        run(evaluator.call(Scored("a", "A", "Q", asked())))


def test_its_code_is_part_of_the_fingerprint():
    one = PreProcessed(as_evaluator(exact), lambda item: item, "e").fingerprint
    other = PreProcessed(
        as_evaluator(exact), lambda item: item.copy_with_updates(), "e"
    ).fingerprint
    assert one != other
    assert as_evaluator(exact).fingerprint.items() <= one.items()


# ---- directories --------------------------------------------------------------------------------


def finished(folder, name="out"):
    limpet.evaluate(
        [{"id": "a", "question": "Q", "answer": "Q"}], lambda question: question, [exact],
        folder / name,
    )  # fmt: skip
    return folder / name


def test_a_run_is_finished_when_nothing_is_left_and_nobody_worked_on_it_since(tmp_path):
    path = finished(tmp_path)
    assert run_directory.is_finished(path)
    with (path / "workflow_output.jsonl").open("a") as column:
        column.write("{}\n")
    assert not run_directory.is_finished(path)
    assert not run_directory.is_finished(tmp_path / "nothing")


def test_a_run_with_failures_is_not_finished(tmp_path):
    def fail(question):
        raise PermanentError(question)

    limpet.evaluate([{"id": "a", "question": "Q"}], fail, (), tmp_path / "out")
    assert not run_directory.is_finished(tmp_path / "out")


def test_what_is_needed_is_never_moved(tmp_path):
    path = finished(tmp_path)
    with pytest.raises(ConfigError, match="cannot be set aside"):
        run_directory.set_aside(path, [path / "config.yml"], run_directory.is_finished)
    with pytest.raises(ConfigError):
        run_directory.set_aside(tmp_path, [tmp_path], run_directory.is_finished)
    to = run_directory.set_aside(path, [tmp_path / "config.yml"], run_directory.is_finished)
    assert (to / "run.json").exists()
    assert not path.exists()


def test_the_latest_unfinished_job_goes_on(tmp_path):
    first = run_directory.choose_job(tmp_path, latest=False)
    assert first.parent == tmp_path / "jobs"
    finished(first.parent, first.name)
    assert run_directory.choose_job(tmp_path, latest=False) != first
    assert run_directory.choose_job(tmp_path, latest=True) == first


# ---- in process ---------------------------------------------------------------------------------


class Answer(BaseModel):
    """What the workflow returns."""

    said: str


class Session:
    """Stands in for the toolkit's session: answers with the question and one step."""

    workflow = SimpleNamespace(has_single_output=True)

    def __init__(self, seen):
        self.seen = seen

    @asynccontextmanager
    async def run(self, message):
        async def result():
            if message == "bad":
                raise RuntimeError("no")
            return Answer(said=message)

        def convert(value, to_type):
            raise ValueError

        self.seen.append(message)
        yield SimpleNamespace(result=result, convert=convert)


@pytest.fixture
def toolkit(monkeypatch):
    """Put something in the toolkit's place that has the parts we call."""
    told = SimpleNamespace(configs=[], users=[], asked=[], closed=[], limits=[])

    class Sessions:
        @classmethod
        async def create(cls, config, shared_builder, max_concurrency=8):
            told.configs.append(config)
            told.limits.append(max_concurrency)
            return cls()

        @asynccontextmanager
        async def session(self, *, user_id):
            told.users.append(user_id)
            yield Session(told.asked)

        async def shutdown(self):
            told.closed.append(True)

    class Builder:
        @classmethod
        @asynccontextmanager
        async def from_config(cls, *, config):
            yield "builder"

    class Config(dict):
        workflow, functions, eval = (), {}, None

        def model_dump(self, mode):
            return dict(self)

    class Registry:
        @classmethod
        def get(cls):
            return cls()

        def get_function(self, kind):
            raise KeyError(kind)

    async def pull_intermediate():
        return [{"payload": {"event_type": "TOOL_END", "name": "t"}}]

    parts = {
        "nat.runtime.loader": {
            "discover_and_register_plugins": lambda kinds: None,
            "PluginTypes": SimpleNamespace(CONFIG_OBJECT=1),
        },
        "nat.utils.io.yaml_tools": {
            "yaml_load": lambda path: {"eval": {}, "llms": {"a": {"t": 0}}}
        },
        "nat.data_models.config": {"Config": Config},
        "nat.utils.data_models.schema_validator": {
            "validate_schema": lambda data, kind: kind(data)
        },
        "nat.cli.type_registry": {"GlobalTypeRegistry": Registry},
        "nat.data_models.component_ref": {"ComponentRef": Config},
        "nat.builder.workflow_builder": {"WorkflowBuilder": Builder},
        "nat.runtime.session": {"SessionManager": Sessions},
        "nat.builder.runtime_event_subscriber": {"pull_intermediate": pull_intermediate},
    }
    for name, members in parts.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("nat", "nat.runtime", "nat.utils", "nat.utils.io", "nat.data_models",
                 "nat.utils.data_models", "nat.builder", "nat.cli"):  # fmt: skip
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    return told


def test_the_workflow_runs_in_the_toolkit_without_the_eval_block(toolkit, tmp_path):
    overrides = (("llms.a.t", 0.5),)
    workflow = InProcessWorkflow(Toolkit(Path("config.yml"), overrides), name="bot")
    rows = [{"id": n, "question": f"q{n}"} for n in range(2)]
    result = run(aevaluate(rows, workflow, (), tmp_path / "run"))
    assert sorted(toolkit.asked) == ["q0", "q1"]
    assert toolkit.configs == [{"llms": {"a": {"t": 0.5}}}]
    assert len(set(toolkit.users)) == 2
    assert toolkit.closed == [True]
    assert result.items[0].output.value == '{\n  "said": "q0"\n}'  # as in `nat eval`
    assert result.items[0].output.trace[0]["type"] == "TOOL_END"


def test_the_toolkit_sets_no_limit_of_its_own(toolkit):
    workflow = InProcessWorkflow(Toolkit(Path("config.yml")), name="bot")
    run(workflow.open())
    assert toolkit.limits == [0]


def test_a_toolkit_that_knows_no_such_limit_is_not_told_one(toolkit, monkeypatch):
    sessions = sys.modules["nat.runtime.session"].SessionManager

    async def create(config, shared_builder):
        return sessions()

    monkeypatch.setattr(sessions, "create", create)
    workflow = InProcessWorkflow(Toolkit(Path("config.yml")), name="bot")

    async def open_and_close():
        await workflow.open()
        await workflow.close()

    run(open_and_close())
    assert toolkit.closed == [True]


def test_a_failure_in_the_toolkit_is_a_failure(toolkit, tmp_path):
    workflow = InProcessWorkflow(Toolkit(Path("config.yml")), name="bot")
    rows = [{"id": 1, "question": "bad"}]
    result = run(aevaluate(rows, workflow, (), tmp_path / "run", retry=0))
    assert result.items[0].status == "failed"


def test_a_toolkit_that_cannot_build_it_says_why(toolkit, tmp_path, monkeypatch):
    def fail(data, kind):
        raise KeyError("no such tool")

    module = sys.modules["nat.utils.data_models.schema_validator"]
    monkeypatch.setattr(module, "validate_schema", fail)
    workflow = InProcessWorkflow(Toolkit(Path("config.yml")), name="bot")
    with pytest.raises(limpet.LimpetError, match="KeyError: 'no such tool'"):
        run(workflow.open())


def test_what_the_toolkit_refuses_is_said_before_a_finished_run_is_moved(
    toolkit, tmp_path, monkeypatch
):
    def fail(data, kind):
        raise ValueError("Invalid configuration: llms: no such kind")

    def begin():
        config = load_nat_config("config.yml", Flags())
        config.begin(config.prepare(), print)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(toolkit_module, "is_installed", lambda: True)
    (tmp_path / "data.json").write_text('[{"id": "a", "question": "Q", "answer": "Q"}]')
    (tmp_path / "config.yml").write_text(
        "workflow: {_type: bot}\neval: {general: {output: {dir: out, cleanup: true}, "
        "dataset: {_type: json, file_path: data.json}}}\n"
    )
    finished(tmp_path)
    module = sys.modules["nat.utils.data_models.schema_validator"]
    with monkeypatch.context() as patch, pytest.raises(limpet.LimpetError, match="no such ki"):
        patch.setattr(module, "validate_schema", fail)
        begin()
    assert run_directory.is_finished(tmp_path / "out")
    assert list(tmp_path.glob("out.*")) == []
    begin()
    assert [run_directory.is_finished(one) for one in tmp_path.glob("out.*")] == [True]
    assert toolkit.configs == []  # nothing was built for that


def test_where_the_toolkit_is_there_nothing_is_said(toolkit, monkeypatch):
    monkeypatch.setattr(toolkit_module, "is_installed", lambda: True)
    toolkit_module.check_installed("config.yml")


# ---- what the run writes ------------------------------------------------------------------------


def test_the_file_of_what_was_asked_holds_no_secret(tmp_path, monkeypatch):
    from limpet.integrations.nat.finishing import write_config_files

    monkeypatch.setenv("MY_TOKEN", "very-secret-token")
    data = {"llms": {"a": {"api_key": "nvapi-literal", "note": "very-secret-token"}}}
    config = tmp_path / "config.yml"
    write_config_files(tmp_path, config, json.dumps(data), data, data, Flags(endpoint="http://x"))
    for name in ("config_original.yml", "config_effective.yml", "config_metadata.json"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "nvapi-literal" not in text
        assert "very-secret-token" not in text


def test_a_served_workflow_of_plug_ins_that_are_not_here_ends_without_the_toolkits_defaults(
    monkeypatch,
):
    def fail(_):
        raise limpet.LimpetError("config.yml: no such plug-in")

    monkeypatch.setattr("limpet.integrations.nat.finishing.is_installed", lambda: True)
    monkeypatch.setattr(Toolkit, "with_defaults", fail)
    said, data = [], {"eval": None, "workflow": {"_type": "far"}}
    assert with_defaults(data, Toolkit(Path("config.yml")), said.append) == data
    assert said == [
        "config_effective.yml: without the toolkit's defaults: config.yml: no such plug-in"
    ]


def test_blank_questions_and_filters_over_missing_columns_are_said_and_left_out(tmp_path):
    file = tmp_path / "data.json"
    asked = [
        {"id": "a", "question": "Q", "level": "x"},
        {"id": "b", "question": " \n", "level": "x"},
    ]
    file.write_text(json.dumps(asked), encoding="utf-8")
    block = DatasetBlock(file_path=str(file))
    said = []
    keep = {"allow": {"level": ["x"], "nowhere": ["y"]}, "deny": {"neither": ["z"]}}
    dataset = read_dataset_rows(block, keep, None, said.append)
    assert [item.id for item in dataset] == ["a"]
    assert [str(row) for row in dataset.bad_rows] == [
        f"{dataset.name}, b: the question is blank: ' \\n'"
    ]
    assert ["nowhere" in said[0], "neither" in said[1]] == [True, True]
    assert said[0].endswith("ignored, as in nat eval")
