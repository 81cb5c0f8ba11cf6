"""Misbehaving evaluators and models of the toolkit, simulated by small objects.

The real toolkit's are in tests/peers.
"""

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from pydantic import BaseModel

from limpet.errors import LimpetError, RateLimitError
from limpet.evaluators.libraries.clients import RefusedCallError, outspoken, refusals
from limpet.evaluators.libraries.nat import score_of_item
from limpet.integrations.nat import toolkit as toolkit_module
from limpet.integrations.nat.evaluators import _made_of
from limpet.integrations.nat.toolkit import Toolkit

WAIT_S = 10


class Model(BaseModel):
    """A client of a model, as LangChain has them."""

    temperature: float = 0

    async def ainvoke(self, asked):
        if asked == "busy":
            raise RateLimitError("busy")
        return f"{asked} at {self.temperature}"

    def invoke(self, asked):
        return asyncio.run(self.ainvoke(asked))

    async def astream(self, asked):
        yield await self.ainvoke(asked)


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, WAIT_S))


# ---- refused calls ------------------------------------------------------------------------------


async def in_a_task_group(model):
    async with asyncio.TaskGroup() as group:
        group.create_task(model.ainvoke("busy"))
        group.create_task(model.ainvoke("fine"))


async def in_a_gather_that_hides_it(model):
    await asyncio.gather(model.ainvoke("busy"), return_exceptions=True)
    return 0.0


async def in_a_thread(model):
    try:
        await asyncio.to_thread(model.invoke, "busy")
    except Exception:
        return 0.0


async def in_a_stream(model):
    try:
        return [part async for part in model.astream("busy")]
    except Exception:
        return 0.0


async def caught_by_a_bare_except(model):
    try:
        await model.ainvoke("busy")
    except BaseException:
        return 0.0


@pytest.mark.parametrize(
    "evaluate",
    [
        in_a_task_group,
        in_a_gather_that_hides_it,
        in_a_thread,
        in_a_stream,
        caught_by_a_bare_except,
    ],
)
def test_a_refused_call_is_never_hidden(evaluate):
    async def score():
        with refusals():
            return await evaluate(outspoken(Model()))

    with pytest.raises(RateLimitError, match="busy"):
        run(score())


def test_refusals_of_one_item_do_not_fail_another():
    model = outspoken(Model())

    async def score(asked):
        with refusals():
            await asyncio.sleep(0)
            return await model.ainvoke(asked)

    async def both():
        return await asyncio.gather(score("busy"), score("fine"), return_exceptions=True)

    refused, fine = run(both())
    assert isinstance(refused, RateLimitError)
    assert fine == "fine at 0"


def test_a_copy_of_a_model_is_asked_and_not_the_original():
    model = outspoken(outspoken(Model()))
    assert isinstance(model, Model)
    copy = model.model_copy(update={"temperature": 0.9})
    assert run(copy.ainvoke("x")) == "x at 0.9"
    with pytest.raises(RefusedCallError):
        run(copy.ainvoke("busy"))


# ---- reasoning that looks like a failure --------------------------------------------------------


@pytest.mark.parametrize(
    "reasoning",
    [
        {"error_type": "arithmetic", "errors": 2},
        {"error": "the answer says 4 where 5 is right"},
        "Error in the answer's second line",
    ],
)
def test_a_reasoning_about_errors_is_no_failure(reasoning):
    returned = SimpleNamespace(score=0.5, reasoning=reasoning, error=None)
    assert score_of_item(returned, "kinds").value == 0.5


def test_the_toolkits_trajectory_without_a_message_is_a_failure():
    reasoning = {"trajectory": [], "error_type": "TimeoutError", "question_text": "?"}
    with pytest.raises(LimpetError, match="the judge failed: TimeoutError"):
        score_of_item(SimpleNamespace(score=0.0, reasoning=reasoning, error=""), "steps")


# ---- building -----------------------------------------------------------------------------------


@pytest.fixture
def build(monkeypatch):
    """Return a toolkit that builds with a function."""

    def toolkit(function):
        class Builder:
            @classmethod
            @asynccontextmanager
            async def from_config(cls, *, config):
                await function()
                yield "builder"

        module = ModuleType("nat.builder.workflow_builder")
        module.WorkflowBuilder = Builder
        monkeypatch.setitem(sys.modules, "nat.builder.workflow_builder", module)
        monkeypatch.setattr(toolkit_module.Toolkit, "read", lambda _: {})
        return Toolkit(Path("config.yml"))

    return toolkit


async def refused():
    raise RefusedCallError(RateLimitError("busy"))


async def refused_in_a_group():
    raise BaseExceptionGroup("all", [RefusedCallError(RateLimitError("busy"))])


async def cancelled():
    raise asyncio.CancelledError


@pytest.mark.parametrize("function", [refused, refused_in_a_group, cancelled])
def test_nobody_waits_for_what_cannot_be_built(build, function):
    toolkit = build(function)

    async def open_both():
        return await asyncio.gather(toolkit.acquire(), toolkit.acquire(), return_exceptions=True)

    assert [type(error) for error in run(open_both())] == [LimpetError, LimpetError]


def test_a_build_that_hangs_ends_when_nobody_waits_for_it(build):
    seen = []
    started = asyncio.Event()

    async def hang():
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("left")

    toolkit = build(hang)

    async def give_up():
        opening = asyncio.create_task(toolkit.acquire())
        await started.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    run(give_up())
    assert seen == ["left"]


# ---- what an evaluator is made of ---------------------------------------------------------------


def test_what_is_named_by_a_key_or_a_default_counts():
    data = {
        "llms": {"judge": {"model": "m"}, "deep": {"model": "d"}, "other": {"model": "o"}},
        "functions": {"tool": {"_type": "t"}},
        "workflow": {"_type": "w", "weights": 1},
        "eval": {"evaluators": {"own": {"_type": "own", "weights": {"judge": 1}}}},
    }
    defaults = {
        "functions": {"tool": {"_type": "t", "llm_name": "deep"}},
        "eval": {"evaluators": {"own": {"_type": "own", "tool_name": "tool"}}},
    }
    made_of, models = _made_of(data, defaults, "own", Path())
    assert sorted(made_of) == ["evaluator", "functions.tool", "llms.deep", "llms.judge"]
    assert sorted(models) == ["deep", "judge"]
