"""Never run, only type-checked: the public types are what a user may rely on."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, assert_type

from limpet import (
    AsyncExecutor,
    Dataset,
    EvaluationResult,
    Evaluator,
    FunctionChangedError,
    Item,
    ItemResult,
    LimpetError,
    Output,
    Pace,
    PermanentError,
    RateLimitError,
    Redo,
    Retry,
    Run,
    Score,
    SyncExecutor,
    TransientError,
    Usage,
    Workflow,
    aevaluate,
    amap,
    compare,
    contains,
    embedding_similarity,
    evaluate,
    evaluator,
    exact_match,
    get_executor_on_sync_context,
    json_match,
    judge,
    load_run,
    map,  # noqa: A004 - it is one
    numeric,
    one_of,
    pairwise,
    plan,
    rating,
    regex,
    rubric,
    similarity,
    trajectory,
    workflow,
)
from limpet.executors import (
    Backoff,
    ConcurrencyController,
    ExecutionDetails,
    Executor,
    Finished,
    Unset,
)
from limpet.pacing import Pacer
from limpet.types import Comparison, MapResult, Plan, Scored, Watcher


async def length(text: str) -> int:
    return len(text)


def plain_length(text: str) -> int:
    return len(text)


async def questions() -> AsyncIterator[str]:
    yield "what?"


async def check_async() -> None:
    executor = AsyncExecutor(length, concurrency=8)
    assert_type(executor, AsyncExecutor[str, int])
    outputs, details = await executor.execute(["a"])
    assert_type(outputs, list[int | Unset])
    assert_type(details, list[ExecutionDetails])
    assert_type(executor.run(iter("ab")), tuple[list[int | Unset], list[ExecutionDetails]])
    outputs, _ = await executor.execute(questions())
    assert_type(outputs, list[int | Unset])
    async for done in executor.stream(["a"]):
        assert_type(done, Finished[str, int])
        assert_type(done.input, str)
        assert_type(done.error, Exception | None)
    assert_type(executor.in_flight(), dict[int, float])
    assert_type(executor.cancel(3), bool)


def check_sync() -> None:
    assert_type(
        SyncExecutor(plain_length).run(["a"]), tuple[list[int | Unset], list[ExecutionDetails]]
    )
    executor: Executor = get_executor_on_sync_context(plain_length, length)
    executor.run(["a"])
    controller = ConcurrencyController(max_concurrency=8, initial_target=4)
    assert_type(controller.target_concurrency, int)


class Quiet(Watcher):
    """Hears nothing."""


async def check_evaluate() -> None:
    dataset = Dataset("rows.jsonl", input="question", limit=3)
    result = evaluate(dataset, plain_length, save=False, trials=2, pace="auto", retry=3)
    assert_type(result, EvaluationResult)
    pace, retry = Pace(4, pacer=Pacer()), Retry(2, Backoff(0.5))
    run, redo = Run("runs/x", durability="flush"), Redo(["workflow"], items=["q1"])
    again = aevaluate(dataset, length, run=run, pace=pace, retry=retry, redo=redo, mask=False)
    assert_type(await again, EvaluationResult)
    assert_type(plan(["a"], length, watcher=Quiet(), on_change="keep"), Plan)
    seen: list[str] = []
    evaluate(["a"], length, watcher=lambda item: seen.append(item.id))


async def check_map() -> None:
    assert_type(map(length, ["a"], journal="out.jsonl"), MapResult[str, int])
    assert_type(map(plain_length, ["a"], pace=3, timeout=5), MapResult[str, int])
    assert_type(await amap(length, questions(), on_change="redo"), MapResult[str, int])
    assert_type(map(length, ["a"]).outputs, list[int | Unset])
    assert_type(map(length, ["a"]).failures, list[Finished[str, Any]])


class Flow(Workflow):
    name = "flow"
    endpoint = None

    def __init__(self, secret: str) -> None:
        self.fingerprint = {"model": "m"}
        self.secrets = [secret]

    async def call(self, item: Item) -> Output:
        return Output(item.input)


class Judge(Evaluator):
    name = "judge"
    reads = frozenset({"output"})
    fingerprint: Mapping[str, str] = {}

    async def call(self, scored: Scored) -> Output:
        return Output({"score": Score(bool(scored.output))}, usage={"total_tokens": 3})


@evaluator
def short(output: str) -> bool:
    return len(output) < 80


@evaluator(name="topic", reads=["output", "row.topic"], endpoint=None)
async def on_topic(output: str, item: Item) -> bool:
    return item.row["topic"] in output


async def reply(messages: Any) -> dict[str, str]:
    return {"reason": "it fits", "label": "correct"}


def check_protocols() -> None:
    workflow: Workflow = Flow("k")
    judges: list[Evaluator] = [Judge(), short, on_topic]
    judges += [
        judge(reply, "Is {{output}} right?", choices={"yes": 1, "no": False, "unclear": None}),
        judge([reply], of="correctness", votes=3, examples=[{"output": "x", "label": "correct"}]),
        rating(reply, "How good is {{output}}?", scale=(1, 5)),
        rubric(reply, {"polite": "Is it polite?"}),
        pairwise(reply, against="runs/base"),
        pairwise(reply, against={"1": "an answer"}),
        embedding_similarity(reply),
    ]
    evaluate([{"question": "what?"}], workflow, judges)


@workflow(version="2", depends_on={"files": ["prompt.txt"]}, name="bot")
def versioned(question: str) -> str:
    return question


@workflow
class Agent:
    def __call__(self, question: str) -> str:
        return question


def check_declared() -> None:
    assert_type(versioned("what?"), str)
    assert_type(Agent()("what?"), str)


def check_results(result: EvaluationResult) -> None:
    assert_type(load_run("runs/base"), EvaluationResult)
    assert_type(result.items, list[ItemResult])
    assert_type(result.filter(failed=True, worst=3), list[ItemResult])
    assert_type(result.run, str | None)
    item = result.items[0]
    assert_type(item.id, str)
    assert_type(item.output, Output | None)
    assert_type(item.scores, Mapping[str, Score])
    assert_type(item.scores["judge"].value, float | bool | None)
    assert_type(item.scores["judge"].explanation, str | None)
    assert_type(item.usage, Usage | None)
    assert_type(item.seconds, float)
    result.refresh()


def check_evaluators() -> None:
    built_in: list[Evaluator] = [
        contains(), exact_match(), json_match(), numeric(), one_of(), regex("a+"), similarity(),
        trajectory(),
    ]  # fmt: skip
    evaluate(["a"], length, built_in)


def check_errors(error: LimpetError) -> str | None:
    kinds: tuple[type[LimpetError], ...]
    kinds = (RateLimitError, PermanentError, TransientError, FunctionChangedError)
    return error.hint if isinstance(error, kinds) else None


def check_comparisons(base: EvaluationResult) -> None:
    found: Comparison = compare("runs/base", base, by="topic", fail_if_worse={"short": 0.02})
    for run in found.new:
        assert_type(run.run, str)
    assert_type(found.gates[0].margin, float)
