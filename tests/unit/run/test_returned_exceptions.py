"""A failure is never a result: an exception in what a function returns is raised."""

import asyncio
import collections
import dataclasses
import types

import pydantic
import pytest

import limpet

ROWS = [{"question": f"q{n}", "answer": "yes"} for n in range(3)]


@dataclasses.dataclass
class Answer:
    text: str
    error: Exception | None = None


class Model(pydantic.BaseModel, arbitrary_types_allowed=True):
    error: Exception


def nested(error, levels=100):
    for _ in range(levels):
        error = {"inner": [error]}
    return error


SHAPES = {
    "itself": lambda error: error,
    "a dict": lambda error: {"text": "", "error": error},
    "a list": lambda error: ["ok", error],
    "a tuple": lambda error: ("ok", (error,)),
    "a set": lambda error: {error},
    "a mapping": lambda error: collections.UserDict(error=error),
    "a proxy": lambda error: types.MappingProxyType({"error": error}),
    "a key": lambda error: {error: "?"},
    "a dataclass": lambda error: [Answer("", error)],
    "a model": lambda error: Model(error=error),
    "an Output": lambda error: limpet.Output(error, usage={"prompt_tokens": 1}),
    "deep": nested,
}


async def ask(question, calls):
    calls.append(question)
    if calls.count(question) == 1:
        raise ConnectionError(f"{question}: reset by peer")
    return "yes"


def returning(shape, calls):
    async def answer(question):
        reply = (await asyncio.gather(ask(question, calls), return_exceptions=True))[0]
        return SHAPES[shape](reply) if isinstance(reply, Exception) else reply

    return answer


@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_with_an_exception_is_a_failure_of_its_class(tmp_path, shape):
    options = {"run": tmp_path, "retry": 0, "version": "1", "fail_fast": False}
    calls = []
    answer = returning(shape, calls)
    result = limpet.evaluate(ROWS, answer, {"yes": lambda output: True}, **options)
    assert result.summary["workflow"]["failed"] == {"transient": 3}
    assert result.summary["evaluators"]["yes"]["completed"] == 0
    assert result.items[0].error["type"] == "ConnectionError"
    assert result.items[0].error["message"] == "q0: reset by peer"
    assert "raise ConnectionError" in result.items[0].error["traceback"]
    assert not (tmp_path / "workflow_output.jsonl").read_bytes()
    again = limpet.evaluate(ROWS, answer, {"yes": lambda output: True}, **options)
    assert [item.output.value for item in again.items] == ["yes"] * 3


def test_it_is_retried_as_if_it_had_been_raised(tmp_path):
    retry = limpet.Retry(1, limpet.executors.Backoff(base_s=0, cap_s=0))
    calls = []
    result = limpet.evaluate(ROWS, returning("a list", calls), run=tmp_path, retry=retry)
    assert [(item.output.value, item.attempts) for item in result.items] == [("yes", 2)] * 3


@pytest.mark.parametrize("journal", [None, "out.jsonl"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_map_does_the_same(tmp_path, shape, journal):
    journal = journal and tmp_path / journal
    result = limpet.map(returning(shape, []), ["a", "b"], journal=journal, retry=0, version="1")
    assert [type(failed.error) for failed in result.failures] == [ConnectionError] * 2
    if journal:
        assert not journal.read_bytes()


@pytest.mark.parametrize("journal", [None, "out.jsonl"])
def test_a_plain_function_and_a_lambda_around_an_async_one_too(tmp_path, journal):
    async def later(x):
        return [ValueError(x)]

    for name, function in {"plain": ValueError, "lambda": lambda x: later(x)}.items():
        path = journal and tmp_path / f"{name}.jsonl"
        result = limpet.map(function, ["a"], journal=path, retry=0, version="1")
        assert [type(failed.error) for failed in result.failures] == [ValueError]


def test_an_exception_in_a_trace_or_in_metadata_is_data(tmp_path):
    def answer(question):
        return limpet.Output("yes", trace=[{"error": OSError("x")}], metadata={"e": OSError("y")})

    result = limpet.evaluate(ROWS[:1], answer, run=tmp_path)
    assert result.items[0].output.value == "yes"
    assert result.items[0].output.metadata == {"e": {"type": "OSError", "message": "y"}}


def test_a_value_that_contains_itself_is_looked_at_once():
    loop = []
    loop += [loop, {"again": loop}] * 10
    result = limpet.map(lambda x: loop, [1])
    assert result.outputs == [loop]
    loop.append(ValueError("found"))
    assert [str(failed.error) for failed in limpet.map(lambda x: loop, [1], retry=0).failures] == [
        "found"
    ]


def test_executors_return_what_a_function_returns():
    error = ValueError("kept")

    async def give(x):
        return error

    assert limpet.AsyncExecutor(give).run([1])[0] == [error]


@pytest.mark.parametrize("of", [lambda error: error, lambda error: {"a": 1, "b": error}])
def test_an_exception_that_an_evaluator_returns_is_raised(tmp_path, of):
    retry = limpet.Retry(1, limpet.executors.Backoff(base_s=0, cap_s=0))
    scored = []

    def good(output):
        scored.append(output)
        return of(ConnectionError("reset by peer"))

    result = limpet.evaluate(ROWS[:1], lambda question: "yes", [good], run=tmp_path, retry=retry)
    error = result.items[0].score_errors["good"]
    assert (error["type"], error["message"]) == ("ConnectionError", "reset by peer")
    assert len(scored) == 2
