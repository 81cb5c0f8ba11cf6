"""A workflow that says whose session it is in, and parts that hold a task group."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import anyio
from nat.builder.builder import Builder, EvalBuilder
from nat.builder.context import Context
from nat.builder.evaluator import EvaluatorInfo
from nat.builder.framework_enum import LLMFrameworkEnum
from nat.builder.function_info import FunctionInfo
from nat.cli.register_workflow import register_evaluator, register_function
from nat.data_models.component_ref import LLMRef
from nat.data_models.evaluator import EvalInputItem, EvaluatorBaseConfig
from nat.data_models.function import FunctionBaseConfig
from nat.plugins.eval.data_models.evaluator_io import EvalOutputItem
from nat.plugins.eval.evaluator.base_evaluator import BaseEvaluator


class UserConfig(FunctionBaseConfig, name="corpus_user"):
    """Answers with the user of its session."""


@register_function(config_type=UserConfig)
async def user(config: UserConfig, builder: Builder):
    async def _user(input_message: str) -> str:
        return str(Context.get().user_id)

    yield FunctionInfo.from_fn(_user, description="Whose session it is.")


@asynccontextmanager
async def connection():
    """Hold a task group, as clients of MCP do: it must be left in the task that entered it."""
    async with anyio.create_task_group() as group:
        group.start_soon(asyncio.Event().wait)
        try:
            yield
        finally:
            group.cancel_scope.cancel()


class ConnectedConfig(FunctionBaseConfig, name="corpus_connected"):
    """Answers with the last word, over a connection."""


@register_function(config_type=ConnectedConfig)
async def connected(config: ConnectedConfig, builder: Builder):
    async def _connected(input_message: str) -> str:
        return input_message.rsplit(maxsplit=1)[-1]

    async with connection():
        yield FunctionInfo.from_fn(_connected, description="Over a connection.")


class ConnectedJudgeConfig(EvaluatorBaseConfig, name="corpus_connected_judge"):
    """Asks a model for a number, over a connection."""

    llm_name: LLMRef


class ConnectedJudge(BaseEvaluator):
    def __init__(self, llm: Any) -> None:
        super().__init__(max_concurrency=4)
        self.llm = llm

    async def evaluate_item(self, item: EvalInputItem) -> EvalOutputItem:
        said = (await self.llm.ainvoke(f"Grade this answer: {item.output_obj!r}")).content
        return EvalOutputItem(id=item.id, score=float(said), reasoning=None)


@register_evaluator(config_type=ConnectedJudgeConfig)
async def connected_judge(config: ConnectedJudgeConfig, builder: EvalBuilder):
    llm = await builder.get_llm(config.llm_name, wrapper_type=LLMFrameworkEnum.LANGCHAIN)
    async with connection():
        judge = ConnectedJudge(llm)
        yield EvaluatorInfo(config=config, evaluate_fn=judge.evaluate, description="Connected")
