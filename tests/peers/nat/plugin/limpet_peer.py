"""Workflows of the real toolkit that need no model and no network, and an evaluator for them.

It runs in the peer's environment. It is no installed package: the folder is on PYTHONPATH, and the
`dist-info` beside this file is what makes the toolkit find it, so that an edit counts at once.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from uuid import uuid4

from nat.builder.builder import Builder
from nat.builder.context import Context
from nat.builder.evaluator import EvaluatorInfo
from nat.builder.function_info import FunctionInfo
from nat.cli.register_workflow import register_evaluator, register_function
from nat.data_models.evaluator import EvalInput, EvaluatorBaseConfig
from nat.data_models.function import FunctionBaseConfig
from nat.data_models.intermediate_step import (
    IntermediateStepPayload,
    IntermediateStepType,
    StreamEventData,
    UsageInfo,
)
from nat.data_models.token_usage import TokenUsageBaseModel
from nat.plugins.eval.data_models.evaluator_io import EvalOutput, EvalOutputItem
from pydantic import BaseModel


def note(question: str) -> None:
    """Count a call where the tests can see it."""
    if "CALLS" in os.environ:
        with Path(os.environ["CALLS"]).open("a", encoding="utf-8") as file:
            file.write(question + "\n")


async def hold(what: str) -> None:
    """Wait forever if the tests want that: a file beside the calls, named after what waits.

    A variable, or what a file holds, would count as a part of the workflow.
    """
    if Path(os.environ.get("CALLS", "calls")).with_name(f"hold-{what}").exists():
        await asyncio.Event().wait()


def think(question: str, answer: str) -> None:
    """Say on the event stream what an agent with a model and a tool would."""
    manager = Context.get().intermediate_step_manager  # a new one each time it is asked for

    def step(kind: str, uuid: str, name: str | None, usage: UsageInfo | None = None, **data: str):
        manager.push_intermediate_step(
            IntermediateStepPayload(
                UUID=uuid,
                event_type=IntermediateStepType(kind),
                name=name,
                data=StreamEventData(**data),
                usage_info=usage,
            )
        )

    model, tool, nameless = str(uuid4()), str(uuid4()), str(uuid4())
    used = TokenUsageBaseModel(
        prompt_tokens=7, completion_tokens=3, cached_tokens=2, reasoning_tokens=1, total_tokens=10
    )
    step("LLM_START", model, "tiny-model", input=question)
    step("LLM_END", model, "tiny-model", UsageInfo(token_usage=used, num_llm_calls=1), output="!")
    step("TOOL_START", tool, "repeat", input=question)
    step("TOOL_END", tool, "repeat", input=question, output=answer)
    # To the toolkit a step needs no name.
    step("TOOL_START", nameless, None)
    step("TOOL_END", nameless, None, output="nothing")


def answer_to(question: str) -> str:
    """Return the last word; `Raise …` and `Refuse …` raise."""
    if question.startswith("Refuse"):
        raise ImportError(f"no answer to {question!r}")
    if question.startswith("Raise"):
        raise RuntimeError(f"no answer to {question!r}")
    return question.rsplit(maxsplit=1)[-1]


class RepeatConfig(FunctionBaseConfig, name="limpet_repeat"):
    """Repeats the last word."""


@register_function(config_type=RepeatConfig)
async def repeat(config: RepeatConfig, builder: Builder):
    async def _repeat(input_message: str) -> str:
        note(input_message)
        await hold(input_message.partition(" ")[0])
        answer = answer_to(input_message)
        think(input_message, answer)
        return answer

    yield FunctionInfo.from_fn(_repeat, description="Repeats the last word.")


class TokensConfig(FunctionBaseConfig, name="limpet_tokens"):
    """Answers letter by letter; `Raise …` raises in the middle, `Silent …` has no letters."""


@register_function(config_type=TokensConfig)
async def tokens(config: TokensConfig, builder: Builder):
    async def _stream(input_message: str) -> AsyncGenerator[str]:
        note(input_message)
        if input_message.startswith("Silent"):
            return
        for letter in input_message.rsplit(maxsplit=1)[-1]:
            yield letter
            await asyncio.sleep(0)
        answer_to(input_message)

    async def _single(input_message: str) -> str:
        return "".join([letter async for letter in _stream(input_message)])

    yield FunctionInfo.create(single_fn=_single, stream_fn=_stream, description="Letter by letter.")


class OtherNameConfig(FunctionBaseConfig, name="limpet_other_name"):
    """Wants its input under another name."""


@register_function(config_type=OtherNameConfig)
async def other_name(config: OtherNameConfig, builder: Builder):
    async def _other(ticket_text: str) -> str:
        note(ticket_text)
        return answer_to(ticket_text)

    yield FunctionInfo.from_fn(_other, description="Wants ticket_text.")


class Said(BaseModel):
    """An answer that is no text."""

    word: str
    length: int


class ObjectsConfig(FunctionBaseConfig, name="limpet_objects"):
    """Answers with an object."""


@register_function(config_type=ObjectsConfig)
async def objects(config: ObjectsConfig, builder: Builder):
    async def _object(input_message: str) -> Said:
        note(input_message)
        word = answer_to(input_message)
        return Said(word=word, length=len(word))

    yield FunctionInfo.from_fn(_object, description="Answers with an object.")


class NumbersConfig(FunctionBaseConfig, name="limpet_numbers"):
    """Answers with a number."""


@register_function(config_type=NumbersConfig)
async def numbers(config: NumbersConfig, builder: Builder):
    async def _number(input_message: str) -> int:
        note(input_message)
        await hold(input_message.partition(" ")[0])
        return int(answer_to(input_message))

    yield FunctionInfo.from_fn(_number, description="Answers with a number.")


class AwkwardConfig(FunctionBaseConfig, name="limpet_awkward"):
    """Repeats the last word; `Tuple …` answers with something that JSON has no name for."""


@register_function(config_type=AwkwardConfig)
async def awkward(config: AwkwardConfig, builder: Builder):
    async def _awkward(input_message: str) -> dict | str:
        note(input_message)
        answer = answer_to(input_message)
        return {(answer, 1): 2} if input_message.startswith("Tuple") else answer

    yield FunctionInfo.from_fn(_awkward, description="Answers that cannot be written.")


class TracedConfig(FunctionBaseConfig, name="limpet_traced"):
    """Repeats the last word, under a tracer."""


@register_function(config_type=TracedConfig)
async def traced(config: TracedConfig, builder: Builder):
    async def _traced(input_message: str) -> str:
        note(input_message)
        # What the toolkit's exporter for Weave does when a trace begins.
        Context.get()._context_state.observability_trace_id.set("trace-1")
        answer = answer_to(input_message)
        think(input_message, answer)
        return answer

    yield FunctionInfo.from_fn(_traced, description="Repeats the last word, traced.")


class ExactMatchConfig(EvaluatorBaseConfig, name="exact_match"):
    """The toolkit brings no evaluator that needs no model; this one has the name of ours."""


@register_evaluator(config_type=ExactMatchConfig)
async def exact_match(config: ExactMatchConfig, builder):
    async def evaluate(eval_input: EvalInput) -> EvalOutput:
        await hold("scores")
        items = [
            EvalOutputItem(
                id=item.id,
                score=float(item.output_obj == item.expected_output_obj),
                reasoning={"said": str(item.output_obj)},
            )
            for item in eval_input.eval_input_items
        ]
        mean = round(sum(item.score for item in items) / len(items), 2)  # as the toolkit's do
        return EvalOutput(average_score=mean, eval_output_items=items)

    yield EvaluatorInfo(config=config, evaluate_fn=evaluate, description="Equal or not.")
