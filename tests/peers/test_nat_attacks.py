"""What a plug-in of the real toolkit, its models and their clients may do to our scores."""

import json
import subprocess

import pytest
from peers.nat_environment import UnavailableError, environment_variables, nat_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # the first one makes the environment

COMMAND_S = 120
PLUGIN = '''
from nat.builder.evaluator import EvaluatorInfo
from nat.builder.function_info import FunctionInfo
from nat.cli.register_workflow import register_evaluator, register_function
from nat.data_models.component_ref import FunctionRef
from nat.data_models.evaluator import EvaluatorBaseConfig
from nat.data_models.function import FunctionBaseConfig
from nat.plugins.eval.data_models.evaluator_io import EvalOutputItem
from nat.plugins.eval.evaluator.base_evaluator import BaseEvaluator


class GradeConfig(FunctionBaseConfig, name="attack_grade"):
    """A tool of an evaluator."""

    more: float = 0


@register_function(config_type=GradeConfig)
async def grade(config, builder):
    async def _grade(text: str) -> float:
        return 0.25 + config.more

    yield FunctionInfo.from_fn(_grade, description="Grades.")


class ByToolConfig(EvaluatorBaseConfig, name="attack_by_tool"):
    """Names its tool by a default."""

    tool_name: FunctionRef = FunctionRef("grade")


class ByTool(BaseEvaluator):
    def __init__(self, tool):
        super().__init__(max_concurrency=2)
        self.tool = tool

    async def evaluate_item(self, item):
        score = await self.tool.ainvoke("x", to_type=float)
        return EvalOutputItem(id=item.id, score=score, reasoning={"error_type": "none"})


@register_evaluator(config_type=ByToolConfig)
async def by_tool(config, builder):
    evaluator = ByTool(await builder.get_function(config.tool_name))
    yield EvaluatorInfo(config=config, evaluate_fn=evaluator.evaluate, description="Asks a tool")
'''
CONFIG = """
functions:
  grade: {_type: attack_grade, more: 0}
workflow: {_type: limpet_repeat}
eval:
  general:
    output_dir: ./out
    dataset: {_type: json, file_path: data.json}
  evaluators:
    graded: {_type: attack_by_tool}
"""
COPIES = """
import asyncio
from langchain_openai import ChatOpenAI
from limpet.evaluators.libraries.clients import RefusedCallError, outspoken
nowhere = "http://127.0.0.1:9/v1"
model = outspoken(ChatOpenAI(model="m", api_key="x", base_url=nowhere, max_retries=0))
copy = model.model_copy(update={"temperature": 0.9})
assert isinstance(model, ChatOpenAI)
assert copy.ainvoke.__self__ is copy
structured = model.with_structured_output({"title": "t", "type": "object", "properties": {}})
for asked in (model, copy, copy.bind(stop=["."]), copy.with_retry(), structured):
    try:
        asyncio.run(asked.ainvoke("?"))
    except RefusedCallError:
        print("refused")
"""


@pytest.fixture(scope="module")
def commands():
    try:
        return nat_environment()
    except UnavailableError as error:
        pytest.skip(f"the NeMo Agent Toolkit cannot be installed here: {error}")


@pytest.fixture
def folder(tmp_path):
    about = tmp_path / "attack-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: attack\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[nat.components]\nattack = attack_plugin\n")
    (tmp_path / "attack_plugin.py").write_text(PLUGIN)
    (tmp_path / "config.yml").write_text(CONFIG)
    (tmp_path / "data.json").write_text(json.dumps([{"id": 1, "question": "a b", "answer": "b"}]))
    return tmp_path


def limpet(commands, folder, *flags):
    """Run Limpet, and return the score."""
    variables = environment_variables()
    variables["PYTHONPATH"] += f":{folder}"
    done = subprocess.run(
        [commands / "limpet", "run", "config.yml", *flags],
        cwd=folder, env=variables, capture_output=True, text=True, timeout=COMMAND_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    scores = json.loads((folder / "out" / "graded_output.json").read_text(encoding="utf-8"))
    (item,) = scores["eval_output_items"]
    return item["score"]


def edit(file, old, new):
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_recorded_answers_are_scored_again_after_an_edit_of_the_evaluators_tool(commands, folder):
    assert limpet(commands, folder) == 0.25
    edit(folder / "config.yml", "more: 0", "more: 0.5")
    assert limpet(commands, folder, "--skip-workflow") == 0.75
    edit(folder / "attack_plugin.py", "0.25 +", "0.125 +")
    assert limpet(commands, folder, "--skip-workflow") == 0.625


def test_a_copy_of_a_langchain_model_is_asked_itself_and_refuses_aloud(commands):
    done = subprocess.run(
        [commands / "python", "-c", COPIES],
        env=environment_variables(), capture_output=True, text=True, timeout=COMMAND_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["refused"] * 5
