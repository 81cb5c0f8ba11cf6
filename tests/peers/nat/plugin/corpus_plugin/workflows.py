"""Workflows and tools. All of them answer the last sum in the question."""

import asyncio
import json
import operator
import re
from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

from nat.builder.builder import Builder
from nat.builder.context import Context
from nat.builder.framework_enum import LLMFrameworkEnum
from nat.builder.function_info import FunctionInfo
from nat.cli.register_workflow import register_function
from nat.data_models.component_ref import FunctionRef, LLMRef
from nat.data_models.function import FunctionBaseConfig
from nat.data_models.intermediate_step import (
    IntermediateStepPayload,
    IntermediateStepType,
    StreamEventData,
    UsageInfo,
)
from nat.data_models.token_usage import TokenUsageBaseModel
from pydantic import BaseModel

SUM = re.compile(r"(\d+)\s*([-+*])\s*(\d+)")
SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def solve(text: str) -> int:
    """Return the value of the last sum; `raise` in the text raises."""
    if "raise" in text:
        raise RuntimeError(f"no answer to {text!r}")
    found = SUM.findall(text)
    if not found:
        raise ValueError(f"no sum in {text!r}")
    left, sign, right = found[-1]
    return SIGNS[sign](int(left), int(right))


class SumConfig(FunctionBaseConfig, name="corpus_sum"):
    """Answers with text."""

    prefix: str = ""
    off_by: int = 0
    seconds: float = 0


@register_function(config_type=SumConfig)
async def sum_(config: SumConfig, builder: Builder):
    async def _sum(input_message: str) -> str:
        await asyncio.sleep(config.seconds)
        if "empty" in input_message:
            return ""
        return f"{config.prefix}{solve(input_message) + config.off_by}"

    yield FunctionInfo.from_fn(_sum, description="Answers a sum.")


class StepsConfig(FunctionBaseConfig, name="corpus_steps"):
    """Answers with text, and says on the event stream what an agent would."""

    prefix: str = ""


@register_function(config_type=StepsConfig)
async def steps(config: StepsConfig, builder: Builder):
    async def _steps(input_message: str) -> str:
        if "empty" in input_message:
            return ""
        answer = f"{config.prefix}{solve(input_message)}"
        manager = Context.get().intermediate_step_manager
        used = TokenUsageBaseModel(prompt_tokens=7, completion_tokens=3, total_tokens=10)
        for kind, name, put, got, usage in (
            ("LLM", "tiny-model", input_message, f"use the calculator for {input_message}", used),
            ("TOOL", "calculator", input_message, answer, None),
            ("CUSTOM", "note", input_message, "noted", None),
        ):
            uuid = str(uuid4())
            for end, data in (
                ("START", StreamEventData(input=put)),
                ("END", StreamEventData(input=put, output=got)),
            ):
                counted = usage if end == "END" else None
                manager.push_intermediate_step(
                    IntermediateStepPayload(
                        UUID=uuid,
                        event_type=IntermediateStepType(f"{kind}_{end}"),
                        name=name,
                        data=data,
                        usage_info=UsageInfo(token_usage=counted) if counted else None,
                    )
                )
        return answer

    yield FunctionInfo.from_fn(_steps, description="Answers a sum, in steps.")


class Answer(BaseModel):
    """An answer that is no text."""

    value: int
    parts: list[int]
    note: str | None = None


class Opaque:
    """A value without a JSON form."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __str__(self) -> str:
        return f"<opaque {self.value}>"


class ShapeConfig(FunctionBaseConfig, name="corpus_shape"):
    """Answers in the shape that is asked for."""

    shape: str = "dict"


@register_function(config_type=ShapeConfig)
async def shape(config: ShapeConfig, builder: Builder):
    async def _dict(input_message: str) -> dict[str, Any]:
        value = solve(input_message)
        return {"answer": str(value), "parts": [value, None, value / 2], "ok": True}

    async def _list(input_message: str) -> list[int]:
        return [solve(input_message)]

    async def _model(input_message: str) -> Answer:
        value = solve(input_message)
        return Answer(value=value, parts=[value, -value])

    async def _number(input_message: str) -> int:
        return solve(input_message)

    async def _float(input_message: str) -> float:
        return solve(input_message) / 4

    async def _bool(input_message: str) -> bool:
        return solve(input_message) > 10

    async def _none(input_message: str) -> None:
        solve(input_message)

    async def _opaque(input_message: str) -> Opaque:
        return Opaque(solve(input_message))

    async def _any(input_message: str) -> Any:
        return Opaque(solve(input_message))

    async def _row(input_message: str) -> str:
        row = json.loads(input_message)
        return json.dumps({"key": row["id"], "value": solve(row["question"])})

    async def _stream(input_message: str) -> AsyncGenerator[str]:
        for letter in str(solve(input_message)):
            yield letter

    shapes = {
        "dict": _dict,
        "list": _list,
        "model": _model,
        "number": _number,
        "float": _float,
        "bool": _bool,
        "none": _none,
        "opaque": _opaque,
        "any": _any,
        "row": _row,
        "stream": _stream,
    }
    yield FunctionInfo.from_fn(shapes[config.shape], description=f"Answers with a {config.shape}.")


class CalculatorConfig(FunctionBaseConfig, name="corpus_calculator"):
    """A tool."""


@register_function(config_type=CalculatorConfig)
async def calculator(config: CalculatorConfig, builder: Builder):
    async def _calculator(text: str) -> str:
        return str(solve(text))

    yield FunctionInfo.from_fn(_calculator, description="Works out a sum such as 3+4.")


class AskConfig(FunctionBaseConfig, name="corpus_ask"):
    """Asks a model, then a function."""

    llm_name: LLMRef
    function_name: FunctionRef | None = None


@register_function(config_type=AskConfig, framework_wrappers=[LLMFrameworkEnum.LANGCHAIN])
async def ask(config: AskConfig, builder: Builder):
    llm = await builder.get_llm(config.llm_name, wrapper_type=LLMFrameworkEnum.LANGCHAIN)
    function = None
    if config.function_name:
        function = await builder.get_function(config.function_name)

    async def _ask(input_message: str) -> str:
        said = (await llm.ainvoke(input_message)).content
        if function is None:
            return said
        checked = await function.ainvoke(input_message, to_type=str)
        return f"{said} (checked: {checked})"

    yield FunctionInfo.from_fn(_ask, description="Asks a model.")
